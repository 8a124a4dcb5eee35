package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cli/browser"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/eodispatch/eodispatch/client"
)

type login struct {
	*app
	name, issuer, clientID string
	device, offline        bool
}

func (a *app) loginCommand() *cobra.Command {
	l := &login{app: a}
	command := &cobra.Command{Use: "login [URL]", GroupID: "access", Args: cobra.MaximumNArgs(1),
		Short: "Sign in to a broker",
		Long: `Sign in to a broker. The sign-in is kept in a file that only you can read, and renewed when it is used.

On a machine with a display your browser opens. Elsewhere, open the page that is shown in a browser on any machine, and
enter the code.

Programs need no login: set EODISPATCH_TOKEN, or EODISPATCH_CLIENT_ID, EODISPATCH_CLIENT_SECRET and EODISPATCH_ISSUER,
the identity provider that gets the secret.`,
		Example: `  eodispatch login https://broker.example.org
  eodispatch login https://broker.example.org --name production --offline`,
		RunE: a.run(l.run)}
	flags := command.Flags()
	flags.StringVar(&l.name, "name", "", "name of this broker for --broker; default: its host")
	flags.BoolVar(&l.device, "device", false, "do not open a browser; show a page and a code")
	flags.BoolVar(&l.offline, "offline", false,
		"stay signed in after your session at the identity provider has ended, for cron jobs (scope offline_access)")
	flags.StringVar(&l.issuer, "issuer", "", "identity provider; default: that of the broker")
	flags.StringVar(&l.clientID, "client-id", "", "public client at the identity provider; default: that of the broker")
	return command
}

func (l *login) run(ctx context.Context, args []string) error {
	s, err := l.sessions()
	if err != nil {
		return err
	}
	broker := append(args, "")[0]
	if broker == "" {
		if broker, err = l.chosen(s); err != nil {
			return err
		}
	}
	if one, known := s.find(broker); known {
		broker = one.URL
	}
	c, err := l.open(broker)
	if err != nil {
		return usage("%w", err)
	}
	name := cmp.Or(l.name, nameOf(c.URL()))
	if !sessionName.MatchString(name) {
		return usage("--name %q: write letters, digits, dots, dashes and underscores", name)
	}
	one, err := l.signIn(ctx, c)
	if err != nil {
		return err
	}
	one.Name = name
	if err := s.replace(ctx, one); err != nil {
		return err
	}
	who := claimsOf(one.Grant.AccessToken)
	if l.json {
		return l.print(map[string]any{"broker": one.URL, "name": name, "user": who.user()})
	}
	l.hint("Signed in to %s as %s.", one.URL, oneLine(who.user(), 200))
	return nil
}

// signIn lets the user sign in and returns what is to be stored.
func (l *login) signIn(ctx context.Context, c *client.Client) (session, error) {
	how, err := c.SignIn(ctx)
	if err != nil && (l.issuer == "" || l.clientID == "") {
		return session{}, err
	}
	if l.clientID = cmp.Or(l.clientID, how.ClientID); l.clientID == "" {
		return session{}, fmt.Errorf("%s has no client for the command line. Ask its operator for one "+
			"(identity.command_line_client), and give it with --client-id", c.URL())
	}
	if l.issuer == "" {
		l.issuer = how.Issuer
		if err := l.apart(c.URL()); err != nil {
			return session{}, err
		}
	}
	p, err := l.provider(ctx, l.issuer)
	if err != nil {
		return session{}, err
	}
	var more struct {
		Revocation string `json:"revocation_endpoint"`
	}
	if err := errors.Join(p.Claims(&more), l.private(more.Revocation)); err != nil {
		return session{}, err
	}
	settings := &oauth2.Config{ClientID: l.clientID, Endpoint: p.Endpoint(), Scopes: []string{oidc.ScopeOpenID}}
	settings.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if l.offline {
		settings.Scopes = append(settings.Scopes, oidc.ScopeOfflineAccess)
	}
	grant, err := l.grant(ctx, settings)
	return session{URL: c.URL(), Issuer: l.issuer, ClientID: l.clientID, Endpoint: settings.Endpoint.TokenURL,
		Revocation: more.Revocation, Grant: grant}, err
}

// noRedirects calls identity providers. It follows no redirect, which would take a code, a refresh token or a secret to
// another address.
func (a *app) noRedirects() *http.Client {
	return &http.Client{Transport: oneProtocol{a.Transport}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// oneProtocol sends requests by a transport; nil: the default one. It refuses responses that switch protocols: their
// body is the connection, and no deadline ends a read of that.
type oneProtocol struct{ by http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o oneProtocol) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := cmp.Or(o.by, http.DefaultTransport).RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.Join(errors.New("the server does not speak HTTP"), response.Body.Close())
	}
	return response, err
}

// direct returns a context in which the libraries for OpenID Connect and OAuth call by noRedirects.
func (a *app) direct(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, a.noRedirects())
}

// apart refuses a sign-in by the identity provider and client of another broker, unless the user names the provider: a
// broker could name those of another one and use the token there.
func (l *login) apart(address string) error {
	s, err := l.sessions()
	if err != nil {
		return err
	}
	for _, one := range s.all() {
		if one.URL != address && one.ClientID == l.clientID &&
			strings.TrimRight(one.Issuer, "/") == strings.TrimRight(l.issuer, "/") {
			return &exitError{ExitSignIn,
				fmt.Errorf("%s uses the same identity provider and client as %s, so each could act for you at the "+
					"other. If you trust both, add --issuer %s", address, one.URL, l.issuer)}
		}
	}
	return nil
}

// provider reads the endpoints of an identity provider.
func (a *app) provider(ctx context.Context, issuer string) (*oidc.Provider, error) {
	if err := a.private(issuer); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	p, err := oidc.NewProvider(a.direct(ctx), issuer)
	if err != nil {
		return nil, fmt.Errorf("%s is not a working identity provider: %w", issuer, err)
	}
	return p, a.private(p.Endpoint().AuthURL, p.Endpoint().TokenURL, p.Endpoint().DeviceAuthURL)
}

const signInWithin = 10 * time.Minute

func (l *login) grant(ctx context.Context, settings *oauth2.Config) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(l.direct(ctx), signInWithin)
	defer cancel()
	var grant *oauth2.Token
	var err error
	switch {
	case !l.device && l.hasDisplay():
		grant, err = l.byBrowser(ctx, settings)
	case settings.Endpoint.DeviceAuthURL == "":
		return nil, &exitError{ExitSignIn,
			errors.New("the identity provider does not support device sign-in. Run login on a machine with a browser")}
	case !l.device && !isTerminal(l.Err):
		return nil, &exitError{ExitSignIn,
			errors.New("no browser or terminal to sign in with. Set EODISPATCH_TOKEN, or EODISPATCH_CLIENT_ID, " +
				"EODISPATCH_CLIENT_SECRET and EODISPATCH_ISSUER, or run login --device")}
	default:
		grant, err = l.byDevice(ctx, settings)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nobody signed in within %v", signInWithin)
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		err = fmt.Errorf("the identity provider refuses the sign-in: %s %s", e.ErrorCode, e.ErrorDescription)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = &exitError{ExitSignIn, err}
	}
	return grant, err
}

// hasDisplay reports whether a browser can be opened where the user sees it.
func (a *app) hasDisplay() bool {
	switch runtime.GOOS {
	case "windows", "darwin":
		return a.env("SSH_CONNECTION") == ""
	}
	return a.env("DISPLAY") != "" || a.env("WAYLAND_DISPLAY") != ""
}

func (l *login) byDevice(ctx context.Context, settings *oauth2.Config) (*oauth2.Token, error) {
	verifier := oauth2.GenerateVerifier()
	page, err := settings.DeviceAuth(ctx, oauth2.S256ChallengeOption(verifier))
	if err != nil {
		return nil, err
	}
	if page.VerificationURIComplete != "" {
		fmt.Fprintf(l.Err,
			"Open this page in a browser on any machine:\n\n  %s\n\nIt shows the code %s. Waiting for your sign-in …\n",
			printable(page.VerificationURIComplete), printable(page.UserCode))
	} else {
		fmt.Fprintf(l.Err,
			"Open this page in a browser on any machine:\n\n  %s\n\nand enter the code %s. Waiting for your sign-in "+
				"…\n", printable(page.VerificationURI), printable(page.UserCode))
	}
	return settings.DeviceAccessToken(ctx, page, oauth2.VerifierOption(verifier))
}

// returned is what the browser brings back from the identity provider.
type returned struct {
	code string
	err  error
}

// byBrowser signs in by the authorization code flow with PKCE and a redirect to the loopback interface (RFC 8252).
func (l *login) byBrowser(ctx context.Context, settings *oauth2.Config) (*oauth2.Token, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	settings.RedirectURL = "http://" + listener.Addr().String() + "/signed-in"
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	came := make(chan returned, 1)
	server := &http.Server{Handler: receive(state, came), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the sign-in
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(within) // the page was sent, or nobody waits for it
	}()
	address := settings.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))
	fmt.Fprintf(l.Err, "Sign in in your browser. If it does not open, open this page:\n\n  %s\n\n", printable(address))
	browser.Stdout, browser.Stderr = l.Err, l.Err
	if client.Secure(address) { // another scheme could start any program
		// some browsers return when they are closed; the page can be opened by hand
		go func() { _ = browser.OpenURL(address) }()
	}
	select {
	case r := <-came:
		if r.err != nil {
			return nil, r.err
		}
		return settings.Exchange(ctx, r.code, oauth2.VerifierOption(verifier))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive takes the first redirect with the right state.
func receive(state string, came chan<- returned) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /signed-in", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if q.Get("state") != state {
			http.Error(w, "This page belongs to another sign-in.", http.StatusBadRequest)
			return
		}
		got := returned{code: q.Get("code")}
		text := "You are signed in. You can close this window."
		if got.code == "" {
			got.err = fmt.Errorf("the identity provider refuses the sign-in: %s %s", q.Get("error"),
				q.Get("error_description"))
			text = "Sign-in failed. See the terminal for the reason."
		}
		fmt.Fprintln(w, text)
		select {
		case came <- got:
		default: // there was one before
		}
	})
	return mux
}

// claims are those of an access token that are shown to its owner.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Name     string `json:"name"`
	Username string `json:"preferred_username"`
	Email    string `json:"email"`
}

func (c claims) user() string {
	return cmp.Or(c.Username, c.Name, c.Email, c.Subject, "unknown")
}

// claimsOf reads a token without verifying it, which the broker does. The claims of an opaque token are empty.
func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
		_ = json.Unmarshal(text, &c) // empty if it is no JSON
	}
	return c
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{Use: "logout", GroupID: "access", Args: cobra.NoArgs, Short: "Sign out of a broker",
		Long: "Sign out of a broker: revoke the sign-in at the identity provider, and delete it here. Your jobs " +
			"continue; see permit.",
		Example: "  eodispatch logout",
		RunE: a.run(func(ctx context.Context, _ []string) error {
			s, err := a.sessions()
			if err != nil {
				return err
			}
			broker, err := a.chosen(s)
			if err != nil {
				return err
			}
			one, known := s.find(broker)
			if !known {
				return errNotSignedIn(broker)
			}
			unlock, err := s.lock(ctx, one.Name)
			if err != nil {
				return err
			}
			defer unlock()
			if one, err = s.read(one.Name); err != nil { // it may have been renewed meanwhile
				return errNotSignedIn(broker)
			}
			revoked := a.revoke(ctx, one)
			if err := os.Remove(s.path(one.Name)); err != nil {
				return err
			}
			if revoked != nil {
				return fmt.Errorf("the sign-in is deleted here, but the identity provider did not revoke it: %w",
					revoked)
			}
			a.hint("Signed out of %s.", one.URL)
			return nil
		})}
}

// revoke revokes a sign-in at the identity provider (RFC 7009).
func (a *app) revoke(ctx context.Context, one session) error {
	if one.Revocation == "" || one.Grant == nil || one.Grant.RefreshToken == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	form := url.Values{"token": {one.Grant.RefreshToken}, "token_type_hint": {"refresh_token"},
		"client_id": {one.ClientID}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, one.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := a.noRedirects().Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
