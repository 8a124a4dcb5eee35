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

// serve starts the command serve with only the given environment and waits until it serves.
func serve(t *testing.T, environ ...string) *executable.Program {
	t.Helper()
	p := executable.Start(t, executable.Released, environ...)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return p
}

// answer is what a broker said.
type answer struct {
	status int
	body   []byte
}

// into reads the body of an answer that must have a status.
func (a answer) into(status int, v any) error {
	if a.status != status {
		return fmt.Errorf("status %d, not %d: %.500s", a.status, status, a.body)
	}
	return json.Unmarshal(a.body, v)
}

// ask calls a broker as a client does.
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

// eventually looks until what is looked for has come, and fails when that takes too long.
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
			t.Fatalf("not within %v: %v", within, err)
		}
	}
}

// onItsWay is how long a request with a token may be under way where the machine stalls. Who sends expired tokens sends later ones, too.
const onItsWay = 20 * time.Second

// gatekeeper takes what the platform's realm signed, as a strict platform does: not a moment after its end. It keeps account of
// what it was shown.
type gatekeeper struct {
	verifier *oidc.IDTokenVerifier

	mu      sync.Mutex
	shown   map[string]map[string]bool // account to tokens
	refused []error
}

func newGatekeeper(t *testing.T) *gatekeeper {
	t.Helper()
	provider, err := oidc.NewProvider(context.Background(), Platform)
	must(t, err)
	return &gatekeeper{verifier: provider.Verifier(&oidc.Config{SkipClientIDCheck: true}), shown: map[string]map[string]bool{}}
}

func (g *gatekeeper) check(token string) (account string, err error) {
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
		if late, ok := errors.AsType[*oidc.TokenExpiredError](err); !ok || time.Since(late.Expiry) > onItsWay {
			g.refused = append(g.refused, err)
		}
		return "", err
	}
	if g.shown[who.Name] == nil {
		g.shown[who.Name] = map[string]bool{}
	}
	g.shown[who.Name][token] = true
	return who.Name, nil
}

// tokens is how many tokens an account came with; refusals is how often one was shown that is not good.
func (g *gatekeeper) tokens(account string) (n int, refusals []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.shown[account]), slices.Clone(g.refused)
}

// person is a user with a browser and a token of the portal's.
type person struct {
	name    string
	token   dispatch.Secret
	browser *Browser
	broker  string // its address
}

// newPerson makes a user of both realms.
func newPerson(t *testing.T, s *Server, name, broker string) *person {
	t.Helper()
	must(t, s.AddUser("apex", name))
	must(t, s.AddUser("platform", name+"-p"))
	return &person{name, signIn(t, s, name, "portal"), &Browser{Logins: map[string]string{"apex": name, "platform": name + "-p"}}, broker}
}

// opens walks to a page of the broker's and on, until it shows a text.
func (p *person) opens(t *testing.T, path, text string) {
	t.Helper()
	at, err := p.browser.Open(p.broker + path)
	must(t, err)
	if !strings.Contains(at.Text, text) {
		t.Fatalf("%s does not say %q: %d %s", at.Address, text, at.Status, at.Text)
	}
}

// givesPermission allows the broker to act while the user is signed out.
func (p *person) givesPermission(t *testing.T) {
	t.Helper()
	var grant struct{ Link string }
	a, err := ask(t.Context(), "POST", p.broker+"/grants", p.token, nil)
	must(t, errors.Join(err, a.into(http.StatusCreated, &grant)))
	link, err := url.Parse(grant.Link)
	must(t, err)
	p.opens(t, "/away?"+link.RawQuery, "Your jobs keep running after you sign out")
}

// endsSession ends the user's sessions as time does. A logout by an administrator would also make all tokens stale that were
// issued before, offline ones too.
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

// mustStop stops a program, which must end with exit code 0.
func mustStop(t *testing.T, p *executable.Program) {
	t.Helper()
	if p.Stop(t) != 0 {
		t.Errorf("it ended with %v", p.ProcessState)
	}
}
