package simulator_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// exchanged requests the platform's token of a user in both ways, alternately, and returns the token, or the error and
// its description.
func exchanged(c caller, legacy bool, subject string) (token, problem string) {
	c.t.Helper()
	endpoint, body := brokerToken, form("client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret",
		"token", subject)
	if legacy {
		endpoint, body = apexToken, broker("subject_token", subject, "requested_issuer", "platform")
	}
	r, err := c.try(endpoint, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if r.status == 200 {
		return r.json("access_token").(string), ""
	}
	return "", r.json("error").(string)
}

// TestIdP_StoredTokens: the stored token is handed out until less than 5 s of its lifetime are left.
func TestIdP_StoredTokens(t *testing.T) {
	now := newClock()
	idp := &simulator.IdP{Now: now.Now, TokenLife: time.Minute}
	c := idpAt(t, idp)
	alice := idp.Mint("apex", "alice", "portal",
		simulator.TokenFaults{Claims: map[string]any{"exp": now.Now().Add(time.Hour).Unix()}})
	first, _ := exchanged(c, false, alice)
	now.pass(54 * time.Second)
	if again, _ := exchanged(c, true, alice); again != first {
		t.Error("renewed with 6 s left")
	}
	now.pass(2 * time.Second)
	second, _ := exchanged(c, false, alice)
	if second == first || second == "" {
		t.Error("not renewed with 4 s left")
	}
	idp.Expire()
	if third, _ := exchanged(c, false, alice); third == second || third == "" {
		t.Error("not renewed when it had to be")
	}
}

// TestIdP_Conduct of the platform's provider, and how Keycloak reports it.
func TestIdP_Conduct(t *testing.T) {
	for name, row := range map[string]struct {
		conduct          simulator.LinkBehavior
		direct           int // response of its token endpoint
		brokered, legacy string
		afterwards       string
		linked           int
	}{
		"well": {direct: 400, linked: 2},
		"503":  {simulator.LinkBehavior{Status: 503}, 503, "token_expired", "token_expired", "not_linked", 1},
		"429":  {simulator.LinkBehavior{Status: 429}, 429, "token_expired", "token_expired", "not_linked", 1},
		"down": {simulator.LinkBehavior{Down: true}, 0, "invalid_request", "unknown_error", "", 2},
	} {
		for _, legacy := range []bool{false, true} {
			idp := &simulator.IdP{}
			c := idpAt(t, idp)
			alice := login(c, "alice", "portal")
			idp.SetLinkBehavior(row.conduct)
			r, err := c.try(platformToken, form("grant_type", "refresh_token", "refresh_token", "x", "client_id",
				"apex-broker", "client_secret", "apex-broker-secret"))
			if (err != nil) != (row.direct == 0) || err == nil && r.status != row.direct {
				t.Errorf("%s: its token endpoint says %d, %v", name, r.status, err)
			}
			want := row.brokered
			if legacy {
				want = row.legacy
			}
			if _, got := exchanged(c, legacy, alice); got != want {
				t.Errorf("%s, legacy %v: %q", name, legacy, got)
			}
			idp.SetLinkBehavior(simulator.LinkBehavior{})
			if _, got := exchanged(c, legacy, alice); got != row.afterwards || idp.Linked() != row.linked {
				t.Errorf("%s, legacy %v: %q afterwards, %d are linked", name, legacy, got, idp.Linked())
			}
		}
	}
}

// TestIdP_RotationRace: of two concurrent renewals the second loses the link, if refresh tokens can be used once.
func TestIdP_RotationRace(t *testing.T) {
	for rotates, want := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			idp := &simulator.IdP{}
			c := idpAt(t, idp)
			alice := login(c, "alice", "portal")
			idp.SetLinkBehavior(simulator.LinkBehavior{Rotates: rotates, Slow: time.Second})
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { exchanged(c, false, alice) })
			}
			both.Wait()
			if got := idp.Linked(); got != want {
				t.Errorf("rotates %v: %d are linked", rotates, got)
			}
		})
	}
}

func TestIdP_WrongAnswers(t *testing.T) {
	idp := &simulator.IdP{}
	c := idpAt(t, idp)
	alice := login(c, "alice", "portal")
	idp.SetLinkBehavior(simulator.LinkBehavior{Mixed: true, ExpiresIn: "soon"})
	r := c.must(200, brokerToken, form("client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret", "token",
		alice))
	if _, err := verifier(t, c, "platform", "platform-api")(r.json("access_token").(string)); err == nil ||
		r.json("expires_in") != "soon" {
		t.Errorf("%v, %s", err, r.body)
	}
}
