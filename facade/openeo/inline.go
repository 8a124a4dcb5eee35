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
	"github.com/eodispatch/eodispatch/dispatch"
)

// inlined returns a process whose nodes call none of the user's own processes, which a platform cannot read: each such node is replaced
// by the nodes of the process that it calls. A process in which nothing is replaced is returned as it is.
func (f *Facade) inlined(ctx context.Context, u dispatch.UserID, process json.RawMessage) (json.RawMessage, error) {
	if u == "" {
		return process, nil
	}
	if some, err := f.Processes.Processes(ctx, u, "", 1); err != nil || len(some) == 0 {
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
	in := &inliner{meter: budget.GraphBytes.Meter(ctx), known: map[string]*ownProcess{}, find: func(id string) (dispatch.StoredProcess, error) {
		return f.Processes.Process(ctx, u, id)
	}}
	graph, err := in.graph(graph)
	if err != nil || !in.replaced {
		return process, err
	}
	members["process_graph"] = graph
	return dispatch.Encode(members)
}

// decodeNumbers decodes JSON and keeps numbers digit for digit.
func decodeNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// ownProcess is a process of the user.
type ownProcess struct {
	body       []byte
	parameters []parameter
}

type parameter struct {
	Name     string          `json:"name"`
	Optional bool            `json:"optional"`
	Default  json.RawMessage `json:"default"`
}

// inliner replaces the nodes of one process.
type inliner struct {
	find     func(id string) (dispatch.StoredProcess, error) // NotFound if the user has no such process
	known    map[string]*ownProcess                          // nil: the user has none with this id
	inside   []string                                        // processes that are being inlined
	meter    *budget.Meter                                   // counts the bytes of the graph
	replaced bool
}

const (
	nodeBytes = 64   // that a node counts, besides its text
	callBytes = 1024 // that reading a process counts, besides its text
)

func tooComplex(format string, args ...any) error {
	return refused(http.StatusBadRequest, "ProcessGraphComplexity", fmt.Sprintf(format, args...))
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

// called returns the process of the user that a node calls; nil if it calls another one. A node without a namespace calls the user's own
// process, if there is one.
func (in *inliner) called(node map[string]any) (*ownProcess, error) {
	id, _ := node["process_id"].(string)
	if namespace := node["namespace"]; namespace != nil && namespace != "user" || id == "" {
		return nil, nil
	}
	if p, looked := in.known[id]; looked {
		return p, nil
	}
	stored, err := in.find(id)
	if dispatch.Is(err, dispatch.NotFound) {
		in.known[id] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var definition struct {
		Parameters []parameter `json:"parameters"`
	}
	if err := json.Unmarshal(stored.Body, &definition); err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessInvalid", "The parameters of the process "+id+" that you have stored cannot be read.")
	}
	in.known[id] = &ownProcess{stored.Body, definition.Parameters}
	return in.known[id], nil
}

// replace puts the nodes of a process in place of the node that calls it. The result node takes the id of that node, so that what refers to
// it stays as it is.
func (in *inliner) replace(out map[string]any, id string, node map[string]any, p *ownProcess) error {
	name := node["process_id"].(string)
	if slices.Contains(in.inside, name) {
		return tooComplex("The process %s that you have stored calls itself.", name)
	}
	var definition struct {
		Graph map[string]any `json:"process_graph"`
	}
	if !in.meter.Spend(len(p.body) + callBytes) {
		return tooComplex("With the processes that you have stored, the process graph has %v.", in.meter.Err())
	}
	if err := decodeNumbers(p.body, &definition); err != nil {
		return refused(http.StatusBadRequest, "ProcessInvalid", "The process "+name+" that you have stored cannot be read.")
	}
	in.inside = append(in.inside, name)
	inner, err := in.graph(definition.Graph)
	in.inside = in.inside[:len(in.inside)-1]
	if err != nil {
		return err
	}
	result := resultOf(inner)
	if result == "" {
		return refused(http.StatusBadRequest, "ProcessGraphInvalid", "The process "+name+" that you have stored has no result node.")
	}
	if !in.meter.Spend(nodeBytes * len(inner)) { // they are copied once more
		return tooComplex("With the processes that you have stored, the process graph has %v.", in.meter.Err())
	}
	ids := freshIDs(out, id, inner, result)
	values, err := bind(name, p.parameters, node["arguments"])
	if err != nil {
		return err
	}
	s := &substitution{ids: ids, values: values, sizes: map[string]int{}, meter: in.meter, process: name}
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
	hidden  []string // names of the parameters of the callbacks around the value
}

// callbackNames are the parameters that predefined processes pass to a process graph among their arguments
// (https://processes.openeo.org). In such a graph they hide a parameter of the process with the same name.
var callbackNames = []string{"data", "context", "x", "y", "value", "index", "label", "parameters"}

// value copies a value; depth is the number of callbacks around it, whose nodes have ids of their own.
func (s *substitution) value(v any, depth int) (any, error) {
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
		before := len(s.hidden)
		s.hidden = append(append(s.hidden, callbackNames...), declared(v["parameters"])...)
		defer func() { s.hidden = s.hidden[:before] }()
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
	if !known || slices.Contains(s.hidden, name) {
		return reference, nil
	}
	if depth > 0 && refers(value) {
		return nil, tooComplex("The process %s that you have stored uses its parameter %s inside of a callback, where a reference to another node has another meaning. "+
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
		return nil, tooComplex("With the processes that you have stored, the process graph has %v.", s.meter.Err())
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
