package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// inlined returns a process whose nodes call none of the user's own processes and none of the catalogue's services at the platform, which the
// platform cannot read: each such node is replaced by the nodes of the process that it calls or, if the platform keeps the service itself, calls
// it by its name there. A process in which nothing is replaced is returned as it is.
func (f *Facade) inlined(ctx context.Context, u dispatch.UserID, b *dispatch.Backend, process json.RawMessage) (json.RawMessage, error) {
	own, err := f.hasProcesses(ctx, u)
	if err != nil || !own && !mayCallServices(process) {
		return process, err
	}
	var members map[string]any
	if err := decodeNumbers(process, &members); err != nil {
		return process, nil // the platform says what is wrong
	}
	graph, is := members["process_graph"].(map[string]any)
	if !is {
		return process, nil
	}
	in := &inliner{meter: budget.GraphBytes.Meter(ctx), known: map[string]*ownProcess{}, find: func(id string) ([]byte, error) {
		p, err := f.Processes.Process(ctx, u, id)
		return p.Body, err
	}, serve: func(id string) (catalogue.Service, []byte, error) { return f.definitionOf(ctx, u, b, id) }}
	graph, err = in.graph(graph)
	if err != nil || !in.replaced {
		return process, err
	}
	members["process_graph"] = graph
	return dispatch.Encode(members)
}

// hasProcesses reports whether a user has stored processes.
func (f *Facade) hasProcesses(ctx context.Context, u dispatch.UserID) (bool, error) {
	if u == "" {
		return false, nil
	}
	some, err := f.Processes.Processes(ctx, u, "", 1)
	return len(some) > 0, err
}

// definitionOf returns a service of the catalogue at a platform and the process that defines it; nil if the platform keeps the service itself.
// NotFound if there is no such service there.
func (f *Facade) definitionOf(ctx context.Context, u dispatch.UserID, b *dispatch.Backend, id string) (catalogue.Service, []byte, error) {
	s, known := f.service(id)
	if !known || s.Platform != b.Name || s.Label != dispatch.OpenEO {
		return s, nil, &dispatch.Error{Kind: dispatch.NotFound, Op: "openeo.definitionOf"}
	}
	document, err := f.Broker.Definition(ctx, u, s.Service, s.Label)
	if err != nil || document == nil {
		return s, nil, err
	}
	body, err := processIn(document, s.Service.Application)
	return s, body, err
}

// processIn returns the process that a document defines: the document itself, or the one with the id in its list.
func processIn(document []byte, id string) ([]byte, error) {
	var list struct {
		Processes []json.RawMessage `json:"processes"`
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, err
	}
	for _, body := range list.Processes {
		var one struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(body, &one) == nil && one.ID == id {
			return body, nil
		}
	}
	return document, nil
}

// decodeNumbers decodes JSON and keeps numbers digit for digit.
func decodeNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// ownProcess is a process of the user, or one that defines a service.
type ownProcess struct {
	body       []byte
	parameters []parameter
	service    bool
}

type parameter struct {
	Name     string          `json:"name"`
	Optional bool            `json:"optional"`
	Default  json.RawMessage `json:"default"`
}

// inliner replaces the nodes of one process.
type inliner struct {
	find     func(id string) ([]byte, error)                    // the user's process; NotFound if there is none
	serve    func(id string) (catalogue.Service, []byte, error) // a service and its definition, see definitionOf
	known    map[string]*ownProcess                             // by namespace and id; nil: there is none
	inside   []string                                           // processes that are being inlined
	services int                                                // those of inside that define services. They know no processes of the user
	meter    *budget.Meter                                      // counts the bytes of the graph
	replaced bool
}

const (
	nodeBytes  = 64       // that a node counts, besides its text
	valueBytes = 32       // that any value counts each time it is copied: about what it takes in memory besides its text
	callBytes  = 1024     // that reading a process counts, besides its text
	findBytes  = 16 << 10 // that looking for a process counts, which may be a query
)

func tooComplex(format string, args ...any) error {
	return refused(http.StatusBadRequest, "ProcessGraphComplexity", fmt.Sprintf(format, args...))
}

func (in *inliner) exceeded() error { return exceeded(in.meter) }

// exceeded returns the error of a graph that costs too much.
func exceeded(m *budget.Meter) error {
	return tooComplex("With the processes that it calls, the process graph has %v.", m.Err())
}

// graph returns a process graph with its nodes replaced, and those of the graphs in their arguments.
func (in *inliner) graph(graph map[string]any) (map[string]any, error) {
	out := maps.Clone(graph)
	for _, id := range slices.Sorted(maps.Keys(graph)) {
		node, is := graph[id].(map[string]any)
		if !is {
			continue
		}
		arguments, err := in.value(node["arguments"])
		if err != nil {
			return nil, err
		}
		node = maps.Clone(node)
		if arguments != nil {
			node["arguments"] = arguments
		}
		out[id] = node
		called, err := in.called(node)
		if err != nil {
			return nil, err
		}
		if called == nil {
			continue
		}
		if err := in.replace(out, id, node, called); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value returns an argument with the process graphs in it replaced.
func (in *inliner) value(v any) (any, error) {
	if !in.meter.Spend(valueBytes) {
		return nil, in.exceeded()
	}
	switch v := v.(type) {
	case []any:
		list := slices.Clone(v)
		for i := range list {
			var err error
			if list[i], err = in.value(list[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := maps.Clone(v)
		for name, member := range object {
			var err error
			if nested, is := member.(map[string]any); is && name == "process_graph" {
				object[name], err = in.graph(nested)
			} else {
				object[name], err = in.value(member)
			}
			if err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}

// called returns the process of the user, or the definition of a service, that a node calls; nil if it calls another one. A node without a
// namespace calls the user's own process, if there is one. A node that calls a service which its platform keeps is changed to the name there.
func (in *inliner) called(node map[string]any) (*ownProcess, error) {
	id, _ := node["process_id"].(string)
	namespace := node["namespace"]
	if id == "" || in.services > 0 || namespace != nil && namespace != "user" && namespace != servicesNamespace {
		return nil, nil
	}
	key, find := " "+id, func() ([]byte, error) { return in.find(id) }
	if namespace == servicesNamespace {
		key, find = servicesNamespace+key, func() ([]byte, error) { return in.definition(node, id) }
	}
	if p, looked := in.known[key]; looked && (p != nil || namespace != servicesNamespace) {
		return p, nil
	}
	if !in.meter.Spend(findBytes) {
		return nil, in.exceeded()
	}
	body, err := find()
	if dispatch.Is(err, dispatch.NotFound) || err == nil && body == nil {
		in.known[key] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var definition struct {
		Parameters []parameter `json:"parameters"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessInvalid", "The parameters of the process "+id+" cannot be read.")
	}
	in.known[key] = &ownProcess{body, definition.Parameters, namespace == servicesNamespace}
	return in.known[key], nil
}

// definition returns the process that defines a service. If its platform keeps the service, there is none, and the node gets its name there.
func (in *inliner) definition(node map[string]any, id string) ([]byte, error) {
	s, body, err := in.serve(id)
	if err != nil || body != nil {
		return body, err
	}
	delete(node, "namespace")
	if node["process_id"] = s.Service.Application; s.Service.Namespace != nil {
		node["namespace"] = *s.Service.Namespace
	}
	in.replaced = true
	return nil, nil
}

// replace puts the nodes of a process in place of the node that calls it. The result node takes the id of that node, so that what refers to
// it stays as it is.
func (in *inliner) replace(out map[string]any, id string, node map[string]any, p *ownProcess) error {
	name := node["process_id"].(string)
	if slices.Contains(in.inside, name) {
		return tooComplex("The process %s calls itself.", name)
	}
	var definition struct {
		Graph map[string]any `json:"process_graph"`
	}
	if !in.meter.Spend(len(p.body) + callBytes) {
		return in.exceeded()
	}
	if err := decodeNumbers(p.body, &definition); err != nil {
		return refused(http.StatusBadRequest, "ProcessInvalid", "The process "+name+" cannot be read.")
	}
	inner, err := in.inner(p, name, definition.Graph)
	if err != nil {
		return err
	}
	result := resultOf(inner)
	if result == "" {
		return refused(http.StatusBadRequest, "ProcessGraphInvalid", "The process "+name+" has no result node.")
	}
	if !in.meter.Spend(nodeBytes * len(inner)) { // they are copied once more
		return in.exceeded()
	}
	ids := freshIDs(out, id, inner, result)
	values, err := bind(name, p.parameters, node["arguments"])
	if err != nil {
		return err
	}
	s := &substitution{ids: ids, values: values, sizes: map[string]int{}, hidden: map[string]int{}, meter: in.meter, process: name}
	for own, n := range inner {
		fresh, err := s.value(n, 0)
		if err != nil {
			return err
		}
		if m, is := fresh.(map[string]any); is {
			delete(m, "result")
			if own == result && node["result"] != nil {
				m["result"] = node["result"]
			}
		}
		out[ids[own]] = fresh
	}
	in.replaced = true
	return nil
}

// inner returns the graph of a process with its own nodes replaced.
func (in *inliner) inner(p *ownProcess, name string, graph map[string]any) (map[string]any, error) {
	in.inside = append(in.inside, name)
	defer func() { in.inside = in.inside[:len(in.inside)-1] }()
	if p.service {
		in.services++
		defer func() { in.services-- }()
	}
	return in.graph(graph)
}

// resultOf returns the id of the result node: the one that is marked, or the only one; "" if there is none.
func resultOf(graph map[string]any) (result string) {
	for id, n := range graph {
		node, is := n.(map[string]any)
		if is && (node["result"] == true || len(graph) == 1) {
			result = id
		}
	}
	return result
}

// freshIDs gives the nodes of an inlined graph ids that are not in use: the result node that of the node which it replaces.
func freshIDs(out map[string]any, id string, inner map[string]any, result string) map[string]string {
	ids, taken := map[string]string{result: id}, map[string]bool{}
	for own := range inner {
		if own == result {
			continue
		}
		fresh := id + "_" + own
		for n := 2; out[fresh] != nil || taken[fresh]; n++ {
			fresh = fmt.Sprintf("%s_%s_%d", id, own, n)
		}
		ids[own], taken[fresh] = fresh, true
	}
	return ids
}

// bind returns the value of each parameter of a process: the argument, or the default, which is null for an optional parameter without one.
func bind(process string, parameters []parameter, arguments any) (map[string]any, error) {
	given, _ := arguments.(map[string]any)
	values := map[string]any{}
	for _, p := range parameters {
		value, ok := given[p.Name]
		switch {
		case ok:
		case p.Default != nil:
			if err := decodeNumbers(p.Default, &value); err != nil {
				return nil, err
			}
		case !p.Optional:
			return nil, refused(http.StatusBadRequest, "ProcessParameterRequired", fmt.Sprintf("The process %s requires the parameter %s.", process, p.Name))
		}
		values[p.Name] = value
	}
	return values, nil
}

// substitution copies the nodes of a process: with new ids, and with values in place of its parameters.
type substitution struct {
	process string
	ids     map[string]string
	values  map[string]any
	sizes   map[string]int // of the values, in bytes
	meter   *budget.Meter
	hidden  map[string]int // how many callbacks around the value have a parameter of this name
}

// callbackNames are the parameters that predefined processes pass to a process graph among their arguments
// (https://processes.openeo.org). In such a graph they hide a parameter of the process with the same name.
var callbackNames = []string{"data", "context", "x", "y", "value", "index", "label", "parameters"}

// value copies a value; depth is the number of callbacks around it, whose nodes have ids of their own.
func (s *substitution) value(v any, depth int) (any, error) {
	if !s.meter.Spend(valueBytes) {
		return nil, exceeded(s.meter)
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = s.value(v[i], depth); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		if name, is := v["from_parameter"].(string); is {
			return s.parameter(v, name, depth)
		}
		if id, is := v["from_node"].(string); is && depth == 0 && s.ids[id] != "" {
			v = maps.Clone(v)
			v["from_node"] = s.ids[id]
			return v, nil
		}
		return s.object(v, depth)
	}
	return v, nil
}

func (s *substitution) object(v map[string]any, depth int) (any, error) {
	object := make(map[string]any, len(v))
	if _, callback := v["process_graph"].(map[string]any); callback {
		defer s.hide(slices.Concat(callbackNames, declared(v["parameters"])))()
		depth++
	}
	for name, member := range v {
		var err error
		if object[name], err = s.value(member, depth); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// hide hides parameters until show is called.
func (s *substitution) hide(names []string) (show func()) {
	for _, name := range names {
		s.hidden[name]++
	}
	return func() {
		for _, name := range names {
			s.hidden[name]--
		}
	}
}

// declared returns the names of parameters that a callback declares.
func declared(parameters any) (names []string) {
	list, _ := parameters.([]any)
	for _, p := range list {
		if m, is := p.(map[string]any); is {
			name, _ := m["name"].(string)
			names = append(names, name)
		}
	}
	return names
}

// parameter returns the value of a parameter in place of a reference to it.
func (s *substitution) parameter(reference map[string]any, name string, depth int) (any, error) {
	value, known := s.values[name]
	if !known || s.hidden[name] > 0 {
		return reference, nil
	}
	if depth > 0 && refers(value) {
		return nil, tooComplex("The process %s uses its parameter %s inside of a callback, where a reference to another node has another meaning. "+
			"Write its nodes into your process graph instead.", s.process, name)
	}
	size, measured := s.sizes[name]
	if !measured {
		text, err := dispatch.Encode(value)
		if err != nil {
			return nil, err
		}
		size = len(text)
		s.sizes[name] = size
	}
	if !s.meter.Spend(size) {
		return nil, exceeded(s.meter)
	}
	return value, nil
}

// refers reports whether a value refers to a node or a parameter.
func refers(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, refers)
	case map[string]any:
		if v["from_node"] != nil || v["from_parameter"] != nil {
			return true
		}
		for _, member := range v {
			if refers(member) {
				return true
			}
		}
	}
	return false
}
