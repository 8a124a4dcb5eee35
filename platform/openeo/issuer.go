package openeo

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ProviderIssuer returns the issuer of the provider that the back-end lists under the id. It returns Misconfigured if
// there is none.
func (p *Platform) ProviderIssuer(ctx context.Context, id string) (string, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	providers, err := p.providers.Get(ctx, "", p.fetchProviders)
	if err != nil {
		return "", err
	}
	for _, known := range providers {
		if known.ID == id {
			return known.Issuer, nil
		}
	}
	return "", &dispatch.Error{Kind: dispatch.Misconfigured, Op: "openeo.ProviderIssuer",
		Text: "The platform lists no identity provider with that id."}
}
