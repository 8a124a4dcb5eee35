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

// TestPage_ValuesOneByOne combines the months of a time span with as many values of a parameter, one by one. The page says when their numbers differ.
// The task is pinned, and deleted at the platform too.
func TestPage_ValuesOneByOne(t *testing.T) {
	s := serve(t, simulator.Life{Run: 100 * time.Millisecond})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fillsRegion()
	for name, value := range map[string]string{"from": "2024-05-20", "until": "2024-07-10", "step": "month", "over": "max_cloud_cover"} {
		b.fills("[name="+name+"]", value)
	}
	b.fills("[name=values]", "10\n30")
	b.sees(`[data-combinations="6"]`)
	b.fills("[name=combine]", "zip")
	b.sees(`[data-combinations="0"]`)
	b.clicks("[name=pin]")
	b.clicks("button[type=submit]")
	b.until(`document.querySelector(".notice.error")?.innerText.includes("here are 3 and 2")`)
	b.audit("run-unequal")
	b.fills("[name=values]", "10\n30\n50")
	b.sees(`[data-combinations="3"]`)
	b.clicks("button[type=submit]")
	b.until(`document.querySelector("[data-jobs='3']") && document.querySelector("dl.facts").innerText.includes("as it is at the start")`)
	b.presses("Start 3 jobs")
	b.shows("task")
	b.sees("[data-done='3'][data-all='3']")
	b.until(`document.querySelectorAll("[data-dimension=max_cloud_cover] li[data-all='1']").length === 3`)
	if said := b.read(`fetch("upscale_tasks/" + location.hash.split("/")[2].split("?")[0]).then(a => a.json()).then(d => fetch("unit_jobs/" + d.jobs[0].id)).then(a => a.json()).then(d => JSON.stringify(d.options))`); said != `{"pin":true}` {
		t.Errorf("the options of a job are %s", said)
	}

	b.presses("Delete")
	b.clicks("dialog[open] [name=also]")
	b.audit("delete-at-platform")
	b.confirms()
	b.shows("tasks")
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for limit := time.Now().Add(within); s.world.OpenEO.Oracle.Sum().Cancels < 3; <-ticks.C {
		if time.Now().After(limit) {
			t.Fatalf("%d jobs were removed at the platform", s.world.OpenEO.Oracle.Sum().Cancels)
		}
	}
}
