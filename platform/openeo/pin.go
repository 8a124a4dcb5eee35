package openeo

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

var _ dispatch.Pinner = (*Platform)(nil)

const opPin = "openeo.Pin"

// Pin pins a request to the document of a service that is defined at a URL: its graph is then sent with each job. A
// back-end that reads definitions itself is sent the graph only if the client asks for that, because it is usually sent
// the URL.
func (p *Platform) Pin(ctx context.Context, _ dispatch.Token, r dispatch.Request, d *dispatch.Dimension,
	document *dispatch.Document) (string, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	where, id := definedAt(r.Service)
	if !isURL(where) {
		return "", dispatch.InvalidBody(opPin,
			"The platform itself keeps the definition of this service, so that the service cannot be pinned. "+
				"Only services whose definition has a URL can be.", "options", "pin")
	}
	if document == nil {
		_, err := p.definition(ctx, where, id)
		if err == nil {
			err = &dispatch.Error{Kind: dispatch.DocumentUnreachable, Op: opPin,
				Text: "The definition to which the service is to be pinned cannot be fetched now."}
		}
		return "", err
	}
	if !r.MustPin() {
		if f, err := p.backendFacts(ctx); err != nil || p.readsDefinitions(f) {
			return "", err
		}
		return document.Hash(), nil
	}
	proc, err := p.definition(ctx, where, id)
	if err != nil {
		return "", err
	}
	return document.Hash(), proc.checkExpanded(opPin, r, d)
}

// processOf returns what is known about the process that a submission runs.
func (p *Platform) processOf(ctx context.Context, bearer dispatch.Secret, s dispatch.Submission) (process, error) {
	if s.Definition == nil {
		return p.process(ctx, bearer, s.Service)
	}
	_, id := definedAt(s.Service)
	return p.documents.Get(ctx, "pinned "+s.Pin+" "+id, func(context.Context, process) (process, error) {
		return defined(s.Definition, id)
	})
}

// refusedPin says of a back-end's refusal that it is about the definition that was sent, if the back-end would have
// read it from its URL.
func (p *Platform) refusedPin(f facts, s dispatch.Submission, err error) error {
	if s.Definition == nil || !p.readsDefinitions(f) || !dispatch.Is(err, dispatch.Invalid) {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: opPin, Err: err,
		Text: "The platform refuses the definition to which the service is pinned, and which was sent with the job. " +
			"Without the option pin it reads the definition itself. It said: " + dispatch.TextFor(err)}
}
