package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// serveTwo starts the program with two platforms that offer the service composite, one slower than the other.
func serveTwo(t *testing.T) (s site, slow, fast *simulator.World) {
	t.Helper()
	needPage(t)
	open := func(run time.Duration) *simulator.World {
		w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: run}})
		must(t, err)
		t.Cleanup(func() { w.Close() })
		return w
	}
	slow, fast = open(2*time.Second), open(200*time.Millisecond)
	documents := httptest.NewServer(http.FileServer(http.Dir("../../cmd/eodispatch/algorithms")))
	t.Cleanup(documents.Close)
	const platform = `{"name": %q, "protocol": "openeo", "endpoint": %q, "access": "open", "limits": {"jobs": 2, "min_poll": "250ms"}}`
	s = serve(t, simulator.Life{},
		fmt.Sprintf("EODISPATCH_PLATFORMS=["+platform+","+platform+"]", "slow", slow.OpenEOURL, "fast", fast.OpenEOURL),
		fmt.Sprintf(
			`EODISPATCH_SERVICES=[{"id": "composite", "title": "Greenest NDVI", "platform": "slow", "application": %[1]q, "also": [{"platform": "fast", "application": %[1]q}]}]`, documents.URL+"/ndvi_composite.json"))
	return s, slow, fast
}

// TestPage_SeveralPlatforms: the page says where a service runs, and asks whether at all of these platforms. Of a task
// it shows how many tiles are where, and how many each platform finishes in an hour.
func TestPage_SeveralPlatforms(t *testing.T) {
	t.Parallel()
	s, slow, fast := serveTwo(t)
	b := s.enter(t, "#/new/composite", slow.OpenEOURL, fast.OpenEOURL)
	b.shows("run")
	b.until(`document.querySelector(".panel").innerText.includes("slow, fast")`)
	b.fillsRegion()
	b.presses("Split into tiles")
	b.sees(`[data-tiles="14"]`)
	b.audit("run-at-platforms")
	b.fills("[name=at]", "fast")
	b.clicks("button[type=submit]")
	b.sees("[data-where='1']")
	if said := s.runs(b, "command"); !strings.Contains(said, "task-1") {
		t.Errorf("the command that the page shows prints %s", said)
	}
	b.presses("Change something")
	b.fills("[name=at]", "")
	b.clicks("button[type=submit]")
	b.sees("[data-where='2']")
	b.audit("review-at-platforms")
	b.presses("Start ")
	b.shows("task")
	b.sees("[data-platforms='2']")
	b.audit("task-at-platforms")
	b.sees("[data-done='14'][data-all='14']")
	b.until(
		`[...document.querySelectorAll("[data-platform]")].every(p => Number(p.dataset.done) > 0 && p.dataset.done === p.dataset.all)`)
	b.until(`[...document.querySelectorAll("[data-platform]")].reduce((n, p) => n + Number(p.dataset.all), 0) === 14`)
	b.until(`[...document.querySelectorAll("[data-platform]")].every(p => Number(p.dataset.perHour) > 0)`)
	b.until(`fetch("upscale_tasks/1").then(a => a.json()).then(task => task.counts.finished === 14 && !task.homes)`)
	a, z := slow.OpenEO.Oracle.Sum().Starts, fast.OpenEO.Oracle.Sum().Starts-14 // the command ran at the fast one only
	if a+z != 14 || a == 0 {
		t.Errorf("of 14 tiles %d ran at the slow platform and %d at the fast one", a, z)
	}
	if said := b.read(
		`fetch("services/composite").then(a => a.json()).then(s => s.homes.map(h => h.platform).join(" "))`); said !=
		"slow fast" {
		t.Errorf("the service is at %s", said)
	}
}
