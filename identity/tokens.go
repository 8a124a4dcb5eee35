// Package identity verifies who sends a request, and obtains the tokens with which the broker acts on platforms.
//
// A [Verifier] turns a bearer token into a [Caller]. [Tokens] implements dispatch.Tokens. Platforms with access open
// need no token. Platforms with access shared use the token of a service account. Platforms with access user use the
// user's own token for the platform, which the identity provider issues in exchange for the caller's token; each kind
// of exchange is a driver. Exchanges run one at a time for each user in all processes, behind a gate that closes while
// an identity provider fails.
//
// A caller's token is sent to the broker's identity provider only (by the driver passthrough also to a platform of the
// same issuer), and a client secret only to the token endpoint that it belongs to. Redirects are never followed. No
// error contains a token or a secret.
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
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// TokensConfig configures how tokens for platforms are obtained.
type TokensConfig struct {
	// The broker's own client at the first issuer of its users, which exchanges their tokens. Not needed if no platform
	// has access user.
	Issuer       string
	ClientID     string
	ClientSecret dispatch.Secret
	// used instead of the secret: a private key in PEM with which the client signs assertions
	ClientKey dispatch.Secret

	// Issuers are further issuers of users' tokens.
	Issuers []IssuerConfig

	Platforms   []Platform
	Client      *upstream.Client // for requests to identity providers
	Now         func() time.Time // nil: time.Now
	Log         *slog.Logger     // nil: nothing is logged
	Development bool             // allows http

	// Shared by the processes that share a database; nil: there is only one process.
	Locker       Locker
	SharedTokens TokenStore

	// Vault stores users' permissions, encrypted; nil: there are none.
	Vault Vault
	Keys  *Keyring
	// OnToken is called when a token for a platform was requested from an identity provider; nil: nothing is called.
	OnToken func(platform string, err error)
	// SessionGrants takes permissions from the sessions of users who have jobs, if the provider permits it.
	SessionGrants bool
}

// Platform configures how tokens for one platform are obtained.
type Platform struct {
	Name     string
	Access   dispatch.Access
	Account  ServiceAccount // for access shared
	Exchange Exchange       // for access user
	Issuer   string         // of the platform's tokens; "": not known. Tokens of another issuer are never used
	Link     string         // page where users link their account at the platform; "": none
	LinkLife time.Duration  // how long an unused link lasts; 0: not known, unused links are not kept alive
}

// Tokens obtains tokens for platforms. It is safe for concurrent use. It caches tokens in memory, and
// shares them with other processes only through [TokensConfig.SharedTokens].
type Tokens struct {
	platforms map[string]*platform
	subjects  *subjects
	grants    *grants // nil: permissions are not stored
	own       *exchangeClient
	log       *slog.Logger
	now       func() time.Time

	actsForNobody bool // no platform is used with the token of a user of this issuer

	issuers map[string]*Tokens // of the users of further issuers
}

type platform struct {
	Platform
	source *source                                            // nil: no token is needed
	check  func(context.Context) (unproven string, err error) // checks whether the settings are correct
}

var _ dispatch.Tokens = (*Tokens)(nil)

// NewTokens returns Tokens for a configuration. It checks the configuration without any request; the error is
// Misconfigured and lists all faults.
func NewTokens(c TokensConfig) (*Tokens, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{platforms: map[string]*platform{}, subjects: newSubjects(c.Now), issuers: map[string]*Tokens{},
		now: c.Now}
	b := tokensBuilder{TokensConfig: c, Tokens: t, exchanges: map[exchangeKey]*exchange{}}
	if c.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnToken == nil {
		b.OnToken = func(string, error) {}
	}
	if c.Client == nil {
		b.fault("there is no HTTP client")
		b.Client = upstream.New(upstream.Config{})
	}
	t.log, t.subjects.log, t.subjects.shared = b.Log, b.Log, c.SharedTokens
	b.client = newClient(b.Client, c.Now)
	auth, fault := newClientAuth(c.ClientID, c.ClientSecret, c.ClientKey)
	if c.ClientSecret+c.ClientKey == "" {
		auth = clientAuth{ID: c.ClientID}
	}
	t.own, b.authFault = &exchangeClient{b.provider(c.Issuer), auth}, fault
	if c.Vault != nil && c.Keys != nil {
		t.grants = &grants{vault: c.Vault, ring: c.Keys, client: t.own, locker: c.Locker, now: c.Now, log: b.Log,
			sessions: c.SessionGrants && b.authFault == nil, refused: newLRU[dispatch.UserID, time.Time](maxRefused),
			gate: &gate{now: c.Now, log: b.Log.With("grants_of", c.Issuer), lanes: make(chan struct{}, abreast)}}
		t.subjects.grants = t.grants
	}
	for _, p := range c.Platforms {
		if t.platforms[p.Name] != nil {
			b.fault("platform %s is listed twice", p.Name)
		}
		t.platforms[p.Name] = b.platform(p)
	}
	t.actsForNobody = len(b.exchanges) == 0 && t.grants == nil
	for _, i := range c.Issuers {
		further, err := NewTokens(c.tokensOf(i))
		if err != nil {
			b.fault("issuer %s: %w", i.Issuer, err)
		}
		if i.Issuer == c.Issuer || t.issuers[i.Issuer] != nil {
			b.fault("issuer %s is listed twice", i.Issuer)
		}
		t.issuers[i.Issuer] = further
	}
	if err := errors.Join(b.faults...); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.NewTokens", Err: err,
			Text: "The settings of a platform's access are not valid."}
	}
	return t, nil
}

// tokensBuilder collects the faults of a configuration.
type tokensBuilder struct {
	TokensConfig
	*Tokens
	client    *client
	authFault error // only reported if the client is needed
	exchanges map[exchangeKey]*exchange
	faults    []error
}

func (b *tokensBuilder) provider(issuer string) *provider {
	return &provider{client: b.client, issuer: issuer, insecure: b.Development}
}

// exchangeKey identifies exchanges that platforms can share.
type exchangeKey struct {
	Exchange
	issuer string // whose provider is asked
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
	obtain := func(ctx context.Context, _ wanted) (issued, error) {
		got, err := account.token(ctx)
		b.OnToken(p.Name, err)
		return got, err
	}
	return &platform{p, newSource(b.Now, obtain), func(ctx context.Context) (string, error) {
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
	if b.authFault != nil && (!d.public || b.own.ID == "") {
		b.fault("platform %s: access user needs the client of identity: %w", p.Name, b.authFault)
	}
	e, err := d.create(*b.own, p)
	if err != nil {
		b.fault("platform %s: exchange: %w", p.Name, err)
		return nil
	}
	shared := b.exchange(d, p, e)
	if d.linked && p.Issuer != "" {
		shared.gate.alive = b.provider(p.Issuer).alive
	}
	return &platform{p, shared.source, e.check}
}

// exchange returns the exchange of a platform, which it may share with others.
func (b *tokensBuilder) exchange(d driver, p Platform, e exchanger) *exchange {
	key := exchangeKey{Exchange: p.Exchange}
	if d.asks {
		key.issuer = p.Issuer
	}
	if x := b.exchanges[key]; x != nil {
		return x
	}
	lanes := abreast
	if d.linked {
		lanes = 1
	}
	name := strings.Join([]string{b.Issuer, p.Exchange.Driver, p.Exchange.Alias, p.Exchange.Audience,
		p.Exchange.ClientID, key.issuer}, " ")
	x := &exchange{exchanger: e, name: name, locker: b.Locker, tokens: b.SharedTokens,
		gate: &gate{now: b.Now, log: b.Log.With("driver", p.Exchange.Driver, "platform", p.Name),
			lanes: make(chan struct{}, lanes)}}
	x.source = newSource(b.Now, func(ctx context.Context, w wanted) (issued, error) {
		got, err := x.obtain(ctx, w)
		b.OnToken(p.Name, err)
		b.Log.InfoContext(ctx, "audit", "action", "exchange", "user", string(w.id), "platform", p.Name, "ok",
			err == nil, "error", err)
		if err == nil && b.grants != nil {
			b.grants.fromSession(ctx, w.id, w.subject)
		}
		return got, err
	})
	x.source.subjects, x.source.elsewhere = b.subjects, x.obtainedElsewhere
	b.exchanges[key] = x
	return x
}

// StoreUserToken stores a caller's verified token, so that every process can act for the user until it expires. It
// reports whether the token is new to this process and stored, and stores nothing if the broker acts for no users.
func (t *Tokens) StoreUserToken(ctx context.Context, user dispatch.UserID, token dispatch.Secret,
	expires time.Time) (stored bool) {
	if t = t.of(user); t.actsForNobody || !t.subjects.store(user, subject{token, expires}) {
		return false
	}
	t.subjects.share(ctx, user, subject{token, expires})
	return true
}

// Token returns the token with which to act for an account. Errors: SignInRequired, Misconfigured, Unavailable.
func (t *Tokens) Token(ctx context.Context, a dispatch.Account) (dispatch.Token, error) {
	t = t.of(dispatch.UserID(a.Identity()))
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
		return dispatch.Token{}, p.explain(misconfigured(
			fmt.Errorf("the token for platform %s is issued by %q, not by %q",
				p.Name, printable(got.issuer, 200), p.Issuer)))
	}
	return dispatch.Token{Secret: got.token, Issuer: cmp.Or(got.issuer, p.Issuer)}, nil
}

// Link returns the page where the user of an account links it at the platform, or gives permission to use it; "": there
// is none.
func (t *Tokens) Link(a dispatch.Account) string {
	if p := t.of(dispatch.UserID(a.Identity())).platforms[a.Platform()]; p != nil {
		return p.Link
	}
	return ""
}

// Check tries the settings of a platform's access as far as that is possible without a user, by requests that the
// providers must refuse or that give no access. Its error has the kind that Token would return; unproven describes what
// could not be tried.
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

// Invalidate discards a token that the platform refused. If the identity provider returns the same token again, Token
// is Unavailable until it returns another; the provider is asked from time to time.
func (t *Tokens) Invalidate(a dispatch.Account, refused dispatch.Token) {
	if p := t.of(dispatch.UserID(a.Identity())).platforms[a.Platform()]; p != nil && p.source != nil {
		p.source.refuse(p.identity(a), refused.Secret)
	}
}

// Grants returns a user's permissions to act for them after they have signed out.
func (t *Tokens) Grants(ctx context.Context, u dispatch.UserID) ([]dispatch.Grant, error) {
	if t = t.of(u); t.grants == nil {
		return nil, nil
	}
	return t.grants.vault.Grants(ctx, u)
}

// Revoke withdraws a permission at the provider and here, and discards the tokens that were obtained with it. NotFound.
func (t *Tokens) Revoke(ctx context.Context, u dispatch.UserID, id string) error {
	if t = t.of(u); t.grants == nil {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "identity.Revoke", Text: "There is no such permission."}
	}
	if err := t.grants.withdraw(ctx, u, id); err != nil {
		return err
	}
	t.subjects.forget(u)
	if err := t.grants.vault.EraseTokens(ctx, u); err != nil {
		return err
	}
	for _, p := range t.platforms {
		if p.Access == dispatch.AccessUser {
			p.source.drop(u)
		}
	}
	return nil
}

// RevokeAll revokes at the identity provider the permissions that users withdrew while it did not respond.
func (t *Tokens) RevokeAll(ctx context.Context) error {
	if t.grants == nil {
		return nil
	}
	return t.grants.revokeAll(ctx)
}

// Refresh uses what would expire unused: the grant of an account's user, and the link to their account, by an exchange.
func (t *Tokens) Refresh(ctx context.Context, a dispatch.Account) error {
	t = t.of(dispatch.UserID(a.Identity()))
	p := t.platforms[a.Platform()]
	if p == nil || p.Access != dispatch.AccessUser {
		return nil
	}
	u := p.identity(a)
	if t.grants != nil {
		if err := t.grants.refreshIfDue(ctx, u, t.subjects); err != nil {
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

func (t *Tokens) linkAction(p Purpose) (action string, err error) {
	if p.Away {
		if t.grants == nil {
			return "", &dispatch.Error{Kind: dispatch.Unsupported, Op: "identity.SignIn",
				Text: "This service does not run jobs after their users sign out, because it has no vault for " +
					"permissions."}
		}
		return "", nil
	}
	at := t.platforms[p.Platform]
	if at == nil || at.Access != dispatch.AccessUser || !drivers[at.Exchange.Driver].linked {
		return "", &dispatch.Error{Kind: dispatch.NotFound, Op: "identity.SignIn",
			Text: "No platform of this name uses linked accounts."}
	}
	return "idp_link:" + at.Exchange.Alias, nil
}

// tryLink exchanges the token of a user who has just linked their account.
func (t *Tokens) tryLink(ctx context.Context, platform string, u dispatch.UserID) error {
	p := t.platforms[platform]
	if _, err := p.source.linked(ctx, u); err != nil {
		return p.explain(err)
	}
	return nil
}

// identity returns whose token the account needs. All users share the token of a service account.
func (p *platform) identity(a dispatch.Account) dispatch.UserID {
	if p.Access == dispatch.AccessShared {
		return ""
	}
	return dispatch.UserID(a.Identity())
}

// explain adds the text for the user, with the name of the platform, to an error.
func (p *platform) explain(err error) error {
	e := &dispatch.Error{Kind: dispatch.SignInRequired, Op: "identity.Token", Err: err}
	switch {
	case errors.Is(err, errNotLinked):
		e.Text, e.Link = fmt.Sprintf("Link your account at %s to continue.", p.Name), p.Link
	case errors.Is(err, errLinkEnded):
		e.Text, e.Link = fmt.Sprintf("The link to your account at %s has ended. Link it again.", p.Name), p.Link
	case errors.Is(err, errSubjectEnded):
		e.Text = fmt.Sprintf("Sign in again, so that the broker can use %s on your behalf.", p.Name)
	default:
		return p.errorForUser(err)
	}
	return e
}

// errorForUser returns the error for what the user cannot resolve. An error of the database stays one, because no
// provider caused it.
func (p *platform) errorForUser(err error) error {
	if e := dispatch.DatabaseError(err); e != nil {
		return e
	}
	e := &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", Err: err,
		Text: fmt.Sprintf("The identity provider for %s does not issue tokens at the moment. The broker keeps trying.",
			p.Name)}
	if dispatch.Is(err, dispatch.Misconfigured) {
		e.Kind = dispatch.Misconfigured
		e.Text = fmt.Sprintf("The access to %s is not configured correctly. The operator of this service must "+
			"correct it.", p.Name)
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

// subject is a user's own token and its expiry.
type subject struct {
	token   dispatch.Secret
	expires time.Time
}

// subjects keeps the last token of each of the users who sent requests most recently, to this process or another.
type subjects struct {
	now    func() time.Time
	shared TokenStore // nil: there is no other process
	grants *grants    // of users who are not connected; nil: there are none
	log    *slog.Logger
	mu     sync.Mutex
	held   *lru[dispatch.UserID, *subject]
}

func newSubjects(now func() time.Time) *subjects {
	return &subjects{now: now, held: newLRU[dispatch.UserID, *subject](maxSubjects)}
}

// store stores a token in this process, and reports whether it did: not if the token is known, or a known one lasts
// longer.
func (s *subjects) store(user dispatch.UserID, offered subject) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.held.Get(user); ok && (*held == offered || held.expires.After(offered.expires)) {
		return false
	}
	offered.token = dispatch.Secret(strings.Clone(string(offered.token)))
	s.held.Add(user, &offered)
	return true
}

// sharedName is the name under which processes share a user's own token.
func sharedName(user dispatch.UserID) string { return "user " + string(user) }

// share lets the other processes act for a user: any of them may visit the user's accounts.
func (s *subjects) share(ctx context.Context, user dispatch.UserID, own subject) {
	if s.shared == nil {
		return
	}
	t := SharedToken{Name: sharedName(user), Owner: user, Token: own.token, Expires: own.expires, Longest: true}
	if err := s.shared.Put(ctx, t); err != nil {
		s.log.Log(ctx, dispatch.LogLevel(err), "sharing a user's token with other processes failed", "error", err)
	}
}

// get returns a user's token, which another process may have received, or obtains one with their grant. Errors:
// errSubjectEnded.
func (s *subjects) get(ctx context.Context, user dispatch.UserID) (dispatch.Secret, error) {
	if own := s.of(user); own != "" {
		return own, nil
	}
	if own, err := s.receivedElsewhere(ctx, user); err != nil || own != "" {
		return own, err
	}
	if s.grants == nil {
		return "", errSubjectEnded
	}
	return s.grants.obtain(ctx, user, s)
}

// receivedElsewhere returns a user's token that another process received; "" if there is none.
func (s *subjects) receivedElsewhere(ctx context.Context, user dispatch.UserID) (dispatch.Secret, error) {
	if s.shared == nil {
		return "", nil
	}
	token, expires, err := s.shared.Find(ctx, sharedName(user))
	if err != nil || token == "" || !s.now().Before(expires) {
		return "", err
	}
	s.store(user, subject{token, expires})
	return token, nil
}

// of returns a user's token; "" if there is none that has not expired.
func (s *subjects) of(user dispatch.UserID) dispatch.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held.Get(user)
	if !ok {
		return ""
	}
	if !s.now().Before(held.expires) {
		s.held.Remove(user)
		return ""
	}
	return held.token
}

func (s *subjects) forget(user dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Remove(user)
}

// drop discards a token that its issuer no longer accepts, in all processes.
func (s *subjects) drop(ctx context.Context, user dispatch.UserID, token dispatch.Secret) {
	expires, held := s.dropHere(user, token)
	if !held || s.shared == nil {
		return
	}
	if err := s.shared.Erase(ctx, sharedName(user), expires); err != nil {
		s.log.Log(ctx, dispatch.LogLevel(err), "erasing a user's token that the identity provider refused failed",
			"error", err)
	}
}

// dropHere discards a token in this process, and returns when it expires if it was held.
func (s *subjects) dropHere(user dispatch.UserID, token dispatch.Secret) (expires time.Time, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held.Get(user)
	if !ok || held.token != token {
		return time.Time{}, false
	}
	s.held.Remove(user)
	return held.expires, true
}
