package identity

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// jwtGrant uses two providers: the broker's provider issues a token that the platform's provider accepts as an
// assertion of the user's identity (RFC 7523, section 2.1). No provider stores a link that could be lost.
type jwtGrant struct {
	Assertion *tokenExchange
	Client    exchangeClient // at the platform's provider
}

func newJWTGrant(own exchangeClient, p Platform) (exchanger, error) {
	insecure := own.provider.insecure
	if err := checkIssuer(p.Issuer, insecure); err != nil {
		return nil, fmt.Errorf("the platform's issuer %w", err)
	}
	auth, err := newClientAuth(p.Exchange.ClientID, p.Exchange.ClientSecret, p.Exchange.ClientKey)
	if err != nil {
		return nil, err
	}
	theirs := &provider{client: own.provider.client, issuer: p.Issuer, insecure: insecure}
	return &jwtGrant{
		Assertion: &tokenExchange{own, cmp.Or(p.Exchange.Audience, p.Issuer)},
		Client:    exchangeClient{theirs, auth},
	}, nil
}

// jwtGrantRefusals are the refusals of Keycloak 26. Each exchange uses a new assertion, so an assertion that is not yet
// active or was used before may be accepted next time.
var jwtGrantRefusals = refusals{
	{"invalid_grant", "User not found"}:       errNotLinked,
	{"invalid_grant", "Token is not active"}:  errPassing,
	{"invalid_grant", "Token reuse detected"}: errPassing,
}

func (j *jwtGrant) exchange(ctx context.Context, subject dispatch.Secret) (issued, error) {
	assertion, err := j.Assertion.exchange(ctx, subject)
	if err != nil {
		return issued{}, err
	}
	return j.redeem(ctx, assertion.token, jwtGrantRefusals)
}

func (j *jwtGrant) redeem(ctx context.Context, assertion dispatch.Secret, means refusals) (issued, error) {
	address, err := tokenEndpoint(ctx, j.Client.provider)
	if err != nil {
		return issued{}, err
	}
	return j.Client.ask(ctx, address, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":  {assertion.Reveal()},
	}, means, assertion)
}

// check asks both providers. One that knows the broker's client refuses a text that is no assertion only for that
// reason.
func (j *jwtGrant) check(ctx context.Context) (string, error) {
	if err := checkClientAccepted(ctx, func(ctx context.Context, assertion dispatch.Secret) (issued, error) {
		return j.redeem(ctx, assertion,
			refusals{{"invalid_grant", "The provided assertion is not a valid JWT"}: errSubjectEnded})
	}); err != nil {
		return "", err
	}
	return j.Assertion.Client.tryOwn(ctx, j)
}
