package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TokensConfig says how tokens for platforms are had.
type TokensConfig struct {
	// The broker's own client at the issuer of its users, with which their tokens are exchanged. Not needed where no
	// platform is of access user.
	Issuer       string
	ClientID     string
	ClientSecret dispatch.Secret

	Platforms   []Platform
	Client      *http.Client     // for identity providers; its own redirect policy and cookies are not used
	Now         func() time.Time // nil: time.Now
	Development bool             // allows http
}

// Platform says how tokens for one platform are had.
type Platform struct {
	Name     string
	Access   dispatch.Access
	Account  ServiceAccount // for access shared
	Exchange Exchange       // for access user
	Issuer   string         // of the platform's tokens; "": not known. A token of another is never given out
	Link     string         // where users link their account at the platform; "": nowhere
}

// Exchange names how users' tokens are exchanged. Platforms that name the same share each user's token.
type Exchange struct {
	Driver string // keycloak-requested-issuer
	Alias  string // the platform's name at the broker's identity provider
}

// drivers are the ways to exchange a user's token, by the name in [Exchange].
var drivers = map[string]func(exchangeClient, Exchange) (exchanger, error){
	"keycloak-requested-issuer": newRequestedIssuer,
}

// exchangeClient is what the broker is at its identity provider.
type exchangeClient struct {
	provider *provider
	ID       string
	Secret   dispatch.Secret
}

// exchanger gets a platform's token for a user's. Errors: errNotLinked, errLinkEnded and errSubjectEnded for what the user
// can mend, else Misconfigured or Unavailable. It is never asked twice at once for one user.
type exchanger interface {
	exchange(ctx context.Context, subject dispatch.Secret) (issued, error)
}

var (
	errNotLinked    = errors.New("the user has not linked an account")
	errLinkEnded    = errors.New("the link to the user's account has ended")
	errSubjectEnded = errors.New("the user's own token is not valid any more")
)

// Tokens gives the tokens for platforms. It is safe for concurrent use, and keeps everything in memory.
type Tokens struct {
	platforms map[string]*platform
	subjects  *subjects
}

type platform struct {
	Platform
	source *source // nil: no token is needed
}

var _ dispatch.Tokens = (*Tokens)(nil)

// NewTokens checks the configuration; what is wrong is Misconfigured, all at once. It asks nobody.
func NewTokens(c TokensConfig) (*Tokens, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{platforms: map[string]*platform{}, subjects: newSubjects(c.Now)}
	b := tokensBuilder{TokensConfig: c, subjects: t.subjects, exchanges: map[Exchange]*source{}}
	if c.Client == nil {
		b.fault("there is no HTTP client")
		b.Client = &http.Client{}
	}
	b.client = newClient(b.Client, c.Now)
	b.own = &provider{client: b.client, issuer: c.Issuer, insecure: c.Development}
	for _, p := range c.Platforms {
		if t.platforms[p.Name] != nil {
			b.fault("platform %s is there twice", p.Name)
		}
		t.platforms[p.Name] = &platform{p, b.source(p)}
	}
	if err := errors.Join(b.faults...); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.NewTokens", Err: err,
			Text: "The settings of a platform's access are not complete."}
	}
	return t, nil
}

// tokensBuilder collects what is wrong in a configuration.
type tokensBuilder struct {
	TokensConfig
	client    *client
	own       *provider
	subjects  *subjects
	exchanges map[Exchange]*source
	faults    []error
}

func (b *tokensBuilder) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

func (b *tokensBuilder) source(p Platform) *source {
	switch p.Access {
	case dispatch.AccessOpen:
		return nil
	case dispatch.AccessShared:
		account, err := newServiceAccount(b.client, p.Account, b.Development)
		if err != nil {
			b.fault("platform %s: service_account: %w", p.Name, err)
			return nil
		}
		return newSource(b.Now, nil, func(ctx context.Context, _ dispatch.Secret) (issued, error) {
			return account.token(ctx)
		})
	case dispatch.AccessUser:
		return b.exchange(p)
	}
	b.fault("platform %s: access %q is none of user, shared, open", p.Name, p.Access)
	return nil
}

func (b *tokensBuilder) exchange(p Platform) *source {
	if s := b.exchanges[p.Exchange]; s != nil {
		return s
	}
	create, ok := drivers[p.Exchange.Driver]
	if !ok {
		b.fault("platform %s: there is no exchange driver %q", p.Name, p.Exchange.Driver)
		return nil
	}
	if err := checkIssuer(b.Issuer, b.Development); err != nil {
		b.fault("platform %s: access user needs identity.issuer, which %w", p.Name, err)
	}
	if b.ClientID == "" || b.ClientSecret == "" {
		b.fault("platform %s: access user needs identity.client_id and identity.client_secret", p.Name)
	}
	e, err := create(exchangeClient{b.own, b.ClientID, b.ClientSecret}, p.Exchange)
	if err != nil {
		b.fault("platform %s: exchange: %w", p.Name, err)
		return nil
	}
	s := newSource(b.Now, b.subjects, e.exchange)
	b.exchanges[p.Exchange] = s
	return s
}

// Offer keeps a caller's verified token, to act with it for the user until it expires.
func (t *Tokens) Offer(user dispatch.UserID, token dispatch.Secret, expires time.Time) {
	t.subjects.offer(user, subject{token, expires})
}

// Token gives the token with which to act for an account.
func (t *Tokens) Token(ctx context.Context, a dispatch.Account) (dispatch.Token, error) {
	p := t.platforms[a.Platform()]
	if p == nil {
		return dispatch.Token{}, misconfigured(fmt.Errorf("no platform %q", a.Platform()))
	}
	if p.source == nil {
		return dispatch.Token{}, nil
	}
	got, err := p.source.token(ctx, p.identity(a))
	if err != nil {
		return dispatch.Token{}, p.explain(err)
	}
	if p.Issuer != "" && got.issuer != "" && got.issuer != p.Issuer {
		return dispatch.Token{}, p.explain(misconfigured(fmt.Errorf("the token for platform %s is issued by %q, not by %q",
			p.Name, printable(got.issuer, 200), p.Issuer)))
	}
	return dispatch.Token{Secret: got.token, Issuer: cmp.Or(got.issuer, p.Issuer)}, nil
}

// Refused drops a token that the platform did not take. Where the identity provider goes on giving the same one, Token
// is Unavailable until it gives another; it is asked now and then.
func (t *Tokens) Refused(a dispatch.Account, refused dispatch.Token) {
	if p := t.platforms[a.Platform()]; p != nil && p.source != nil {
		p.source.refuse(p.identity(a), refused.Secret)
	}
}

// identity is whose token the account needs. All share that of a service account.
func (p *platform) identity(a dispatch.Account) dispatch.UserID {
	if p.Access == dispatch.AccessShared {
		return ""
	}
	return dispatch.UserID(a.Identity())
}

// explain gives an error the words for the user, who knows the platform by its name.
func (p *platform) explain(err error) error {
	e := &dispatch.Error{Kind: dispatch.SignInRequired, Op: "identity.Token", Err: err}
	switch {
	case errors.Is(err, errNotLinked):
		e.Text, e.Link = fmt.Sprintf("Link your account at %s to your sign-in here.", p.Name), p.Link
	case errors.Is(err, errLinkEnded):
		e.Text, e.Link = fmt.Sprintf("The link to your account at %s has ended. Link it again.", p.Name), p.Link
	case errors.Is(err, errSubjectEnded):
		e.Text = fmt.Sprintf("Sign in again, so that %s can be used in your name.", p.Name)
	default:
		return p.excuse(err)
	}
	return e
}

// excuse is for what the user cannot mend.
func (p *platform) excuse(err error) error {
	e := &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", Err: err,
		Text: fmt.Sprintf("The identity provider for %s gives no token at the moment.", p.Name)}
	if dispatch.Is(err, dispatch.Misconfigured) {
		e.Kind = dispatch.Misconfigured
		e.Text = fmt.Sprintf("The access to %s is not set up correctly here. The operator of this service must mend it.", p.Name)
	}
	if cause, ok := errors.AsType[*dispatch.Error](err); ok {
		e.Text, e.RetryAfter = cmp.Or(cause.Text, e.Text), cause.RetryAfter
	}
	return e
}

func misconfigured(err error) error {
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.Token", Err: err}
}

func unavailable(err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", Err: err}
}

const maxSubjects = 10_000

// subject is a user's own token.
type subject struct {
	token   dispatch.Secret
	expires time.Time
}

// subjects keeps one token for each user, those users' that came last.
type subjects struct {
	now  func() time.Time
	mu   sync.Mutex
	held *lru[dispatch.UserID, *subject]
}

func newSubjects(now func() time.Time) *subjects {
	return &subjects{now: now, held: newLRU[dispatch.UserID, *subject](maxSubjects)}
}

// offer keeps s unless a token is known that lasts longer.
func (s *subjects) offer(user dispatch.UserID, offered subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.held.get(user); ok && held.expires.After(offered.expires) {
		return
	}
	offered.token = dispatch.Secret(strings.Clone(string(offered.token)))
	s.held.put(user, &offered)
}

// of gives a user's token, "" when there is none that has not expired.
func (s *subjects) of(user dispatch.UserID) dispatch.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held.get(user)
	if !ok {
		return ""
	}
	if !s.now().Before(held.expires) {
		s.held.drop(user)
		return ""
	}
	return held.token
}

// drop forgets a token that its issuer takes no more.
func (s *subjects) drop(user dispatch.UserID, token dispatch.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.held.get(user); ok && held.token == token {
		s.held.drop(user)
	}
}
