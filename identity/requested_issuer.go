package identity

import (
	"context"
	"errors"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// requestedIssuer is Keycloak's legacy token exchange: Keycloak stores a token of the user's linked account and returns
// it. Keycloak does not check the audience of the user's token, so the broker only sends tokens that it has verified.
type requestedIssuer struct {
	Client exchangeClient
	Alias  string
}

func newRequestedIssuer(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Alias == "" {
		return nil, errors.New("alias is missing")
	}
	return &requestedIssuer{c, p.Exchange.Alias}, nil
}

// requestedIssuerRefusals are the refusals of Keycloak 26.
var requestedIssuerRefusals = refusals{
	{"not_linked", ""}:                   errNotLinked,
	{"token_expired", ""}:                errLinkEnded,
	{"invalid_request", "Invalid token"}: errSubjectEnded,
}

func (r *requestedIssuer) exchange(ctx context.Context, subject dispatch.Secret) (issued, error) {
	address, err := tokenEndpoint(ctx, r.Client.provider)
	if err != nil {
		return issued{}, err
	}
	return r.Client.ask(ctx, address, url.Values{
		"grant_type":         {tokenExchangeGrant},
		"subject_token":      {subject.Reveal()},
		"subject_token_type": {accessTokenType},
		"requested_issuer":   {r.Alias},
	}, requestedIssuerRefusals, subject)
}

func (r *requestedIssuer) check(ctx context.Context) (string, error) { return r.Client.tryOwn(ctx, r) }
