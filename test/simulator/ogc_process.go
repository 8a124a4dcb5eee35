package simulator

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// ogcProcess is one process of the OGC server.
type ogcProcess struct {
	id, title string
	modes     []string
	inputs    map[string]ogcInput
	outputs   []string
	reference bool     // its output is always a link
	offers    []string // media types that a request can choose from for its output; none: it does not say
	fails     bool     // at run time
	// run produces the outputs. Files lie below the URL files.
	run func(e execution, files string) []output
}

type ogcInput struct {
	schema   string // JSON Schema
	title    string // "": its name
	about    string // its description, if it has one
	required bool
	most     int                        // maxOccurs; 0: 1
	takes    func(json.RawMessage) bool // whether a value is accepted; nil: by the "type" of the schema
}

// output is one output of a run: a JSON value, bytes of a media type, or a link to them.
type output struct {
	id    string
	json  any
	bytes []byte
	href  string
	media string
}

var (
	both      = []string{"sync-execute", "async-execute", "dismiss"}
	syncOnly  = []string{"sync-execute"}
	asyncOnly = []string{"async-execute", "dismiss"}
)

// ogcProcesses holds all processes of the server.
var ogcProcesses = offer()

func offer() map[string]ogcProcess {
	area := map[string]ogcInput{
		"bbox": {schema: bboxSchema, required: true, title: "Area", about: "The area, as a bounding box in degrees."},
		"datetime": {schema: `{"type":"string","format":"date-time"}`, title: "Moment",
			about: "The moment of interest. The values follow the seasons."},
	}
	all := map[string]ogcProcess{}
	for _, p := range []ogcProcess{
		{id: "echo", title: "Gives back its inputs of every type", modes: both, outputs: []string{"echo"},
			inputs: echoInputs, run: runEcho},
		{id: "ndvi", title: "NDVI as a STAC Collection", modes: both, inputs: area, outputs: []string{"result"},
			run: runNDVI},
		{id: "ndvi-item", title: "NDVI as a STAC Item", modes: both, inputs: area, outputs: []string{"result"},
			run: runItem},
		{id: "ndvi-reference", title: "NDVI as a link to a file", modes: both, inputs: area,
			outputs: []string{"result"}, reference: true, run: runReference},
		{id: "ndvi-catalogue", title: "NDVI as features that link their collections", modes: both, inputs: area,
			outputs: []string{"result"}, run: runCatalogue},
		{id: "statistics", title: "NDVI as numbers and words", modes: both, inputs: area,
			outputs: []string{"mean", "unit"}, run: runStatistics},
		{id: "land-cover", title: "Land cover in five classes", modes: both, inputs: area, outputs: []string{"result"},
			run: runLandCover},
		{id: "image", title: "NDVI as the bytes of a file", modes: both, inputs: area, outputs: []string{"image"},
			run: runImage},
		{id: "formats", title: "NDVI in a format of choice", modes: both, inputs: area, outputs: []string{"result"},
			reference: true, run: runFormats,
			offers: []string{"image/tiff; application=geotiff", "application/x-netcdf", "application/geo+json"}},
		{id: "sync-only", title: "NDVI while one waits", modes: syncOnly, inputs: area, outputs: []string{"result"},
			run: runNDVI},
		{id: "async-only", title: "NDVI as a job", modes: asyncOnly, inputs: area, outputs: []string{"result"},
			run: runNDVI},
		{id: "fail", title: "Fails at run time", modes: both, inputs: area, outputs: []string{"result"}, fails: true,
			run: runNDVI},
		scenesProcess, smoothProcess,
	} {
		all[p.id] = p
	}
	return all
}

const bboxSchema = `{"type":"object","required":["bbox"],"properties":{"bbox":{"type":"array","items":{"type":"number"},"oneOf":[{"minItems":4,"maxItems":4},{"minItems":6,"maxItems":6}]},"crs":{"type":"string","format":"uri","default":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}},"format":"ogc-bbox"}`

var echoInputs = map[string]ogcInput{
	"string":   {schema: `{"type":"string"}`},
	"choice":   {schema: `{"type":"string","enum":["one","two"]}`},
	"integer":  {schema: `{"type":"integer"}`},
	"number":   {schema: `{"type":"number"}`},
	"boolean":  {schema: `{"type":"boolean"}`},
	"nothing":  {schema: `{"type":"string","nullable":true}`},
	"strings":  {schema: `{"type":"array","items":{"type":"string"}}`},
	"datetime": {schema: `{"type":"string","format":"date-time"}`},
	"interval": {schema: `{"type":"array","items":{"type":"string","format":"date-time"},"minItems":2,"maxItems":2}`},
	"bbox":     {schema: bboxSchema},
	"geometry": {schema: `{"type":"object","format":"geojson-geometry"}`},
	"object":   {schema: `{"type":"object"}`},
}

func (p ogcProcess) can(mode string) bool { return slices.Contains(p.modes, mode) }

func (p ogcProcess) transmission() []string {
	if p.reference {
		return []string{"reference"}
	}
	return []string{"value"}
}

func (p ogcProcess) describeInputs(marker string) object {
	inputs := object{marker: object{"title": "Label",
		"description": "A label of your own. The result does not depend on it.",
		"minOccurs":   0, "schema": json.RawMessage(`{"type":"string"}`)}}
	for name, in := range p.inputs {
		least := 0
		if in.required {
			least = 1
		}
		described := object{"title": cmp.Or(in.title, name), "minOccurs": least, "maxOccurs": max(1, in.most),
			"schema": json.RawMessage(in.schema)}
		if in.about != "" {
			described["description"] = in.about
		}
		inputs[name] = described
	}
	return inputs
}

func (p ogcProcess) describeOutputs() object {
	outputs := object{}
	for _, name := range p.outputs {
		outputs[name] = object{"title": name, "schema": p.outputSchema()}
	}
	return outputs
}

func (p ogcProcess) outputSchema() object {
	if len(p.offers) == 0 {
		return object{}
	}
	var all []object
	for _, media := range p.offers {
		all = append(all, object{"type": "string", "contentEncoding": "binary", "contentMediaType": media})
	}
	return object{"oneOf": all}
}

// execution is a validated execute request.
type execution struct {
	inputs   map[string]json.RawMessage // values, unwrapped from {"value": …}
	document bool                       // one JSON document with all outputs is requested, instead of raw output
	media    string                     // that was chosen of what the process offers
}

// text returns an input that is a string; "" for any other.
func (e execution) text(name string) (s string) {
	json.Unmarshal(e.inputs[name], &s)
	return s
}

// read validates an execute request by the standard's schema: an object as an input's value must be wrapped in
// {"value": …}, be a link, or be a bounding box.
func (p ogcProcess) read(body []byte) (execution, *problem) {
	var request struct {
		Inputs   map[string]json.RawMessage `json:"inputs"`
		Response string                     `json:"response"`
		Outputs  map[string]struct {
			Format struct {
				MediaType string `json:"mediaType"`
			} `json:"format"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return execution{}, badInput("the body is not an execute request: %v", err)
	}
	e := execution{inputs: map[string]json.RawMessage{}, document: request.Response == "document"}
	if len(p.offers) > 0 {
		e.media = cmp.Or(request.Outputs[p.outputs[0]].Format.MediaType, p.offers[0])
		if !slices.Contains(p.offers, e.media) {
			return e, badInput("the output is not offered as %q", e.media)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(request.Inputs)) {
		value, ok := inputValue(request.Inputs[name])
		if !ok {
			return e, badInput("input %q: an object must be given as {\"value\": …}", name)
		}
		if bad := p.checkType(name, value); bad != nil {
			return e, bad
		}
		e.inputs[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(p.inputs)) {
		if _, ok := e.inputs[name]; !ok && p.inputs[name].required {
			return e, badInput("input %q is missing", name)
		}
	}
	return e, nil
}

func badInput(format string, args ...any) *problem {
	return &problem{400, "invalid-input", fmt.Sprintf(format, args...)}
}

func inputValue(raw json.RawMessage) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return raw, true
	}
	if value, ok := members["value"]; ok {
		return value, true
	}
	_, link := members["href"]
	_, box := members["bbox"]
	return raw, link || box
}

// checkType checks a value against the "type" of its input's schema. Links are not followed.
func (p ogcProcess) checkType(name string, value json.RawMessage) *problem {
	var schema struct {
		Type     string `json:"type"`
		Nullable bool   `json:"nullable"`
	}
	in, known := p.inputs[name]
	switch {
	case !known:
		return nil
	case in.takes == nil:
	case in.takes(value):
		return nil
	default:
		return badInput("input %q does not take %s", name, value)
	}
	json.Unmarshal([]byte(in.schema), &schema)
	kind := jsonKind(value)
	if kind == schema.Type || kind == "integer" && schema.Type == "number" || kind == "null" && schema.Nullable ||
		kind == "object" && strings.Contains(string(value), `"href"`) {
		return nil
	}
	return badInput("input %q is %s, not %s", name, kind, schema.Type)
}

// jsonKind returns the JSON Schema type of a value.
func jsonKind(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if strings.ContainsAny(string(value), ".eE") {
		return "number"
	}
	return "integer"
}

// respond writes outputs in the requested form: one document, or raw, for which the standard distinguishes one value,
// several values, and links.
func (e execution) respond(w http.ResponseWriter, outputs []output) *problem {
	switch {
	case e.document:
		doc := object{}
		for _, o := range outputs {
			doc[o.id] = o.inDocument()
		}
		writeJSON(w, 200, doc)
	case len(outputs) == 1 && outputs[0].href != "":
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel=%q; type=%q`, outputs[0].href, outputs[0].id, outputs[0].media))
		w.WriteHeader(204)
	case len(outputs) == 1:
		w.Header().Set("Content-Type", outputs[0].mediaType())
		w.Write(outputs[0].raw())
	default:
		parts := multipart.NewWriter(w)
		parts.SetBoundary("simulator-part")
		w.Header().Set("Content-Type", "multipart/related; boundary=simulator-part")
		for _, o := range outputs {
			part, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {o.mediaType()}, "Content-ID": {o.id}})
			part.Write(o.raw())
		}
		parts.Close()
	}
	return nil
}

func (o output) mediaType() string {
	if o.media == "" {
		return "application/json"
	}
	return o.media
}

func (o output) raw() []byte {
	if o.bytes != nil {
		return o.bytes
	}
	doc, _ := json.Marshal(o.json)
	return doc
}

func (o output) inDocument() any {
	switch {
	case o.href != "":
		return object{"href": o.href, "type": o.media}
	case o.bytes != nil:
		return object{"value": base64.StdEncoding.EncodeToString(o.bytes), "encoding": "base64", "mediaType": o.media}
	}
	if kind := jsonKind(o.raw()); kind == "object" {
		return object{"value": o.json, "mediaType": o.mediaType()}
	}
	return o.json
}

func (e execution) scene() scene {
	all, _ := json.Marshal(e.inputs)
	return sceneOf(all)
}

func runEcho(e execution, _ string) []output { return []output{{id: "echo", json: e.inputs}} }

func runNDVI(e execution, files string) []output {
	return []output{{id: "result", json: resultCollection(e.scene(), files)}}
}

func runItem(e execution, files string) []output {
	return []output{{id: "result", json: describeFile(e.scene(), files).item(), media: "application/geo+json"}}
}

func runReference(e execution, files string) []output {
	f := produce("GTiff", e.scene())
	return []output{{id: "result", href: files + "/" + f.name, media: f.media}}
}

func runFormats(e execution, files string) []output {
	name := map[string]string{"application/x-netcdf": "netCDF", "application/geo+json": "GeoJSON"}[e.media]
	f := produce(cmp.Or(name, "GTiff"), e.scene())
	return []output{{id: "result", href: files + "/" + f.name, media: e.media}}
}

func runCatalogue(e execution, files string) []output {
	feature := describeFile(e.scene(), files).item()
	feature["assets"] = object{}
	feature["links"] = []object{{"rel": "collection", "type": "application/json", "href": files + "/collection.json"}}
	return []output{{id: "result", media: "application/geo+json", json: object{"type": "FeatureCollection",
		"features": []object{feature}}}}
}

func runStatistics(e execution, _ string) []output {
	return []output{{id: "mean", json: e.scene().mean()}, {id: "unit", json: "one"}}
}

func runImage(e execution, _ string) []output {
	f := produce("GTiff", e.scene())
	return []output{{id: "image", bytes: f.content(), media: f.media}}
}

func runLandCover(e execution, files string) []output {
	return []output{{id: "result", json: describe("Land cover", landCover(e.scene()), e.scene(), files).collection()}}
}

func resultCollection(s scene, files string) object { return describeFile(s, files).collection() }

func describeFile(s scene, files string) stac { return describe("NDVI", produce("GTiff", s), s, files) }

// describe describes the GeoTIFF of a job, which lies below the URL files.
func describe(title string, f product, s scene, files string) stac {
	return stac{
		id: files[strings.LastIndex(files, "/")+1:], title: title, scene: s,
		links:  []object{{"rel": "self", "href": files + "/collection.json", "type": "application/json"}},
		assets: object{f.name: f.asset(files)},
	}
}
