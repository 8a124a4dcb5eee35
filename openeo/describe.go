package openeo

import (
	"context"
	"net/http"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

var (
	_ dispatch.Describer  = (*Platform)(nil)
	_ dispatch.Checker    = (*Platform)(nil)
	_ dispatch.Documenter = (*Platform)(nil)
)

// Parameters are those of the process's definition, which for a process at a URL the back-end is not needed for.
func (p *Platform) Parameters(ctx context.Context, t dispatch.Token, s dispatch.Service) ([]dispatch.Parameter, error) {
	proc, err := p.described(ctx, t, s)
	if err == nil && proc.set == nil {
		err = &dispatch.Error{Kind: dispatch.NotFound, Op: "openeo.Parameters", Text: "The platform does not describe this process."}
	}
	return proc.parameters, err
}

// Check checks a request against the schemas of the process's definition, where it has one.
func (p *Platform) Check(ctx context.Context, t dispatch.Token, r dispatch.Request, d *dispatch.Dimension) error {
	proc, err := p.described(ctx, t, r.Service)
	if err != nil || proc.set == nil {
		return err
	}
	return proc.set.Check(r, d)
}

func (p *Platform) described(ctx context.Context, t dispatch.Token, s dispatch.Service) (process, error) {
	if where, id := definedAt(s); isURL(where) {
		return p.defined(ctx, where, id)
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return process{}, err
	}
	proc, err := p.stored(ctx, bearer, s)
	if err != nil || proc.set != nil || namespaceOf(s) != "" {
		return proc, err
	}
	return p.predefined(ctx, s.Application)
}

// predefined looks for a process among those that the back-end shows to everybody.
func (p *Platform) predefined(ctx context.Context, id string) (process, error) {
	all, err := p.known(ctx)
	if err != nil {
		return process{}, err
	}
	return p.processes.get(ctx, "predefined "+id, func(ctx context.Context, _ process) (process, error) {
		var list struct {
			Processes []definition `json:"processes"`
		}
		a, err := p.client.Do(ctx, p.request("openeo.processes", http.MethodGet, all.url+"/processes", "", nil))
		if err != nil {
			return process{}, refine(a, err)
		}
		if err := upstream.JSON(a, "openeo.processes", &list); err != nil {
			return process{}, err
		}
		for _, d := range list.Processes {
			if d.ID == id {
				return d.process(), nil
			}
		}
		return process{id: id}, nil
	})
}

// Document gives the definition of a process at a URL, as submitting has it.
func (p *Platform) Document(ctx context.Context, s dispatch.Service) ([]byte, error) {
	where, id := definedAt(s)
	if !isURL(where) {
		return nil, nil
	}
	proc, err := p.defined(ctx, where, id)
	return proc.document, err
}
