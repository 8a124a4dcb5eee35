package openeo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// servicesNamespace is the namespace of the processes that are the catalogue's services, on platforms of every
// protocol.
const servicesNamespace = "catalogue"

const (
	describeWithin  = 10 * time.Second
	describedAtOnce = 8    // services that are described at once for a list
	mostServices    = 1000 // of a page
	servicesCursor  = "services"
)

// process is a predefined process.
type process struct {
	ID          string             `json:"id"`
	Summary     string             `json:"summary,omitempty"`
	Description string             `json:"description"`
	Categories  []string           `json:"categories,omitempty"`
	Parameters  []processParameter `json:"parameters"`
	Returns     returns            `json:"returns"`
	Examples    []example          `json:"examples,omitempty"`
	Links       []link             `json:"links"`
	Backends    []string           `json:"federation:backends"`
}

type processParameter struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Optional    bool            `json:"optional,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

type returns struct {
	Description string            `json:"description"`
	Schema      map[string]string `json:"schema"`
}

type example struct {
	Arguments json.RawMessage `json:"arguments"`
}

// namespaceProcesses lists the processes of a namespace: in the view of all platforms, the catalogue's services or what
// platforms publish.
func (f *Facade) namespaceProcesses(r *request) (*answer, error) {
	if !r.view.merged() || r.PathValue("namespace") != servicesNamespace {
		return f.published(r)
	}
	most, after, err := r.page(servicesCursor, mostServices)
	if err != nil {
		return nil, err
	}
	page, err := f.search(catalogue.Query{Limit: most, After: after})
	if err != nil {
		return nil, err
	}
	links := []link{{Rel: "self", Href: r.root + r.URL.Path, Type: "application/json"}}
	if page.Next != "" {
		links = append(links, r.next(servicesCursor, most, []byte(page.Next)))
	}
	return &answer{Body: map[string]any{"processes": f.processesOf(r, page.Services), "links": links}}, nil
}

func (f *Facade) search(q catalogue.Query) (catalogue.Page, error) {
	page, ok := f.Services.Search(q)
	if !ok {
		return page, refused(http.StatusBadRequest, "ParameterInvalid",
			"The parameter cursor is not one of a link of this list.")
	}
	return page, nil
}

// processesOf describes services. One whose parameters cannot be read in time is listed without them.
func (f *Facade) processesOf(r *request, services []catalogue.Service) []process {
	ctx, cancel := context.WithTimeout(r.Context(), describeWithin)
	defer cancel()
	all, free := make([]process, len(services)), make(chan struct{}, describedAtOnce)
	var describing sync.WaitGroup
	for i, s := range services {
		free <- struct{}{}
		describing.Go(func() {
			defer func() { <-free }()
			parameters, _ := f.Broker.Parameters(ctx, r.user, s.Service, s.Label)
			all[i] = processOf(r, s, parameters)
		})
	}
	describing.Wait()
	return all
}

// namespaceProcess describes one process of a namespace.
func (f *Facade) namespaceProcess(r *request) (*answer, error) {
	if !r.view.merged() || r.PathValue("namespace") != servicesNamespace {
		return f.published(r)
	}
	s, ok := f.Services.Find(r.PathValue("process_id"))
	if !ok {
		return nil, refused(http.StatusNotFound, "ProcessUnsupported", "The catalogue has no such service.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), describeWithin)
	defer cancel()
	parameters, err := f.Broker.Parameters(ctx, r.user, s.Service, s.Label)
	if err != nil {
		return nil, err
	}
	p := processOf(r, s, parameters)
	if formats := f.formatsOf(ctx, r, s); len(formats) > 0 {
		p.Returns.Description += " The formats are " + strings.Join(formats, ", ") + "."
	}
	return &answer{Body: p}, nil
}

// formatsOf returns the names of the formats that the platform lists for a service or, if it lists none, those of the
// service's record.
func (f *Facade) formatsOf(ctx context.Context, r *request, s catalogue.Service) (names []string) {
	listed, err := f.Broker.Formats(ctx, r.user, s.Service, s.Label)
	if err != nil || len(listed) == 0 {
		return s.Formats
	}
	for _, one := range listed {
		names = append(names, one.Name)
	}
	return names
}

// formatsOfServices returns the formats in the records of services that are not on openEO platforms, each once. Clients
// refuse a format that is not listed.
func (f *Facade) formatsOfServices() (names []string) {
	page, _ := f.search(catalogue.Query{}) // without After it succeeds
	for _, s := range page.Services {
		if s.Label != dispatch.OpenEO {
			names = append(names, s.Formats...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// identified returns the service of the catalogue that a request names.
func (f *Facade) identified(r dispatch.Request) (catalogue.Service, bool) {
	id, known := f.Services.Identify(r.Label, r.Service)
	if !known {
		return catalogue.Service{}, false
	}
	return f.Services.Find(id)
}

// processOf returns a service as a process.
func processOf(r *request, s catalogue.Service, parameters []dispatch.Parameter) process {
	p := process{ID: s.ID, Summary: s.Title, Description: s.Description, Categories: s.Keywords,
		Parameters: []processParameter{}, Backends: []string{s.Platform},
		Returns: returns{"The results of the service. They can be saved, and processed further if it runs on an " +
			"openEO platform.", map[string]string{"type": "object", "subtype": "datacube"}},
		Links: []link{{Rel: "self", Href: r.root + "/processes/" + servicesNamespace + "/" + url.PathEscape(s.ID),
			Type: "application/json"}}}
	for _, given := range parameters {
		p.Parameters = append(p.Parameters, parameterOf(given))
	}
	if s.Example != nil {
		p.Examples = []example{{s.Example}}
	}
	for _, l := range s.Links {
		if l.Rel != "self" { // that of its record
			p.Links = append(p.Links, link{Rel: l.Rel, Href: l.Href, Type: l.Type, Title: l.Title})
		}
	}
	return p
}

// areaSchemas are the forms in which openEO clients have areas. The broker converts them into that of the service.
var areaSchemas = map[dispatch.ParamType]string{
	dispatch.BoundingBox: `{"type":"object","subtype":"bounding-box","required":["west","south","east","north"],"properties":{` +
		`"west":{"type":"number"},"south":{"type":"number"},"east":{"type":"number"},"north":{"type":"number"}}}`,
	dispatch.Polygon: `{"type":"object","subtype":"geojson"}`,
}

// parameterOf returns a parameter as openEO describes it. An area that is described in another standard's form gets
// openEO's.
func parameterOf(given dispatch.Parameter) processParameter {
	p := processParameter{Name: given.Name, Description: given.Description, Schema: given.Schema,
		Optional: given.Optional, Default: given.Default}
	var known struct {
		Subtype string `json:"subtype"`
	}
	described := json.Unmarshal(given.Schema, &known) != nil || known.Subtype != "" // a list of schemas is openEO's
	if area := areaSchemas[given.Type]; area != "" && !described {
		p.Schema = json.RawMessage(area)
	}
	if p.Schema == nil {
		p.Schema = json.RawMessage("{}")
	}
	return p
}

// quoted returns a name in a text for people.
func quoted(name string) string {
	return strconv.Quote(dispatch.Shortened(name))
}
