package keycloak

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestPages_InABrowser visits the broker's pages in a real browser with scripts disabled, and with the real Keycloak: a
// user refuses to link their account, then links it, and permits their jobs to keep running after they sign out.
func TestPages_InABrowser(t *testing.T) {
	s, c := Start(t), openChromium(t)
	platform := httptest.NewServer(&simulator.OpenEO{})
	t.Cleanup(platform.Close)
	address := executable.FreeAddress(t)
	serve(t, onPlatforms(t, address, map[string]string{"P": platform.URL})...)
	hugo := newPerson(t, s, "hugo", "http://"+address)
	c.call("Emulation.setScriptExecutionDisabled", Object{"value": true}, nil)

	c.open(hugo.broker + "/link/P")
	c.signsIn("apex", "hugo")
	c.presses("[name=cancel-aia]")
	c.shows("refused", "Your account at P is not linked", "You did not give permission. Nothing was changed.")

	c.presses("a.button")
	c.presses("[type=submit]:not([name=cancel-aia])")
	c.signsIn("platform", "hugo-p")
	c.shows("linked", "Your account at P is linked", "You are signed in as hugo X.")

	c.presses("a.button")
	c.shows("away", "Keep running your jobs after you sign out?", "If you do not want this, close this page.")
	c.presses("button.button")
	c.shows("leave", "Your jobs keep running after you sign out", "You can close this page.")
	c.call("Page.reload", Object{}, nil)
	c.shows("again", "Sign-in failed", "To sign in again, open the link that brought you here")

	var grants []struct{ Kind string }
	a, err := ask(t.Context(), "GET", hugo.broker+"/grants", hugo.token, nil)
	must(t, err)
	if must(t, a.into(http.StatusOK, &grants)); len(grants) != 1 || grants[0].Kind != "offline" {
		t.Errorf("grants %+v, want one that is offline", grants)
	}
}

// shows waits until the browser shows a page of the broker with a title and a text. It checks the page's language, that
// it has one heading, one landmark and no scripts, and that it is legible in the light and the dark colour scheme. It
// saves a screenshot of each.
func (c *chromium) shows(name, title, text string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf(`document.title === %q && document.body.innerText.includes(%q)`, title, text))
	for _, scheme := range []string{"light", "dark"} {
		c.call("Emulation.setEmulatedMedia", Object{
			"features": []Object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		said, err := c.run(inspection)
		must(c.t, err)
		var page struct {
			Lang                             string
			Headings, Landmarks, Scripts     int
			Contrast                         float64
			Width, Screen, Smallest, Targets float64
		}
		text, _ := said.(string)
		must(c.t, json.Unmarshal([]byte(text), &page))
		if page.Lang != "en" || page.Headings != 1 || page.Landmarks != 1 || page.Scripts > 0 {
			c.t.Errorf("%s: want the language en, one heading, one landmark and no scripts: %+v", name, page)
		}
		// contrast, target height and width as in WCAG 2.2, AA
		if page.Contrast < 4.5 || page.Smallest < 14 || page.Targets < 24 || page.Width > page.Screen {
			c.t.Errorf("%s in the scheme %s is hard to read: %+v", name, scheme, page)
		}
		c.saveScreenshot(name + "-" + scheme + ".png")
	}
}

// inspection is a script that returns in JSON what shows checks. The contrast is the lowest ratio of a text to its
// background, by the formula of WCAG 2. Lengths are in CSS pixels: the smallest font size, the lowest height of a link
// or button, and the widths of the page and the screen.
const inspection = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgb = colour => {
		canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return [0, 0, 0];
	};
	const texts = [...document.querySelectorAll("main *")].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
	const contrast = e => {
		const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) * getComputedStyle(e).opacity;
	};
	return JSON.stringify({
		lang: document.documentElement.lang, headings: document.querySelectorAll("h1").length, landmarks: document.querySelectorAll("main").length,
		scripts: document.scripts.length, contrast: Math.min(...texts.map(contrast)),
		width: document.documentElement.scrollWidth, screen: innerWidth,
		smallest: Math.min(...texts.map(e => parseFloat(getComputedStyle(e).fontSize))),
		targets: Math.min(99, ...[...document.links, ...document.querySelectorAll("button")].map(e => e.getBoundingClientRect().height)),
	});
})()`

// saveScreenshot saves a screenshot of the tab in the folder EODISPATCH_SCREENSHOTS, if that is set.
func (c *chromium) saveScreenshot(file string) {
	folder := os.Getenv("EODISPATCH_SCREENSHOTS")
	if folder == "" {
		return
	}
	var screenshot struct{ Data string }
	c.call("Page.captureScreenshot", Object{"format": "png"}, &screenshot)
	raw, err := base64.StdEncoding.DecodeString(screenshot.Data)
	must(c.t, err)
	must(c.t, os.WriteFile(filepath.Join(folder, file), raw, 0o600))
}

// TestStream_InABrowser opens WebSockets from a page of an origin that the operator allows, with the token in a
// subprotocol and with a ticket that the page requested, and reads a status from each. With the same token, WebSockets
// and requests of a page of another origin are refused.
func TestStream_InABrowser(t *testing.T) {
	s, c := Start(t), openChromium(t)
	page := func() string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<!doctype html><title>a portal</title>"))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	listed, other := page(), page()
	platform := httptest.NewServer(&simulator.OpenEO{})
	t.Cleanup(platform.Close)
	address := executable.FreeAddress(t)
	serve(t, append(onPlatforms(t, address, map[string]string{"P": platform.URL}), "CORS_ALLOWED_ORIGINS="+listed)...)
	token := signIn(t, s, "alice", "portal").Reveal()
	stream := fmt.Sprintf(`new Promise(tell => {
		const socket = new WebSocket("ws://%s/job_status?interval=1", ["bearer.%s"]);
		socket.onmessage = m => { const said = JSON.parse(m.data); if (said.type === "status") tell(socket.protocol.slice(0, 7) + JSON.stringify(said.data)); };
		socket.onclose = e => tell("closed " + e.code);
	})`, address, token)
	withTicket := fmt.Sprintf(
		`fetch("http://%[1]s/tickets", {method: "POST", headers: {Authorization: "Bearer %[2]s"}}).then(a => a.json()).then(given => new Promise(tell => {
		const socket = new WebSocket("ws://%[1]s/job_status?interval=1&ticket=" + given.ticket);
		socket.onmessage = m => { const said = JSON.parse(m.data); if (said.type === "status") tell("ticket " + JSON.stringify(said.data)); };
		socket.onclose = e => tell("closed " + e.code);
	}), e => "refused")`, address, token)
	fetch := fmt.Sprintf(
		`fetch("http://%s/jobs_status", {headers: {Authorization: "Bearer %s"}}).then(a => "status " + a.status, e => "refused")`, address, token)
	for _, row := range []struct{ origin, stream, ticket, fetch string }{
		{listed, `bearer.{"upscaling_tasks":[],"processing_jobs":[]}`,
			`ticket {"upscaling_tasks":[],"processing_jobs":[]}`, "status 200"},
		{other, "closed 1006", "refused", "refused"},
	} {
		c.open(row.origin)
		c.waitFor(`location.origin === "` + row.origin + `" && document.readyState === "complete"`)
		for expression, want := range map[string]string{stream: row.stream, withTicket: row.ticket, fetch: row.fetch} {
			got, err := c.run(expression)
			must(t, err)
			if text, _ := got.(string); text != want {
				t.Errorf("a page of %s received %q, want %q", row.origin, text, want)
			}
		}
	}
}
