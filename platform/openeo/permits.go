package openeo

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

const opPermits = "openeo.permits"

var _ dispatch.Permitter = (*Platform)(nil)

// costlyOptions lists the options that need a permission under a shared account.
var costlyOptions = []string{"plan", "budget"}

// Permitted checks the options of a request.
func (p *Platform) Permitted(r dispatch.Request) error {
	return p.Permits.CheckOptions(opPermits, r, func(name string) bool { return slices.Contains(costlyOptions, name) })
}

// storageProcesses matches the processes that access what the account, or the back-end's machine, stores.
var storageProcesses = regexp.MustCompile(
	`^(load_uploaded_files|load_disk_data|load_disk_collection|export_workspace|save_user_.*)$`)

// addressArguments lists the arguments of processes that load either from a public URL or, by an identifier, what the
// account stores.
var addressArguments = map[string][]string{
	"load_result":   {"id"},
	"load_ml_model": {"id", "uri"},
	"load_stac":     {"url"},
	"read_vector":   {"filename"},
}

// openedArguments lists the arguments of processes that may hold data, or a text that the back-end opens: a URL, or a
// path on its machine.
var openedArguments = map[string][]string{
	"load_url":          {"url"},
	"get_geometries":    {"filename", "feature_collection"},
	"vector_buffer":     {"geometry", "geometries"},
	"aggregate_spatial": {"geometries"},
}

// geometryProcesses matches the processes that return geometries, and no text that they were given. Many others do
// that, such as constant, if, add and sleep.
var geometryProcesses = regexp.MustCompile(
	`^(load_.*|get_geometries|(.*_)?vector(_.*)?|run_udf|filter_.*|aggregate_.*|apply(_.*)?|merge_cubes)$`)

// permission checks what one request runs under a shared account.
type permission struct {
	permits dispatch.Permits
	steps   *bounds.Meter
	values  map[string][]placed // of each parameter of the process: several in a task
	scope   scope
	graph   map[string]any // around the node that is being checked
	at      []any          // location, in the request's body, of what is being walked
}

// placed is a value that a parameter may have, and its location in the request's body.
type placed struct {
	value any
	at    []any
}

// permitted checks every node that a request runs, with the parameters substituted, or with each value of a task's
// dimension: the nodes of its process definition, and those in its parameters.
func (p *Platform) permitted(ctx context.Context, proc process, r dispatch.Request, d *dispatch.Dimension) error {
	if p.Permits == nil {
		return nil
	}
	c := &permission{permits: p.Permits, steps: bounds.CheckSteps.Meter(ctx), scope: scope{map[string]int{}},
		at: []any{"service", "application"}}
	graph, err := c.graphOf(proc, r, d)
	if err != nil {
		return err
	}
	if err := c.walk(graph); err != nil {
		return err
	}
	given := c.values
	c.values = nil // substituted values cannot refer to parameters of the process
	for _, all := range given {
		for _, v := range all {
			c.at = v.at
			if err := c.walk(v.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// graphOf returns the graph that a request runs, and records the values of its parameters.
func (c *permission) graphOf(proc process, r dispatch.Request, d *dispatch.Dimension) (any, error) {
	values, err := proc.values(opPermits, r)
	if err != nil {
		return nil, err
	}
	if err := c.recordValues(values, d); err != nil {
		return nil, err
	}
	if proc.document == nil {
		arguments := map[string]any{}
		for name := range c.values {
			arguments[name] = map[string]any{"from_parameter": name}
		}
		return map[string]any{"run": map[string]any{"process_id": proc.id, "arguments": arguments}}, nil
	}
	var graph any
	if err := unmarshal(proc.graph, &graph); err != nil {
		_, id := definedAt(r.Service)
		return nil, badDefinition(id, err)
	}
	return graph, nil
}

func (c *permission) recordValues(values map[string]json.RawMessage, d *dispatch.Dimension) error {
	c.values = map[string][]placed{}
	add := func(name string, raw json.RawMessage, at ...any) error {
		var v any
		if err := unmarshal(raw, &v); err != nil {
			return dispatch.InvalidBody(opPermits, "The value is not valid JSON.", at...)
		}
		c.values[name] = append(c.values[name], placed{v, at})
		return nil
	}
	for name, raw := range values {
		if d.Varies(name) {
			continue
		}
		if err := add(name, raw, "parameters", name); err != nil {
			return err
		}
	}
	for k, one := range d.All() {
		for i, raw := range one.Values {
			if err := add(one.Name, raw, d.Place(k, "values", i)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *permission) walk(v any) (err error) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := c.walk(item); err != nil {
				return err
			}
		}
	case map[string]any:
		if !c.steps.Spend(1) {
			return c.unfinished()
		}
		if _, node := v["process_id"]; node {
			if err := c.checkNode(v); err != nil {
				return err
			}
		}
		around := c.graph
		c.scope.visitMembers(v, func(_ string, member any) {
			if c.graph = v; err == nil {
				err = c.walk(member)
			}
		})
		c.graph = around
	}
	return err
}

func (c *permission) checkNode(n map[string]any) error {
	for _, namespace := range c.possibleValues(n["namespace"]) {
		if text, ok := namespace.value.(string); namespace.value != nil && (!ok || isURL(text)) {
			// the back-end reads a definition there that was not checked
			if err := c.checkPermit("namespace", namespace.at); err != nil {
				return err
			}
		}
	}
	for _, id := range c.possibleValues(n["process_id"]) {
		if err := c.checkProcess(id, n["arguments"]); err != nil {
			return err
		}
	}
	if c.steps.Err() != nil {
		return c.unfinished()
	}
	return nil
}

// unfinished returns the error of a check that exceeded its budget or outlived its request.
func (c *permission) unfinished() error {
	if over, ok := errors.AsType[*bounds.Exceeded](c.steps.Err()); ok {
		return dispatch.InvalidBody(opPermits, "The process graph is too large to check its permissions, which takes "+
			over.Error()+".", c.at...)
	}
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: opPermits,
		Text: "The request ended before its process graph was checked. Repeat it.", Err: c.steps.Err()}
}

func (c *permission) checkProcess(id placed, arguments any) error {
	name, ok := id.value.(string)
	switch {
	case !ok:
		return dispatch.InvalidBody(opPermits, "A process_id in the process graph is not a string.", id.at...)
	case storageProcesses.MatchString(name):
		return c.checkPermit(name, id.at)
	case openedArguments[name] != nil:
		return c.checkOpened(name, arguments)
	case addressArguments[name] == nil:
		return nil
	}
	for _, given := range c.possibleValues(arguments) {
		public, at := c.onlyPublic(given.value, addressArguments[name])
		if public {
			continue
		}
		if at == nil {
			at = given.at
		}
		if err := c.checkPermit(name, at); err != nil {
			return err
		}
	}
	return nil
}

func (c *permission) checkOpened(process string, arguments any) error {
	for _, given := range c.possibleValues(arguments) {
		all, _ := given.value.(map[string]any)
		for _, name := range openedArguments[process] {
			for _, v := range c.possibleValues(all[name]) {
				if !c.opensMore(process, v.value) {
					continue
				}
				if err := c.checkPermit(process, v.at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// opensMore reports whether a value may be a text that is not a public URL. What another node computes is not known
// here, so only nodes that return geometries are permitted. For load_url all are, because published processes compute
// its URL, and back-ends accept no path there.
func (c *permission) opensMore(process string, value any) bool {
	reference, ok := value.(map[string]any)
	if !ok {
		address, ok := value.(string)
		return ok && !isPublic(address)
	}
	if process == "load_url" {
		return false
	}
	for _, member := range []string{"from_parameter", "process_id", "node"} { // of a callback, or evaluated in place
		if _, set := reference[member]; set {
			return true
		}
	}
	from, set := reference["from_node"]
	if !set {
		return false
	}
	name, _ := from.(string)
	node, _ := c.graph[name].(map[string]any)
	return slices.ContainsFunc(c.possibleValues(node["process_id"]), func(id placed) bool {
		name, _ := id.value.(string)
		return !geometryProcesses.MatchString(name)
	})
}

// onlyPublic reports whether the arguments of a process name only public URLs, and at least one of the names is given;
// if not, at returns the offending value's location.
func (c *permission) onlyPublic(arguments any, names []string) (all bool, at []any) {
	given, _ := arguments.(map[string]any)
	for _, name := range names {
		value, set := given[name]
		if !set {
			continue
		}
		all = true
		for _, v := range c.possibleValues(value) {
			if address, ok := v.value.(string); !ok || !isPublic(address) {
				return false, v.at
			}
		}
	}
	return all, nil
}

// isPublic reports whether an address is a URL, and not one of a job's results that only its account may read:
// back-ends take an unsigned URL that ends in /jobs/ID/results for the account's own job, whatever its host. A URL
// that back-ends may read in another way than this check does is not public, either.
func isPublic(address string) bool {
	a, err := dispatch.ParseAddress(address)
	if err != nil {
		return false
	}
	end := a.Path[max(len(a.Path)-3, 0):]
	isJobs := func(segment string) bool { return strings.EqualFold(segment, "jobs") }
	return len(end) == 0 || !strings.EqualFold(end[len(end)-1], "results") || !slices.ContainsFunc(end, isJobs)
}

// possibleValues returns what v may stand for: itself, or the values of the parameter that it refers to. A reference
// that cannot be resolved is returned as it is.
func (c *permission) possibleValues(v any) []placed {
	m, ok := v.(map[string]any)
	if !ok {
		return []placed{{v, c.at}}
	}
	if name, _, seen := c.scope.reference(m); seen && c.values[name] != nil {
		if !c.steps.Spend(4 * len(c.values[name])) { // reading an address takes about four steps
			return nil // walk reports the exceeded budget
		}
		return c.values[name]
	}
	return []placed{{v, c.at}}
}

func (c *permission) checkPermit(what string, at []any) error {
	return c.permits.Check(opPermits, what, at...)
}
