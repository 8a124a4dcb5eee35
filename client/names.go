package client

import (
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/eodispatch/eodispatch/client/wire"
)

// FileNames returns a file name for each asset: the last segment of its link if that has an extension, else its key, to
// which that of a data URI gets the extension of its media type. The names are safe on all systems and differ by more
// than case, so that files can be stored in one folder.
func FileNames(assets map[string]wire.Asset) map[string]string {
	names, taken := map[string]string{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(assets)) {
		name := ""
		if u, err := url.Parse(assets[key].Href); err == nil {
			name = path.Base(u.Path)
		}
		if path.Ext(name) == "" || path.Ext(name) == name {
			name = key
			if content, inline := dataOf(assets[key].Href); inline && path.Ext(key) == "" {
				name += extensionOf(content)
			}
		}
		base := SafeName(name)
		name = base
		for n := 1; taken[strings.ToLower(name)]; n++ {
			name = key + "-" + base
			if n > 1 { // the number comes first, where it is not cut off
				name = strconv.Itoa(n) + "-" + name
			}
			name = SafeName(name)
		}
		taken[strings.ToLower(name)] = true
		names[key] = name
	}
	return names
}

// extensions by the media types that services put into results.
var extensions = map[string]string{
	"": ".txt", "text/plain": ".txt", "text/csv": ".csv", "application/json": ".json",
	"application/geo+json": ".geojson", "image/tiff": ".tif", "image/png": ".png", "image/jpeg": ".jpg",
	"application/xml": ".xml", "text/xml": ".xml",
}

// extensionOf returns the extension for the media type of a data URI, without its scheme; "" for an unknown one.
func extensionOf(content string) string {
	media, _, _ := strings.Cut(content, ",")
	media, _, _ = strings.Cut(media, ";")
	return extensions[strings.ToLower(media)]
}

const longestName = 150 // bytes, so that suffixes still fit

// reserved are names that Windows gives to devices, and those that a folder of results needs itself.
var reserved = regexp.MustCompile(
	`(?i)^((con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?|(items?|collection)\.json(\.new)?|.*\.part(\.version)?)$`)

// SafeName replaces what some system does not permit in a file name.
func SafeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	name = cut(strings.Trim(name, ". "))
	if name == "" || reserved.MatchString(name) {
		name = "_" + name + "_"
	}
	return name
}

// cut shortens a name to the longest one and keeps its extension. The result does not end in a dot or a space.
func cut(name string) string {
	if extension := path.Ext(name); len(name) > longestName && len(extension) < 20 {
		name = strings.ToValidUTF8(name[:longestName-len(extension)], "") + extension
	}
	return strings.TrimRight(strings.ToValidUTF8(name[:min(len(name), longestName)], ""), ". ")
}
