// Package page tests the page for people in a real browser, against the real program and simulated platforms.
package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
	"github.com/eodispatch/eodispatch/web"
)

func TestMain(m *testing.M) {
	code := m.Run()
	executable.CleanUp()
	os.Exit(code)
}

// site is the program with simulated platforms and their services.
type site struct {
	world   *simulator.World
	address string
}

const settings = `listen: %[1]s
public_url: http://%[1]s
database: sqlite:%[2]s/eodispatch.db
development: true
freshness: 500ms
identity: {issuer: %[3]s, client_id: %[4]s, client_secret: %[5]s}
platforms:
- name: simulated-openeo
  protocol: openeo
  endpoint: %[6]s
  access: user
  exchange: {driver: keycloak-requested-issuer, alias: %[7]s}
  issuer: %[8]s
  limits: {jobs: 4, min_poll: 250ms}
- name: simulated-ogc
  protocol: ogc-api-processes
  endpoint: %[9]s
  access: user
  exchange: {driver: keycloak-requested-issuer, alias: %[7]s}
  issuer: %[8]s
  limits: {min_poll: 250ms}
services:
- id: composite
  title: Greenest NDVI
  description: The **largest** NDVI of a time span.
  platform: simulated-openeo
  application: %[10]s/ndvi_composite.json
  keywords: [vegetation]
- id: scene
  title: NDVI of a scene
  platform: simulated-ogc
  application: ndvi
- id: numbers
  title: NDVI in numbers
  platform: simulated-ogc
  application: statistics
- id: hostile
  title: '%[11]s'
  description: '%[11]s [link](javascript:window.ran=1) ![picture](javascript:window.ran=1)'
  platform: simulated-openeo
  application: %[10]s/ndvi_composite.json
  keywords: ['%[11]s']
  cost: '%[11]s'
`

// script runs when a browser takes it for HTML.
const script = `<img src=x onerror="window.ran=1"><script>window.ran=1</script><svg onload="window.ran=1"></svg>`

// needPage skips the test if programs would have no page, or fails it in CI.
func needPage(t *testing.T) {
	t.Helper()
	if web.Page() == nil {
		installed.Missing(t, "the page", "make page")
	}
}

// serve starts the program. It skips the test if the program would have no page, or fails it in CI.
func serve(t *testing.T, life simulator.Life, environ ...string) site {
	t.Helper()
	needPage(t)
	world, err := simulator.Start(simulator.Options{Life: life})
	must(t, err)
	t.Cleanup(func() { world.Close() })
	documents := httptest.NewServer(http.FileServer(http.Dir("../../cmd/eodispatch/algorithms")))
	t.Cleanup(documents.Close)
	folder, address, known := t.TempDir(), executable.FreeAddress(t), world.Credentials
	file := filepath.Join(folder, "eodispatch.yaml")
	text := fmt.Sprintf(settings, address, folder, known.Issuer, known.BrokerID, known.BrokerSecret, world.OpenEOURL,
		simulator.PlatformAlias, known.Platform, world.OGCURL, documents.URL, script)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	p := executable.Start(t, executable.Released, append(environ, "EODISPATCH_CONFIG="+file, "EODISPATCH_LISTEN="+
		address)...)
	if p.Address == "" {
		t.Fatalf("the program ended before it served:\n%s", p.Log)
	}
	return site{world, "http://" + address}
}

// enter opens a route of the page and signs alice in by one click at the provider.
func (s site) enter(t *testing.T, route string, platforms ...string) *tab {
	t.Helper()
	b := openTab(t)
	b.asksOnly(append(platforms, s.address, s.world.IdPURL, s.world.OpenEOURL, s.world.OGCURL)...)
	b.opens(s.address + "/" + route)
	b.shows("sign-in")
	b.signsIn()
	return b
}

func (b *tab) signsIn() {
	b.t.Helper()
	b.clicks(`a.primary[href*="session/sign-in"]`)
	b.clicks(`a[href*="as=alice"]:not([href*="deny"])`)
	b.sees("[data-user]")
}

// fillsRegion types a region of 14 tiles and a month.
func (b *tab) fillsRegion() {
	b.t.Helper()
	for name, value := range map[string]string{"west": "5.05", "south": "51.05", "east": "5.75", "north": "51.45",
		"from": "2024-06-01", "until": "2024-07-01"} {
		b.fills("[name="+name+"]", value)
	}
}

// reviewsTiles fills in a region and has it split into 14 tiles, up to the review.
func (b *tab) reviewsTiles() {
	b.t.Helper()
	b.fillsRegion()
	b.presses("Split into tiles")
	b.sees(`[data-tiles="14"]`)
	b.clicks("button[type=submit]")
	b.sees(`[data-jobs="14"]`)
}

// startsTiles starts a task of 14 tiles and returns once its view is shown.
func (b *tab) startsTiles() {
	b.t.Helper()
	b.reviewsTiles()
	b.presses("Start 14 jobs")
	b.shows("task")
}

// runs runs the request in a review as the page shows it for another tool (curl, command or python), and returns what
// that prints.
func (s site) runs(b *tab, tool string) string {
	b.t.Helper()
	b.clicks(fmt.Sprintf(".elsewhere .segments button:nth-child(%d)",
		1+slices.Index([]string{"curl", "command", "python"}, tool)))
	b.sees("pre[data-tool=" + tool + "]")
	text := b.read(`document.querySelector("pre[data-tool]").innerText`)
	program, err := executable.Released()
	must(b.t, err)
	command := exec.Command("sh", "-c", text)
	if tool == "python" {
		command = exec.Command("python3", "-c", text)
	}
	token := s.world.IdP.Mint(simulator.BrokerRealm, "alice", "portal", simulator.TokenFaults{})
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"),
		"EODISPATCH_BROKER="+s.address, "EODISPATCH_TOKEN="+token)
	said, err := command.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s\n%v: %s", text, err, said)
	}
	return string(said)
}

// TestPage_FromSignInToAMosaic goes the whole way on openEO: from the sign-in to the results of 14 tiles on the map,
// watched live.
func TestPage_FromSignInToAMosaic(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Queue: 100 * time.Millisecond, Run: 400 * time.Millisecond, Spread: 0.5},
		"EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal())
	b := openTab(t)
	b.asksOnly(s.address, s.world.IdPURL, s.world.OpenEOURL)
	b.opens(s.address)
	b.shows("sign-in")
	b.audit("sign-in")
	b.signsIn()

	b.shows("services")
	if first, err := evaluate[float64](b,
		`performance.getEntriesByType("resource").filter(e => e.name.includes("/page/")).reduce((sum, e) => sum + e.encodedBodySize, 0)`); err != nil || first < 10e3 || first > 160e3 {
		t.Errorf("the first load has %.0f bytes, compressed: %v", first, err)
	}
	b.audit("services")
	b.fills("[type=search]", "greenest")
	b.until(`document.querySelectorAll(".card").length === 1 && location.hash.includes("q=greenest")`)
	b.presses("Details")
	b.shows("service")
	b.audit("service")
	b.presses("Run this service")
	b.shows("run")
	b.clicks("button[type=submit]")
	b.sees(".notice.error") // the area is missing
	b.audit("run-with-faults")
	b.reviewsTiles()
	if said := s.runs(b, "command"); !strings.Contains(said, "task-1") {
		t.Errorf("the command that the page shows prints %s", said)
	}
	b.presses("Start 14 jobs")
	b.shows("task")
	b.audit("task")
	b.sees(`[data-done="14"]`)
	b.sees(`.rasters[data-shown="14"]`) // unasked
	b.clicks("#tab-tiles")
	b.counts("finished", 14)
	b.until(`(e => e.scrollWidth <= e.clientWidth)(document.querySelector("table.tiles").parentElement)`)
	b.audit("tiles")
	b.clicks("#tab-costs")
	b.sees(`[data-costs="28"]`)
	b.clicks("#tab-results")
	b.sees(`[data-items="14"]`)
	b.presses("Remove all from the map")
	b.until(`!document.querySelector(".rasters")`)
	b.clicks("button.mosaic")
	b.sees(`.rasters[data-shown="14"]`)
	b.showsValues(3)
	b.audit("results")
	b.downloads()

	b.presses("Tasks")
	b.shows("tasks")
	b.audit("tasks")
	b.presses("Platforms")
	b.shows("platforms")
	b.audit("platforms")
	b.clicks("[data-user]")
	b.shows("account")
	b.audit("account")
	b.addsHook()
	b.presses("Sign out")
	b.shows("sign-in")
	if kept := b.read(`JSON.stringify([localStorage, sessionStorage, document.cookie])`); kept != `[{},{},""]` {
		t.Errorf("after the sign-out the browser keeps %s", kept)
	}
}

// downloads fetches the first file of the results and checks that it is a GeoTIFF.
func (b *tab) downloads() {
	b.t.Helper()
	b.sees("a[download]")
	href := b.read(`document.querySelector("a[download]").href`)
	answer, err := http.Get(href)
	must(b.t, err)
	defer answer.Body.Close()
	file, err := io.ReadAll(answer.Body)
	if err != nil || len(file) < 100 || string(file[:4]) != "II*\x00" {
		b.t.Errorf("%s: %d, %d bytes, %v", href, answer.StatusCode, len(file), err)
	}
}

// showsValues clicks in the middle of the map, and waits for the values of so many bands there.
func (b *tab) showsValues(bands int) {
	b.t.Helper()
	b.clicks(".tools button[aria-label='Show everything']")
	b.until(`new Promise(moved => setTimeout(() => moved(true), 500))`)
	const middle = `(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector(".map .canvas").getBoundingClientRect())`
	at, err := evaluate[[2]float64](b, middle)
	must(b.t, err)
	b.drags(at[0]+3, at[1]+3, at[0]+3, at[1]+3)
	b.until(fmt.Sprintf(`document.querySelectorAll(".here dl:first-of-type dd b").length === %d`, bands))
}

// previewsBands looks at the values of the first GeoTIFF, at its second band, whose values are others, and at three
// bands as a
// colour picture.
func (b *tab) previewsBands() {
	b.t.Helper()
	const span = `[...document.querySelectorAll(".rasters input[inputmode=decimal]")].map(i => i.value).join(" to ")`
	b.sees(`.rasters[data-shown="1"]`)
	b.showsValues(3)
	b.presses("Colours and contrast")
	first := b.read(span)
	b.fills("[name=bands]", "1")
	b.until(fmt.Sprintf("%s !== %q", span, first))
	b.fills("[name=bands]", "colours")
	b.fills("[name=band-2]", "0")
	b.until(`[...document.querySelectorAll(".rasters [name^=band-]")].map(s => s.value).join() === "0,1,0"`)
	b.screenshot("preview")
}

// TestPage_OneJobOnOGC runs one job on the other protocol, and shows its result, its parameters and its logs.
func TestPage_OneJobOnOGC(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/scene")
	b.shows("run")
	for name, value := range map[string]string{"west": "5.05", "south": "51.2", "east": "5.15", "north": "51.25"} {
		b.fills("[name="+name+"]", value)
	}
	b.clicks("button[type=submit]")
	b.shows("review")
	b.audit("review")
	job := s.runs(b, "command")
	if !strings.Contains(job, "job-1") {
		t.Errorf("the command that the page shows prints %s", job)
	}
	if said := s.runs(b, "curl"); !strings.Contains(said, `"id":2,`) {
		t.Errorf("the curl command that the page shows prints %s", said)
	}
	if said := s.runs(b, "python"); !strings.HasPrefix(said, "2 ") { // the same key
		t.Errorf("the program that the page shows prints %s", said)
	}
	b.presses("Start the job")
	b.sees(`[data-view=job][data-status=finished]`)
	b.until(`location.hash === "#/jobs/2"`) // the key is the same: nothing runs twice
	b.sees("[data-file]")
	b.previewsBands()
	b.audit("job")
	b.presses("Jobs")
	b.shows("jobs")
	b.sees(`tr[data-status=finished]`)
	if status := b.read(
		`fetch("unit_jobs/2", {method: "PATCH", headers: {"Content-Type": "application/json"}, body: JSON.stringify({labels: {season: "spring"}})}).then(a => String(a.status))`); status != "200" {
		t.Fatalf("a label of a job is answered by %s", status)
	}
	b.sees(".labels a")
	b.audit("jobs")
	b.clicks(".labels a")
	b.until(`location.hash.includes("q=season") && document.querySelectorAll("table.runs tbody tr").length === 1`)
}

// TestPage_RetriesFailedTiles shows why tiles failed, and retries one of them, then two that are selected, then the
// others. Jobs that failed are run again, one from its view and both from the list.
func TestPage_RetriesFailedTiles(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Fail: 1})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.startsTiles()
	b.sees(`.failures[data-failed="14"]`)
	b.audit("failures")
	s.world.OpenEO.SetLife(simulator.Life{})
	b.presses("Show them")
	b.until(`document.querySelector("tr.reason")?.innerText.length > 10`)
	b.clicks("table.tiles th a")
	b.shows("job")
	b.clicks("button.retry")
	b.sees("[data-view=job][data-status=finished]")
	b.read(`(history.back(), "")`)
	b.counts("failed", 13)
	b.clicks("tr[data-status=failed] input")
	b.clicks("tr[data-status=failed]:nth-last-child(2) input")
	b.clicks("button.retry-selected")
	b.counts("failed", 11)
	b.clicks("#tab-overview")
	b.sees(`.failures[data-failed="11"]`)
	b.clicks("button.retry")
	b.clicks("#tab-tiles")
	b.presses("All tiles")
	b.counts("finished", 14)

	s.world.OpenEO.SetLife(simulator.Life{Fail: 1})
	first := b.read(
		`fetch("unit_jobs", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({title: "limited", service: {id: "composite"},
		parameters: {spatial_extent: {west: 5, south: 51, east: 5.1, north: 51.1}, temporal_extent: ["2024-06-01", "2024-07-01"]}, format: "gtiff",
		options: {max_duration: 3600, "driver-memory": "4g"}})}).then(a => a.json()).then(j => String(j.id))`)
	b.opens(s.address + "/#/jobs/" + first)
	b.sees("[data-view=job][data-status=failed]")
	b.presses("Run again")
	b.confirms()
	b.until(fmt.Sprintf(`location.hash !== "#/jobs/%s"`, first))
	b.sees("[data-view=job][data-status=failed]")
	const options = `fetch("unit_jobs/" + location.hash.split("/")[2]).then(a => a.json()).then(j => JSON.stringify(j.options))`
	if again := b.read(options); again != `{"max_duration":3600,"driver-memory":"4g"}` {
		t.Errorf("it ran again with the options %s", again)
	}
	s.world.OpenEO.SetLife(simulator.Life{})
	b.presses("Jobs")
	b.until(`document.querySelectorAll("table.runs tbody tr[data-status=failed]").length === 2`)
	b.clicks("table.runs thead input")
	b.presses("Run again")
	b.confirms()
	b.until(`document.querySelectorAll("table.runs tbody tr[data-status=finished]").length === 2`)
}

// TestPage_RunsNoScriptOfARecord opens a service with scripts in every field. The elements
// are looked for too, because the Content-Security-Policy would hide a script that the page lets through.
func TestPage_RunsNoScriptOfARecord(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/services/hostile")
	for _, route := range []string{"#/services", "#/services?view=list", "#/services/hostile", "#/new/hostile"} {
		b.opens(s.address + "/" + route)
		b.until(`document.body.innerText.includes("<script>")`) // as text
		b.until(
			`window.ran === undefined && !document.querySelector("main script, main [onerror], main [onload], a[href^='javascript:']")`)
	}
}

// TestPage_RefusesBrokenAreas pastes GeoJSON that is not as it should be. The view stays, and takes the next one.
func TestPage_RefusesBrokenAreas(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fillsRegion()
	b.presses("As GeoJSON")
	b.until(`document.querySelector("details textarea").value.includes("51.45")`)
	for broken, why := range map[string]string{
		`{"type":"Polygon","coordinates":[]}`:                                "incomplete",
		`{"type":"Polygon","coordinates":[[]]}`:                              "incomplete",
		`{"type":"Polygon","coordinates":[[[5,51],[6,51]]]}`:                 "incomplete",
		`{"type":"Polygon"}`:                                                 "incomplete",
		`{"type":"FeatureCollection"}`:                                       "incomplete",
		`{"type":"FeatureCollection","features":[null]}`:                     "no polygon",
		`{"type":"Polygon","coordinates":[[["5",51],[6,51],[6,52],[5,51]]]}`: "not longitudes and latitudes",
	} {
		b.fills("details textarea", broken)
		b.presses("Use this geometry")
		b.until(fmt.Sprintf(`document.querySelector("details .fault")?.innerText.includes(%q)`, why))
	}
	b.fills("details textarea", `{"type":"Polygon","coordinates":[[[5,51],[6,51],[6,52],[5,52]]]}`) // not closed
	b.presses("Use this geometry")
	b.until(
		`document.querySelector("details textarea").value.includes("[5,52],[5,51]]") && !document.querySelector("details .fault")`)

	b.fills("[name=west]", "200") // the area is still the one before
	b.clicks("button[type=submit]")
	b.until(`document.querySelector("[data-view=run]")?.innerText.split("West and east must").length > 2`)
	// the map ends at 85 degrees
	for _, side := range [][2]string{{"west", "5"}, {"east", "6"}, {"north", "90"}, {"south", "89"}} {
		b.fills("[name="+side[0]+"]", side[1])
	}
	b.until(`(window.before = true, location.reload(), true)`)
	b.until(
		`window.before === undefined && document.querySelector("[data-view=run][data-state=ready] [name=south]")?.value === "89"`)
}

// TestPage_KeepsWhatWasTypedWhenTheSessionEnds ends the session behind the page's back while a form is half filled,
// with coordinates and GeoJSON that are no area yet, and again before the run is started.
func TestPage_KeepsWhatWasTypedWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fills("[name=west]", "5.")
	b.fills("[name=until]", "2024-07-01")
	b.presses("As GeoJSON")
	b.fills("details textarea", `{"type":"Poly`)
	call(b, network.ClearBrowserCookies, cdp.Empty{})
	b.read(`(document.dispatchEvent(new Event("visibilitychange")), "")`) // somebody comes back to the tab
	b.sees(".ended")
	b.signsIn()
	b.until(
		`["[name=west]", "[name=until]", "details textarea"].map(f => document.querySelector(f)?.value).join(" ") === '5. 2024-07-01 {"type":"Poly'`)

	b.fillsRegion()
	b.fills("[name=title]", "typed before")
	call(b, network.ClearBrowserCookies, cdp.Empty{})
	b.clicks("button[type=submit]")
	b.presses("Start the job")
	b.sees(".ended")
	b.signsIn()
	b.until(`location.hash.startsWith("#/new/composite")`)
	b.presses("Start the job")
	b.sees(`[data-view=job][data-status=finished]`)
	if title := b.read(`document.querySelector("h1").innerText`); title != "typed before" {
		t.Errorf("the title is %q", title)
	}
}
