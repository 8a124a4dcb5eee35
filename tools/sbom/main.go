// Command sbom describes what a built program contains, as CycloneDX in JSON: the Go modules that the linker recorded
// in it, and the npm packages of its page. The same program gives the same bytes.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

func main() {
	version := flag.String("version", "unknown", "version of the program")
	created := flag.Int64("created", 0, "time of the commit that it is built from, in seconds since 1970")
	lock := flag.String("lock", "", "package-lock.json of the page; without it the program has no page")
	flag.Parse()
	if err := describe(flag.Arg(0), *version, *lock, time.Unix(*created, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func describe(program, version, lock string, created time.Time) error {
	generator, err := bin.NewGenerator(program, bin.WithVersionOverride(version), bin.WithIncludeStdlib(true),
		bin.WithShortPURLS(true), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	all, err := generator.Generate()
	if err != nil {
		return err
	}
	all.Metadata.Timestamp = created.Format(time.RFC3339)
	for i, c := range *all.Components {
		if c.Name == "std" { // vulnerability databases have it by another name
			(*all.Components)[i].PackageURL = "pkg:golang/stdlib@" + strings.TrimPrefix(c.Version, "go")
		}
	}
	if lock != "" {
		packages, err := packagesOf(lock)
		if err != nil {
			return err
		}
		*all.Components = append(*all.Components, packages...)
	}
	return cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(all)
}

// packagesOf returns what the page is built from, without the tools that build it. npm sbom --omit dev (11.19) leaves
// out those that a tool needs as well.
func packagesOf(lock string) (packages []cdx.Component, err error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var all struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
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
		name := path[last+len(folder):]
		purl := "pkg:npm/" + strings.ReplaceAll(name, "@", "%40") + "@" + url.PathEscape(p.Version)
		c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name,
			Version: p.Version, PackageURL: purl}
		if p.License != "" {
			c.Licenses = &cdx.Licenses{{Expression: p.License}}
		}
		packages = append(packages, c)
	}
	slices.SortFunc(packages, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return slices.CompactFunc(packages, func(a, b cdx.Component) bool { return a.BOMRef == b.BOMRef }), nil
}
