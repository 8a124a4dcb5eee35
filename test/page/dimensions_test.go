package page

import (
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
)

// TestPage_SeveralDimensions splits a run of tiles by month: the page counts its jobs before they are sent, shows the progress of each month, and
// the tiles of one.
func TestPage_SeveralDimensions(t *testing.T) {
	s := serve(t, simulator.Life{Run: 100 * time.Millisecond})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fillsRegion()
	for name, value := range map[string]string{"east": "5.45", "south": "51.25", "from": "2024-05-20", "until": "2024-07-10", "step": "month"} {
		b.fills("[name="+name+"]", value)
	}
	b.sees(`[data-combinations="3"]`)
	b.audit("run-by-month")
	b.presses("Split into tiles")
	b.until(`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 1`)
	tiles := b.read(`document.querySelector("[data-tiles]").dataset.tiles`)
	b.until(`Number(document.querySelector("[data-combinations]")?.dataset.combinations) === 3 * ` + tiles)
	b.clicks("button[type=submit]")
	b.sees("[data-dimension=temporal_extent]")
	b.until(`Number(document.querySelector("[data-jobs]")?.dataset.jobs) === 3 * ` + tiles)
	b.audit("review-by-month")
	if said := s.runs(b, "command"); !strings.Contains(said, "task-1") {
		t.Errorf("the command that the page shows prints %s", said)
	}
	b.presses("Start ")
	b.shows("task")
	b.until(`document.querySelectorAll("[data-dimension=temporal_extent] li").length === 3`)
	b.until(`[...document.querySelectorAll("[data-dimension=temporal_extent] li")].every(li => li.dataset.all === "` + tiles + `" && li.dataset.done === "` + tiles + `")`)
	b.until(`document.querySelectorAll("table.tiles tbody tr").length === 3 * ` + tiles)
	b.clicks("[data-dimension=temporal_extent] li:nth-child(2) button")
	b.until(`document.querySelectorAll("table.tiles tbody tr").length === ` + tiles)
	b.audit("task-by-month")
	if said := b.read(`fetch("upscale_tasks/" + location.hash.split("/")[2].split("?")[0] + "/dimensions").then(a => a.json()).then(d => d.dimensions[1].values.map(v => v.value.join("/")).join(" "))`); said != "2024-05-20/2024-06-01 2024-06-01/2024-07-01 2024-07-01/2024-07-10" {
		t.Errorf("the parts of the time are %s", said)
	}
	b.sees(`a[href$="/provenance"]`)
}
