package ogcapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	mostProcesses  = 1_000 // of a page. It is also the default: clients that do not follow links see all
	describeWithin = 10 * time.Second
)

// processSummary is a process in lists (processSummary.yaml).
type processSummary struct {
	ID                 string   `json:"id"`
	Title              string   `json:"title,omitempty"`
	Description        string   `json:"description,omitempty"`
	Keywords           []string `json:"keywords,omitempty"`
	Version            string   `json:"version"`
	JobControlOptions  []string `json:"jobControlOptions"`
	OutputTransmission []string `json:"outputTransmission"`
	Links              []link   `json:"links"`
}

// processDescription is a process (process.yaml).
type processDescription struct {
	processSummary
	Inputs  map[string]inputDescription  `json:"inputs"`
	Outputs map[string]outputDescription `json:"outputs"`
}

type inputDescription struct {
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	MinOccurs   int            `json:"minOccurs"`
	MaxOccurs   any            `json:"maxOccurs,omitempty"` // a number or "unbounded"; nil: 1
	Schema      map[string]any `json:"schema"`
}

type outputDescription struct {
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"schema"`
}

func (f *Facade) listProcesses(in *request) (*answer, error) {
	query := in.URL.Query()
	limit, err := limitOf(query, mostProcesses, mostProcesses)
	if err != nil {
		return nil, err
	}
	if !in.view.whole() {
		return f.listOwnProcesses(in, limit, query.Get("cursor"))
	}
	page, ok := f.Services.Search(catalogue.Query{Limit: limit, After: query.Get("cursor")})
	if !ok {
		return nil, badQuery("cursor is not one of a next link of this list.")
	}
	processes := []processSummary{}
	for _, s := range page.Services {
		processes = append(processes, f.summary(in, s))
	}
	return listed(in, "processes", processes, url.Values{"limit": {strconv.Itoa(limit)}}, page.Next), nil
}

// listed returns a page of a list, with a link to the next one; next is its cursor, "" if there is none.
func listed(in *request, what string, entries any, query url.Values, next string) *answer {
	at := in.root + "/" + what
	links := []link{{at, "self", mediaJSON, ""}}
	if next != "" {
		query.Set("cursor", next)
		links = append(links, link{at + "?" + query.Encode(), "next", mediaJSON, ""})
	}
	return &answer{Body: map[string]any{what: entries, "links": links}}
}

// limitOf reads the query parameter limit.
func limitOf(query url.Values, usual, most int) (int, error) {
	n, ok := facade.Limit(query, usual, most)
	if !ok {
		return 0, badQuery("limit must be a whole number from 1. A page has at most %d entries.", most)
	}
	return n, nil
}

func (f *Facade) summary(in *request, s catalogue.Service) processSummary {
	shown := processSummary{ID: s.ID, Title: s.Title, Description: s.Summary, Keywords: s.Keywords,
		Version:           versionOf(s),
		JobControlOptions: []string{"async-execute", "dismiss"}, OutputTransmission: []string{byValue, byReference},
		Links: processLinks(in, s.ID)}
	if f.isEcho(s) {
		shown.JobControlOptions, shown.OutputTransmission = []string{"sync-execute", "async-execute", "dismiss"},
			[]string{byValue}
	}
	return shown
}

func processLinks(in *request, id string) []link {
	at := in.root + "/processes/" + url.PathEscape(id)
	return []link{{at, "self", mediaJSON, "Description"},
		{at + "/execution", relation("execute"), mediaJSON, "Execution"}}
}

// versionOf returns the version of a process, which the standard requires. Records have none, but may have a date.
func versionOf(s catalogue.Service) string {
	if s.Updated.IsZero() {
		return "1"
	}
	return s.Updated.UTC().Format(time.DateOnly)
}

func (f *Facade) isEcho(s catalogue.Service) bool {
	return f.Echo != "" && s.ID == f.Echo && s.Platform == f.Echo
}

// processIn returns the service that a view has as a process.
func (f *Facade) processIn(v view, id string) (catalogue.Service, error) {
	if !v.whole() {
		if id == "" || strings.Contains(id, "/") { // which would name a process by its path
			return catalogue.Service{}, errNoProcess
		}
		return v.process(id), nil
	}
	s, ok := f.Services.Find(id)
	if !ok {
		return s, errNoProcess
	}
	return s, nil
}

func (f *Facade) describeProcess(in *request) (*answer, error) {
	s, err := f.processIn(in.view, in.PathValue("processID"))
	if err != nil {
		return nil, err
	}
	if !in.view.whole() {
		return f.describeOwnProcess(in, s)
	}
	ctx, cancel := context.WithTimeout(in.Context(), describeWithin)
	defer cancel()
	var own map[string]inputDescription
	var outputs []dispatch.ProcessOutput
	var describing sync.WaitGroup
	if !f.isEcho(s) {
		describing.Go(func() {
			own = f.ownInputs(ctx, in, s)
			outputs, _ = f.ownOutputs(ctx, in, s) // without them the description is still right
		})
	}
	parameters, err := f.parameters(ctx, in, s)
	if err != nil {
		cancel()
	}
	describing.Wait()
	if err != nil {
		return nil, err
	}
	d := processDescription{processSummary: f.summary(in, s), Inputs: map[string]inputDescription{},
		Outputs: map[string]outputDescription{}}
	d.Description = s.Description
	for _, p := range parameters {
		d.Inputs[p.Name] = inputOf(p)
	}
	for _, o := range outputs {
		d.Outputs[o.Name] = ownOutput(o)
	}
	maps.Copy(d.Outputs, f.outputs(s))
	maps.Copy(d.Inputs, own)
	if area := facade.AreaOf(parameters); area != "" && !f.isEcho(s) {
		d.Inputs[inputTiles] = tilesInput(area)
	}
	return &answer{Body: d}, nil
}

// parameters returns the parameters of a service.
func (f *Facade) parameters(ctx context.Context, in *request, s catalogue.Service) ([]dispatch.Parameter, error) {
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	parameters, err := f.Broker.Parameters(ctx, in.user, s.Service, s.Label)
	return parameters, platformLacks(err)
}

// platformLacks returns the error of a request about a process. The platform not knowing the process is a fault of the
// request: no job is concerned.
func platformLacks(err error) error {
	if !dispatch.Is(err, dispatch.NotFound) {
		return err
	}
	return exception{Type: typeNoProcess, Status: http.StatusNotFound,
		Detail: "The platform does not have this process: " + dispatch.TextFor(err)}
}

func inputOf(p dispatch.Parameter) inputDescription {
	in := inputDescription{Title: p.Name, Description: p.Description, Schema: inputSchema(p)}
	if !p.Optional {
		in.MinOccurs = 1
	}
	if (p.Type == dispatch.ArrayString || p.Type == dispatch.Array) && in.Schema["type"] != nil &&
		in.Schema["type"] != "array" {
		in.MaxOccurs = "unbounded" // the schema is that of one value
	}
	return in
}

// tilesInput describes the input that makes a task.
func tilesInput(area string) inputDescription {
	return inputDescription{Title: "Tiles", MinOccurs: 0,
		Description: "Name of a grid. The area in the input " + strconv.Quote(area) +
			" is split by it, and the process runs once for each tile.",
		Schema: map[string]any{"type": "string", "enum": facade.GridNames()}}
}

// inputSchema returns the schema of a parameter in the form of OpenAPI 3.0, which the standard prescribes.
func inputSchema(p dispatch.Parameter) map[string]any {
	var given any
	_ = json.Unmarshal(p.Schema, &given) // without a schema every value is allowed
	s := openAPISchema(given, 0)
	if p.Type == dispatch.BoundingBox && s["format"] != formatBbox {
		s = bboxSchema()
	}
	if p.Nullable {
		s["nullable"] = true
	}
	var value any
	if p.Default != nil && json.Unmarshal(p.Default, &value) == nil && value != nil {
		s["default"] = value
	}
	return s
}

const formatBbox = "ogc-bbox"

// bboxSchema is the schema of a bounding box (OGC 18-062r2, 7.11.2.3), which the broker converts to the form of the
// service.
func bboxSchema() map[string]any {
	return map[string]any{"type": "object", "format": formatBbox, "required": []any{"bbox"},
		"properties": map[string]any{
			"bbox": map[string]any{"type": "array", "items": map[string]any{"type": "number"}, "minItems": 4,
				"maxItems": 6},
			"crs": map[string]any{"type": "string", "format": "uri", "default": crs84, "enum": []any{crs84}}}}
}

const crs84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
