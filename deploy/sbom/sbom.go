// Package sbom describes what a built program contains, as CycloneDX 1.6 in JSON: the Go modules that the linker
// recorded in the binary, and the npm packages that are part of the page. The same program gives the same bytes.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

type document struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	URL      string    `json:"purl"`
	Licenses []license `json:"licenses,omitempty"`
	Hashes   []hash    `json:"hashes,omitempty"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Of returns the description of a program. lock is the page's package-lock.json; "" if the program has no page.
func Of(program, version, lock string, created time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	own := component{Type: "application", Name: info.Main.Path, Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	own.URL = "pkg:golang/" + info.Main.Path + "@" + url.PathEscape(version)
	own.Ref = own.URL
	parts := goModules(info)
	if lock != "" {
		pages, err := npmPackages(lock)
		if err != nil {
			return nil, err
		}
		parts = append(parts, pages...)
	}
	slices.SortFunc(parts, func(a, b component) int { return cmp.Compare(a.URL, b.URL) })
	parts = slices.CompactFunc(parts, func(a, b component) bool { return a.URL == b.URL })
	return json.MarshalIndent(document{"CycloneDX", "1.6", serial(sum), 1, metadata{created.UTC().Format(time.RFC3339),
		own}, parts}, "", "  ")
}

// serial returns a UUID that is the same for the same program.
func serial(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8, of its own making (RFC 9562)
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func goModules(info *buildinfo.BuildInfo) []component {
	parts := []component{library("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library("golang", m.Path, m.Version, ""))
	}
	return parts
}

// npmPackages returns what the page is built from, without the tools that build it.
func npmPackages(lock string) (parts []component, err error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var all struct {
		Packages map[string]struct {
			Version string `json:"version"`
			License string `json:"license"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	for path, p := range all.Packages {
		const folder = "node_modules/"
		last := strings.LastIndex(path, folder) // packages can be in folders of others
		if last < 0 || p.Dev {
			continue
		}
		parts = append(parts, library("npm", path[last+len(folder):], p.Version, p.License))
	}
	return parts, nil
}

// library returns a part by the type of its package URL (https://github.com/package-url/purl-spec).
func library(kind, name, version, spdx string) component {
	c := component{Type: "library", Name: name, Version: version,
		URL: "pkg:" + kind + "/" + strings.ReplaceAll(name, "@",
			"%40") + "@" + url.PathEscape(version)}
	c.Ref = c.URL
	if spdx != "" && !strings.ContainsAny(spdx, " ()") { // an expression is no id
		c.Licenses = make([]license, 1)
		c.Licenses[0].License.ID = spdx
	}
	return c
}
