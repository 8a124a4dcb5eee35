package identity

import (
	"context"
	"errors"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// tokenExchange asks the broker's own provider for a token with another audience (RFC 8693), for platforms that accept
// that provider's tokens.
type tokenExchange struct {
	Client   exchangeClient
	Audience string
}

func newTokenExchange(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Audience == "" {
		return nil, errors.New("audience is missing")
	}
	return &tokenExchange{c, p.Exchange.Audience}, nil
}

// tokenExchangeRefusals are the refusals of Keycloak 26, and of providers that treat the subject's token as a grant.
var tokenExchangeRefusals = refusals{
	{"invalid_request", "Invalid token"}: errSubjectEnded,
	{"invalid_grant", ""}:                errSubjectEnded,
}

func (t *tokenExchange) exchange(ctx context.Context, subject dispatch.Secret) (issued, error) {
	address, err := tokenEndpoint(ctx, t.Client.provider)
	if err != nil {
		return issued{}, err
	}
	return t.Client.ask(ctx, address, url.Values{
		"grant_type":           {tokenExchangeGrant},
		"subject_token":        {subject.Reveal()},
		"subject_token_type":   {accessTokenType},
		"requested_token_type": {accessTokenType},
		"audience":             {t.Audience},
	}, tokenExchangeRefusals, subject)
}

func (t *tokenExchange) check(ctx context.Context) (string, error) { return t.Client.tryOwn(ctx, t) }
