package openeo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const opGraph = "openeo.CheckGraph"

// CheckGraph checks a request that brings its own process: that its process graph can be run at all, that the values of
// a task's dimension fit in it, and its permissions under a shared account. Only the back-end knows whether it has the
// processes.
func (p *Platform) CheckGraph(ctx context.Context, r dispatch.Request, d *dispatch.Dimension) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	graph, err := graphOf(r.Process)
	if err != nil {
		return err
	}
	if err := wellFormed(graph); err != nil {
		return badGraph(err.Error() + ".")
	}
	proc := process{document: r.Process}
	proc.setGraph(graph)
	if err := p.permitted(ctx, proc, r, d); err != nil {
		return err
	}
	return proc.checkExpanded(opGraph, r, d)
}

// graphOf returns the process graph of a process that was sent with a request.
func graphOf(sent json.RawMessage) (json.RawMessage, error) {
	var d struct {
		Graph json.RawMessage `json:"process_graph"`
	}
	if json.Unmarshal(sent, &d) != nil || len(d.Graph) == 0 || string(d.Graph) == "null" {
		return nil, badGraph("The process has no process_graph.")
	}
	return d.Graph, nil
}

func badGraph(text string) error {
	e := dispatch.InvalidBody(opGraph, text, "process", "process_graph")
	e.Kind = dispatch.DocumentInvalid
	return e
}

// wellFormed reports why a process graph cannot be run whatever processes a back-end has: a node without a process, no
// result node or several, references to nodes that do not exist, or a cycle. Graphs in the arguments of nodes are left
// to the back-end.
func wellFormed(data json.RawMessage) error {
	graph, _, err := parseGraph(data)
	if err != nil {
		return err
	}
	needs := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(graph)) {
		var arguments any
		_ = json.Unmarshal(graph[id]["arguments"], &arguments)
		needs[id] = slices.Sorted(slices.Values(sources(arguments)))
		for _, other := range needs[id] {
			if graph[other] == nil {
				return fmt.Errorf("node %s of the process graph refers to node %s, which does not exist",
					upstream.Text(id), upstream.Text(other))
			}
		}
	}
	return acyclic(needs)
}

// sources returns the nodes that arguments refer to, without those in callbacks, which have nodes of their own.
func sources(v any) (ids []string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			ids = append(ids, sources(item)...)
		}
	case map[string]any:
		if id, ok := v["from_node"].(string); ok {
			return []string{id}
		}
		for name, member := range v {
			if name != "process_graph" {
				ids = append(ids, sources(member)...)
			}
		}
	}
	return ids
}

// acyclic reports a cycle among nodes and the nodes that they need. It removes nodes that need none until none is left.
func acyclic(needs map[string][]string) error {
	users, open := map[string][]string{}, map[string]int{}
	var ready []string
	for id, others := range needs {
		if open[id] = len(others); len(others) == 0 {
			ready = append(ready, id)
		}
		for _, other := range others {
			users[other] = append(users[other], id)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		id := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, user := range users[id] {
			if open[user]--; open[user] == 0 {
				ready = append(ready, user)
			}
		}
	}
	if done < len(needs) {
		return fmt.Errorf("the nodes of the process graph refer to each other in a cycle")
	}
	return nil
}

// inlineOrder returns the order for a request that brings its own process. The process stays as it is, byte for byte,
// unless the request has values for parameters of its graph.
func (p *Platform) inlineOrder(ctx context.Context, r dispatch.Request) (order, error) {
	if err := p.Permitted(r); err != nil {
		return order{}, err
	}
	if err := p.CheckGraph(ctx, r, nil); err != nil {
		return order{}, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(r.Parameters, &values); err != nil || len(values) == 0 {
		return order{process: r.Process}, nil
	}
	var sent map[string]any
	if err := unmarshal(r.Process, &sent); err != nil {
		return order{}, badGraph("The process is no JSON object.")
	}
	sent["process_graph"] = substitute(sent["process_graph"], values)
	process, err := marshal(sent)
	return order{process: process}, err
}
