package openeo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/parameters"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// maxDefinition limits a process definition in bytes; real ones have up to 0.9 MB.
const maxDefinition = 2 << 20

// process is what must be known about the process that a service names.
type process struct {
	id           string
	saves        bool   // its own graph ends in save_result
	savesAs      string // the format there; "": it is not fixed
	document     []byte // the definition itself, if it is at a URL
	hash         string // of the definition at a URL; "" if a request is pinned to it
	etag         string
	parameters   []dispatch.Parameter
	set          *parameters.Set  // nil: the definition does not list parameters
	graph        json.RawMessage  // of the document
	responseSize int              // bytes of the back-end's response, if it is known by its id
	references   map[string]int64 // number of places in which each parameter is substituted
}

// definition is a process as openEO documents define it.
type definition struct {
	ID         string          `json:"id"`
	Graph      json.RawMessage `json:"process_graph"`
	Parameters parameterList   `json:"parameters"`
	Options    json.RawMessage `json:"default_job_options"`
	RunOptions json.RawMessage `json:"default_synchronous_options"`
}

// parameterList is counted before it is decoded.
type parameterList []parameter

// UnmarshalJSON decodes a list within service_parameters.
func (l *parameterList) UnmarshalJSON(data []byte) error {
	if err := bounds.ServiceParameters.Check(bounds.Entries(data)); err != nil {
		return err
	}
	return json.Unmarshal(data, (*[]parameter)(l))
}

type parameter struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Optional    bool            `json:"optional"`
	Default     json.RawMessage `json:"default"`
	Schema      json.RawMessage `json:"schema"`
}

// process returns the parts of a definition that Submit needs.
func (d definition) process() process {
	proc := process{id: d.ID}
	proc.saves, proc.savesAs = endsInSave(d.Graph)
	if d.Parameters == nil {
		return proc
	}
	// the result is cached for others, so it must not depend on this request's context
	reader := parameters.NewReader(context.Background())
	for _, prm := range d.Parameters {
		proc.parameters = append(proc.parameters, reader.Describe(dispatch.Parameter{Name: prm.Name,
			Description: prm.Description, Optional: prm.Optional || prm.Default != nil, Default: prm.Default,
			Schema: prm.Schema}))
	}
	proc.set = reader.NewSet(proc.parameters)
	return proc
}

// parseDefinition parses a process, or selects the one with the id from a list of processes.
func parseDefinition(data []byte, id string) (definition, error) {
	var doc struct {
		definition
		Processes []definition `json:"processes"`
	}
	err := upstream.Bounded(data)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if _, over := errors.AsType[*bounds.Exceeded](err); over {
		return definition{}, fmt.Errorf("it has %w", err)
	}
	if err != nil {
		return definition{}, errors.New("it is not a JSON document with id and process_graph")
	}
	d := doc.definition
	for _, one := range doc.Processes {
		if id != "" && one.ID == id {
			d = one
		}
	}
	switch {
	case d.ID == "":
		return d, errors.New("the document has no id")
	case id != "" && d.ID != id:
		return d, fmt.Errorf("the document defines %s", upstream.Text(d.ID))
	}
	return d, wellFormed(d.Graph)
}

// node is one step of a process graph. Members that it does not name are kept.
type node map[string]json.RawMessage

func (n node) process() string {
	var id string
	_ = json.Unmarshal(n["process_id"], &id)
	return id
}

// saves reports whether the node is a call of the predefined process that saves results.
func (n node) saves() bool {
	var namespace string
	_ = json.Unmarshal(n["namespace"], &namespace)
	return n.process() == "save_result" && (namespace == "" || namespace == dispatch.BackendNamespace)
}

func (n node) isResult() bool { return string(n["result"]) == "true" }

// parseGraph parses a process graph and returns the id of its result node: the one marked so, or the only one.
func parseGraph(data json.RawMessage) (graph map[string]node, result string, err error) {
	if json.Unmarshal(data, &graph) != nil || len(graph) == 0 {
		return nil, "", errors.New("the document has no process_graph")
	}
	var results []string
	for _, id := range slices.Sorted(maps.Keys(graph)) {
		if graph[id].process() == "" {
			return nil, "", fmt.Errorf("node %s of the process graph has no process_id", upstream.Text(id))
		}
		if graph[id].isResult() || len(graph) == 1 {
			results = append(results, id)
		}
	}
	switch len(results) {
	case 0:
		return nil, "", errors.New("no node of the process graph is its result")
	case 1:
		return graph, results[0], nil
	}
	return nil, "", fmt.Errorf("%d nodes of the process graph are marked as its result, and one may be", len(results))
}

// endsInSave reports whether a process graph saves its results itself, and in which format; "": the graph does not fix
// it.
func endsInSave(data json.RawMessage) (saves bool, format string) {
	graph, result, err := parseGraph(data)
	if err != nil || !graph[result].saves() {
		return false, ""
	}
	var arguments struct {
		Format json.RawMessage `json:"format"`
	}
	_ = json.Unmarshal(graph[result]["arguments"], &arguments)
	_ = json.Unmarshal(arguments.Format, &format)
	return true, format
}

// unusedFormat returns a warning if the process does not save its results in the format of a request; "": it does.
func (proc process) unusedFormat(format string) string {
	switch {
	case !proc.saves || format == "" || dispatch.FormatName(proc.savesAs) == dispatch.FormatName(format):
		return ""
	case proc.savesAs == "":
		return "The process saves its results itself, so that the format of the request is not used."
	}
	return "The process saves its results itself, as " + upstream.Text(proc.savesAs) +
		", so that the format of the request is not used."
}

// stored returns a process that the back-end knows by id. A process that the back-end does not show is assumed not to
// save its result.
func (p *Platform) stored(ctx context.Context, bearer dispatch.Secret, s dispatch.Service) (process, error) {
	path, ns := "/process_graphs/"+url.PathEscape(s.Application), namespaceOf(s)
	switch {
	case ns == dispatch.BackendNamespace:
		return process{id: s.Application}, nil // it is predefined
	case ns != "" && ns != "user":
		path = "/processes/" + url.PathEscape(ns) + "/" + url.PathEscape(s.Application)
	case bearer == "":
		return process{id: s.Application}, nil // without a token it cannot be the user's own
	}
	return p.processes.Get(ctx, upstream.KeyFor(bearer, path), func(ctx context.Context, last process) (process,
		error) {
		var d definition
		a, err := p.get(ctx, "openeo.process", path, bearer, &d)
		switch {
		case err == nil:
		case last.id != "" && a != nil && upstream.OfProxy(a):
			return process{}, err
		case !refusesDocument(a, err) && (upstream.NotAnswered(err) || dispatch.Is(err, dispatch.SignInRequired)):
			return process{}, err
		default:
			return process{id: s.Application}, nil
		}
		d.ID = s.Application
		proc := d.process()
		proc.responseSize = len(a.Body)
		return proc, nil
	})
}
