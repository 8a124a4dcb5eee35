package openeo

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

var (
	_ dispatch.Describer  = (*Platform)(nil)
	_ dispatch.Checker    = (*Platform)(nil)
	_ dispatch.Documenter = (*Platform)(nil)
)

// Parameters returns the parameters of the process definition. For a process at a URL the back-end is not contacted.
func (p *Platform) Parameters(ctx context.Context, t dispatch.Token, s dispatch.Service) ([]dispatch.Parameter, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	proc, err := p.describedProcess(ctx, t, s)
	if err == nil && proc.set == nil {
		unknown := dispatch.InvalidBody("openeo.Parameters", "The platform does not describe this process.", "service",
			"application")
		unknown.Kind, err = dispatch.NotFound, unknown
	}
	return proc.parameters, err
}

// Check validates a request: its permissions under a shared account and, unless the client opted out, the schemas of
// the process definition, if there is one.
func (p *Platform) Check(ctx context.Context, t dispatch.Token, r dispatch.Request,
	d *dispatch.Dimension) (warning string, err error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	// Submit needs them, and the facts, unless the process saves its results itself
	p.formats.Want(ctx, "", p.fetchFormats)
	proc, err := p.describedProcess(ctx, t, r.Service)
	if err != nil {
		return "", err
	}
	if err := p.permitted(ctx, proc, r, d); err != nil {
		return "", err
	}
	warning = proc.unusedFormat(r.Format)
	if proc.set != nil && r.Checked() {
		if err := proc.set.Check(ctx, r, d); err != nil {
			return "", err
		}
		if err := p.checkGraphSize(ctx, proc, r, d); err != nil {
			return "", err
		}
		for _, more := range []string{proc.set.Unchecked(r, d), proc.set.Instants(r, d)} {
			warning = strings.TrimSpace(warning + " " + more)
		}
	}
	return warning, p.checkFormat(ctx, proc, r) // last, because it may wait for the back-end until ctx ends
}

// checkFormat refuses an output format that the back-end does not offer. A back-end that does not return its formats
// now is asked again when the job is submitted.
func (p *Platform) checkFormat(ctx context.Context, proc process, r dispatch.Request) error {
	if proc.saves || r.Format == "" {
		return nil
	}
	if _, err := p.format(ctx, r.Format); dispatch.Is(err, dispatch.Invalid) {
		return err
	}
	return nil
}

// checkGraphSize checks the size of a request's process graph if its parameters are substituted here, see order.
func (p *Platform) checkGraphSize(ctx context.Context, proc process, r dispatch.Request, d *dispatch.Dimension) error {
	if proc.document == nil {
		return nil
	}
	large := proc.checkExpanded("openeo.Check", r, d)
	if large == nil {
		return nil
	}
	f, err := p.backendFacts(ctx)
	if err != nil || p.readsDefinitions(f) {
		return err
	}
	return large
}

// values returns the values of the parameters of a request, also those that are defaults.
func (proc process) values(op string, r dispatch.Request) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for _, prm := range proc.parameters {
		if prm.Default != nil {
			values[prm.Name] = prm.Default
		}
	}
	if err := json.Unmarshal(r.Parameters, &values); err != nil {
		return nil, dispatch.InvalidBody(op, "The parameters must be a JSON object.", "parameters")
	}
	return values, nil
}

// checkExpanded checks the size of a request's process graph with its parameters substituted.
func (proc process) checkExpanded(op string, r dispatch.Request, d *dispatch.Dimension) error {
	values, err := proc.values(op, r)
	if err != nil {
		return err
	}
	return checkExpandedSize(len(proc.graph), proc.references, values, d)
}

// setGraph records the process graph and where its parameters are substituted.
func (proc *process) setGraph(graph json.RawMessage) {
	var v any
	if unmarshal(graph, &v) == nil {
		proc.graph, proc.references = graph, references(v)
	}
}

func (p *Platform) describedProcess(ctx context.Context, t dispatch.Token, s dispatch.Service) (process, error) {
	if where, id := definedAt(s); isURL(where) {
		return p.definition(ctx, where, id)
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return process{}, err
	}
	proc, err := p.stored(ctx, bearer, s)
	if err != nil || proc.set != nil || s.NamespaceAt(dispatch.OpenEO) != "" {
		return proc, err
	}
	return p.predefined(ctx, s.Application)
}

// predefined looks up a process in the back-end's public list.
func (p *Platform) predefined(ctx context.Context, id string) (process, error) {
	return p.processes.Get(ctx, "predefined "+id, func(ctx context.Context, _ process) (process, error) {
		all, err := p.predefinedList.Get(ctx, "", p.fetchProcesses)
		if d, ok := all[id]; ok {
			return d.process(), nil
		}
		return process{id: id}, err
	})
}

const maxProcesses = 10_000 // of one back-end

// fetchProcesses reads the public list of processes, once for all lookups. A back-end that refuses to list them
// describes none.
func (p *Platform) fetchProcesses(ctx context.Context, _ map[string]definition) (map[string]definition, error) {
	var list struct {
		Processes []json.RawMessage `json:"processes"`
	}
	a, err := p.get(ctx, "openeo.processes", "/processes", "", &list)
	if refusesDocument(a, err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]definition{}
	for _, raw := range list.Processes[:min(len(list.Processes), maxProcesses)] {
		var d definition
		if json.Unmarshal(raw, &d) != nil {
			continue // a process that cannot be read must not affect the others
		}
		d.Graph = nil // some entries have one, which is not used
		all[d.ID] = d
	}
	return all, nil
}

// refusesDocument reports whether the back-end responded that it does not give one document. That is no failure of the
// back-end, and nothing is wrong with the token.
func refusesDocument(a *upstream.Answer, err error) bool {
	refused := []dispatch.Kind{dispatch.Invalid, dispatch.NotFound, dispatch.Conflict, dispatch.Unsupported}
	return a != nil && err != nil && (absent(a) || slices.Contains(refused, dispatch.KindOf(err)))
}

// Document returns the definition of a process at a URL, in the state that Submit uses.
func (p *Platform) Document(ctx context.Context, s dispatch.Service) ([]byte, error) {
	where, id := definedAt(s)
	if !isURL(where) {
		return nil, nil
	}
	proc, err := p.definition(ctx, where, id)
	return proc.document, err
}
