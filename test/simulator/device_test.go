package simulator_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// A program signs its user in by the device flow, as clients of the openEO API do.
func TestIdP_DeviceFlow(t *testing.T) {
	c := idpAt(t, &simulator.IdP{})
	ask := func() (poll, page string) {
		t.Helper()
		r := c.must(200, "POST /realms/apex/protocol/openid-connect/auth/device", form("client_id", "portal", "scope",
			"openid", "code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method", "S256"))
		page = strings.TrimPrefix(r.json("verification_uri_complete").(string), idpURL)
		return form("client_id", "portal", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code",
			r.json("device_code").(string), "code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"), page
	}
	poll, page := ask()
	c.refused(400, "error", "authorization_pending", apexToken, poll)
	if r := c.must(200, "GET "+page, ""); !strings.Contains(string(r.body), "Sign in as alice") {
		t.Errorf("the page shows %s", r.body)
	}
	c.refused(400, "error", "authorization_pending", apexToken, poll)
	c.must(200, "GET "+page+"&as=alice", "")
	c.refused(400, "error", "invalid_grant", apexToken, strings.Replace(poll, "dBjft", "other", 1))
	r := c.must(200, apexToken, poll)
	if claims, err := verifier(t, c, "apex", "eodispatch-api")(r.json("access_token").(string)); err != nil ||
		claims["preferred_username"] != "alice" {
		t.Errorf("%v, %v", claims, err)
	}
	c.must(200, apexToken, form("client_id", "portal", "grant_type", "refresh_token", "refresh_token",
		r.json("refresh_token").(string)))
	c.refused(400, "error", "invalid_grant", apexToken, poll)

	poll, page = ask()
	c.must(200, "GET "+page+"&as=bob&deny=1", "")
	c.refused(400, "error", "access_denied", apexToken, poll)
	if r := c.must(200, "GET /realms/apex/device?"+url.Values{"user_code": {"x"}}.Encode(),
		""); !strings.Contains(string(r.body), "<form>") {
		t.Errorf("without a known code the page shows %s", r.body)
	}
}
