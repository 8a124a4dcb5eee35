package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// submitsRequest starts a task by the session of the page, and opens its results.
func (b *tab) submitsRequest(request string) {
	b.t.Helper()
	id, err := evaluate[int64](b, `fetch("upscale_tasks", {method: "POST", headers: {"Content-Type": "application/json"},
		body: JSON.stringify(`+request+`)}).then(r => r.json()).then(t => t.id ?? Promise.reject(JSON.stringify(t)))`)
	must(b.t, err)
	b.read(fmt.Sprintf(`location.hash = "#/tasks/%d?tab=results"; ""`, id))
	b.shows("task")
}

// TestPage_NumbersOfATask: the numbers of a task are a table, colours of its tiles on the map, and a file for
// spreadsheets.
func TestPage_NumbersOfATask(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "")
	b.submitsRequest(`{title: "numbers", service: {id: "numbers"}, format: "json", parameters: {},
		dimension: {name: "bbox", names: ["a", "b, c", "d"],
			values: [[4, 50, 5, 51], [5, 50, 6, 51], [6, 50, 7.2, 50.7]].map(bbox => ({bbox}))}}`)
	b.sees(".numbers[data-rows='3']")
	table := b.read(`[...document.querySelectorAll(".numbers tbody tr")].map(
		r => [...r.children].map(c => c.innerText).join("|")).join()`)
	ends := b.read(`[...document.querySelectorAll(".numbers .scale span")].map(s => s.innerText).join()`)
	low, high, _ := strings.Cut(ends, ",")
	if !strings.Contains(table, "b, c|") || !strings.HasSuffix(table, "|one") || low >= high ||
		!strings.Contains(table, low) {
		t.Errorf("the table is %s, between %q and %q", table, low, high)
	}
	b.showsPixels("the lowest value", 1000, func(r, g, b uint8) bool { return r == 68 && g == 1 && b == 84 })
	b.showsPixels("the highest value", 1000, func(r, g, b uint8) bool { return r == 253 && g == 231 && b == 37 })
	b.screenshot("numbers")
	b.read(`const made = URL.createObjectURL; URL.createObjectURL = blob => {
		blob.text().then(text => (window.saved = text));
		return made.call(URL, blob);
	}; ""`)
	b.clicks(".numbers button")
	b.until("window.saved !== undefined")
	csv := strings.Split(b.read("window.saved"), "\n")
	if len(csv) != 5 || csv[0] != "job,tile,mean,unit" || !strings.HasPrefix(csv[2], `2,"b, c",0.`) {
		t.Errorf("the file is %q", csv)
	}
	b.fills("[name=column]", ":none")
	b.until(`!document.querySelector(".numbers .scale")`)
	b.audit("numbers-of-a-task")
}

// TestPage_DatesOfATask: of a task over two dates the map shows one at a time, which a slider chooses.
func TestPage_DatesOfATask(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "")
	b.submitsRequest(`{title: "dates", service: {id: "composite"}, format: "gtiff",
		parameters: {spatial_extent: {west: 4, south: 50, east: 5, north: 51}},
		dimension: {name: "temporal_extent", values: [["2024-01-01", "2024-02-01"], ["2024-07-01", "2024-08-01"]]}}`)
	b.sees(`.rasters[data-shown="2"]`)
	value := func(date string) string {
		t.Helper()
		b.until(fmt.Sprintf(`document.querySelector(".dates output")?.innerText === %q`, date))
		b.showsValues(3)
		b.until(`document.querySelectorAll(".here dl").length === 1`)
		return b.read(`document.querySelector(".here dd b").innerText`)
	}
	winter := value("2024-01-01")
	b.screenshot("dates-winter")
	b.read(`document.querySelector("[name=date]").focus(); ""`)
	b.key("ArrowRight")
	b.until(`!document.querySelector(".here")`)
	summer := value("2024-07-01")
	b.screenshot("dates-summer")
	b.audit("dates-of-a-task")
	if winter >= summer {
		t.Errorf("the value is %s in January and %s in July", winter, summer)
	}
}
