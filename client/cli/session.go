package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/eodispatch/eodispatch/client"
)

// session is a sign-in at a broker, as it is stored.
type session struct {
	Name       string        `json:"name"`
	URL        string        `json:"url"` // of the broker
	Issuer     string        `json:"issuer"`
	ClientID   string        `json:"client_id"`
	Endpoint   string        `json:"token_endpoint"`
	Revocation string        `json:"revocation_endpoint,omitempty"`
	Grant      *oauth2.Token `json:"grant,omitempty"`
}

// sessions is the folder of the stored sign-ins: a file for each broker, which only its owner can read.
type sessions struct{ folder string }

func (a *app) sessions() (sessions, error) {
	if folder := a.env("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return sessions{filepath.Join(folder, "eodispatch")}, nil
	}
	if runtime.GOOS == "windows" {
		if folder := a.env("LocalAppData"); folder != "" {
			return sessions{filepath.Join(folder, "eodispatch")}, nil
		}
	}
	home := a.env("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return sessions{}, err
		}
	}
	return sessions{filepath.Join(home, ".local", "state", "eodispatch")}, nil
}

const currentFile = "current" // holds the name and the URL of the broker of the last login, in a line each

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// nameOf returns the name of a broker that was given none: its host and port. One that is called by plain http has a
// name of its own, so that it does not take the place of the one by https.
func nameOf(address string) string {
	scheme, host, _ := strings.Cut(address, "://")
	if scheme == "http" && !client.Secure(address) {
		host = "insecure." + host
	}
	return strings.Trim(regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(host, "_"), "_.-")
}

func (s sessions) path(name string) string { return filepath.Join(s.folder, name+".json") }

// all returns the stored sign-ins. Files that cannot be read are left out.
func (s sessions) all() (found []session) {
	files, _ := filepath.Glob(filepath.Join(s.folder, "*.json")) // of a good pattern
	slices.Sort(files)
	for _, file := range files {
		if one, err := s.read(strings.TrimSuffix(filepath.Base(file), ".json")); err == nil {
			found = append(found, one)
		}
	}
	return found
}

func (s sessions) read(name string) (one session, err error) {
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return one, err
	}
	if err := json.Unmarshal(text, &one); err != nil {
		return one, fmt.Errorf("%s cannot be read: %w. Delete it and sign in again", s.path(name), err)
	}
	return one, nil
}

// write stores a sign-in, in whole or not at all.
func (s sessions) write(one session) error {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(s.folder, ".new-*") // has mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), s.path(one.Name))
	}
	if err != nil {
		_ = os.Remove(file.Name()) // report the first error
	}
	return err
}

// lock keeps other processes from changing a sign-in until unlock is called. The file of the lock stays: a process that
// had opened a deleted one would not see the lock of the next.
func (s sessions) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(s.path(name)+".lock", flock.SetPermissions(0o600))
	within, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	if _, err := lock.TryLockContext(within, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("another process changes the sign-in %q and does not end: %w", name, err)
	}
	return func() { _ = lock.Unlock() }, nil // the end of the process unlocks it too
}

// find returns the sign-in at a broker by its name or URL.
func (s sessions) find(broker string) (session, bool) {
	if sessionName.MatchString(broker) {
		if one, err := s.read(broker); err == nil {
			return one, true
		}
	}
	address, err := client.ParseURL(broker)
	for _, one := range s.all() {
		if err == nil && one.URL == address {
			return one, true
		}
	}
	return session{}, false
}

// chosen returns the name or URL of the broker to use.
func (a *app) chosen(s sessions) (string, error) {
	if a.broker != "" {
		return a.broker, nil
	}
	if broker := a.env("EODISPATCH_BROKER"); broker != "" {
		return broker, nil
	}
	text, err := os.ReadFile(filepath.Join(s.folder, currentFile))
	if err != nil {
		return "", &exitError{ExitSignIn, errors.New("no broker is set. Sign in with: eodispatch login URL\n" +
			"or name one with --broker or EODISPATCH_BROKER")}
	}
	name, address, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if _, err := s.read(name); err != nil && address != "" {
		return address, nil // signed out, or the file is damaged: a name leads nowhere without its file
	}
	return name, nil
}

// choose makes a sign-in the one that is used where no broker is named.
func (s sessions) choose(one session) error {
	return os.WriteFile(filepath.Join(s.folder, currentFile), []byte(one.Name+"\n"+one.URL+"\n"), 0o600)
}

// replace stores a new sign-in, and chooses it. It waits for a process that renews the former one, and would store that
// over the new one.
func (s sessions) replace(ctx context.Context, one session) error {
	unlock, err := s.lock(ctx, one.Name)
	if err != nil {
		return err
	}
	defer unlock()
	return errors.Join(s.write(one), s.choose(one))
}

// client returns a client of the chosen broker with the user's token.
func (a *app) client() (*client.Client, error) {
	s, err := a.sessions()
	if err != nil {
		return nil, err
	}
	broker, err := a.chosen(s)
	if err != nil {
		return nil, err
	}
	one, known := s.find(broker)
	address := broker
	if known {
		address = one.URL
	}
	c, err := a.open(address)
	if err != nil {
		return nil, usage("broker %q: %w", broker, err)
	}
	switch {
	case a.env("EODISPATCH_TOKEN") != "":
		c.Token = func(context.Context) (string, error) { return a.env("EODISPATCH_TOKEN"), nil }
	case a.env("EODISPATCH_CLIENT_ID") != "":
		c.Token = a.asClient()
	case known:
		c.Token = (&renewer{app: a, sessions: s, name: one.Name}).accessToken
	default:
		c.Token = func(context.Context) (string, error) { return "", errNotSignedIn(c.URL()) }
	}
	return c, nil
}

// open returns a client of a broker, without a token.
func (a *app) open(address string) (*client.Client, error) {
	return client.New(address, client.Options{HTTP: &http.Client{Transport: a.Transport}, UserAgent: "eodispatch/" +
		a.version, Insecure: a.insecure})
}

// private reports, as an error, an address to which no token or secret may be sent.
func (a *app) private(addresses ...string) error {
	for _, address := range addresses {
		if address != "" && !a.insecure && !client.Secure(address) {
			return &exitError{ExitSignIn,
				fmt.Errorf("the identity provider %q does not use https, so anyone on the network could read the "+
					"sign-in. Allow it with --insecure", address)}
		}
	}
	return nil
}

func errNotSignedIn(address string) error {
	return &exitError{ExitSignIn, fmt.Errorf("you are not signed in to %s. Run: eodispatch login %s", address, address)}
}

// asClient returns the token source of a client that acts for itself: EODISPATCH_CLIENT_ID and
// EODISPATCH_CLIENT_SECRET, which are sent to EODISPATCH_ISSUER only. A broker that could name the issuer would get
// secrets.
func (a *app) asClient() func(context.Context) (string, error) {
	var mu sync.Mutex
	var grant *oauth2.Token
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if usable(grant) {
			return grant.AccessToken, nil
		}
		ctx, cancel := context.WithTimeout(ctx, renewWithin)
		defer cancel()
		issuer := a.env("EODISPATCH_ISSUER")
		if issuer == "" {
			return "", usage(
				"set EODISPATCH_ISSUER to the identity provider of EODISPATCH_CLIENT_ID, which alone gets the " +
					"secret")
		}
		p, err := a.provider(ctx, issuer)
		if err != nil {
			return "", err
		}
		settings := clientcredentials.Config{ClientID: a.env("EODISPATCH_CLIENT_ID"),
			ClientSecret: a.env("EODISPATCH_CLIENT_SECRET"),
			TokenURL:     p.Endpoint().TokenURL, Scopes: []string{"openid"}}
		if grant, err = settings.Token(a.direct(ctx)); err != nil {
			return "", &exitError{ExitSignIn, fmt.Errorf("the identity provider refuses EODISPATCH_CLIENT_ID: %w", err)}
		}
		return grant.AccessToken, nil
	}
}

const (
	renewBefore = 30 * time.Second // before the token ends
	lockWithin  = time.Minute
	renewWithin = 30 * time.Second
)

// renewer renews the token of a stored sign-in. Of several processes one renews it, and the others read the result.
type renewer struct {
	*app
	sessions
	name string
}

func (r *renewer) accessToken(ctx context.Context) (string, error) {
	one, err := r.read(r.name)
	if err != nil {
		return "", err
	}
	if usable(one.Grant) {
		return one.Grant.AccessToken, nil
	}
	unlock, err := r.lock(ctx, r.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	address := one.URL
	if one, err = r.read(r.name); errors.Is(err, fs.ErrNotExist) { // signed out meanwhile
		return "", errNotSignedIn(address)
	}
	if err != nil || usable(one.Grant) { // renewed meanwhile
		return tokenOf(one), err
	}
	return r.renew(ctx, one)
}

func usable(t *oauth2.Token) bool {
	return t != nil && t.AccessToken != "" && (t.Expiry.IsZero() || time.Until(t.Expiry) > renewBefore)
}

func tokenOf(s session) string {
	if s.Grant == nil {
		return ""
	}
	return s.Grant.AccessToken
}

func (r *renewer) renew(ctx context.Context, one session) (string, error) {
	if one.Grant == nil || one.Grant.RefreshToken == "" {
		return "", errNotSignedIn(one.URL)
	}
	if err := r.private(one.Endpoint); err != nil {
		return "", err
	}
	// an interrupt would lose the new refresh token
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewWithin)
	defer cancel()
	settings := oauth2.Config{ClientID: one.ClientID, Endpoint: oauth2.Endpoint{TokenURL: one.Endpoint,
		AuthStyle: oauth2.AuthStyleInParams}}
	fresh, err := settings.TokenSource(r.direct(ctx), &oauth2.Token{RefreshToken: one.Grant.RefreshToken}).Token()
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "invalid_grant" {
		return "", &exitError{ExitSignIn, fmt.Errorf("your sign-in to %s has expired. Run: eodispatch login %[1]s",
			one.URL)}
	}
	if err != nil {
		return "", err
	}
	one.Grant = fresh
	return fresh.AccessToken, r.write(one)
}
