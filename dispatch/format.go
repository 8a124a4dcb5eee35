package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// usualFormats are the formats that requests commonly name, most common first.
var usualFormats = []string{"gtiff", "netcdf", "geojson", "json"}

// formatNames maps other names and media types of formats to the names by which they are compared.
var formatNames = map[string]string{
	"geotiff": "gtiff", "tiff": "gtiff", "image/tiff": "gtiff", "image/geotiff": "gtiff", "application/geotiff": "gtiff",
	"application/netcdf": "netcdf", "application/x-netcdf": "netcdf",
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

// withFormat returns a request with the format of its results. Where neither the client nor the operator names one, it
// is one of the service's record for an openEO service, which is asked for one, and otherwise left to the platform.
func (b *Broker) withFormat(r Request) Request {
	if r.Format == "" && r.Label == OpenEO && r.Process == nil {
		r.Format = UsualFormat(b.recorded(r))
	}
	return r
}

// checkFormat refuses a format that the record of a service does not name, for a platform that does not list the
// formats of the service: those that do decide by themselves. JSON is the document of the results, which every process
// of OGC API - Processes has.
func (b *Broker) checkFormat(ctx context.Context, u UserID, r Request) error {
	names := b.recorded(r)
	if r.Label != OGCProcess || r.Format == "" || len(names) == 0 ||
		slices.Contains(append(names, "json"), FormatName(r.Format)) {
		return nil
	}
	listed, err := b.Formats(ctx, u, r.Service, r.Label)
	if err != nil || slices.ContainsFunc(listed, func(f OutputFormat) bool { return FormatName(f.Name) != "json" }) {
		return nil
	}
	return InvalidBody("dispatch.checkFormat",
		fmt.Sprintf("The service does not offer the output format %q. It offers: %s.", r.Format, strings.Join(names, ", ")),
		"format")
}

// recorded returns the formats that the catalogue's record of a request's service names; none if there is no record, or
// if it names one that is not commonly known: records are written by people.
func (b *Broker) recorded(r Request) (names []string) {
	if b.Recorded == nil {
		return nil
	}
	for _, name := range b.Recorded(r.Label, r.Service) {
		name = FormatName(name)
		if !isCommon(name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// isCommon reports whether a name is that of a format which is commonly known.
func isCommon(name string) bool {
	for _, common := range formatNames {
		if common == name {
			return true
		}
	}
	return false
}
