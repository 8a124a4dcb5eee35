package simulator

import (
	"bytes"
	"encoding/binary"
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
	return object{"type": "Polygon", "coordinates": [][][2]float64{{{b[0], b[1]}, {b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]}, {b[0], b[1]}}}}
}

// findBox returns the first area in a JSON document: an object with west, south, east, north, or a bbox of four numbers.
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

// product is a file produced by a job.
type product struct {
	name, media string
	data        []byte
}

// serve writes the file, or the range of it that the client asks for. Pages of any origin may read it.
func (p product) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.media)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.data))
}

// produce makes a small valid file that covers an area. Formats are named as in openEO back-ends, in any case.
func produce(format string, area box) product {
	switch strings.ToLower(format) {
	case "geojson":
		return product{"openEO.geojson", "application/geo+json", featureCollection(area)}
	case "json":
		return product{"openEO.json", "application/json", []byte(`{"ndvi":{"mean":0.42,"max":0.87}}`)}
	case "netcdf":
		// The shortest file of the classic format: no dimensions, attributes or variables.
		return product{"openEO.nc", "application/x-netcdf", append([]byte("CDF\x01"), make([]byte, 28)...)}
	}
	return product{"openEO.tif", "image/tiff; application=geotiff", geoTIFF(area)}
}

func featureCollection(area box) []byte {
	doc, _ := json.Marshal(object{"type": "FeatureCollection", "features": []any{
		object{"type": "Feature", "id": "area-1", "geometry": area.polygon(), "properties": object{"ndvi": 0.42}},
	}})
	return doc
}

const side = 16 // pixels

// geoTIFF returns a little-endian GeoTIFF 1.1 of side x side NDVI values (float32) in WGS 84.
func geoTIFF(area box) []byte {
	le := binary.LittleEndian
	pixels := make([]byte, 0, side*side*4)
	for i := range side * side {
		pixels = le.AppendUint32(pixels, math.Float32bits(float32(i)/(side*side)))
	}
	doubles := func(vs ...float64) (b []byte) {
		for _, v := range vs {
			b = le.AppendUint64(b, math.Float64bits(v))
		}
		return b
	}
	shorts := func(vs ...uint16) (b []byte) {
		for _, v := range vs {
			b = le.AppendUint16(b, v)
		}
		return b
	}
	const short, long, double = 3, 4, 12
	tags := []struct {
		id, kind uint16
		count    uint32
		value    []byte
	}{
		{256, short, 1, shorts(side)},
		{257, short, 1, shorts(side)},
		{258, short, 1, shorts(32)},
		{259, short, 1, shorts(1)}, // not compressed
		{262, short, 1, shorts(1)}, // black is zero
		{273, long, 1, le.AppendUint32(nil, 8)},
		{277, short, 1, shorts(1)},
		{278, short, 1, shorts(side)},
		{279, long, 1, le.AppendUint32(nil, uint32(len(pixels)))},
		{339, short, 1, shorts(3)}, // floating point
		{33550, double, 3, doubles((area[2]-area[0])/side, (area[3]-area[1])/side, 0)},
		{33922, double, 6, doubles(0, 0, 0, area[0], area[3], 0)},
		{34735, short, 16, shorts(1, 1, 0, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326)},
	}
	var file, far bytes.Buffer
	file.WriteString("II*\x00")
	directory := 8 + len(pixels)
	file.Write(le.AppendUint32(nil, uint32(directory)))
	file.Write(pixels)
	file.Write(shorts(uint16(len(tags))))
	rest := directory + 2 + 12*len(tags) + 4 // offset of values longer than four bytes
	for _, t := range tags {
		file.Write(shorts(t.id, t.kind))
		file.Write(le.AppendUint32(nil, t.count))
		if len(t.value) > 4 {
			file.Write(le.AppendUint32(nil, uint32(rest+far.Len())))
			far.Write(t.value)
			continue
		}
		file.Write(append(t.value, make([]byte, 4-len(t.value))...))
	}
	file.Write(make([]byte, 4)) // no further directory
	file.Write(far.Bytes())
	return file.Bytes()
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
