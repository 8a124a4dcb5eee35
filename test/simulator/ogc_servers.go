package simulator

import (
	"encoding/json"
	"slices"
	"strings"
)

// Processes in the manner of servers whose descriptions, inputs and results differ from those of others.

// scenesProcess has inputs and results in the manner of ZOO-Project: files as texts, qualified values or links, a box
// whose reference system is required, integers that may be repeated, and a catalogue of items as the only output, as of
// an Application Package.
var scenesProcess = ogcProcess{
	id: "scenes", title: "NDVI of files", modes: both, outputs: []string{"catalogue"}, run: runItems,
	inputs: map[string]ogcInput{
		"images": {required: true, most: 150, takes: eachOf(isFile), schema: `{"oneOf":[
			{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff"},
			{"type":"string","contentEncoding":"base64","contentMediaType":"image/jp2"}]}`},
		"area": {required: true, takes: isNamedBox, schema: `{"type":"object","required":["bbox","crs"],"properties":{
			"bbox":{"type":"array","minItems":4,"maxItems":4,"items":{"type":"number","format":"double"}},
			"crs":{"type":"string","format":"uri","default":"EPSG:4326","enum":["EPSG:4326","EPSG:3857"]}}}`},
		"levels": {most: 5, takes: eachOf(isOfKind("integer")), schema: `{"type":"integer","format":"int64"}`},
	},
}

// smoothProcess has inputs and results in the manner of Weaver: each optional input is described as an array of at most
// one value, although the value is taken as well, and files are given by reference.
var smoothProcess = ogcProcess{
	id: "smooth", title: "NDVI, smoothed", modes: both, outputs: []string{"result"}, reference: true, run: runReference,
	inputs: map[string]ogcInput{
		"bbox":    {required: true, schema: bboxSchema},
		"seconds": {takes: eachOf(isOfKind("integer", "number")), schema: atMostOne(`{"type":"number","default":3.0}`)},
		"mode":    {takes: eachOf(isOfKind("string")), schema: atMostOne(`{"type":"string","enum":["mean","max"]}`)},
	},
}

func atMostOne(schema string) string {
	return `{"type":"array","items":` + schema + `,"minItems":0,"maxItems":1}`
}

// eachOf accepts a value, or an array of them.
func eachOf(accepts func(json.RawMessage) bool) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		var items []json.RawMessage
		if json.Unmarshal(value, &items) != nil {
			return accepts(value)
		}
		return !slices.ContainsFunc(items, func(item json.RawMessage) bool { return !accepts(item) })
	}
}

func isOfKind(kinds ...string) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool { return slices.Contains(kinds, jsonKind(value)) }
}

// isFile accepts a text, a text with its media type, and a link.
func isFile(value json.RawMessage) bool {
	var file struct{ Value, Href string }
	if jsonKind(value) == "string" {
		return true
	}
	return json.Unmarshal(value, &file) == nil && (file.Value != "" || strings.HasPrefix(file.Href, "https://"))
}

func isNamedBox(value json.RawMessage) bool {
	var box struct {
		BBox []float64 `json:"bbox"`
		CRS  string    `json:"crs"`
	}
	names := []string{"EPSG:4326", "EPSG:3857"}
	return json.Unmarshal(value, &box) == nil && len(box.BBox) == 4 && slices.Contains(names, box.CRS)
}

// runItems returns the items of an Application Package as they are staged out.
func runItems(e execution, files string) []output {
	items := []object{describeFile(e.scene(), files).item()}
	return []output{{id: "catalogue", json: object{"type": "FeatureCollection", "id": "catalogue", "features": items}}}
}
