package page

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// submits starts a task of n tiles of a tenth of a degree by the session of the page, a hundred in a row, and returns
// its id.
func (b *tab) submits(n int) int64 {
	b.t.Helper()
	id, err := evaluate[int64](b, fmt.Sprintf(
		`fetch("upscale_tasks", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({
		title: "many", service: {id: "composite"}, format: "gtiff", parameters: {temporal_extent: ["2024-06-01", "2024-07-01"]},
		dimension: {name: "spatial_extent", values: Array.from({length: %d}, (_, i) => (([x, y]) => ({west: x, south: y, east: x + 0.1, north: y + 0.1}))([i %% 100 / 10, 45 + Math.floor(i / 100) / 10]))},
	})}).then(r => r.json()).then(t => t.id ?? Promise.reject(JSON.stringify(t)))`, n))
	must(b.t, err)
	return id
}

// pixels returns how many pixels of the tab a person sees in a colour.
func (b *tab) pixels(is func(red, green, blue uint8) bool) (n int) {
	b.t.Helper()
	file, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	must(b.t, err)
	picture, err := png.Decode(bytes.NewReader(file))
	must(b.t, err)
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA); (image.Point{X: x, Y: y}).In(
				mapOf(picture)) && is(c.R, c.G, c.B) {
				n++
			}
		}
	}
	return n
}

// mapOf returns where the map of a task is, without the buttons and the legend at its borders.
func mapOf(picture image.Image) image.Rectangle {
	r := picture.Bounds()
	return image.Rect(r.Dx()/2, r.Dy()/8, r.Dx()*7/8, r.Dy()*7/8)
}

// finished reports whether a colour is that of finished tiles, on land or water.
func finished(red, green, blue uint8) bool {
	return green > red+50 && green > blue+20
}

// TestPage_TenThousandTiles opens a task of 10,000 tiles, and watches on the map how some of them finish.
func TestPage_TenThousandTiles(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/tasks")
	b.shows("tasks")
	id := b.submits(10_000)
	b.opens("about:blank")
	b.opens(fmt.Sprintf("%s/#/tasks/%d", s.address, id))
	b.shows("task")
	b.sees(`[data-map=ready]`)
	b.until(
		`document.querySelector("[data-all]").dataset.all === "10000" && Number(document.querySelector("[data-done]").dataset.done) >= 8`)
	if n := b.pixels(finished); n < 8 { // each tile has some pixels
		t.Errorf("%d pixels of the map show finished tiles", n)
	}
	b.clicks("#tab-tiles")
	b.sees("table.tiles")
	if rows := b.read(`String(document.querySelectorAll("table.tiles tr[data-id]").length)`); rows != "100" {
		t.Errorf("the table has %s rows", rows)
	}
	bytes, err := evaluate[float64](b, `performance.memory.usedJSHeapSize`)
	if err != nil || bytes > 150e6 {
		t.Errorf("the page uses %.0f bytes of memory, %v", bytes, err)
	}
	b.screenshot("many")
}

// TestPage_MissingRuns opens a task and a job that do not exist, and addresses that name none. Where the first response
// takes a second, the page also opens a stream of the task, which is refused, and then asks no more.
func TestPage_MissingRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/tasks/999")
	for route, text := range map[string]string{"#/tasks/999": "This task does not exist",
		"#/jobs/999": "This job does not exist", "#/tasks/abc": "page does not exist",
		"#/jobs/1e3": "page does not exist"} {
		b.opens(s.address + "/" + route)
		b.until(fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	streams := 0
	for _, r := range b.requests {
		if strings.Contains(r, "ws/upscale_tasks/999?") {
			streams++
		} else if strings.Contains(r, "NaN") || strings.Contains(r, "ws/") {
			t.Errorf("the page requested %s", r)
		}
	}
	if streams > 2 { // the task was opened twice
		t.Errorf("the page opened %d streams of a task that does not exist", streams)
	}
}

// TestPage_ShowsAllResults shows the results of a task of more tiles than a page of the API has, as they come: all are
// on the map, and no count of what is listed is above that of the tiles that finished. It runs alone, because the
// browser reads and draws 120 rasters.
func TestPage_ShowsAllResults(t *testing.T) {
	const tiles = 120
	s := serve(t, simulator.Life{})
	b := s.enter(t, "")
	id := b.submits(tiles)
	b.read(`window.tooMany = ""; new MutationObserver(() => {
		const [, listed, all] = /(\d+) of (\d+) finished/.exec(document.querySelector("[data-items]")?.innerText ?? "") ?? [];
		if (Number(listed) > Number(all)) window.tooMany = listed + " of " + all;
	}).observe(document.body, {subtree: true, childList: true, characterData: true}); ""`)
	b.read(fmt.Sprintf(`location.hash = "#/tasks/%d"; ""`, id))
	b.shows("task")
	b.clicks("#tab-results")
	b.sees(fmt.Sprintf(`[data-items="%d"]`, tiles))
	b.sees(fmt.Sprintf(`.rasters[data-shown="%d"]`, tiles))
	if fault := b.read("window.tooMany"); fault != "" {
		t.Errorf("%s finished tiles are listed", fault)
	}
	if listed := b.read(`document.querySelector("[data-items]").innerText`); !strings.Contains(listed,
		"120 of 120 finished") {
		t.Errorf("the results are listed as %.300s", listed)
	}
}
