package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Exchange configures how users' tokens are exchanged. Platforms with equal settings share each user's token.
type Exchange struct {
	Driver string // one of [Drivers]
	Alias  string // keycloak-…: alias of the platform's identity provider at the broker's provider
	// token-exchange: the platform; jwt-grant: the platform's issuer, if its provider uses another name for itself
	Audience string

	// jwt-grant: the broker's client at the platform's own provider.
	ClientID     string
	ClientSecret dispatch.Secret
	ClientKey    dispatch.Secret // used instead of the secret: see [TokensConfig]
}

// exchanger obtains a platform's token for a user's token. Errors: errNotLinked, errLinkEnded and errSubjectEnded if
// the user can resolve it, else Misconfigured or Unavailable. It is not called concurrently for the same user.
type exchanger interface {
	exchange(ctx context.Context, subject dispatch.Secret) (issued, error)
	// check returns nil if the exchange would work, as far as that can be tried without a user's token. unproven
	// describes what could not be tried.
	check(context.Context) (unproven string, err error)
}

var (
	errNotLinked    = errors.New("the user has not linked an account")
	errLinkEnded    = errors.New("the link to the user's account has ended")
	errSubjectEnded = errors.New("the user's own token is not valid any more")
	errPassing      = errors.New("the failure may be temporary")
)

// refusals maps refusals with status 400 to errors. The status alone does not tell whether the user, the operator or
// only time can resolve it. An empty description matches any.
type refusals map[refusal]error

// classify returns the error for a response that is not a success: Misconfigured unless the table says otherwise.
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

// exchangeClient is the broker's client at an identity provider.
type exchangeClient struct {
	provider *provider
	clientAuth
}

func (c exchangeClient) post(ctx context.Context, address string, form url.Values) (answer, error) {
	if err := c.authenticate(form, c.provider.issuer, c.provider.client.now()); err != nil {
		return answer{}, err
	}
	return c.provider.client.post(ctx, address, form)
}

// ask sends a form with the client's authentication and reads the token in the response. It removes hidden from errors.
func (c exchangeClient) ask(ctx context.Context, address string, form url.Values, means refusals,
	hidden dispatch.Secret) (issued, error) {
	a, err := c.post(ctx, address, form)
	switch {
	case err != nil:
		c.provider.forget() // the endpoint may have moved
		return issued{}, unavailable(err)
	case a.status != http.StatusOK:
		return issued{}, means.classify(a, a.refusal(hidden, c.Secret))
	}
	return c.provider.client.readIssued(a)
}

// nobody is a token that no provider accepts.
const nobody = dispatch.Secret("nobody")

// checkClientAccepted returns nil if the provider refuses the token nobody only because of that token: then all that it
// checks before is correct.
func checkClientAccepted(ctx context.Context, exchange func(context.Context, dispatch.Secret) (issued, error)) error {
	_, err := exchange(ctx, nobody)
	switch {
	case err == nil:
		return misconfigured(errors.New("the provider exchanged an invalid token"))
	case errors.Is(err, errSubjectEnded):
		return nil
	}
	return err
}

// tryOwn exchanges the client's own token, for providers that check the token before they check whether the client may
// exchange it. A client has such a token if its provider lets it act for itself.
func (c exchangeClient) tryOwn(ctx context.Context, e exchanger) (unproven string, err error) {
	if err := checkClientAccepted(ctx, e.exchange); err != nil {
		return "", err
	}
	own, err := c.ownToken(ctx)
	if err == nil {
		_, err = e.exchange(ctx, own)
	}
	switch {
	case err == nil, errors.Is(err, errNotLinked): // the client has no account to link
		return "", nil
	case errors.Is(err, errSubjectEnded):
		return "whether the client may exchange tokens, because it has no token of its own to try with", nil
	}
	return "", err
}

// ownToken obtains the client's own token. Errors: errSubjectEnded if the provider issues none.
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
