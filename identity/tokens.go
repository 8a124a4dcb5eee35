package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// TokensConfig says how tokens for platforms are had.
type TokensConfig struct {
	// The broker's own client at the issuer of its users, with which their tokens are exchanged. Not needed where no
	// platform is of access user.
	Issuer       string
	ClientID     string
	ClientSecret dispatch.Secret
	ClientKey    dispatch.Secret // in place of the secret: a private key in PEM, with which the client signs who it is

	Platforms   []Platform
	Client      *upstream.Client // for identity providers
	Now         func() time.Time // nil: time.Now
	Log         *slog.Logger     // nil: nothing is logged
	Development bool             // allows http

	// What the processes share that serve together; nil: there is one only.
	Locker       Locker
	SharedTokens TokenStore

	// Where permissions to act for users who are away are kept, sealed; nil: they are not.
	Vault dispatch.Vault
	Keys  *Keyring
	// SessionGrants takes such permission from the sessions of users who have work, where the provider gives it.
	SessionGrants bool
}

// Platform says how tokens for one platform are had.
type Platform struct {
	Name     string
	Access   dispatch.Access
	Account  ServiceAccount // for access shared
	Exchange Exchange       // for access user
	Issuer   string         // of the platform's tokens; "": not known. A token of another is never given out
	Link     string         // where users link their account at the platform; "": nowhere
	LinkLife time.Duration  // how long a link lasts that is not used; 0: not known, nothing is done to keep it
}

// Tokens gives the tokens for platforms. It is safe for concurrent use, and keeps everything in memory.
type Tokens struct {
	platforms map[string]*platform
	subjects  *subjects
	grants    *grants // nil: none are kept
	own       *exchangeClient
	log       *slog.Logger
	now       func() time.Time
}

type platform struct {
	Platform
	source *source                                            // nil: no token is needed
	check  func(context.Context) (unproven string, err error) // whether the settings are good
}

var _ dispatch.Tokens = (*Tokens)(nil)

// NewTokens checks the configuration; what is wrong is Misconfigured, all at once. It asks nobody.
func NewTokens(c TokensConfig) (*Tokens, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{platforms: map[string]*platform{}, subjects: newSubjects(c.Now)}
	b := tokensBuilder{TokensConfig: c, subjects: t.subjects, exchanges: map[exchangeKey]*sharedExchange{}}
	if c.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	if c.Client == nil {
		b.fault("there is no HTTP client")
		b.Client = upstream.New(upstream.Config{})
	}
	b.client = newClient(b.Client, c.Now)
	b.own = &provider{client: b.client, issuer: c.Issuer, insecure: c.Development}
	b.auth, b.authFault = newClientAuth(c.ClientID, c.ClientSecret, c.ClientKey)
	t.own, t.now = &exchangeClient{b.own, b.auth}, c.Now
	t.log = b.Log
	if c.Vault != nil && c.Keys != nil {
		t.grants = &grants{vault: c.Vault, ring: c.Keys, client: t.own, locker: c.Locker, now: c.Now, log: b.Log, sessions: c.SessionGrants, refused: newLRU[dispatch.UserID, time.Time](maxRefused),
			gate: &gate{now: c.Now, log: b.Log.With("grants_of", c.Issuer), lanes: make(chan struct{}, abreast)}}
		t.subjects.grants, b.grants = t.grants, t.grants
	}
	for _, p := range c.Platforms {
		if t.platforms[p.Name] != nil {
			b.fault("platform %s is there twice", p.Name)
		}
		t.platforms[p.Name] = b.platform(p)
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
	auth      clientAuth
	authFault error // matters only where the client is needed
	subjects  *subjects
	grants    *grants
	exchanges map[exchangeKey]*sharedExchange
	faults    []error
}

// exchangeKey tells exchanges apart.
type exchangeKey struct {
	Exchange
	issuer string // where it is asked
}

// sharedExchange is what platforms of one exchange share.
type sharedExchange struct {
	*exchange
	source *source
}

func (b *tokensBuilder) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

func (b *tokensBuilder) platform(p Platform) *platform {
	switch p.Access {
	case dispatch.AccessOpen:
		return &platform{Platform: p}
	case dispatch.AccessShared:
		return b.shared(p)
	case dispatch.AccessUser:
		return b.user(p)
	}
	b.fault("platform %s: access %q is none of user, shared, open", p.Name, p.Access)
	return nil
}

func (b *tokensBuilder) shared(p Platform) *platform {
	account, err := newServiceAccount(b.client, p.Account, b.Development)
	if err != nil {
		b.fault("platform %s: service_account: %w", p.Name, err)
		return nil
	}
	obtain := func(ctx context.Context, _ wanted) (issued, error) { return account.token(ctx) }
	return &platform{p, newSource(b.Now, nil, obtain), func(ctx context.Context) (string, error) {
		_, err := account.token(ctx)
		return "", err
	}}
}

func (b *tokensBuilder) user(p Platform) *platform {
	d, ok := drivers[p.Exchange.Driver]
	if !ok {
		b.fault("platform %s: there is no exchange driver %q", p.Name, p.Exchange.Driver)
		return nil
	}
	if err := checkIssuer(b.Issuer, b.Development); err != nil {
		b.fault("platform %s: access user needs identity.issuer, which %w", p.Name, err)
	}
	if b.authFault != nil {
		b.fault("platform %s: access user needs the client of identity: %w", p.Name, b.authFault)
	}
	e, err := d.create(exchangeClient{b.own, b.auth}, p)
	if err != nil {
		b.fault("platform %s: exchange: %w", p.Name, err)
		return nil
	}
	shared := b.exchange(d, p, e)
	if d.linked && p.Issuer != "" {
		shared.gate.alive = (&provider{client: b.client, issuer: p.Issuer, insecure: b.Development}).alive
	}
	return &platform{p, shared.source, e.check}
}

// exchange finds or makes what the platform shares with others.
func (b *tokensBuilder) exchange(d driver, p Platform, e exchanger) *sharedExchange {
	key := exchangeKey{Exchange: p.Exchange}
	if d.asks {
		key.issuer = p.Issuer
	}
	if s := b.exchanges[key]; s != nil {
		return s
	}
	lanes := abreast
	if d.linked {
		lanes = 1
	}
	name := strings.Join([]string{b.Issuer, p.Exchange.Driver, p.Exchange.Alias, p.Exchange.Audience, p.Exchange.ClientID, key.issuer}, " ")
	x := &exchange{exchanger: e, name: name, locker: b.Locker, tokens: b.SharedTokens,
		gate: &gate{now: b.Now, log: b.Log.With("driver", p.Exchange.Driver, "platform", p.Name), lanes: make(chan struct{}, lanes)}}
	s := &sharedExchange{x, newSource(b.Now, b.subjects, b.keeping(p.Name, x.obtain))}
	b.exchanges[key] = s
	return s
}

// keeping tells the operator of each exchange, and takes permission to act for a user from the session in which they have a token
// exchanged.
func (b *tokensBuilder) keeping(platform string, obtain func(context.Context, wanted) (issued, error)) func(context.Context, wanted) (issued, error) {
	return func(ctx context.Context, w wanted) (issued, error) {
		got, err := obtain(ctx, w)
		b.Log.InfoContext(ctx, "audit", "action", "exchange", "user", string(w.id), "platform", platform, "ok", err == nil, "error", err)
		if err == nil && b.grants != nil {
			b.grants.fromSession(ctx, w.id, w.subject)
		}
		return got, err
	}
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

// Check tries the settings of a platform's access, as far as that is possible without a user: the providers are asked for
// something that they must refuse, and for something that helps nobody. The error says who can mend it, as that of Token;
// unproven is what could not be tried, "" for nothing.
func (t *Tokens) Check(ctx context.Context, platform string) (unproven string, err error) {
	p := t.platforms[platform]
	if p == nil {
		return "", misconfigured(fmt.Errorf("no platform %q", platform))
	}
	if p.check == nil {
		return "", nil
	}
	if unproven, err = p.check(ctx); err != nil {
		return "", p.explain(err)
	}
	return unproven, nil
}

// Refused drops a token that the platform did not take. Where the identity provider goes on giving the same one, Token
// is Unavailable until it gives another; it is asked now and then.
func (t *Tokens) Refused(a dispatch.Account, refused dispatch.Token) {
	if p := t.platforms[a.Platform()]; p != nil && p.source != nil {
		p.source.refuse(p.identity(a), refused.Secret)
	}
}

// Grants gives a user's permissions to act while they are away.
func (t *Tokens) Grants(ctx context.Context, u dispatch.UserID) ([]dispatch.Grant, error) {
	if t.grants == nil {
		return nil, nil
	}
	return t.grants.vault.Grants(ctx, u)
}

// Revoke takes a permission back, at the provider and here, and forgets what was had by it. NotFound.
func (t *Tokens) Revoke(ctx context.Context, u dispatch.UserID, id string) error {
	if t.grants == nil {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "identity.Revoke", Text: "There is no such grant."}
	}
	if err := t.grants.withdraw(ctx, u, id); err != nil {
		return err
	}
	t.subjects.forget(u)
	for _, p := range t.platforms {
		if p.Access == dispatch.AccessUser {
			p.source.drop(u)
		}
	}
	return nil
}

// RevokeAll revokes at the identity provider what users took back while that could not be done.
func (t *Tokens) RevokeAll(ctx context.Context) error {
	if t.grants == nil {
		return nil
	}
	return t.grants.revokeAll(ctx)
}

// Keep uses what would end if it were not used: the grant of an account's user, and where the provider keeps a link to
// their account, that, by an exchange.
func (t *Tokens) Keep(ctx context.Context, a dispatch.Account) error {
	p := t.platforms[a.Platform()]
	if p == nil || p.Access != dispatch.AccessUser {
		return nil
	}
	u := p.identity(a)
	if t.grants != nil {
		if err := t.grants.freshen(ctx, u, t.subjects); err != nil {
			return p.explain(err)
		}
	}
	if !drivers[p.Exchange.Driver].linked || p.LinkLife == 0 || !p.source.older(u, p.LinkLife/3) {
		return nil
	}
	p.source.forget(u)
	if _, err := p.source.token(ctx, u); err != nil {
		return p.explain(err)
	}
	return nil
}

// linking is what a provider is asked to do for a purpose.
func (t *Tokens) linking(p Purpose) (action string, err error) {
	if p.Away {
		if t.grants == nil {
			return "", &dispatch.Error{Kind: dispatch.Unsupported, Op: "identity.SignIn", Text: "This service keeps nothing for users who are away."}
		}
		return "", nil
	}
	at := t.platforms[p.Platform]
	if at == nil || at.Access != dispatch.AccessUser || !drivers[at.Exchange.Driver].linked {
		return "", &dispatch.Error{Kind: dispatch.NotFound, Op: "identity.SignIn", Text: "There is no platform of this name to which accounts are linked."}
	}
	return "idp_link:" + at.Exchange.Alias, nil
}

// prove has a user's token exchanged anew.
func (t *Tokens) prove(ctx context.Context, platform string, u dispatch.UserID) error {
	p := t.platforms[platform]
	p.source.forget(u)
	_, err := p.source.token(ctx, u)
	if err != nil {
		return p.explain(err)
	}
	return nil
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

// excuse is for what the user cannot mend. An error of the database stays one: no provider is to blame.
func (p *platform) excuse(err error) error {
	if e := dispatch.OfDatabase(err); e != nil {
		return e
	}
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
	now    func() time.Time
	grants *grants // of users who are away; nil: there are none
	mu     sync.Mutex
	held   *lru[dispatch.UserID, *subject]
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

// get gives a user's token, by their grant if they are away. Errors: errSubjectEnded.
func (s *subjects) get(ctx context.Context, user dispatch.UserID) (dispatch.Secret, error) {
	own := s.of(user)
	switch {
	case own != "":
		return own, nil
	case s.grants == nil:
		return "", errSubjectEnded
	}
	return s.grants.obtain(ctx, user, s)
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

// forget drops whatever there is of a user's.
func (s *subjects) forget(user dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.drop(user)
}

// drop forgets a token that its issuer takes no more.
func (s *subjects) drop(user dispatch.UserID, token dispatch.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.held.get(user); ok && held.token == token {
		s.held.drop(user)
	}
}
