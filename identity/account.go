package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ServiceAccount is a client that obtains tokens for itself at a platform's identity provider (RFC 6749, section 4.4).
type ServiceAccount struct {
	TokenURL string // or, to find it by discovery, one of the next two
	Issuer   string
	// for a platform that names its issuer itself; called when it is first needed
	FindIssuer   func(context.Context) (string, error)
	Pinned       string // the issuer that FindIssuer must return; "": any
	ClientID     string
	ClientSecret dispatch.Secret
	ClientKey    dispatch.Secret // used instead of the secret: see [TokensConfig]
	Scope        string          // "": the provider's default
}

// serviceAccount obtains tokens of a service account.
type serviceAccount struct {
	ServiceAccount
	auth     clientAuth
	client   *client
	insecure bool
}

func newServiceAccount(c *client, a ServiceAccount, insecure bool) (*serviceAccount, error) {
	var faults []error
	switch {
	case a.TokenURL != "":
		if err := checkAddress(a.TokenURL, insecure); err != nil {
			faults = append(faults, fmt.Errorf("token_url %w", err))
		}
	case a.Issuer != "":
		if err := checkIssuer(a.Issuer, insecure); err != nil {
			faults = append(faults, fmt.Errorf("issuer %w", err))
		}
	case a.FindIssuer == nil:
		faults = append(faults, errors.New("token_url or issuer is missing"))
	}
	auth, err := newClientAuth(a.ClientID, a.ClientSecret, a.ClientKey)
	return &serviceAccount{a, auth, c, insecure}, errors.Join(append(faults, err)...)
}

// token obtains a token. Errors: Misconfigured, Unavailable.
func (s *serviceAccount) token(ctx context.Context) (issued, error) {
	address, issuer, err := s.address(ctx)
	if err != nil {
		return issued{}, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if err := s.auth.authenticate(form, cmp.Or(issuer, address), s.client.now()); err != nil {
		return issued{}, misconfigured(err)
	}
	if s.Scope != "" {
		form.Set("scope", s.Scope)
	}
	a, err := s.client.post(ctx, address, form)
	switch {
	case err != nil:
		return issued{}, unavailable(err)
	case a.status != http.StatusOK:
		return issued{}, a.failed("identity.ServiceAccount", a.refusal(s.ClientSecret))
	}
	return s.client.readIssued(a)
}

// address returns the token endpoint to which the account's secret may be sent, and its issuer if that is known.
func (s *serviceAccount) address(ctx context.Context) (address, issuer string, err error) {
	if s.TokenURL != "" {
		return s.TokenURL, "", nil
	}
	if issuer = s.Issuer; issuer == "" {
		if issuer, err = s.FindIssuer(ctx); err != nil {
			return "", "", err
		}
		if err := checkIssuer(issuer, s.insecure); err != nil {
			return "", "", misconfigured(fmt.Errorf("the issuer that the platform names %w", err))
		}
		if s.Pinned != "" && issuer != s.Pinned {
			return "", "", misconfigured(fmt.Errorf("the platform names the issuer %q, the configuration %q",
				printable(issuer, 200), s.Pinned))
		}
	}
	address, err = tokenEndpoint(ctx, &provider{client: s.client, issuer: issuer, insecure: s.insecure})
	return address, issuer, err
}

// tokenEndpoint returns a provider's token endpoint from its discovery document.
func tokenEndpoint(ctx context.Context, p *provider) (string, error) {
	at, err := p.endpoints(ctx)
	switch {
	case err != nil:
		return "", unavailable(err)
	case at.Token == "":
		return "", misconfigured(fmt.Errorf("the provider %s has no token endpoint", p.issuer))
	}
	return at.Token, nil
}
