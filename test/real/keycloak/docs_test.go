package keycloak

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// docsBroker starts a broker with a sign-in on its documentation page, set up as docs/identity.md describes, and
// returns its base URL. The sign-in is offered when it returns.
func docsBroker(t *testing.T, s *Server) string {
	t.Helper()
	address := executable.FreeAddress(t)
	must(t, s.Admin("POST", "apex/clients", Object{"clientId": "docs", "enabled": true, "publicClient": true,
		"directAccessGrantsEnabled": false,
		"redirectUris":              []string{"http://" + address + "/docs/oauth2-redirect"},
		"webOrigins":                []string{"+"},
		"attributes":                Object{"pkce.code.challenge.method": "S256"},
		"protocolMappers": []Object{{"name": "for the broker", "protocol": "openid-connect",
			"protocolMapper": "oidc-audience-mapper",
			"config":         Object{"included.client.audience": "eodispatch-api", "access.token.claim": "true"}}}},
		nil))
	t.Cleanup(func() {
		id, err := s.id("apex", "clients", "clientId", "docs")
		must(t, errors.Join(err, s.Admin("DELETE", "apex/clients/"+id, nil, nil)))
	})
	platform := httptest.NewServer(&simulator.OpenEO{})
	t.Cleanup(platform.Close)
	serve(t, append(onPlatforms(t, address, map[string]string{"P": platform.URL}),
		"EODISPATCH_IDENTITY_DOCS_CLIENT=docs")...)
	eventually(t, ready, func() error { // the broker reads Keycloak's endpoints only when it first needs them
		var d struct {
			Components struct{ SecuritySchemes map[string]any }
		}
		a, err := ask(t.Context(), "GET", "http://"+address+"/openapi.json", "", nil)
		if err = errors.Join(err, a.into(http.StatusOK, &d)); err == nil &&
			d.Components.SecuritySchemes["oauth2"] == nil {
			err = errors.New("the OpenAPI document contains no sign-in")
		}
		return err
	})
	return "http://" + address
}

// TestDocs_SignInInABrowser signs in on the documentation page with the real Keycloak, and sends a request from the
// page. Nothing violates the content security policy of the page.
func TestDocs_SignInInABrowser(t *testing.T) {
	s, c := Start(t), openChromium(t)
	broker := docsBroker(t, s)
	c.call("Page.addScriptToEvaluateOnNewDocument",
		Object{"source": `addEventListener("securitypolicyviolation", e => (window.violations ??= []).push(e.violatedDirective + " " + e.blockedURI + " " + e.sample))`}, nil)
	c.call("Page.enable", Object{}, nil)
	c.open(broker + "/docs")
	c.presses(".auth-wrapper .authorize")
	c.waitFor(`document.querySelector("#client_id_authorizationCode")?.value === "docs"`)
	c.waitFor(
		`document.querySelector("#client_id_authorizationCode").checkVisibility() && !document.querySelector("#client_secret_authorizationCode").checkVisibility()`)
	_, err := c.run(`document.querySelector("[aria-label='Apply given OAuth2 credentials']").scrollIntoView()`)
	must(t, err)
	c.saveScreenshot("docs-authorize.png")
	c.presses("[aria-label='Apply given OAuth2 credentials']")
	c.popup().signsIn("apex", "alice")
	c.waitFor(`document.querySelector("[aria-label='Remove authorization']") !== null`)
	c.hasNoPopup()
	c.saveScreenshot("docs-authorized.png")

	c.presses(".auth-container .btn-done")
	c.presses("#operations-Upscale_Tasks-get_jobs_status_jobs_status_get .opblock-summary-control")
	c.presses("#operations-Upscale_Tasks-get_jobs_status_jobs_status_get .try-out__btn")
	c.presses("#operations-Upscale_Tasks-get_jobs_status_jobs_status_get .execute")
	c.waitFor(
		`document.querySelector("#operations-Upscale_Tasks-get_jobs_status_jobs_status_get .live-responses-table tbody .response-col_status")?.innerText.startsWith("200")`)
	c.saveScreenshot("docs-answered.png")
	if violations, err := c.run(`JSON.stringify(window.violations ?? [])`); err != nil || violations != "[]" {
		t.Errorf("violations of the content security policy: %v %v", violations, err)
	}
}

// TestDocs_SignInIsNotForged opens the redirect page of the sign-in with responses that the documentation page did not
// request, and from another site. The redirect page passes only the first response with the right state to the
// documentation page.
func TestDocs_SignInIsNotForged(t *testing.T) {
	s, c := Start(t), openChromium(t)
	broker := docsBroker(t, s)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>another site</title>"))
	}))
	t.Cleanup(other.Close)
	pending :=
		`window.said = ""; window.swaggerUIRedirectOauth2 = {state: "right", auth: {name: "oauth2"}, callback: p => said += "code " + p.auth.code, errCb: e => said += "error " + e.message};`
	for _, row := range []struct{ from, before, query, said string }{
		{broker + "/docs", pending, "code=x&state=wrong", ""},
		{broker + "/docs", pending, "code=x", ""},
		{broker + "/docs", pending, "code=x&state=wrong&state=right", ""},
		{broker + "/docs", pending + "delete swaggerUIRedirectOauth2.state;", "code=x&state=undefined", ""},
		// as after the first response
		{broker + "/docs", pending + "delete swaggerUIRedirectOauth2.state;", "code=x&state=right", ""},
		{broker + "/docs", `window.said = "";`, "code=x&state=", ""},
		{other.URL, pending, "code=x&state=right", ""},
		{broker + "/docs", pending, "code=x&state=right", "code x"},
		{broker + "/docs", pending, "error=access_denied&error_description=No%3Cb%3E&state=right",
			"error access_denied: No<b>"},
		{broker + "/docs", pending, "state=right", "error The identity provider returned no code."},
	} {
		c.open(row.from)
		c.waitFor(fmt.Sprintf(`location.href.startsWith(%q) && document.readyState === "complete"`, row.from))
		_, err := c.run(row.before + fmt.Sprintf(`window.open(%q); 0`, broker+"/docs/oauth2-redirect?"+row.query))
		must(t, err)
		if row.said != "" {
			c.waitFor(fmt.Sprintf(`window.said === %q`, row.said))
			c.hasNoPopup()
			continue
		}
		c.popup().waitFor(
			`document.readyState === "complete" && document.body.innerText.includes("the sign-in was not completed")`)
		if said, err := c.run(`window.said`); err != nil || said != "" {
			t.Errorf("%s from %s: the page received %q: %v", row.query, row.from, said, err)
		}
		for _, id := range c.popups() {
			c.browser().call("Target.closeTarget", Object{"targetId": id}, nil)
		}
		c.hasNoPopup()
	}
}

// browser returns c for calls of the browser itself instead of its tab.
func (c *chromium) browser() *chromium { return &chromium{t: c.t, socket: c.socket, last: c.last} }

// popups returns the target ids of the windows that pages have opened.
func (c *chromium) popups() (ids []string) {
	c.t.Helper()
	var targets struct {
		TargetInfos []struct{ TargetID, Type, OpenerID string }
	}
	c.browser().call("Target.getTargets", Object{}, &targets)
	for _, target := range targets.TargetInfos {
		if target.Type == "page" && target.OpenerID != "" {
			ids = append(ids, target.TargetID)
		}
	}
	return ids
}

// popup waits until pages have opened exactly one window, and attaches to it.
func (c *chromium) popup() *chromium {
	c.t.Helper()
	var ids []string
	eventually(c.t, 3*time.Minute, func() error {
		if ids = c.popups(); len(ids) != 1 {
			return fmt.Errorf("%d windows are open, want 1", len(ids))
		}
		return nil
	})
	tab := c.browser()
	var is struct{ SessionID string }
	tab.call("Target.attachToTarget", Object{"targetId": ids[0], "flatten": true}, &is)
	tab.session = is.SessionID
	return tab
}

// hasNoPopup waits until all windows that pages opened are closed.
func (c *chromium) hasNoPopup() {
	c.t.Helper()
	eventually(c.t, 3*time.Minute, func() error {
		if n := len(c.popups()); n > 0 {
			return fmt.Errorf("%d windows are still open", n)
		}
		return nil
	})
}
