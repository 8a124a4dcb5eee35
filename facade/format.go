package facade

import (
	"slices"
	"strings"
)

// UsualFormat is the format of results where neither the client nor the service's record names one.
const UsualFormat = "gtiff"

var usualFormats = []string{UsualFormat, "netcdf", "geojson", "json"}

// FirstUsualFormat returns the first of the names of formats that requests commonly use, in lower case, in which requests write it; "" if there is none.
func FirstUsualFormat(names []string) string {
	for _, name := range names {
		if name = strings.ToLower(name); slices.Contains(usualFormats, name) {
			return name
		}
	}
	return ""
}
