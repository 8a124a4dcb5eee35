package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	MaxToken    = 8 << 10          // bytes; longer tokens are refused unread
	skew        = 60 * time.Second // tolerated difference between clocks
	maxVerified = 10_000           // tokens remembered as verified
)

// algorithms are the accepted signature algorithms.
var algorithms = []string{oidc.RS256, oidc.PS256, oidc.ES256, oidc.EdDSA}

// Config configures which tokens are accepted.
type Config struct {
	Issuer string
	// Audience lists the names of the broker at its issuer. A token is accepted if its aud contains one of them, or if
	// it has no aud and its azp is one.
	Audience []string
	// Clients lists clients (azp or client_id) whose tokens are accepted whatever their aud.
	Clients []string

	Client      *upstream.Client // for requests for the provider's keys
	Now         func() time.Time // nil: time.Now
	Development bool             // allows http
}

// Caller is the sender of a request.
type Caller struct {
	User    dispatch.UserID // issuer and subject
	Issuer  string
	Subject string
	Name    string // display name; may be any text, even another user's name
	Expires time.Time
	Token   dispatch.Secret
}

// ErrUnauthenticated is wrapped by every error about a token that is not valid.
var ErrUnauthenticated = errors.New("unauthenticated")

// unauthenticated returns the same text for every cause; the cause is only logged.
func unauthenticated(cause error) error {
	return &dispatch.Error{Kind: dispatch.SignInRequired, Op: "identity.Verify",
		Text: "The request carries no valid token.", Err: fmt.Errorf("%w: %w", ErrUnauthenticated, cause)}
}

// ErrExpired is wrapped by the error for a token whose only fault is that it has expired.
var ErrExpired = errors.New("the token has expired")

// ErrNoSubject is wrapped by the error for a token that names no user, and whose only fault that is, except perhaps for
// its times. A new sign-in does not help: the issuer must be configured to add the claim.
var ErrNoSubject = errors.New("the token has no sub")

// ErrTooLong is wrapped by the error for a token of more than [MaxToken] bytes. A new sign-in does not help: the issuer
// must put less into its tokens.
var ErrTooLong = fmt.Errorf("the token has more than %d bytes", MaxToken)

// Verifier verifies access tokens of one issuer. It is safe for concurrent use.
type Verifier struct {
	config Config
	keys   *keySet

	mu       sync.Mutex
	verified *lru[[sha256.Size]byte, verified]
}

// verified is a token that was verified with one version of the keys.
type verified struct {
	claims  claims
	version int
}

// NewVerifier returns a verifier for a configuration. It checks the configuration without any request; the error is
// Misconfigured and lists all faults.
func NewVerifier(c Config) (*Verifier, error) {
	if err := c.check(); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.NewVerifier", Err: err,
			Text: "The settings of the identity provider are not valid."}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Audience = slices.Clone(c.Audience)
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
	if c.Client == nil {
		faults = append(faults, errors.New("there is no HTTP client"))
	}
	return errors.Join(faults...)
}

// Verify returns the caller who sent the token. The error for a token that is not valid wraps [ErrUnauthenticated], and
// also [ErrExpired] if it has only expired. The error is Unavailable if the issuer's keys cannot be fetched.
func (v *Verifier) Verify(ctx context.Context, token dispatch.Secret) (Caller, error) {
	if len(token) > MaxToken {
		return Caller{}, unauthenticated(ErrTooLong)
	}
	sum := sha256.Sum256([]byte(token))
	if c, ok := v.remembered(ctx, sum); ok {
		return v.caller(c, token)
	}
	h, err := parseHeader(token.Reveal())
	if err != nil {
		return Caller{}, unauthenticated(err)
	}
	c, version, err := v.open(ctx, token, h)
	switch {
	case dispatch.Is(err, dispatch.Unavailable):
		return Caller{}, err
	case err != nil:
		return Caller{}, unauthenticated(err)
	}
	v.remember(sum, verified{c, version})
	return v.caller(c, token)
}

// Probe returns nil if tokens can be verified, and Unavailable if the issuer's keys cannot be fetched.
func (v *Verifier) Probe(ctx context.Context) error {
	_, err := v.keys.fresh(ctx)
	return err
}

// SignInEndpoints returns the issuer's authorization and token endpoints, for clients that sign users in. They are
// discovered together with the issuer's keys, so that callers cause no other requests than [Verifier.Verify] does. The
// error is Unavailable if the issuer does not respond, and Misconfigured if it has no such endpoints.
func (v *Verifier) SignInEndpoints(ctx context.Context) (authorizationURL, tokenURL string, err error) {
	if _, err := v.keys.fresh(ctx); err != nil {
		return "", "", err
	}
	at, ok := v.keys.source.discovered()
	switch {
	case !ok:
		return "", "", providerUnavailable(errors.New("its keys could not be renewed"))
	case at.Authorization == "" || at.Token == "":
		return "", "", misconfigured(errors.New("the provider has no authorization endpoint or no token endpoint"))
	}
	return at.Authorization, at.Token, nil
}

// open verifies the signature and the claims that do not depend on time.
func (v *Verifier) open(ctx context.Context, token dispatch.Secret, h header) (c claims, version int, err error) {
	// claims checks audience and times, more strictly
	_, payload, version, err := v.keys.verify(ctx, token, h,
		oidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true})
	if err == nil {
		c, err = parseClaims(payload)
	}
	if err == nil {
		err = errors.Join(c.checkType(h), c.checkParties(v.config))
	}
	if err == nil && c.subject == "" {
		err = ErrNoSubject
	}
	return c, version, err
}

// caller checks the times of a token, which is done at every use.
func (v *Verifier) caller(c claims, token dispatch.Secret) (Caller, error) {
	if err := c.checkTimes(v.config.Now()); err != nil {
		return Caller{}, unauthenticated(err)
	}
	return Caller{User: dispatch.UserID(c.issuer + " " + c.subject), Issuer: c.issuer, Subject: c.subject,
		Name: c.name, Expires: c.expires, Token: token}, nil
}

// remembered returns a token that was verified with the current keys.
func (v *Verifier) remembered(ctx context.Context, sum [sha256.Size]byte) (claims, bool) {
	v.mu.Lock()
	known, ok := v.verified.Get(sum)
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
	v.verified.Add(sum, known)
}
