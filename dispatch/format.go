package dispatch

import (
	"slices"
	"strings"
)

// usualFormats are the formats that requests commonly name, most common first.
var usualFormats = []string{"gtiff", "netcdf", "geojson", "json"}

// formatNames maps other names and media types of formats to the names by which they are compared.
var formatNames = map[string]string{
	"geotiff": "gtiff", "tiff": "gtiff", "image/tiff": "gtiff", "image/geotiff": "gtiff",
	"application/geotiff": "gtiff", "application/netcdf": "netcdf", "application/x-netcdf": "netcdf",
	"application/geo+json": "geojson", "application/vnd.geo+json": "geojson", "application/geojson": "geojson",
	"application/json": "json", "text/csv": "csv", "image/png": "png", "image/jpeg": "jpeg", "jpg": "jpeg",
	"application/vnd.apache.parquet": "parquet",
}

// FormatName returns the name by which a format is compared: that of requests for a format which is commonly known,
// whatever a platform or a record calls it, also by its media type; else the given name in lower case.
func FormatName(text string) string {
	text, _, _ = strings.Cut(strings.ToLower(text), ";")
	text = strings.TrimSpace(text)
	if name, known := formatNames[text]; known {
		return name
	}
	return text
}

// IsUsualFormat reports whether a format is one of those that requests commonly name, by its name or as a media type.
func IsUsualFormat(text string) bool { return slices.Contains(usualFormats, FormatName(text)) }

// UsualFormat returns which of the given formats results have if a request names none: the one that requests name most,
// or else the first; "" if none are given.
func UsualFormat(names []string) string {
	for _, usual := range usualFormats {
		if i := slices.IndexFunc(names, func(name string) bool { return FormatName(name) == usual }); i >= 0 {
			return names[i]
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// IsCommon reports whether a name is that of a format which is commonly known.
func IsCommon(name string) bool {
	for _, common := range formatNames {
		if common == name {
			return true
		}
	}
	return false
}
