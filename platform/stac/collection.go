// Package stac completes STAC objects (1.0.0 and 1.1.0) that platforms return: it adds what is required, removes what
// has the wrong form, and makes links absolute. Everything else stays byte for byte.
package stac

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Object is a JSON object.
type Object = map[string]json.RawMessage

// Complete makes c a valid Collection. Its links must be absolute already, see [Anchor]. id and e provide the
// identifier and the extent if c has none.
func Complete(c Object, id string, e Extent) {
	complete(c, "stac_version", slices.Contains(versions, Text(c["stac_version"])), versions[0])
	c["type"] = marshal("Collection")
	complete(c, "id", Text(c["id"]) != "", id)
	complete(c, "description", Text(c["description"]) != "", "Results of "+Text(c["id"])+".")
	complete(c, "license", license.MatchString(Text(c["license"])), unknownLicense(c))
	c["extent"] = marshal(merge(c["extent"], e))
	var links []Object
	complete(c, "links", json.Unmarshal(c["links"], &links) == nil && links != nil, []Object{})
	if v, there := c["stac_extensions"]; there {
		c["stac_extensions"] = marshal(extensions(v))
	}
	for name, fits := range members {
		dropInvalid(c, fits, name)
	}
	complete(c, "assets", c["assets"] != nil, Object{})
}

// versions are the known STAC versions. A Collection of another version is treated as 1.0.0.
var versions = []string{"1.0.0", "1.1.0"}

func complete(c Object, name string, there bool, fallback any) {
	if !there {
		c[name] = marshal(fallback)
	}
}

// license matches what STAC accepts as a license: an SPDX identifier or a word.
var license = regexp.MustCompile(`^[\w\-.+]+$`)

// unknownLicense is the word for an unknown license, which 1.1.0 changed.
func unknownLicense(c Object) string {
	if Text(c["stac_version"]) == "1.1.0" {
		return "other"
	}
	return "proprietary"
}

// members are the members of a Collection with their required forms.
var members = map[string]func(json.RawMessage) bool{
	"title":     is[string],
	"keywords":  each(is[string]),
	"providers": each(isProvider),
	"summaries": namedEach(isSummary),
	"assets":    namedEach(func(v json.RawMessage) bool { return is[Object](v) }),
	"created":   isTime,
	"updated":   isTime,
}

func is[T any](raw json.RawMessage) bool {
	var v T
	return present(raw) && json.Unmarshal(raw, &v) == nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(bytes.TrimSpace(raw)) != "null" }

// extensions returns the extensions that are named by a URL, without duplicates. Versions before 1.0 also had short
// names.
func extensions(raw json.RawMessage) []string {
	var named []string
	_ = json.Unmarshal(raw, &named)
	all, seen := []string{}, map[string]bool{}
	for _, name := range named {
		if strings.HasPrefix(name, "http") && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

func each(fits func(json.RawMessage) bool) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool {
		var all []json.RawMessage
		return present(raw) && json.Unmarshal(raw, &all) == nil &&
			!slices.ContainsFunc(all, func(v json.RawMessage) bool { return !fits(v) })
	}
}

func namedEach(fits func(json.RawMessage) bool) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool {
		var all Object
		if !present(raw) || json.Unmarshal(raw, &all) != nil {
			return false
		}
		for _, v := range all {
			if !fits(v) {
				return false
			}
		}
		return true
	}
}

func isProvider(raw json.RawMessage) bool {
	var p struct {
		Name        string   `json:"name"`
		Description *string  `json:"description"`
		URL         *string  `json:"url"`
		Roles       []string `json:"roles"`
	}
	return json.Unmarshal(raw, &p) == nil && p.Name != "" && !bytes.Contains(raw, []byte("null")) &&
		!slices.ContainsFunc(p.Roles, func(r string) bool {
			return !slices.Contains([]string{"producer", "licensor", "processor", "host"}, r)
		})
}

// isSummary accepts a set of values, a range, or a non-empty JSON Schema.
func isSummary(raw json.RawMessage) bool {
	var set []json.RawMessage
	var object Object
	return json.Unmarshal(raw, &set) == nil && len(set) > 0 || json.Unmarshal(raw, &object) == nil && len(object) > 0
}

func isTime(raw json.RawMessage) bool {
	s := Text(raw)
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && (strings.HasSuffix(s, "Z") || strings.HasSuffix(s, "+00:00"))
}

// Text returns the value of a JSON string; "" for any other value.
func Text(v json.RawMessage) (s string) {
	if len(v) > 0 {
		_ = json.Unmarshal(v, &s)
	}
	return s
}

// marshal encodes values that cannot fail to encode.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
