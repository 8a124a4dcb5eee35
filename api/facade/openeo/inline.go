package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// inlined returns a process whose nodes call only what the platform can read. A node that calls a process of the user,
// a service of the catalogue, or a definition by its URL at a platform that reads none, is replaced by the nodes of
// that process; if the platform keeps the service itself, the node calls it by its name there. A process in which
// nothing is replaced is returned as it is. options are the job options that the replaced processes propose in a member
// of their definitions; nil: none.
func (f *Facade) inlined(r *request, b *dispatch.Backend, process json.RawMessage, member string) (_ json.RawMessage,
	options map[string]json.RawMessage, err error) {
	ctx, u := r.Context(), r.user
	own, err := f.hasProcesses(ctx, u)
	if err != nil || !own && !mayCallServices(process) && !mayCallURLs(process) {
		return process, nil, err
	}
	var members map[string]any
	if err := decodeNumbers(process, &members); err != nil {
		return process, nil, nil // the platform says what is wrong
	}
	graph, ok := members["process_graph"].(map[string]any)
	if !ok {
		return process, nil, nil
	}
	in := &inliner{member: member, meter: bounds.GraphBytes.Meter(ctx), known: map[string]*ownProcess{},
		find: func(id string) ([]byte, error) {
			p, err := f.Processes.Process(ctx, u, id)
			return p.Body, err
		}, serve: func(id string) (catalogue.Service, []byte, error) { return f.definitionOf(ctx, u, b, id) }}
	if mayCallURLs(process) && !f.readsDefinitions(r, b) {
		in.fetch = func(p calledProcess) ([]byte, error) { return f.definitionAt(ctx, u, b, p) }
	}
	graph, err = in.graph(graph)
	if err != nil || !in.replaced {
		return process, nil, err
	}
	members["process_graph"] = graph
	process, err = dispatch.Encode(members)
	return process, in.options, err
}

// mayCallURLs reports whether the text of a process can contain a call of a definition by its URL.
func mayCallURLs(process json.RawMessage) bool { return bytes.Contains(process, []byte("://")) }

// readsDefinitions reports whether a platform reads the definitions of processes at URLs. Under an account that users
// share the broker sends what it has checked.
func (f *Facade) readsDefinitions(r *request, b *dispatch.Backend) bool {
	var d described
	if b.Access == dispatch.AccessShared {
		return false
	}
	root, err := f.read(r, b, "/")
	return err == nil && json.Unmarshal(root.At(""), &d) == nil &&
		slices.ContainsFunc(d.Classes, passedClasses.MatchString)
}

// definitionAt returns the process that a node calls by the URL of its definition.
func (f *Facade) definitionAt(ctx context.Context, u dispatch.UserID, b *dispatch.Backend, p calledProcess) ([]byte,
	error) {
	s := dispatch.Service{Endpoint: b.Endpoint, Namespace: &p.namespace, Application: p.process}
	document, err := f.Broker.Definition(ctx, u, s, b.Label)
	if err != nil {
		return nil, graphError(err)
	}
	return processIn(document, p.process)
}

// hasProcesses reports whether a user has stored processes.
func (f *Facade) hasProcesses(ctx context.Context, u dispatch.UserID) (bool, error) {
	if u == "" {
		return false, nil
	}
	first, err := f.Processes.Processes(ctx, u, "", 1)
	return len(first) > 0, err
}

// definitionOf returns a service of the catalogue at a platform and the process that defines it; nil if the platform
// keeps the service itself. NotFound if there is no such service there.
func (f *Facade) definitionOf(ctx context.Context, u dispatch.UserID, b *dispatch.Backend,
	id string) (catalogue.Service, []byte, error) {
	s, known := f.Services.Find(id)
	if !known || s.Platform != b.Name || s.Label != dispatch.OpenEO {
		return s, nil, &dispatch.Error{Kind: dispatch.NotFound, Op: "openeo.definitionOf"}
	}
	document, err := f.Broker.Definition(ctx, u, s.Service, s.Label)
	if err != nil || document == nil {
		return s, nil, graphError(err)
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

// ownProcess is a process of the user, or one that is defined elsewhere.
type ownProcess struct {
	calledProcess
	body       []byte
	parameters []parameter
	options    map[string]json.RawMessage // of jobs, as it proposes them
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
	fetch    func(calledProcess) ([]byte, error)                // a definition by its URL; nil: the platform reads it
	known    map[string]*ownProcess                             // by namespace and id; nil: there is none
	inside   []calledProcess                                    // processes that are being inlined
	meter    *bounds.Meter                                      // counts the bytes of the graph
	member   string                                             // of definitions, which proposes job options
	options  map[string]json.RawMessage                         // of the job, as the processes propose them
	fetches  int
	replaced bool
}

const (
	nodeBytes = 64 // that a node counts, besides its text
	// that any value counts each time it is copied: about what it takes in memory besides its text
	valueBytes = 32
	callBytes  = 1024     // that reading a process counts, besides its text
	findBytes  = 16 << 10 // that looking for a process counts, which may be a query
)

func tooComplex(format string, args ...any) error {
	return refused(http.StatusBadRequest, "ProcessGraphComplexity", fmt.Sprintf(format, args...))
}

func (in *inliner) exceeded() error { return exceeded(in.meter) }

// exceeded returns the error of a graph that costs too much.
func exceeded(m *bounds.Meter) error {
	return tooComplex("With the processes that it calls, the process graph has %v.", m.Err())
}

// graph returns a process graph with its nodes replaced, and those of the graphs in their arguments.
func (in *inliner) graph(graph map[string]any) (map[string]any, error) {
	out := maps.Clone(graph)
	for _, id := range slices.Sorted(maps.Keys(graph)) {
		node, ok := graph[id].(map[string]any)
		if !ok {
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
		for _, name := range slices.Sorted(maps.Keys(object)) {
			var err error
			member := object[name]
			if nested, ok := member.(map[string]any); ok && name == "process_graph" {
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

// called returns the process that is to replace a node; nil: none. A node without a namespace calls the user's own
// process, if there is one. A node that calls a service which its platform keeps is changed to the name there.
func (in *inliner) called(node map[string]any) (*ownProcess, error) {
	p, find := in.finder(node)
	if find == nil {
		return nil, nil
	}
	key := p.namespace + " " + p.process
	if known, looked := in.known[key]; looked && (known != nil || p.namespace != servicesNamespace) {
		return known, nil
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
	var members map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &definition), json.Unmarshal(body, &members)); err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessInvalid", "The parameters of the process "+p.process+
			" cannot be read.")
	}
	known := &ownProcess{calledProcess: p, body: body, parameters: definition.Parameters}
	// a fault of the definition, which only proposes these options
	_ = json.Unmarshal(members[in.member], &known.options)
	in.known[key] = known
	return known, nil
}

// finder returns the process that a node calls, and what reads it; nil: it is the platform's. The definition of a
// service does not know the user's processes.
func (in *inliner) finder(node map[string]any) (p calledProcess, find func() ([]byte, error)) {
	p.process, _ = node["process_id"].(string)
	p.namespace, _ = node["namespace"].(string)
	foreign := slices.ContainsFunc(in.inside, func(outer calledProcess) bool {
		return outer.namespace != userNamespace
	})
	switch {
	case p.process == "":
	case p.isRemote() && in.fetch != nil:
		return p, func() ([]byte, error) { return in.fetched(p) }
	case foreign:
	case p.namespace == servicesNamespace:
		return p, func() ([]byte, error) { return in.definition(node, p.process) }
	case p.namespace == userNamespace, p.namespace == "":
		p.namespace = userNamespace
		return p, func() ([]byte, error) { return in.find(p.process) }
	}
	return p, nil
}

// fetched returns the process at a URL.
func (in *inliner) fetched(p calledProcess) ([]byte, error) {
	if in.fetches++; in.fetches > mostNamespaces {
		return nil, tooComplex("The process graph calls more than %d processes by the URLs of their definitions.",
			mostNamespaces)
	}
	return in.fetch(p)
}

// definition returns the process that defines a service. If its platform keeps the service, there is none, and the node
// gets its name there.
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

// replace puts the nodes of a process in place of the node that calls it. The result node takes the id of that node, so
// that what refers to it stays as it is.
func (in *inliner) replace(out map[string]any, id string, node map[string]any, p *ownProcess) error {
	name := p.process
	if slices.Contains(in.inside, p.calledProcess) {
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
	in.propose(p.options)
	inner, err := in.inner(p, definition.Graph)
	if err != nil {
		return err
	}
	result, err := resultOf(name, inner)
	if err != nil {
		return err
	}
	if !in.meter.Spend(nodeBytes * len(inner)) { // they are copied once more
		return in.exceeded()
	}
	ids := freshIDs(out, id, inner, result)
	values, err := bind(name, p.parameters, node["arguments"])
	if err != nil {
		return err
	}
	s := &substitution{ids: ids, values: values, sizes: map[string]int{}, hidden: map[string]int{}, meter: in.meter,
		process: name}
	for _, own := range slices.Sorted(maps.Keys(inner)) {
		fresh, err := s.value(inner[own], 0)
		if err != nil {
			return err
		}
		if m, ok := fresh.(map[string]any); ok {
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

// propose adds the job options of a process. Those of a process that was replaced before count first.
func (in *inliner) propose(options map[string]json.RawMessage) {
	if in.options == nil {
		in.options = map[string]json.RawMessage{}
	}
	for name, value := range options {
		if _, proposed := in.options[name]; !proposed {
			in.options[name] = value
		}
	}
}

// inner returns the graph of a process with its own nodes replaced.
func (in *inliner) inner(p *ownProcess, graph map[string]any) (map[string]any, error) {
	in.inside = append(in.inside, p.calledProcess)
	defer func() { in.inside = in.inside[:len(in.inside)-1] }()
	return in.graph(graph)
}

// resultOf returns the id of the result node of a process: the one that is marked, or the only one.
func resultOf(process string, graph map[string]any) (string, error) {
	var results []string
	for id, n := range graph {
		node, ok := n.(map[string]any)
		if ok && (node["result"] == true || len(graph) == 1) {
			results = append(results, id)
		}
	}
	if len(results) != 1 {
		return "", badNode(fmt.Sprintf("The process %s has %d result nodes, and needs one.", process, len(results)))
	}
	return results[0], nil
}

// freshIDs gives the nodes of an inlined graph ids that are not in use: the result node that of the node which it
// replaces.
func freshIDs(out map[string]any, id string, inner map[string]any, result string) map[string]string {
	ids, taken := map[string]string{result: id}, map[string]bool{}
	for _, own := range slices.Sorted(maps.Keys(inner)) {
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

// bind returns the value of each parameter of a process: the argument, or the default, which is null for an optional
// parameter without one.
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
			return nil, refused(http.StatusBadRequest, "ProcessParameterRequired",
				fmt.Sprintf("The process %s requires the parameter %s.", process, p.Name))
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
	meter   *bounds.Meter
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
		if name, ok := v["from_parameter"].(string); ok {
			return s.parameter(v, name, depth)
		}
		if id, ok := v["from_node"].(string); ok && depth == 0 && s.ids[id] != "" {
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
		if m, ok := p.(map[string]any); ok {
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
		return nil, tooComplex(
			"The process %s uses its parameter %s inside of a callback, where a reference to another node has "+
				"another meaning. Write its nodes into your process graph instead.", s.process, name)
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
	for o := range objects(v) {
		if o["from_node"] != nil || o["from_parameter"] != nil {
			return true
		}
	}
	return false
}
