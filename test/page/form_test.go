package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestPage_LimitsAndEstimates reviews a run over a triangle, of which the service gets the box: the page says how much
// more that is. The run has a title of its own, a budget, a trial, retries, a label and a note, and an estimate of its
// costs once jobs of the service have finished. The task can be edited and run again.
func TestPage_LimitsAndEstimates(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.clicks("button[type=submit]")
	b.sees(".notice.error li a")
	first := b.read(`[...document.querySelectorAll(".notice.error li a")].map(a => a.innerText).join()`)
	if first != "Area,Temporal extent" {
		t.Errorf("the summary leads to %s", first)
	}
	b.clicks(".notice.error li:nth-child(2) a")
	b.until(`document.activeElement?.name === "from"`)
	b.drops("triangle.geojson", []byte(`{"type":"Polygon","coordinates":[[[5.05,51.05],[5.75,51.05],[5.75,51.45],[5.05,51.05]]]}`))
	b.presses("Last month")
	b.until(`document.querySelector("[name=from]").value.endsWith("-01") && document.querySelector("[name=until]").value.endsWith("-01")`)
	b.fills("[name=from]", "2024-06-01")
	b.fills("[name=until]", "2024-07-01")
	b.until(`document.querySelector("[name=title]").placeholder.startsWith("Greenest NDVI, triangle, Jun 2024")`)
	b.clicks("button[type=submit]")
	b.sees("[data-sent='1'][data-more='100']")
	b.sees("[data-estimate=none]")
	b.screenshot("review-sent")
	b.presses("Change something")

	b.presses("Split into tiles")
	b.until(`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 3`)
	b.until(`[...document.querySelectorAll("[name=grid] optgroup")].length > 3`)
	b.presses("Small tiles, overlap and order")
	b.until(`(help => help.getBoundingClientRect().bottom <=
		document.querySelector("[name=order]").parentElement.getBoundingClientRect().top)(
			document.querySelector("[name=buffer] + .help"))`)
	b.presses("Limits, labels and note")
	for name, value := range map[string]string{"budget": "-1", "trial": "3", "retries": "2", "hours": "1.5",
		"labels": "season=spring, crop=wheat", "note": "the first"} {
		b.fills("[name="+name+"]", value)
	}
	ended := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		ended <- string(text)
	}))
	t.Cleanup(receiver.Close)
	b.fills("[name=notify]", receiver.URL)
	b.clicks("button[type=submit]")
	b.until(`document.querySelector(".notice.error")?.innerText.includes("Budget: enter a number above zero")`)
	b.audit("run-limits")
	b.fills("[name=budget]", "200")
	b.clicks("button[type=submit]")
	b.until(`document.querySelectorAll("[data-limit]").length === 7`)
	b.audit("review-limits")
	b.presses("Start ")
	b.shows("task")
	b.sees(".paused[data-why=trial_ended]")
	b.presses("Run the other")
	b.until(`(e => e && e.dataset.done === e.dataset.all)(document.querySelector("[data-done]"))`)
	for text := range ended { // first of the trial, then of the end
		if strings.Contains(text, "task_ended") || strings.Contains(text, "task.ended") {
			break
		}
	}

	tiles := b.read(`document.querySelector("[data-all]").dataset.all`)
	b.clicks("button.edit-again")
	b.shows("run")
	b.sees("[data-tiles='" + tiles + "']")
	for name, value := range map[string]string{"from": "2024-06-01", "until": "2024-07-01", "grid": ":cells",
		"labels": "crop=wheat, season=spring", "note": "the first"} {
		b.until(`document.querySelector("[name=` + name + `]")?.value === "` + value + `"`)
	}
	b.sees("[data-tiles='" + tiles + "']") // counted anew
	b.clicks("button[type=submit]")
	b.sees("[data-estimate]")
	b.screenshot("review-estimate")
}

// TestPage_TooManyTiles: an area with more tiles than a task may have, or than are counted, has one sentence that says
// how many may be.
func TestPage_TooManyTiles(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.presses("Split into tiles")
	said := func(east string) {
		t.Helper()
		for side, value := range map[string]string{"west": "-20", "south": "0", "east": east, "north": "60"} {
			b.fills("[name="+side+"]", value)
		}
		b.until(`document.querySelector(".notice.error")?.innerText.includes("10,000")`)
		b.until(`document.querySelector("fieldset:has([name=grid])").innerText.match(/10,000/g).length === 1`)
	}
	b.corners(",,,")
	said("0")
	b.screenshot("too-many-tiles")
	said("60")
}

// TestPage_Numbers runs a service whose results are numbers: the page shows them. The job can be edited and run again.
func TestPage_Numbers(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/numbers")
	b.shows("run")
	for side, value := range map[string]string{"west": "5.05", "south": "51.05", "east": "5.75", "north": "51.45"} {
		b.fills("[name="+side+"]", value)
	}
	b.clicks("button[type=submit]")
	b.presses("Start the job")
	b.until(`document.querySelector("[data-value=mean] dd")?.innerText === "0.36"`)
	b.audit("job-of-numbers")
	b.clicks("button.edit-again")
	b.shows("run")
	b.until(`document.querySelector("[name=title]").value !== ""`)
	b.corners("5.05,51.05,5.75,51.45")
}
