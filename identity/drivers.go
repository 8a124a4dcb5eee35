package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// driver is one kind of exchange.
type driver struct {
	create func(exchangeClient, Platform) (exchanger, error)
	linked bool // uses tokens that the broker's provider keeps for linked accounts and loses if it cannot renew them
	public bool // Keycloak lets a public client, which has neither secret nor key, make this exchange
	asks   bool // asks the platform's own provider, so that platforms share tokens only if they name the same issuer
}

var drivers = map[string]driver{
	"keycloak-broker":           {create: newKeycloakBroker, linked: true},
	"keycloak-requested-issuer": {create: newRequestedIssuer, linked: true, public: true},
	"token-exchange":            {create: newTokenExchange},
	"jwt-grant":                 {create: newJWTGrant, asks: true},
	"passthrough":               {create: newPassthrough},
}

// Drivers returns the names of the kinds of exchange.
func Drivers() []string { return slices.Sorted(maps.Keys(drivers)) }

// request is an exchange by one request to the broker's own provider.
type request struct {
	Client      exchangeClient
	address     string // "": the token endpoint
	form        url.Values
	subject     string // the member of the form that has the user's token
	means       refusals
	clientFirst bool // the provider checks whether the client may ask before it checks the token
}

func (r *request) exchange(ctx context.Context, subject dispatch.Secret) (got issued, err error) {
	address := r.address
	if address == "" {
		if address, err = tokenEndpoint(ctx, r.Client.provider); err != nil {
			return issued{}, err
		}
	}
	form := maps.Clone(r.form)
	form.Set(r.subject, subject.Reveal())
	return r.Client.ask(ctx, address, form, r.means, subject)
}

func (r *request) check(ctx context.Context) (string, error) {
	if r.clientFirst {
		return "", checkClientAccepted(ctx, r.exchange)
	}
	return r.Client.tryOwn(ctx, r)
}

// newKeycloakBroker uses Keycloak's Identity Brokering API, version 2: Keycloak stores a token of the user's linked
// account and returns it to clients that may have it, in exchange for a user's token that is issued for them.
func newKeycloakBroker(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Alias == "" {
		return nil, errors.New("alias is missing")
	}
	address := strings.TrimSuffix(c.provider.issuer, "/") + "/broker/" + url.PathEscape(p.Exchange.Alias) + "/token"
	return &request{Client: c, address: address, form: url.Values{}, subject: "token", means: keycloakBrokerRefusals,
		clientFirst: true}, nil
}

// keycloakBrokerRefusals are the refusals of Keycloak 26.
var keycloakBrokerRefusals = refusals{
	{"invalid_request", "User not associated to identity provider"}: errNotLinked,
	{"not_linked", ""}: errNotLinked,
	// "No token stored.": Keycloak is not configured to store tokens
	{"token_expired", "linked token is expired"}:                           errLinkEnded,
	{"invalid_token", ""}:                                                  errSubjectEnded,
	{"invalid_request", "Failed to retrieve token from identity provider"}: errPassing,
}

// newRequestedIssuer uses Keycloak's legacy token exchange: Keycloak stores a token of the user's linked account and
// returns it. Keycloak does not check the audience of the user's token, so the broker only sends tokens that it has
// verified.
func newRequestedIssuer(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Alias == "" {
		return nil, errors.New("alias is missing")
	}
	return &request{Client: c, subject: "subject_token", means: requestedIssuerRefusals,
		form: url.Values{"grant_type": {tokenExchangeGrant}, "subject_token_type": {accessTokenType},
			"requested_issuer": {p.Exchange.Alias}}}, nil
}

// requestedIssuerRefusals are the refusals of Keycloak 26.
var requestedIssuerRefusals = refusals{
	{"not_linked", ""}:                   errNotLinked,
	{"token_expired", ""}:                errLinkEnded,
	{"invalid_request", "Invalid token"}: errSubjectEnded,
}

// newTokenExchange asks for a token with another audience (RFC 8693), for platforms that accept tokens of the broker's
// own provider.
func newTokenExchange(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Audience == "" {
		return nil, errors.New("audience is missing")
	}
	return &request{Client: c, subject: "subject_token", means: tokenExchangeRefusals,
		form: url.Values{"grant_type": {tokenExchangeGrant}, "subject_token_type": {accessTokenType},
			"requested_token_type": {accessTokenType}, "audience": {p.Exchange.Audience}}}, nil
}

// tokenExchangeRefusals are the refusals of Keycloak 26, and of providers that treat the subject's token as a grant.
var tokenExchangeRefusals = refusals{
	{"invalid_request", "Invalid token"}: errSubjectEnded,
	{"invalid_grant", ""}:                errSubjectEnded,
}

// jwtGrant uses two providers: the broker's provider issues a token that the platform's provider accepts as an
// assertion of the user's identity (RFC 7523, section 2.1). No provider stores a link that could be lost.
type jwtGrant struct {
	Assertion exchanger
	Own       exchangeClient
	Theirs    exchangeClient // at the platform's provider
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
	theirs := exchangeClient{&provider{client: own.provider.client, issuer: p.Issuer, insecure: insecure}, auth}
	p.Exchange.Audience = cmp.Or(p.Exchange.Audience, p.Issuer)
	assertion, err := newTokenExchange(own, p)
	return &jwtGrant{assertion, own, theirs}, err
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
	return j.redemption(jwtGrantRefusals).exchange(ctx, assertion.token)
}

// redemption is the exchange of an assertion for a token.
func (j *jwtGrant) redemption(means refusals) *request {
	return &request{Client: j.Theirs, subject: "assertion", means: means,
		form: url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}}}
}

// check asks both providers. One that knows the broker's client refuses a text that is no assertion only for that
// reason.
func (j *jwtGrant) check(ctx context.Context) (string, error) {
	redemption := j.redemption(
		refusals{{"invalid_grant", "The provided assertion is not a valid JWT"}: errSubjectEnded})
	if err := checkClientAccepted(ctx, redemption.exchange); err != nil {
		return "", err
	}
	return j.Own.tryOwn(ctx, j)
}

// passthrough sends the user's own token to the platform. It is only permitted for platforms that use the issuer of the
// broker's users.
type passthrough struct{}

func newPassthrough(c exchangeClient, p Platform) (exchanger, error) {
	if p.Issuer == "" || p.Issuer != c.provider.issuer {
		return nil, errors.New("the platform's issuer must be identity.issuer: nobody else may see users' tokens")
	}
	return passthrough{}, nil
}

func (passthrough) exchange(_ context.Context, subject dispatch.Secret) (issued, error) {
	issuer, expires := selfDescription(subject.Reveal())
	return issued{subject, issuer, expires}, nil
}

func (passthrough) check(context.Context) (string, error) { return "", nil }
