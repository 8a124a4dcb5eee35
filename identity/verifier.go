package identity

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

const (
	maxToken    = 8 << 10          // bytes; what is longer is refused unread
	skew        = 60 * time.Second // that clocks may differ
	maxVerified = 10_000           // tokens remembered as verified
)

// algorithms that a token may be signed with.
var algorithms = []string{oidc.RS256, oidc.PS256, oidc.ES256, oidc.EdDSA}

// Config says whose tokens are taken.
type Config struct {
	Issuer string
	// Audience lists the names of the broker at its issuer. A token is for us when its aud contains one; where it has
	// no aud at all, when its azp is one.
	Audience []string
	// Clients lists clients (azp, or client_id) whose tokens are for us also where aud does not say so.
	Clients []string
	// Parties lists the clients that may have got the token (azp, or client_id); none: any.
	Parties []string

	Client      *upstream.Client // for the provider's keys
	Now         func() time.Time // nil: time.Now
	Development bool             // allows http
}

// Caller is who sent a request.
type Caller struct {
	User    dispatch.UserID // issuer and subject
	Issuer  string
	Subject string
	Name    string // to be shown; may be any text, and another's
	Expires time.Time
	Token   dispatch.Secret
}

// ErrUnauthenticated is in the chain of every error about a token that does not verify.
var ErrUnauthenticated = errors.New("unauthenticated")

// unauthenticated is the same error for every cause, but for the log.
func unauthenticated(cause error) error {
	return &dispatch.Error{Kind: dispatch.SignInRequired, Op: "identity.Verify",
		Text: "The request carries no valid token.", Err: fmt.Errorf("%w: %w", ErrUnauthenticated, cause)}
}

// ErrExpired is wrapped by the error for a token that is good but for its end.
var ErrExpired = errors.New("the token has expired")

// Verifier verifies access tokens of one issuer. It is safe for concurrent use.
type Verifier struct {
	config Config
	keys   *keySet

	mu       sync.Mutex
	verified *lru[[sha256.Size]byte, verified]
}

// verified is what a token said that was found good under the keys of one version.
type verified struct {
	claims  claims
	version int
}

// NewVerifier checks the configuration; what is wrong is Misconfigured, all at once. It asks nobody.
func NewVerifier(c Config) (*Verifier, error) {
	if err := c.check(); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.NewVerifier", Err: err,
			Text: "The settings of the identity provider are not complete."}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Audience, c.Parties = slices.Clone(c.Audience), slices.Clone(c.Parties)
	source := &provider{client: newClient(c.Client, c.Now), issuer: c.Issuer, insecure: c.Development}
	return &Verifier{config: c, keys: newKeySet(source, c.Now),
		verified: newLRU[[sha256.Size]byte, verified](maxVerified)}, nil
}

func (c Config) check() error {
	var faults []error
	if err := checkIssuer(c.Issuer, c.Development); err != nil {
		faults = append(faults, fmt.Errorf("identity.issuer %w", err))
	}
	if len(c.Audience) == 0 || slices.Contains(c.Audience, "") {
		faults = append(faults, errors.New("identity.audience must name at least one audience, and no empty one"))
	}
	if slices.Contains(c.Parties, "") {
		faults = append(faults, errors.New("an authorized party is empty"))
	}
	if c.Client == nil {
		faults = append(faults, errors.New("there is no HTTP client"))
	}
	return errors.Join(faults...)
}

// Verify says who the bearer of the token is. The error for a token that is not good wraps [ErrUnauthenticated], and
// [ErrExpired] for one that was good; when the issuer's keys cannot be had, the error is Unavailable.
func (v *Verifier) Verify(ctx context.Context, token dispatch.Secret) (Caller, error) {
	if len(token) > maxToken {
		return Caller{}, unauthenticated(errors.New("the token is too long"))
	}
	sum := sha256.Sum256([]byte(token))
	if c, ok := v.remembered(ctx, sum); ok {
		return v.caller(c, token)
	}
	h, err := parseHeader(token.Reveal())
	if err != nil {
		return Caller{}, unauthenticated(err)
	}
	key, version, err := v.keys.find(ctx, h.kid, h.alg)
	switch {
	case errors.Is(err, errNoSuchKey):
		return Caller{}, unauthenticated(err)
	case err != nil:
		return Caller{}, err
	}
	c, err := v.open(ctx, token, h, key)
	if err != nil {
		return Caller{}, unauthenticated(err)
	}
	v.remember(sum, verified{c, version})
	return v.caller(c, token)
}

// Probe says whether tokens can be verified: nil, or Unavailable when the issuer's keys cannot be had.
func (v *Verifier) Probe(ctx context.Context) error {
	_, err := v.keys.fresh(ctx)
	return err
}

// open verifies the signature and what never changes about a token.
func (v *Verifier) open(ctx context.Context, token dispatch.Secret, h header, key crypto.PublicKey) (claims, error) {
	signed := oidc.NewVerifier(v.config.Issuer, staticKey(key), &oidc.Config{
		SupportedSigningAlgs: algorithms,
		SkipClientIDCheck:    true, // audience and times are checked by claims, more strictly
		SkipExpiryCheck:      true,
	})
	good, err := signed.Verify(ctx, token.Reveal())
	if err != nil {
		return claims{}, err
	}
	var payload json.RawMessage
	if err := good.Claims(&payload); err != nil {
		return claims{}, err
	}
	c, err := parseClaims(payload)
	if err != nil {
		return claims{}, err
	}
	return c, errors.Join(c.checkType(h), c.checkParties(v.config))
}

func staticKey(key crypto.PublicKey) oidc.KeySet {
	return &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}
}

// caller checks the times, at every use of a token.
func (v *Verifier) caller(c claims, token dispatch.Secret) (Caller, error) {
	if err := c.checkTimes(v.config.Now()); err != nil {
		return Caller{}, unauthenticated(err)
	}
	return Caller{User: dispatch.UserID(c.issuer + " " + c.subject), Issuer: c.issuer, Subject: c.subject,
		Name: c.name, Expires: c.expires, Token: token}, nil
}

// remembered finds a token that was verified under the keys that hold now.
func (v *Verifier) remembered(ctx context.Context, sum [sha256.Size]byte) (claims, bool) {
	v.mu.Lock()
	known, ok := v.verified.get(sum)
	v.mu.Unlock()
	if !ok {
		return claims{}, false
	}
	version, err := v.keys.fresh(ctx)
	return known.claims, err == nil && known.version == version
}

func (v *Verifier) remember(sum [sha256.Size]byte, known verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verified.put(sum, known)
}
