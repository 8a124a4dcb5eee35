package openeo

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// calledProcess is a process as a node of a process graph names it.
type calledProcess struct{ process, namespace string }

// isRemote reports whether the namespace is the URL of the process's definition.
func (p calledProcess) isRemote() bool { return strings.Contains(p.namespace, "://") }

func (p calledProcess) compare(q calledProcess) int {
	return cmp.Or(cmp.Compare(p.namespace, q.namespace), cmp.Compare(p.process, q.process))
}

// graphNode is a node of a process graph, or of one in its arguments.
type graphNode struct {
	calledProcess
	arguments map[string]any
}

// is reports whether a node calls a predefined process.
func (n graphNode) is(process string) bool { return n.process == process && hasPredefined(n.namespace) }

// userNamespace is the namespace that openEO reserves for the processes that a user stored.
const userNamespace = "user"

// hasPredefined reports whether a namespace has the platform's own processes: the reserved one, or none, which also has
// those of the user.
func hasPredefined(namespace string) bool {
	return namespace == "" || namespace == dispatch.BackendNamespace
}

// graphReader reads the nodes of a process graph.
type graphReader struct {
	nodes    []graphNode
	declared []string // parameters of the process
	open     bool     // parameters need not be declared
}

// nodesIn returns the nodes of the graph of a process, and of those in their arguments. It refuses members of wrong
// types and, unless open is set, references to parameters that the process does not have. In a callback a reference may
// be to a parameter of the process that calls it, which is not known.
func nodesIn(process map[string]any, open bool) ([]graphNode, error) {
	graph, ok := process["process_graph"].(map[string]any)
	if !ok {
		return nil, badNode("The process_graph must be an object of nodes.")
	}
	g := &graphReader{declared: declared(process["parameters"]), open: open}
	err := g.read(graph, false)
	return g.nodes, err
}

// decoded returns a process, an object in JSON, as values. Numbers that no float64 holds are refused.
func decoded(process json.RawMessage) (values map[string]any, err error) {
	if json.Unmarshal(process, &values) != nil {
		return nil, badNode("The process has a number that is too large, such as 1e400.")
	}
	return values, nil
}

func badNode(text string) error {
	return refused(http.StatusBadRequest, "ProcessGraphInvalid", text)
}

func (g *graphReader) read(graph map[string]any, callback bool) error {
	for _, id := range slices.Sorted(maps.Keys(graph)) {
		if err := g.node(id, graph[id], callback); err != nil {
			return err
		}
	}
	return nil
}

func (g *graphReader) node(id string, v any, callback bool) error {
	n, isObject := v.(map[string]any)
	process, hasProcess := n["process_id"].(string)
	namespace, hasNamespace := n["namespace"].(string)
	arguments, hasArguments := n["arguments"].(map[string]any)
	_, isFlag := n["result"].(bool)
	switch {
	case !isObject:
		return badNode("The node " + quoted(id) + " of the process graph must be an object.")
	case !hasProcess || process == "":
		return badNode("The node " + quoted(id) + " of the process graph needs the member process_id, a text.")
	case n["namespace"] != nil && !hasNamespace:
		return badNode("The namespace of the node " + quoted(id) + " of the process graph must be a text.")
	case n["arguments"] != nil && !hasArguments:
		return badNode("The arguments of the node " + quoted(id) + " of the process graph must be an object.")
	case n["result"] != nil && !isFlag:
		return badNode("The member result of the node " + quoted(id) + " of the process graph must be true or false.")
	}
	g.nodes = append(g.nodes, graphNode{calledProcess{process, namespace}, arguments})
	return g.value(id, arguments, callback)
}

// value reads an argument of the node with an id.
func (g *graphReader) value(id string, v any, callback bool) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := g.value(id, item, callback); err != nil {
				return err
			}
		}
	case map[string]any:
		return g.object(id, v, callback)
	}
	return nil
}

func (g *graphReader) object(id string, v map[string]any, callback bool) error {
	if name, ok := v["from_parameter"].(string); ok && len(v) == 1 {
		if callback || g.open || slices.Contains(g.declared, name) {
			return nil
		}
		return badNode("The node " + quoted(id) + " of the process graph refers to the parameter " + quoted(name) +
			", which a batch job does not have. Give the value in its place.")
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		var err error
		if graph, ok := v[name].(map[string]any); ok && name == "process_graph" {
			err = g.read(graph, true)
		} else {
			err = g.value(id, v[name], callback)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// objects returns the JSON objects in a value, each before those inside of it.
func objects(v any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) { walk(v, yield) }
}

// walk calls visit for the JSON objects in a value until it returns false, and reports whether it never did.
func walk(v any, visit func(map[string]any) bool) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !walk(item, visit) {
				return false
			}
		}
	case map[string]any:
		if !visit(v) {
			return false
		}
		for _, member := range v {
			if !walk(member, visit) {
				return false
			}
		}
	}
	return true
}
