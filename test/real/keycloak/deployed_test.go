package keycloak

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// site starts a server of both protocols and returns its address. It accepts the tokens of the realm platform; its
// openEO API names that realm as its identity provider.
func site(t *testing.T, keeper *tokenChecker) (address string) {
	openEO, ogc, both := &simulator.OpenEO{Check: keeper.check, Issuer: Platform}, &simulator.OGC{Check: keeper.check},
		http.NewServeMux()
	both.Handle("/", ogc)
	both.Handle("/openeo/", openEO)
	both.Handle("/.well-known/openeo", openEO)
	server := httptest.NewServer(both)
	t.Cleanup(server.Close)
	return server.URL
}

// requestOf returns the request for a job at a site, for the label "openeo" or "ogc_api_process".
func requestOf(label, site string) Object {
	area := Object{"bbox": []float64{5.05, 51.2, 5.15, 51.25}}
	if label == "openeo" {
		return Object{"title": label, "label": label, "format": "gtiff", "service": Object{"endpoint": site,
			"application": "add"}, "parameters": Object{"x": 1, "y": 2}}
	}
	return Object{"title": label, "label": label, "format": "json", "service": Object{"endpoint": site,
		"application": "ndvi"}, "parameters": Object{"bbox": area}}
}

// refusal is an error as clients read it.
type refusal struct {
	Code    string            `json:"error_code"`
	Details map[string]string `json:"details"`
}

// runsAtOnce requests a synchronous openEO job at a site, and returns the error, which must have the given status.
func (p *person) runsAtOnce(t *testing.T, site string, status int) (said refusal) {
	t.Helper()
	a, err := ask(t.Context(), "POST", p.broker+"/sync_jobs", p.token, requestOf("openeo", site))
	must(t, errors.Join(err, a.into(status, &said)))
	return said
}

// runs submits jobs, waits until they have finished, and checks that their results are a Collection.
func (p *person) runs(t *testing.T, requests ...Object) {
	t.Helper()
	ids := make([]string, len(requests))
	for i, r := range requests {
		var now job
		a, err := ask(t.Context(), "POST", p.broker+"/unit_jobs", p.token, r)
		must(t, errors.Join(err, a.into(http.StatusCreated, &now)))
		ids[i] = fmt.Sprint(p.broker, "/unit_jobs/", now.ID)
	}
	for _, at := range ids {
		eventually(t, ready, func() error {
			var now job
			a, err := ask(t.Context(), "GET", at, p.token, nil)
			if err := errors.Join(err, a.into(http.StatusOK, &now)); err != nil || now.Status == "finished" {
				return err
			}
			return fmt.Errorf("the job has not finished: %+v", now)
		})
		var results struct{ Type string }
		a, err := ask(t.Context(), "GET", at+"/results", p.token, nil)
		if must(t, errors.Join(err, a.into(http.StatusOK, &results))); results.Type != "Collection" {
			t.Errorf("results are not a Collection: %s", a.body)
		}
	}
}

// TestServe_DeployedServicesEnvironment starts the program with the environment variables of the service that it
// replaces, and its public URL for the link page. A user whose token names no audience runs jobs of both labels, under
// their own account and the shared one. Tokens of other clients are refused. Errors have the code of their cause: a
// missing link, an outage of the platform's provider, a wrong client secret.
func TestServe_DeployedServicesEnvironment(t *testing.T) {
	s := Start(t)
	keeper := newTokenChecker(t)
	own, shared := site(t, keeper), site(t, keeper)
	address := executable.FreeAddress(t)
	environ := []string{"EODISPATCH_LISTEN=" + address, "EODISPATCH_PUBLIC_URL=http://" + address,
		"EODISPATCH_DEVELOPMENT=true", "KEYCLOAK_HOST=" + URL, "KEYCLOAK_REALM=apex", "KEYCLOAK_CLIENT_ID=deployed-api",
		"KEYCLOAK_CLIENT_SECRET=deployed-api-secret", "DATABASE_URL=sqlite:///./apex.db", fmt.Sprintf(
			`BACKENDS={%q: {"auth_method": "USER_CREDENTIALS", "token_provider": "platform", "token_prefix": "oidc/sim"},
			%q: {"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "sim/eodispatch-service/eodispatch-service-secret", "token_prefix": "oidc/sim"}}`, own, shared)}
	p := serve(t, environ...)
	gina := newPerson(t, s, "gina", "http://"+address)
	gina.token = signInDeployed(t, s, "gina")

	link := gina.broker + "/link/" + strings.NewReplacer("http://", "", ":", "-").Replace(own)
	if said := gina.runsAtOnce(t, own, http.StatusConflict); said.Code != "SIGN_IN_REQUIRED" ||
		said.Details["link"] != link {
		t.Errorf("account never linked: %+v", said)
	}
	gina.opens(t, strings.TrimPrefix(link, gina.broker), "is linked")
	gina.runs(t, requestOf("openeo", own), requestOf("openeo", shared), requestOf("ogc_api_process", own),
		requestOf("ogc_api_process", shared))
	for _, account := range []string{"gina-p", "service-account-eodispatch-service"} {
		if n, refused := keeper.tokens(account); n == 0 || len(refused) > 0 {
			t.Errorf("the sites accepted %d tokens of %s and refused %v", n, account, refused)
		}
	}

	for name, token := range map[string]dispatch.Secret{"another azp": signIn(t, s, "gina", "stranger"),
		"another aud": signIn(t, s, "gina", "portal")} {
		a, err := ask(t.Context(), "GET", gina.broker+"/jobs_status", token, nil)
		if must(t, err); a.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
		}
	}
	for _, client := range []string{"stranger", "portal"} { // whose tokens an operator may want to accept
		eventually(t, 10*time.Second, func() error { // the log passes through a pipe
			log := p.Log.String()
			if !strings.Contains(log, `its azp \"`+client+`\" is not`) ||
				!strings.Contains(log, "EODISPATCH_IDENTITY_CLIENTS") {
				return fmt.Errorf("the log does not name the client %s", client)
			}
			return nil
		})
	}
	mustStop(t, p)
	gina.runsByPublicClient(t, s, own, environ)

	renewing(t, s)
	real := Platform + "/protocol/openid-connect/token"
	must(t, s.Provider("platform", Object{"tokenUrl": broken["down"](t)}))
	t.Cleanup(func() { must(t, s.Provider("platform", Object{"tokenUrl": real})) })
	serve(t, environ...)
	if said := gina.runsAtOnce(t, own, http.StatusServiceUnavailable); said.Code != "PLATFORM_UNAVAILABLE" ||
		said.Details["link"] != "" {
		t.Errorf("platform's provider down: %+v", said)
	}
	another := executable.FreeAddress(t)
	serve(t, append(environ, "EODISPATCH_LISTEN="+another, "KEYCLOAK_CLIENT_SECRET=wrong")...)
	gina.broker = "http://" + another
	if said := gina.runsAtOnce(t, own, http.StatusBadGateway); said.Code != "PLATFORM_ERROR" ||
		said.Details["link"] != "" {
		t.Errorf("wrong secret: %+v", said)
	}
	keepsSecrets(t, p.Log.String(), "-secret", "-password")
}

// runsByPublicClient runs jobs while the broker's client has no secret, with their user's token, and with one of
// another client that is listed.
func (p *person) runsByPublicClient(t *testing.T, s *Server, site string, environ []string) {
	t.Helper()
	must(t, s.Client("deployed-api", nil, Object{"publicClient": true}))
	t.Cleanup(func() {
		must(t, s.Client("deployed-api", nil, Object{"publicClient": false, "secret": "deployed-api-secret"}))
	})
	program := serve(t, append(environ, "KEYCLOAK_CLIENT_SECRET=", "EODISPATCH_IDENTITY_CLIENTS=stranger")...)
	p.runs(t, requestOf("openeo", site))
	own := p.token
	p.token = signIn(t, s, "gina", "stranger")
	p.runs(t, requestOf("ogc_api_process", site))
	p.token = own
	log := program.Log.String()
	if !strings.Contains(log, `"msg":"accepting tokens"`) || !strings.Contains(log, `"clients":["stranger"]`) {
		t.Error("the start does not say which clients are accepted")
	}
	mustStop(t, program)
	must(t, s.Client("deployed-api", nil, Object{"publicClient": false, "secret": "deployed-api-secret"}))
}

// signedToken matches a whole token, because random base64 may contain the beginning of one.
var signedToken = regexp.MustCompile(`eyJ[\w-]+\.eyJ`)

// keepsSecrets checks that a log contains no token and none of the secrets.
func keepsSecrets(t *testing.T, log string, secrets ...string) {
	t.Helper()
	if signedToken.MatchString(log) {
		t.Error("the log contains a token")
	}
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %s", secret)
		}
	}
}

// signInDeployed returns an access token that a user obtained through the deployed service's client. It names no
// audience.
func signInDeployed(t *testing.T, s *Server, user string) dispatch.Secret {
	t.Helper()
	answer, err := s.Token("apex", url.Values{"grant_type": {"password"}, "client_id": {"deployed-api"},
		"client_secret": {"deployed-api-secret"},
		"username":      {user}, "password": {user + "-password"}, "scope": {"openid"}})
	must(t, err)
	token := dispatch.Secret(answer["access_token"].(string))
	var is map[string]any
	must(t, json.Unmarshal(payload(t, token), &is))
	if is["aud"] != nil || is["azp"] != "deployed-api" {
		t.Fatalf("aud %v and azp %v, want no aud and deployed-api", is["aud"], is["azp"])
	}
	return token
}
