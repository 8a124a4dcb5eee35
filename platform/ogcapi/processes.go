package ogcapi

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

var _ dispatch.ProcessDescriber = (*Platform)(nil)

const opProcesses = "ogcapi.Processes"

// Process implements [dispatch.ProcessDescriber].
func (p *Platform) Process(ctx context.Context, t dispatch.Token, s dispatch.Service) (dispatch.ProcessDescription,
	error) {
	_, d, err := p.describe(ctx, t, s)
	if err != nil {
		return dispatch.ProcessDescription{}, err
	}
	shown := dispatch.ProcessDescription{Document: d.document, Sync: slices.Contains(d.modes, "sync-execute")}
	for _, o := range d.described {
		media := d.outputs[o.id].media
		shown.Outputs = append(shown.Outputs, dispatch.ProcessOutput{Name: o.id, Document: o.value,
			Linkable: len(media) > 0 && isBinary(media[0]) && slices.Contains(d.passing, "reference")})
	}
	return shown, nil
}

// Processes implements [dispatch.ProcessDescriber]. It follows the links to further pages. Like descriptions, a list
// that was read with a token is cached for that token only.
func (p *Platform) Processes(ctx context.Context, t dispatch.Token, s dispatch.Service) ([]json.RawMessage, error) {
	at, err := p.parseOwn(p.endpoint.String())
	if err == nil && s.Namespace != nil && *s.Namespace != "" {
		at.path, err = p.namespace(at, *s.Namespace)
	}
	if err != nil {
		return nil, invalid(err, "namespace")
	}
	first := p.at(p.base(at), "processes") + "?limit=1000"
	return p.listings.Get(ctx, upstream.KeyFor(t.Secret, first),
		func(ctx context.Context, _ []json.RawMessage) ([]json.RawMessage, error) {
			return p.readProcesses(ctx, t, first)
		})
}

func (p *Platform) readProcesses(ctx context.Context, t dispatch.Token, url string) (all []json.RawMessage, err error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	for page, err := range p.pages(ctx, opProcesses, url, t) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.Processes...)
	}
	return all, nil
}

func sizeOf(all []json.RawMessage) (n int) {
	for _, one := range all {
		n += len(one)
	}
	return n
}
