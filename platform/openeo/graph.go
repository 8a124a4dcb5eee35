package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// order is the body of POST /jobs and POST /result.
type order struct {
	process json.RawMessage // the whole process, if the request brought it; then graph and options are not set
	graph   map[string]any
	options json.RawMessage // job options of the definition, if the back-end does not read the definition itself
	// the same for synchronous runs
	runOptions json.RawMessage
	defined    string // see dispatch.Versions.Definition
}

// order builds the process graph for a request: a node that calls the process with the parameters as its arguments,
// followed by a save_result unless the process ends in one itself.
//
// A definition by URL is passed on as the node's namespace if the back-end has the conformance class for remote process
// definitions. Any other back-end would not find the process: there the graph of the definition is sent, with the
// arguments substituted for its parameters. The same is done under a shared account, so that what was checked is what
// runs, and with a definition to which the request is pinned.
func (p *Platform) order(ctx context.Context, f facts, bearer dispatch.Secret, s dispatch.Submission) (order, error) {
	r := s.Request
	if r.Process != nil {
		return p.inlineOrder(ctx, r)
	}
	where, id := definedAt(r.Service)
	proc, err := p.processOf(ctx, bearer, s)
	if err != nil {
		return order{}, err
	}
	if err := p.Permitted(r); err != nil {
		return order{}, err
	}
	if err := p.permitted(ctx, proc, r, nil); err != nil {
		return order{}, err
	}
	arguments := r.Parameters
	if proc.set != nil {
		if arguments, err = proc.set.Shape(ctx, r); err != nil {
			return order{}, err
		}
	}
	o := order{graph: map[string]any{"run": call(proc.id, where, arguments)}}
	last := "run"
	if proc.document != nil && (s.Definition != nil || !p.readsDefinitions(f)) {
		if o, last, err = inline(proc.document, id, arguments); err != nil {
			return order{}, err
		}
	}
	o.defined = proc.hash
	if proc.saves {
		return o, nil
	}
	format, err := p.format(ctx, r.Format)
	if err != nil {
		return order{}, err
	}
	o.appendSave(last, format)
	return o, nil
}

// readsDefinitions reports whether the back-end reads definitions by URL itself.
func (p *Platform) readsDefinitions(f facts) bool { return f.remote && p.Permits == nil }

// definedAt returns where a service's process is defined: at the URL where, where it must have the given id unless id
// is "", or under a namespace of the back-end.
func definedAt(s dispatch.Service) (where, id string) {
	switch namespace := namespaceOf(s); {
	case isURL(s.Application):
		return s.Application, ""
	case isURL(namespace):
		return namespace, s.Application
	default:
		return namespace, ""
	}
}

// process returns what is known about the process that a service names.
func (p *Platform) process(ctx context.Context, bearer dispatch.Secret, s dispatch.Service) (process, error) {
	if where, id := definedAt(s); isURL(where) {
		return p.definition(ctx, where, id)
	}
	return p.stored(ctx, bearer, s)
}

func call(id, namespace string, arguments json.RawMessage) map[string]any {
	n := map[string]any{"process_id": id, "arguments": arguments, "result": true}
	if namespace != "" {
		n["namespace"] = namespace
	}
	return n
}

// appendSave appends a save_result after the node last.
func (o order) appendSave(last, format string) {
	switch n := o.graph[last].(type) {
	case map[string]any:
		delete(n, "result")
	}
	id := "save"
	for i := 1; o.graph[id] != nil; i++ {
		id = fmt.Sprintf("save%d", i)
	}
	o.graph[id] = map[string]any{
		"process_id": "save_result", "result": true,
		"arguments": map[string]any{"data": map[string]string{"from_node": last}, "format": format},
	}
}

// inline returns the graph of a definition with arguments substituted for its parameters, and the id of its result
// node.
func inline(data []byte, id string, arguments json.RawMessage) (order, string, error) {
	d, err := parseDefinition(data, id)
	if err != nil {
		return order{}, "", badDefinition(id, err)
	}
	values, err := bind(d.Parameters, arguments)
	if err != nil {
		return order{}, "", err
	}
	var graph map[string]any
	if err := unmarshal(d.Graph, &graph); err != nil {
		return order{}, "", badDefinition(id, err)
	}
	if err := checkExpandedSize(len(d.Graph), references(graph), values, nil); err != nil {
		return order{}, "", err
	}
	_, last, _ := parseGraph(d.Graph)
	return order{graph: substitute(graph, values).(map[string]any), options: d.Options,
		runOptions: d.RunOptions}, last, nil
}

// bind returns the value of each parameter: the argument, or the default, which is null for an optional parameter
// without one.
func bind(parameters []parameter, arguments json.RawMessage) (map[string]json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		return nil, dispatch.InvalidBody("openeo.bind", "The parameters must be a JSON object.", "parameters")
	}
	e := &dispatch.Error{Kind: dispatch.Invalid, Op: "openeo.bind", Text: "A parameter is missing."}
	values := map[string]json.RawMessage{}
	for _, prm := range parameters {
		value, ok := given[prm.Name]
		switch {
		case ok:
		case prm.Default != nil:
			value = prm.Default
		case prm.Optional:
			value = json.RawMessage("null")
		default:
			e.Faults = append(e.Faults, dispatch.Fault{Loc: []any{"body", "parameters", prm.Name},
				Msg: "The process requires this parameter.", Type: "missing"})
		}
		values[prm.Name] = value
	}
	if len(e.Faults) > 0 {
		return nil, e
	}
	return values, nil
}

// callbackNames lists the parameters that the standard processes pass to a process graph among their arguments
// (https://processes.openeo.org). Inside such a graph they hide a parameter of the process with the same name.
var callbackNames = []string{"data", "context", "x", "y", "value", "index", "label", "parameters"}

// scope tracks which parameters are visible during the walk through a process graph.
type scope struct{ hidden map[string]int } // how many of the enclosing callbacks hide a name

// visitMembers calls visit for each member of a node. In the members of a callback, its own parameter names are hidden.
func (s *scope) visitMembers(v map[string]any, visit func(name string, member any)) {
	if _, callback := v["process_graph"].(map[string]any); callback {
		own := ownNames(v["parameters"])
		s.hide(own, 1)
		defer s.hide(own, -1)
	}
	for name, member := range v {
		visit(name, member)
	}
}

func (s *scope) hide(names []string, n int) {
	for _, name := range names {
		s.hidden[name] += n
	}
}

// reference reports whether an object refers to a parameter, and whether that parameter is visible.
func (s *scope) reference(v map[string]any) (name string, ok, seen bool) {
	name, ok = v["from_parameter"].(string)
	return name, ok, ok && s.hidden[name] == 0
}

// ownNames returns the names that a callback hides, by convention or because its parameters declare them.
func ownNames(parameters any) []string {
	own := slices.Clone(callbackNames)
	list, _ := parameters.([]any)
	for _, prm := range list {
		if m, ok := prm.(map[string]any); ok {
			name, _ := m["name"].(string)
			own = append(own, name)
		}
	}
	return own
}

// references counts in how many places of a process graph each parameter is substituted.
func references(graph any) map[string]int64 {
	counts := map[string]int64{}
	(&scope{map[string]int{}}).replace(graph, func(name string, reference any) any {
		counts[name]++
		return reference
	})
	return counts
}

// substitute returns v with values in place of {"from_parameter": name}, at any depth. Parameters that are hidden or
// have no value stay.
func substitute(v any, values map[string]json.RawMessage) any {
	return (&scope{map[string]int{}}).replace(v, func(name string, reference any) any {
		if value, ok := values[name]; ok {
			return value
		}
		return reference
	})
}

// replace calls by for each reference to a visible parameter, and puts what it returns in the place of the reference.
func (s *scope) replace(v any, by func(name string, reference any) any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = s.replace(v[i], by)
		}
	case map[string]any:
		if name, ok, seen := s.reference(v); seen {
			return by(name, v)
		} else if ok {
			return v
		}
		s.visitMembers(v, func(name string, member any) { v[name] = s.replace(member, by) })
	}
	return v
}

// checkExpandedSize checks the size of a process graph with the values substituted, before it is built. d is the
// dimension of a task, whose largest value counts, with those beside it, or nil.
func checkExpandedSize(size int, counts map[string]int64, values map[string]json.RawMessage,
	d *dispatch.Dimension) error {
	total := int64(size)
	for name, n := range counts {
		total += n * int64(len(values[name]))
	}
	for _, one := range d.All() {
		most := 0
		for _, value := range one.Values {
			most = max(most, len(value))
		}
		total += counts[one.Name] * int64(most)
	}
	if err := bounds.GraphBytes.Check(total); err != nil {
		return dispatch.InvalidBody("openeo.expand",
			fmt.Sprintf("The process graph would have %v after the values of the parameters are substituted. "+
				"Send smaller values.", err), "parameters")
	}
	return nil
}

// topLevel lists the members of POST /jobs and POST /result that options may set besides the job options.
var topLevel = []string{"description", "plan", "budget", "log_level"}

// body returns the JSON of an order. Options go into job_options, as existing back-ends and clients expect, except for
// those that the specification defines. Those of a request that brought its own process are the further members of the
// job. title "" is omitted.
func (o order) body(title string, options json.RawMessage) ([]byte, error) {
	var proposed, given map[string]json.RawMessage
	if o.options != nil && json.Unmarshal(o.options, &proposed) != nil {
		proposed = nil // a fault of the definition, which only proposes these options
	}
	if options != nil && json.Unmarshal(options, &given) != nil {
		return nil, dispatch.InvalidBody("openeo.order", "The options must be a JSON object.", "options")
	}
	b, job := map[string]any{}, map[string]json.RawMessage{}
	maps.Copy(job, proposed)
	for name, value := range given {
		if o.process != nil || slices.Contains(topLevel, name) {
			b[name] = value
		} else {
			job[name] = value
		}
	}
	if len(job) > 0 {
		b["job_options"] = job
	}
	if b["process"] = map[string]any{"process_graph": o.graph}; o.process != nil {
		b["process"] = o.process
	}
	if delete(b, "title"); title != "" {
		b["title"] = title
	}
	return marshal(b)
}

// marshal is [dispatch.Encode] with an error for the client.
func marshal(v any) ([]byte, error) {
	text, err := dispatch.Encode(v)
	if err != nil {
		return nil, dispatch.InvalidBody("openeo.order",
			"The parameters are not valid JSON. "+upstream.Text(err.Error()), "parameters")
	}
	return text, nil
}

// unmarshal keeps numbers digit for digit.
func unmarshal(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return errors.New("it is not valid JSON")
	}
	return nil
}
