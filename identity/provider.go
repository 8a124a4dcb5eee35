package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// provider is an identity provider. Its endpoints are discovered when they are first needed, so that a provider that is
// down does not delay the start.
type provider struct {
	client   *client
	issuer   string
	insecure bool // allows http

	known atomic.Pointer[endpoints]
}

// endpoints is the part of a discovery document that the broker uses (OpenID Connect Discovery 1.0, section 3).
type endpoints struct {
	Issuer string `json:"issuer"`
	Keys   string `json:"jwks_uri"`
	Token  string `json:"token_endpoint"`

	Authorization string `json:"authorization_endpoint"`
	Revocation    string `json:"revocation_endpoint"`
	// OpenID Connect RP-Initiated Logout 1.0
	EndSession  string `json:"end_session_endpoint"`
	NamesItself bool   `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// endpoints returns the provider's endpoints. Failures are not cached.
func (p *provider) endpoints(ctx context.Context) (endpoints, error) {
	if at, ok := p.discovered(); ok {
		return at, nil
	}
	found, err := p.discover(ctx)
	if err != nil {
		return endpoints{}, fmt.Errorf("discovery: %w", err)
	}
	p.known.Store(&found)
	return found, nil
}

// discovered returns the endpoints without a request. ok is false before the discovery and after [provider.forget].
func (p *provider) discovered() (at endpoints, ok bool) {
	if known := p.known.Load(); known != nil {
		return *known, true
	}
	return at, false
}

// forget discards the endpoints, because one may have moved.
func (p *provider) forget() { p.known.Store(nil) }

// alive returns nil if the token endpoint works: it must refuse an empty request (RFC 6749, section 5.2). A proxy in
// front of a server that is down responds differently.
func (p *provider) alive(ctx context.Context) error {
	at, err := p.endpoints(ctx)
	if err != nil {
		return err
	}
	a, err := p.client.post(ctx, at.Token, url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {nobody.Reveal()}})
	switch {
	case err != nil:
		p.forget()
		return err
	case a.status != http.StatusBadRequest && a.status != http.StatusUnauthorized, a.refusal().Code == "":
		return fmt.Errorf("HTTP %d", a.status)
	}
	return nil
}

func (p *provider) discover(ctx context.Context) (endpoints, error) {
	var found endpoints
	address := strings.TrimSuffix(p.issuer, "/") + "/.well-known/openid-configuration"
	if err := p.client.getJSON(ctx, address, &found); err != nil {
		return endpoints{}, err
	}
	if found.Issuer != p.issuer {
		return endpoints{}, fmt.Errorf("the provider calls itself %q, the configuration %q",
			printable(found.Issuer, 200), p.issuer)
	}
	for _, endpoint := range []string{found.Keys, found.Token, found.Authorization, found.Revocation,
		found.EndSession} {
		if endpoint == "" {
			continue // not every use needs all endpoints; an empty address fails when it is used
		}
		if err := checkAddress(endpoint, p.insecure); err != nil {
			return endpoints{}, fmt.Errorf("an endpoint %w", err)
		}
	}
	return found, nil
}

// checkAddress returns an error unless address is an absolute URL with https, or also http if insecure.
func checkAddress(address string, insecure bool) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("is not an absolute URL")
	case u.Scheme != "https" && !(insecure && u.Scheme == "http"):
		return errors.New("must begin with https://")
	case u.User != nil || u.Fragment != "":
		return errors.New("must have no user and no fragment")
	}
	return nil
}

// checkIssuer is checkAddress for an issuer, which must not have a query (OpenID Connect Core 1.0, section 2).
func checkIssuer(issuer string, insecure bool) error {
	if strings.Contains(issuer, "?") {
		return errors.New("must have no query")
	}
	return checkAddress(issuer, insecure)
}
