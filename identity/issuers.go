package identity

import (
	"context"
	"errors"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Verifiers verify access tokens of several issuers, each by the verifier of the issuer that the token names. So a
// token is checked against the keys and the audience of its own issuer only.
type Verifiers map[string]*Verifier // by issuer

// NewVerifiers returns the verifiers for several issuers, see [NewVerifier].
func NewVerifiers(configs []Config) (Verifiers, error) {
	all := Verifiers{}
	for _, c := range configs {
		v, err := NewVerifier(c)
		if err != nil {
			return nil, err
		}
		all[c.Issuer] = v
	}
	return all, nil
}

// Verify does what [Verifier.Verify] does. A token of an issuer that is none of these is refused without any request.
func (s Verifiers) Verify(ctx context.Context, token dispatch.Secret) (Caller, error) {
	if len(token) > MaxToken {
		return Caller{}, unauthenticated(ErrTooLong)
	}
	issuer, _ := selfDescription(token.Reveal())
	v := s[issuer]
	if v == nil {
		return Caller{}, unauthenticated(errors.New("the token is from another issuer"))
	}
	return v.Verify(ctx, token)
}

// IssuerConfig configures how the tokens of the users of a further issuer are exchanged. What is not here is as in the
// [TokensConfig], but no permissions are stored for these users: the broker acts for them until their token has
// expired.
type IssuerConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret dispatch.Secret
	ClientKey    dispatch.Secret // used instead of the secret: see [TokensConfig]
	Platforms    []Platform      // of access user, that these users may use
}

// tokensOf returns the configuration of a further issuer.
func (c TokensConfig) tokensOf(i IssuerConfig) TokensConfig {
	c.Issuer, c.ClientID, c.ClientSecret, c.ClientKey, c.Platforms = i.Issuer, i.ClientID, i.ClientSecret, i.ClientKey,
		i.Platforms
	c.Vault, c.Keys, c.SessionGrants, c.Issuers = nil, nil, false, nil
	return c
}

// of returns what obtains the tokens of a user: that of their issuer, or t itself.
func (t *Tokens) of(u dispatch.UserID) *Tokens {
	issuer, _, _ := strings.Cut(string(u), " ")
	if further := t.issuers[issuer]; further != nil {
		return further
	}
	return t
}

// OfIssuer returns the tokens of a further issuer's users; nil: there is no such issuer.
func (t *Tokens) OfIssuer(issuer string) *Tokens { return t.issuers[issuer] }
