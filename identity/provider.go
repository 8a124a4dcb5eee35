package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// provider is an identity provider, known by its issuer. It is asked for its endpoints when they are first needed, so
// that a provider that is down delays no start.
type provider struct {
	client   *client
	issuer   string
	insecure bool // http is allowed

	mu    sync.Mutex
	known *endpoints
}

// endpoints is what we use of a discovery document (OpenID Connect Discovery 1.0, section 3).
type endpoints struct {
	Issuer string `json:"issuer"`
	Keys   string `json:"jwks_uri"`
	Token  string `json:"token_endpoint"`

	Authorization string `json:"authorization_endpoint"`
	Revocation    string `json:"revocation_endpoint"`
	NamesItself   bool   `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// endpoints gives the provider's endpoints. Only a good answer is kept.
func (p *provider) endpoints(ctx context.Context) (endpoints, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	found, err := p.discover(ctx)
	if err != nil {
		return endpoints{}, fmt.Errorf("discovery: %w", err)
	}
	p.mu.Lock()
	p.known = &found
	p.mu.Unlock()
	return found, nil
}

// forget makes the next call of endpoints ask again, for an address that has moved.
func (p *provider) forget() {
	p.mu.Lock()
	p.known = nil
	p.mu.Unlock()
}

// alive is nil when the token endpoint does its work, which a request shows that it must refuse (RFC 6749, section 5.2).
// What stands before a server that is down answers otherwise.
func (p *provider) alive(ctx context.Context) error {
	at, err := p.endpoints(ctx)
	if err != nil {
		return err
	}
	a, err := p.client.post(ctx, at.Token, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {nobody.Reveal()}})
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
	for _, endpoint := range []string{found.Keys, found.Token, found.Authorization, found.Revocation} {
		if endpoint == "" {
			continue // not every use needs both; an empty address fails where it is used
		}
		if err := checkAddress(endpoint, p.insecure); err != nil {
			return endpoints{}, fmt.Errorf("an endpoint %w", err)
		}
	}
	return found, nil
}

// checkAddress says what is wrong with the address of a provider, which is to be absolute and, unless insecure, https.
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

// checkIssuer is checkAddress for an issuer, which has no query either (OpenID Connect Core 1.0, section 2).
func checkIssuer(issuer string, insecure bool) error {
	if strings.Contains(issuer, "?") {
		return errors.New("must have no query")
	}
	return checkAddress(issuer, insecure)
}
