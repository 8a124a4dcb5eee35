package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Exchange names how users' tokens are exchanged. Platforms that name the same share each user's token.
type Exchange struct {
	Driver   string // one of [Drivers]
	Alias    string // keycloak-…: the platform's identity provider at the broker's
	Audience string // token-exchange: the platform; jwt-grant: its issuer, where its provider has another name for itself

	// jwt-grant: the broker's client at the platform's own provider.
	ClientID     string
	ClientSecret dispatch.Secret
	ClientKey    dispatch.Secret // in place of the secret: see [TokensConfig]
}

// driver is one way to exchange.
type driver struct {
	create func(exchangeClient, Platform) (exchanger, error)
	linked bool // by tokens that the broker's provider keeps for linked accounts, and loses when it cannot renew them
	asks   bool // the platform's own provider, so that platforms share only if they name the same issuer
}

var drivers = map[string]driver{
	"keycloak-broker":           {create: newKeycloakBroker, linked: true},
	"keycloak-requested-issuer": {create: newRequestedIssuer, linked: true},
	"token-exchange":            {create: newTokenExchange},
	"jwt-grant":                 {create: newJWTGrant, asks: true},
	"passthrough":               {create: newPassthrough},
}

// Drivers names the ways to exchange.
func Drivers() []string { return slices.Sorted(maps.Keys(drivers)) }

// exchanger gets a platform's token for a user's. Errors: errNotLinked, errLinkEnded and errSubjectEnded for what the user
// can mend, else Misconfigured or Unavailable. It is never asked twice at once for one user.
type exchanger interface {
	exchange(ctx context.Context, subject dispatch.Secret) (issued, error)
	// check is nil when it would work, as far as that shows without a user's token; unproven is what does not show.
	check(context.Context) (unproven string, err error)
}

var (
	errNotLinked    = errors.New("the user has not linked an account")
	errLinkEnded    = errors.New("the link to the user's account has ended")
	errSubjectEnded = errors.New("the user's own token is not valid any more")
	errPassing      = errors.New("it may work later")
)

// refusals says what a provider's refusals with status 400 mean. That status alone says nothing: it stands for what the
// user must mend, for what the operator must, and for what passes. No description: any.
type refusals map[refusal]error

// classify gives an answer that is not a success its class. The operator's is what nobody else is known to mend.
func (m refusals) classify(a answer, r refusal) error {
	err, known := m[r]
	if !known {
		err, known = m[refusal{Code: r.Code}]
	}
	switch {
	case a.status != http.StatusBadRequest || !known:
		return a.failed("identity.Exchange", r)
	case errors.Is(err, errPassing):
		return unavailable(fmt.Errorf("HTTP 400 %s: %s", r.Code, r.Description))
	}
	return err
}

// exchangeClient is what the broker is at an identity provider.
type exchangeClient struct {
	provider *provider
	clientAuth
}

// post sends a form in the client's name.
func (c exchangeClient) post(ctx context.Context, address string, form url.Values) (answer, error) {
	if err := c.prove(form, c.provider.issuer, c.provider.client.now()); err != nil {
		return answer{}, err
	}
	return c.provider.client.post(ctx, address, form)
}

// ask sends a form in the client's name and reads the token in the answer. What the form holds of hidden is struck out of
// errors.
func (c exchangeClient) ask(ctx context.Context, address string, form url.Values, means refusals, hidden dispatch.Secret) (issued, error) {
	a, err := c.post(ctx, address, form)
	switch {
	case err != nil:
		c.provider.forget() // it may have moved
		return issued{}, unavailable(err)
	case a.status != http.StatusOK:
		return issued{}, means.classify(a, a.refusal(hidden, c.Secret))
	}
	return c.provider.client.readIssued(a)
}

// nobody's token is one that no provider takes.
const nobody = dispatch.Secret("nobody")

// refusesNobody is nil when the provider refuses nobody's token for that alone: it has found in order what it looks at before.
func refusesNobody(ctx context.Context, exchange func(context.Context, dispatch.Secret) (issued, error)) error {
	_, err := exchange(ctx, nobody)
	switch {
	case err == nil:
		return misconfigured(errors.New("the provider gave a token for one that is none"))
	case errors.Is(err, errSubjectEnded):
		return nil
	}
	return err
}

// tryOwn exchanges the client's own token, for providers that look at the token first and only then whether the client may
// exchange it. A client has one if its provider lets it act for itself.
func (c exchangeClient) tryOwn(ctx context.Context, e exchanger) (unproven string, err error) {
	if err := refusesNobody(ctx, e.exchange); err != nil {
		return "", err
	}
	own, err := c.ownToken(ctx)
	if err == nil {
		_, err = e.exchange(ctx, own)
	}
	switch {
	case err == nil, errors.Is(err, errNotLinked): // it has no account to be linked
		return "", nil
	case errors.Is(err, errSubjectEnded):
		return "whether the client may exchange, which shows only with a token, and the client has none of its own to try with", nil
	}
	return "", err
}

// ownToken is the client's own. Errors: errSubjectEnded where the provider gives it none.
func (c exchangeClient) ownToken(ctx context.Context) (dispatch.Secret, error) {
	a, err := c.form(ctx, url.Values{"grant_type": {"client_credentials"}})
	switch {
	case err != nil:
		return "", unavailable(err)
	case a.status == http.StatusBadRequest, a.status == http.StatusUnauthorized:
		return "", errSubjectEnded
	case a.status != http.StatusOK:
		return "", a.failed("identity.Check", a.refusal(c.Secret))
	}
	got, err := c.provider.client.readIssued(a)
	return got.token, err
}

const (
	tokenExchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokenType    = "urn:ietf:params:oauth:token-type:access_token"
)
