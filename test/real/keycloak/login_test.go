package keycloak

import (
	"errors"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// programClient registers the public client of the command line as docs/identity.md describes.
func programClient(t *testing.T, s *Server) {
	t.Helper()
	must(t, s.Admin("POST", "apex/clients", Object{"clientId": "eodispatch-cli", "enabled": true, "publicClient": true,
		"directAccessGrantsEnabled": false,
		"redirectUris":              []string{"http://127.0.0.1/*"},
		"attributes": Object{"pkce.code.challenge.method": "S256", "oauth2.device.authorization.grant.enabled": "true",
			"oauth2.device.polling.interval": "1"},
		"protocolMappers": []Object{{"name": "for the broker", "protocol": "openid-connect",
			"protocolMapper": "oidc-audience-mapper",
			"config":         Object{"included.client.audience": "eodispatch-api", "access.token.claim": "true"}}}},
		nil))
	t.Cleanup(func() {
		id, err := s.id("apex", "clients", "clientId", "eodispatch-cli")
		must(t, errors.Join(err, s.Admin("DELETE", "apex/clients/"+id, nil, nil)))
	})
}

// TestLogin_OnTheRealKeycloak signs in at the command line in both ways, lists the jobs, and signs out.
func TestLogin_OnTheRealKeycloak(t *testing.T) {
	s := Start(t)
	programClient(t, s)
	platform := httptest.NewServer(&simulator.OpenEO{})
	t.Cleanup(platform.Close)
	address := executable.FreeAddress(t)
	serve(t, append(onPlatforms(t, address, map[string]string{"P": platform.URL}),
		"EODISPATCH_IDENTITY_COMMAND_LINE_CLIENT=eodispatch-cli")...)
	for name, row := range map[string]struct {
		args, environ []string
		page          *regexp.Regexp
	}{
		"browser": {[]string{"login", address}, []string{"DISPLAY=:0"},
			regexp.MustCompile(`\n  (http\S+/auth\?\S+)\n`)},
		"device": {[]string{"login", address, "--device", "--offline"}, nil,
			regexp.MustCompile(`\n  (http\S+user_code=\S+)\n`)},
	} {
		t.Run(name, func(t *testing.T) {
			environ := append([]string{"HOME=" + t.TempDir(), "PATH=/nowhere"}, row.environ...)
			login := command(t, environ, row.args...)
			said := &executable.Log{}
			login.Stderr = said
			must(t, login.Start())
			var page string
			eventually(t, ready, func() error {
				found := row.page.FindStringSubmatch(said.String())
				if found == nil {
					return errors.New("no page is shown: " + said.String())
				}
				page = found[1]
				return nil
			})
			at, err := (&Browser{Logins: map[string]string{"apex": "alice"}}).Open(page)
			if err != nil || at.Status != 200 {
				t.Fatalf("%+v, %v", at, err)
			}
			if err := login.Wait(); err != nil || !strings.Contains(said.String(),
				"Signed in to http://"+address+" as alice.") {
				t.Fatalf("%v\n%s\nthe browser stopped at: %s", err, said.String(), at.Text)
			}
			for _, args := range [][]string{{"whoami"}, {"list"}, {"logout"}} {
				if printed, err := command(t, environ, args...).CombinedOutput(); err != nil {
					t.Errorf("%v: %v\n%s", args, err, printed)
				}
			}
			if printed, err := command(t, environ, "list").CombinedOutput(); err == nil {
				t.Errorf("after the sign-out list prints\n%s", printed)
			}
		})
	}
}

// command returns a command of the program, which is killed when it takes minutes.
func command(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := executable.Released()
	must(t, err)
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = environ
	timer := time.AfterFunc(5*time.Minute, func() {
		if c.Process != nil {
			_ = c.Process.Kill() // it may have ended
		}
	})
	t.Cleanup(func() { timer.Stop() })
	return c
}
