package stac

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"
	"strings"
)

// Anchor makes the links and assets of a STAC object absolute and removes those without an address. It adds a role to
// assets, and a media type if their name implies it.
func Anchor(o Object, at *url.URL) {
	if o["links"] != nil {
		o["links"] = marshal(absoluteLinks(o, at))
	}
	var all Object
	if _, there := o["assets"]; !there {
		return
	}
	if json.Unmarshal(o["assets"], &all) != nil {
		delete(o, "assets")
		return
	}
	kept := Object{}
	for name, raw := range all {
		var a Object
		if json.Unmarshal(raw, &a) == nil && Text(a["href"]) != "" {
			a["href"] = marshal(Resolve(at, Text(a["href"])))
			Describe(a)
			kept[name] = marshal(a)
		}
	}
	o["assets"] = marshal(kept)
}

func absoluteLinks(o Object, at *url.URL) []Object {
	kept := []Object{}
	for _, l := range Links(o) {
		if Text(l["rel"]) == "" || Text(l["href"]) == "" {
			continue
		}
		l["href"] = marshal(Resolve(at, Text(l["href"])))
		dropInvalid(l, is[string], "type", "title")
		kept = append(kept, l)
	}
	return kept
}

func dropInvalid(o Object, fits func(json.RawMessage) bool, names ...string) {
	for _, name := range names {
		if v, there := o[name]; there && !fits(v) {
			delete(o, name)
		}
	}
}

// Links returns the links of a STAC object without malformed ones.
func Links(o Object) []Object {
	var raw []json.RawMessage
	_ = json.Unmarshal(o["links"], &raw)
	var all []Object
	for _, r := range raw {
		var l Object
		if json.Unmarshal(r, &l) == nil && l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Self returns the absolute address that a STAC object names as its own; "" if there is none.
func Self(o Object) string {
	for _, l := range Links(o) {
		if href := Text(l["href"]); Text(l["rel"]) == "self" && IsAddress(href) {
			return href
		}
	}
	return ""
}

// Base returns the base of a STAC object's relative links: the address that it names as its own, or else at.
func Base(o Object, at *url.URL) *url.URL {
	if u, err := url.Parse(Self(o)); err == nil && u.Host != "" {
		return u
	}
	return at
}

// Describe adds to an asset its media type, if its name implies it, and the role "data" if it has no role.
func Describe(a Object) {
	dropInvalid(a, is[string], "type", "title", "description")
	if media := mediaType(Text(a["href"])); Text(a["type"]) == "" && media != "" {
		a["type"] = marshal(media)
	}
	if !each(is[string])(a["roles"]) || string(a["roles"]) == "[]" {
		a["roles"] = marshal([]string{"data"})
	}
}

// mediaType returns the media type that an address implies: that of a data URI (RFC 2397), or by the ending of the
// name.
func mediaType(href string) string {
	if data, ok := strings.CutPrefix(href, "data:"); ok {
		media, _, _ := strings.Cut(data, ",")
		return cmp.Or(strings.TrimSuffix(media, ";base64"), "text/plain;charset=US-ASCII")
	}
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	return mediaTypes[strings.ToLower(path.Ext(u.Path))]
}

// mediaTypes by the endings of names. A TIFF of Earth-observation services is a GeoTIFF.
var mediaTypes = map[string]string{
	".tif": "image/tiff; application=geotiff", ".tiff": "image/tiff; application=geotiff", ".jp2": "image/jp2",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".svg": "image/svg+xml",
	".nc": "application/netcdf", ".h5": "application/x-hdf5", ".hdf5": "application/x-hdf5",
	".hdf":  "application/x-hdf",
	".grib": "application/wmo-GRIB2", ".grib2": "application/wmo-GRIB2", ".zarr": "application/vnd+zarr",
	".json": "application/json", ".geojson": "application/geo+json", ".gpkg": "application/geopackage+sqlite3",
	".parquet": "application/vnd.apache.parquet", ".fgb": "application/vnd.flatgeobuf", ".csv": "text/csv",
	".shp": "application/vnd.shp", ".kml": "application/vnd.google-earth.kml+xml", ".gml": "application/gml+xml",
	".txt": "text/plain", ".log": "text/plain", ".xml": "application/xml", ".html": "text/html",
	".pdf": "application/pdf",
	".zip": "application/zip", ".gz": "application/gzip", ".tgz": "application/gzip", ".tar": "application/x-tar",
}

// Resolve makes a link absolute. at is its base; nil if that is not known.
func Resolve(at *url.URL, href string) string {
	if at == nil || IsAddress(href) {
		return href
	}
	u, err := at.Parse(href)
	if err != nil {
		return href
	}
	return u.String()
}

// IsAddress reports whether a text is an absolute URL of a scheme that results use, and nothing else.
func IsAddress(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || rest == "" || strings.ContainsAny(s, " \t\r\n<>\"") {
		return false
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "s3", "gs", "ftp", "ftps", "azure", "abfs", "file", "oci":
		return true
	}
	return false
}
