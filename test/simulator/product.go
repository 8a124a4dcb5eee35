package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// box is an area: west, south, east, north, in degrees.
type box [4]float64

var everywhere = box{5, 51, 5.1, 51.1} // if a request names no area

func (b box) polygon() object {
	return object{"type": "Polygon", "coordinates": [][][2]float64{{
		{b[0], b[1]}, {b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]},
		{b[0], b[1]}}}}
}

// findBox returns the first area in a JSON document: an object with west, south, east, north, a bbox of four numbers,
// or the bounds of a GeoJSON geometry.
func findBox(doc []byte) box {
	var v any
	if json.Unmarshal(doc, &v) == nil {
		if b, ok := boxIn(v); ok {
			return b
		}
	}
	return everywhere
}

func boxIn(v any) (box, bool) {
	var inner []any
	switch v := v.(type) {
	case map[string]any:
		if b, ok := numbers(v["west"], v["south"], v["east"], v["north"]); ok {
			return b, true
		}
		if list, _ := v["bbox"].([]any); len(list) == 4 {
			if b, ok := numbers(list...); ok {
				return b, true
			}
		}
		if b := bounds(v["coordinates"]); b[0] < b[2] && b[1] < b[3] {
			return b, true
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner = append(inner, v[name])
		}
	case []any:
		inner = v
	}
	for _, w := range inner {
		if b, ok := boxIn(w); ok {
			return b, true
		}
	}
	return box{}, false
}

func numbers(list ...any) (b box, ok bool) {
	for i, v := range list {
		if b[i], ok = v.(float64); !ok {
			return b, false
		}
	}
	return b, true
}

// bounds returns the smallest box around the positions in the coordinates of a GeoJSON geometry. Without positions,
// west is above east.
func bounds(coordinates any) box {
	b := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	list, _ := coordinates.([]any)
	if len(list) >= 2 {
		if p, ok := numbers(list[0], list[1], list[0], list[1]); ok {
			return p
		}
	}
	for _, inner := range list {
		c := bounds(inner)
		b = box{min(b[0], c[0]), min(b[1], c[1]), max(b[2], c[2]), max(b[3], c[3])}
	}
	return b
}

// product is a file produced by a job. Its content is made when it is read, because descriptions of results are
// requested far more often than files.
type product struct {
	name, media string
	size        int
	content     func() []byte
}

func fixed(name, media string, data []byte) product {
	return product{name, media, len(data), func() []byte { return data }}
}

// serve writes the file, or the range of it that the client asks for. Pages of any origin may read it.
func (p product) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.media)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.content()))
}

// produce makes a small valid file that covers an area. Formats are named as in openEO back-ends, in any case.
func produce(format string, area box) product {
	switch strings.ToLower(format) {
	case "geojson":
		return fixed("openEO.geojson", "application/geo+json", featureCollection(area))
	case "json":
		return fixed("openEO.json", "application/json", []byte(`{"ndvi":{"mean":0.42,"max":0.87}}`))
	case "netcdf":
		// The shortest file of the classic format: no dimensions, attributes or variables.
		return fixed("openEO.nc", "application/x-netcdf", append([]byte("CDF\x01"), make([]byte, 28)...))
	}
	r := raster{area}
	return product{"openEO.tif", "image/tiff; application=geotiff", r.size(), r.encode}
}

func featureCollection(area box) []byte {
	doc, _ := json.Marshal(object{"type": "FeatureCollection", "features": []any{
		object{"type": "Feature", "id": "area-1", "geometry": area.polygon(), "properties": object{"ndvi": 0.42}},
	}})
	return doc
}

// stac describes products of an area as a STAC 1.0.0 Collection, or as one Item. The times are those of the run.
type stac struct {
	id, title  string
	area       box
	start, end string
	assets     object
	links      []object
	status     string // openeo:status; "": omitted
}

func (s stac) collection() object {
	doc := object{
		"type": "Collection", "stac_version": "1.0.0", "id": s.id, "title": s.title, "license": "proprietary",
		"description": fmt.Sprintf("Results of job %s", s.id),
		"extent": object{"spatial": object{"bbox": []box{s.area}},
			"temporal": object{"interval": [][2]string{{s.start, s.end}}}},
		"links": s.links, "assets": s.assets,
	}
	if s.status != "" {
		doc["openeo:status"] = s.status
	}
	return doc
}

func (s stac) item() object {
	doc := object{
		"type": "Feature", "stac_version": "1.0.0", "id": s.id, "geometry": s.area.polygon(), "bbox": s.area,
		"properties": object{"datetime": nil, "start_datetime": s.start, "end_datetime": s.end, "title": s.title},
		"links":      s.links, "assets": s.assets,
	}
	if s.status != "" {
		doc["openeo:status"] = s.status
	}
	return doc
}
