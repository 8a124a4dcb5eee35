package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// product is a file produced by a job. Its content is made when it is read, because descriptions of results are
// requested far more often than files.
type product struct {
	name, media string
	size        int
	content     func() []byte
	described   object // further members of its asset: what its values mean
}

func fixed(name, media string, data []byte) product {
	return product{name, media, len(data), func() []byte { return data }, nil}
}

// asset describes the file, which lies below a URL.
func (p product) asset(base string) object {
	a := object{"href": base + "/" + p.name, "type": p.media, "title": p.name, "roles": []string{"data"}}
	maps.Copy(a, p.described)
	return a
}

// serve writes the file, or the range of it that the client asks for. Pages of any origin may read it.
func (p product) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.media)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.content()))
}

// produce makes a small valid file of a scene. Formats are named as in openEO back-ends, in any case.
func produce(format string, s scene) product {
	switch strings.ToLower(format) {
	case "geojson":
		return fixed("openEO.geojson", "application/geo+json", featureCollection(s))
	case "json":
		return fixed("openEO.json", "application/json", fmt.Appendf(nil, `{"ndvi":{"mean":%v,"max":0.87}}`, s.mean()))
	case "netcdf":
		// The shortest file of the classic format: no dimensions, attributes or variables.
		return fixed("openEO.nc", "application/x-netcdf", append([]byte("CDF\x01"), make([]byte, 28)...))
	}
	return geoTIFF("openEO.tif", ndvi.over(s), object{"eo:bands": []object{{"name": "NDVI"}, {"name": "DEVIATION"},
		{"name": "CLEAR"}},
		"raster:bands": []object{floats(1), floats(0.3), floats(1)}})
}

// floats describes a band of fractions whose usual values end at high.
func floats(high float64) object {
	return object{"data_type": "float32", "nodata": "nan", "statistics": object{"minimum": 0, "maximum": high}}
}

// landCover makes a small valid file of classes.
func landCover(s scene) product {
	var classes []object
	for i, c := range covers {
		classes = append(classes, object{"value": i + 1, "name": strings.ReplaceAll(c.name, " ", "_"),
			"title": c.name, "description": c.name, "color_hint": fmt.Sprintf("%02X%02X%02X", c.red, c.green, c.blue)})
	}
	return geoTIFF("land-cover.tif", cover.over(s), object{"eo:bands": []object{{"name": "LANDCOVER"}},
		"raster:bands": []object{{"data_type": "uint8", "nodata": 0}}, "classification:classes": classes})
}

func geoTIFF(name string, r raster, described object) product {
	return product{name, "image/tiff; application=geotiff", r.size(), r.encode, described}
}

// extensions are those of STAC whose members describe files.
var extensions = []string{
	"https://stac-extensions.github.io/eo/v1.1.0/schema.json",
	"https://stac-extensions.github.io/raster/v1.1.0/schema.json",
	"https://stac-extensions.github.io/classification/v1.1.0/schema.json",
}

func featureCollection(s scene) []byte {
	doc, _ := json.Marshal(object{"type": "FeatureCollection", "features": []any{
		object{"type": "Feature", "id": "area-1", "geometry": s.area.polygon(), "properties": object{"ndvi": s.mean()}},
	}})
	return doc
}

// stac describes products of a scene as a STAC 1.0.0 Collection, or as one Item.
type stac struct {
	id, title string
	scene
	assets object
	links  []object
	status string // openeo:status; "": omitted
}

func (s stac) collection() object {
	doc := object{
		"type": "Collection", "stac_version": "1.0.0", "stac_extensions": extensions,
		"id": s.id, "title": s.title, "license": "proprietary",
		"description": fmt.Sprintf("Results of job %s", s.id),
		"extent": object{"spatial": object{"bbox": []box{s.area}},
			"temporal": object{"interval": [][2]string{{stamp(s.from), stamp(s.to)}}}},
		"links": s.links, "assets": s.assets,
	}
	if s.status != "" {
		doc["openeo:status"] = s.status
	}
	return doc
}

func (s stac) item() object {
	doc := object{
		"type": "Feature", "stac_version": "1.0.0", "stac_extensions": extensions,
		"id": s.id, "geometry": s.area.polygon(), "bbox": s.area,
		"properties": object{"datetime": nil, "start_datetime": stamp(s.from), "end_datetime": stamp(s.to),
			"title": s.title},
		"links": s.links, "assets": s.assets,
	}
	if s.status != "" {
		doc["openeo:status"] = s.status
	}
	return doc
}
