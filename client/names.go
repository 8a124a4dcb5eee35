package client

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
)

// FileNames returns a file name for each asset: the last segment of its link if that has an extension, else its key. The names are
// safe on all systems and differ by more than case, so that files can be stored in one folder.
func FileNames(assets map[string]Asset) map[string]string {
	names, taken := map[string]string{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(assets)) {
		name := ""
		if u, err := url.Parse(assets[key].Href); err == nil {
			name = path.Base(u.Path)
		}
		if path.Ext(name) == "" || path.Ext(name) == name {
			name = key
		}
		name = safeName(name)
		for base := name; taken[strings.ToLower(name)]; base = name {
			name = safeName(key) + "-" + base
		}
		taken[strings.ToLower(name)] = true
		names[key] = name
	}
	return names
}

const longestName = 150 // bytes, so that suffixes still fit

// reserved are names that Windows gives to devices, and those that a folder of results needs itself.
var reserved = []string{"con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "lpt1", "lpt2", "lpt3",
	"collection.json", "collection.json.new", "item.json", "item.json.new"}

// safeName replaces what some system does not permit in a file name.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	if name == "" || slices.Contains(reserved, stem) || slices.Contains(reserved, strings.ToLower(name)) ||
		strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, validSuffix) {
		name = "_" + name + "_"
	}
	if extension := path.Ext(name); len(name) > longestName && len(extension) < 20 {
		name = strings.ToValidUTF8(name[:longestName-len(extension)], "") + extension
	}
	return strings.ToValidUTF8(name[:min(len(name), longestName)], "")
}
