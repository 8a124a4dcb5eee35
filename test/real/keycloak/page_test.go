package keycloak

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
	"github.com/eodispatch/eodispatch/web"
)

// fills sets the value of a field of the page as typing does.
func (c *chromium) fills(selector, value string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf(`(e => {
		if (!e) return false;
		e.value = %q;
		e.dispatchEvent(new Event("input", {bubbles: true}));
		return true;
	})(document.querySelector(%q))`, value, selector))
}

// clicks clicks the button or link of the page with a text.
func (c *chromium) clicks(text string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf(
		`(e => e && !e.disabled && (e.click(), true))([...document.querySelectorAll("button, a")].find(e => e.innerText?.trim().startsWith(%q))) === true`, text))
}

// TestPage_OnTheRealProvider uses the page with the real Keycloak, in a real browser: a user who has never linked an
// account signs in, starts a job, links their account where its attention leads, and comes back to the job, which
// finishes as theirs. The page's sign-out ends Keycloak's session, too.
func TestPage_OnTheRealProvider(t *testing.T) {
	if web.Page() == nil {
		installed.Missing(t, "the page", "make page")
	}
	s, c := Start(t), openChromium(t)
	must(t, s.AddUser("apex", "olga"))
	must(t, s.AddUser("platform", "olga-p"))
	documents := httptest.NewServer(http.FileServer(http.Dir("../../../cmd/eodispatch/algorithms")))
	t.Cleanup(documents.Close)
	keeper := newTokenChecker(t)
	home := sessionBroker(t, s, &simulator.OpenEO{Check: keeper.check, Issuer: Platform}, fmt.Sprintf(
		`EODISPATCH_SERVICES=[{"id": "composite", "title": "Greenest NDVI", "platform": "P", "application": %q}]`,
		documents.URL+"/ndvi_composite.json"))

	c.open(home + "/#/new/composite")
	c.presses(`[data-view=sign-in] a.primary`)
	c.signsIn("apex", "olga")
	c.waitFor(`location.hash === "#/new/composite" && document.querySelector("[data-user]")?.innerText === "olga X"`)
	for name, value := range map[string]string{"west": "5.05", "south": "51.2", "east": "5.15", "north": "51.25",
		"from": "2024-06-01", "until": "2024-07-01"} {
		c.fills("[name="+name+"]", value)
	}
	c.clicks("Review")
	c.clicks("Start the job")
	c.presses("a.resolve")
	c.presses("[type=submit]:not([name=cancel-aia])") // of Keycloak's question whether to link
	c.signsIn("platform", "olga-p")
	c.waitFor(`document.title === "Your account at P is linked"`)
	c.clicks("Go back")
	c.waitFor(`document.querySelector("[data-view=job][data-status=finished]") !== null`)
	if n, refused := keeper.tokens("olga-p"); n == 0 || len(refused) > 0 {
		t.Errorf("the platform accepted %d tokens of olga-p and refused %v", n, refused)
	}

	c.presses("[data-user]")
	c.clicks("Sign out")
	c.presses(`[data-view=sign-in] a.primary`)
	// asked again
	c.waitFor(`location.pathname.startsWith("/realms/apex/") && document.querySelector("#password") !== null`)
}
