package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// chooses gives a file to a control.
func (b *tab) chooses(selector, name, content string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(input => {
		if (!input) return false;
		const files = new DataTransfer();
		files.items.add(new File([%q], %q));
		input.files = files.files;
		input.dispatchEvent(new Event("change", {bubbles: true}));
		return true;
	})(document.querySelector(%q))`, content, name, selector))
}

// tilesItsArea has the area split with the options that few need, and then into the user's own cells.
func (b *tab) tilesItsArea() {
	b.t.Helper()
	b.presses("Split into tiles")
	b.until(`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 2`)
	b.until(`Number(document.querySelector("[data-slivers]")?.dataset.slivers) > 0`)
	all := b.read(`document.querySelector("[data-tiles]").dataset.tiles`)
	b.clicks("details.tiling summary")
	b.fills("[name=min_area]", "40")
	b.until(`Number(document.querySelector("[data-tiles]")?.dataset.tiles) < ` + all +
		` && document.querySelector("[data-slivers='0']")`)
	b.clicks("[name=merge]")
	b.fills("[name=buffer]", "100")
	b.until(`document.querySelector(".notice.error")?.innerText.includes("tiles with a buffer overlap")`)
	b.fills("[name=buffer]", "")
	b.fills("[name=grid]", ":cells")
	b.chooses("[name=cells]", "broken.geojson", `{"type":"Polygon"}`)
	b.until(`document.querySelector(".fault[role=alert]")?.innerText.includes("broken.geojson cannot be used")`)
	b.chooses("[name=cells]", "cells.geojson", `{"type":"FeatureCollection","features":[
		{"type":"Feature","id":"west","geometry":{"type":"Polygon","coordinates":[[[5,51],[5.25,51],[5.25,52],[5,52],[5,51]]]}},
		{"type":"Feature","id":"middle","geometry":{"type":"Polygon","coordinates":[[[5.25,51],[5.35,51],[5.35,52],[5.25,52],[5.25,51]]]}},
		{"type":"Feature","id":7,"geometry":{"type":"Polygon","coordinates":[[[5.35,51],[6,51],[6,52],[5.35,52],[5.35,51]]]}}]}`)
	b.fills("[name=order]", "centre")
	b.sees(`[data-tiles="3"]`)
}

// TestPage_SeveralDimensions splits a run of the user's own cells by month: the page counts its jobs before they are
// sent, shows the progress of each month, and the tiles of one, with the names of the cells.
func TestPage_SeveralDimensions(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Run: 100 * time.Millisecond})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fillsRegion()
	for name, value := range map[string]string{"east": "5.45", "south": "51.25", "from": "2024-05-20",
		"until": "2024-07-10", "step": "month"} {
		b.fills("[name="+name+"]", value)
	}
	b.sees(`[data-combinations="3"]`)
	b.audit("run-by-month")
	b.tilesItsArea()
	b.audit("run-own-cells")
	const tiles = "3"
	b.until(`Number(document.querySelector("[data-combinations]")?.dataset.combinations) === 3 * ` + tiles)
	b.clicks("button[type=submit]")
	b.sees("[data-dimension=temporal_extent]")
	b.until(`Number(document.querySelector("[data-jobs]")?.dataset.jobs) === 3 * ` + tiles)
	b.audit("review-by-month")
	if said := s.runs(b, "curl"); !strings.Contains(said, `"id":1`) {
		t.Errorf("the command that the page shows prints %s", said)
	}
	b.clicks(".elsewhere .segments button:nth-child(2)")
	b.until(
		`document.querySelector("pre[data-tool=command]")?.innerText.replace(/\\\s+/g, "").includes("--grid cells.geojson --min-area 40000000 --merge --order centre --time")`)
	b.presses("Start ")
	b.shows("task")
	b.until(`document.querySelectorAll("[data-dimension=temporal_extent] li").length === 3`)
	b.until(`[...document.querySelectorAll("[data-dimension=temporal_extent] li")].every(li => li.dataset.all === "` +
		tiles + `" && li.dataset.done === "` + tiles + `")`)
	b.audit("task-by-month")
	b.clicks("#tab-tiles")
	b.until(`document.querySelectorAll("table.tiles tr[data-id]").length === 3 * ` + tiles)
	b.clicks("#tab-overview")
	b.clicks("[data-dimension=temporal_extent] li:nth-child(2) button")
	b.until(`document.querySelectorAll("table.tiles tr[data-id]").length === ` + tiles)
	if named := b.read(
		`[...document.querySelectorAll("table.tiles .tile-name")].map(name => name.innerText).join(" ")`); named !=
		"middle west 7" {
		t.Errorf("the tiles are named %s", named)
	}
	if said := b.read(
		`fetch("upscale_tasks/" + location.hash.split("/")[2].split("?")[0] + "/dimensions").then(a => a.json()).then(d => d.dimensions[1].values.map(v => v.value.join("/")).join(" "))`); said != "2024-05-20/2024-06-01 2024-06-01/2024-07-01 2024-07-01/2024-07-10" {
		t.Errorf("the parts of the time are %s", said)
	}
	b.clicks("#tab-overview")
	b.sees(`a[href$="/provenance"]`)
}

// TestPage_ValuesOneByOne combines the months of a time span with as many values of a parameter, one by one. The page
// says when their numbers differ. The task is pinned, and deleted at the platform too.
func TestPage_ValuesOneByOne(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Run: 100 * time.Millisecond})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.fillsRegion()
	for name, value := range map[string]string{"from": "2024-05-20", "until": "2024-07-10", "step": "month",
		"over": "max_cloud_cover"} {
		b.fills("[name="+name+"]", value)
	}
	b.fills("[name=values]", "10\n30")
	b.sees(`[data-combinations="6"]`)
	b.fills("[name=combine]", "zip")
	b.sees(`[data-combinations="0"]`)
	b.clicks("[name=pin]")
	b.clicks("button[type=submit]")
	b.until(`document.querySelector(".notice.error")?.innerText.includes("they are 3 and 2")`)
	b.audit("run-unequal")
	b.fills("[name=values]", "10\n30\n50")
	b.sees(`[data-combinations="3"]`)
	b.clicks("button[type=submit]")
	b.until(
		`document.querySelector("[data-jobs='3']") && document.querySelector("dl.facts").innerText.includes("as it is at the start")`)
	b.presses("Start 3 jobs")
	b.shows("task")
	b.sees("[data-done='3'][data-all='3']")
	b.until(`document.querySelectorAll("[data-dimension=max_cloud_cover] li[data-all='1']").length === 3`)
	if said := b.read(
		`fetch("upscale_tasks/" + location.hash.split("/")[2].split("?")[0]).then(a => a.json()).then(d => fetch("unit_jobs/" + d.jobs[0].id)).then(a => a.json()).then(d => JSON.stringify(d.options))`); said != `{"pin":true}` {
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
