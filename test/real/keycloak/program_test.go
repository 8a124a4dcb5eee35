package keycloak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
)

// serve starts the command serve with only the given environment, and returns when the program serves.
func serve(t *testing.T, environ ...string) *executable.Program {
	t.Helper()
	p := executable.Start(t, executable.Released, environ...)
	if p.Address == "" {
		t.Fatalf("the program ended before it served:\n%s", p.Log)
	}
	return p
}

// answer is a broker's response.
type answer struct {
	status int
	body   []byte
}

// into decodes the body of the response into v. It is an error if the response does not have the given status.
func (a answer) into(status int, v any) error {
	if a.status != status {
		return fmt.Errorf("status %d, want %d: %.500s", a.status, status, a.body)
	}
	return json.Unmarshal(a.body, v)
}

// ask sends a request to a broker as a client does, and returns the response.
func ask(ctx context.Context, method, address string, token dispatch.Secret, body any) (answer, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, said}, err
}

// eventually calls look every 200 ms until it returns nil, and ends the test if that takes too long.
func eventually(t *testing.T, within time.Duration, look func() error) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(within); ; <-again.C {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(until) || t.Context().Err() != nil {
			t.Fatalf("still failing after %v: %v", within, err)
		}
	}
}

// maxDelivery is how long a request may take to arrive when the machine stalls. A token that expired less than that ago
// is not a fault: it may have been valid when it was sent. A broker that sends tokens until they are refused does so
// with nearly all of them; a stall affects few.
const maxDelivery = 20 * time.Second

// tokenChecker accepts the tokens of the realm platform as a strict platform does, without leeway after they expire. It
// records the tokens that it accepts and the errors of those that it refuses.
type tokenChecker struct {
	verifier *oidc.IDTokenVerifier

	mu      sync.Mutex
	shown   map[string]map[string]bool // accepted tokens by account
	late    map[string]bool            // refused tokens that had expired within maxDelivery
	refused []error
}

// newTokenChecker returns a tokenChecker with the metadata of the realm platform.
func newTokenChecker(t *testing.T) *tokenChecker {
	t.Helper()
	provider, err := oidc.NewProvider(context.Background(), Platform)
	must(t, err)
	return &tokenChecker{verifier: provider.Verifier(&oidc.Config{SkipClientIDCheck: true}),
		shown: map[string]map[string]bool{}, late: map[string]bool{}}
}

// check returns the account of a token, or an error if the token is not valid. It is the Check of simulated platforms.
func (g *tokenChecker) check(token string) (account string, err error) {
	var who struct {
		Name string `json:"preferred_username"`
	}
	is, err := g.verifier.Verify(context.Background(), token)
	if err == nil {
		err = is.Claims(&who)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if late, ok := errors.AsType[*oidc.TokenExpiredError](err); !ok || time.Since(late.Expiry) > maxDelivery {
			g.refused = append(g.refused, err)
		} else {
			g.late[token] = true
		}
		return "", err
	}
	if g.shown[who.Name] == nil {
		g.shown[who.Name] = map[string]bool{}
	}
	g.shown[who.Name][token] = true
	return who.Name, nil
}

// tokens returns how many different tokens of an account were accepted, and why tokens of any account were refused.
// Tokens that expired on their way are left out.
func (g *tokenChecker) tokens(account string) (n int, refusals []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.shown[account]), slices.Clone(g.refused)
}

// expired returns how many different tokens were refused only because they had expired on their way.
func (g *tokenChecker) expired() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.late)
}

// person is a user with a browser and an access token of the client portal.
type person struct {
	name    string
	token   dispatch.Secret
	browser *Browser
	broker  string // base URL of the broker
}

// newPerson creates a user in both realms and signs them in to the portal.
func newPerson(t *testing.T, s *Server, name, broker string) *person {
	t.Helper()
	must(t, s.AddUser("apex", name))
	must(t, s.AddUser("platform", name+"-p"))
	return &person{name, signIn(t, s, name, "portal"),
		&Browser{Logins: map[string]string{"apex": name, "platform": name + "-p"}}, broker}
}

// opens opens a page of the broker in the user's browser, which signs in and consents where asked. The last page must
// contain a text.
func (p *person) opens(t *testing.T, path, text string) {
	t.Helper()
	at, err := p.browser.Open(p.broker + path)
	must(t, err)
	if !strings.Contains(at.Text, text) {
		t.Fatalf("%s does not contain %q: status %d: %s", at.Address, text, at.Status, at.Text)
	}
}

// givesPermission permits the broker to act for the user while they are signed out.
func (p *person) givesPermission(t *testing.T) {
	t.Helper()
	var grant struct{ Link string }
	a, err := ask(t.Context(), "POST", p.broker+"/grants", p.token, nil)
	must(t, errors.Join(err, a.into(http.StatusCreated, &grant)))
	link, err := url.Parse(grant.Link)
	must(t, err)
	p.opens(t, "/away?"+link.RawQuery, "Your jobs keep running after you sign out")
}

// endsSession deletes the user's sessions, as if they had expired. A logout by an administrator would also invalidate
// all tokens that were issued before, including offline tokens.
func (p *person) endsSession(t *testing.T, s *Server) {
	t.Helper()
	id, err := s.id("apex", "users", "username", p.name)
	must(t, err)
	var sessions []Object
	must(t, s.Admin("GET", "apex/users/"+id+"/sessions", nil, &sessions))
	for _, session := range sessions {
		must(t, s.Admin("DELETE", "apex/sessions/"+session["id"].(string), nil, nil))
	}
}

// mustStop stops a program and checks that it ends with exit code 0.
func mustStop(t *testing.T, p *executable.Program) {
	t.Helper()
	if p.Stop(t) != 0 {
		t.Errorf("the program ended with %v, want exit code 0", p.ProcessState)
	}
}
