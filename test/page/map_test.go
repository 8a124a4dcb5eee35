package page

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// drags moves the pressed mouse from one point of the tab to another, in steps.
func (b *tab) drags(fromX, fromY, toX, toY float64) {
	b.t.Helper()
	mouse := func(kind input.DispatchMouseEventType, x, y float64) {
		b.t.Helper()
		call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y,
			Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
	}
	mouse(input.DispatchMouseEventTypeMousePressed, fromX, fromY)
	const steps = 20
	for i := range steps + 1 {
		part := float64(i) / steps
		mouse(input.DispatchMouseEventTypeMouseMoved, fromX+(toX-fromX)*part, fromY+(toY-fromY)*part)
	}
	mouse(input.DispatchMouseEventTypeMouseReleased, toX, toY)
}

// enters types into a field that suggests something, and takes the first suggestion by a key.
func (b *tab) enters(selector, text, key string) {
	b.t.Helper()
	b.fills(selector, "")
	must(b.t, chromedp.Do(b.ctx, chromedp.SendKeys(selector, text)))
	b.until(`document.querySelector("[role=listbox]:not([hidden]) [role=option]")`)
	must(b.t, chromedp.Do(b.ctx, chromedp.SendKeys(selector, key)))
}

// TestPage_ShowsTheEarth finds a place on the coast, a square of MGRS and a country, sees land, sea and borders without
// another server, and draws a box by dragging, on the map of the form.
func TestPage_ShowsTheEarth(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.enters("[name=place]", "ostend", "\r")
	land := func(red, green, blue uint8) bool { return red == 0xf5 && green == 0xf4 && blue == 0xee }
	sea := func(red, green, blue uint8) bool { return red == 0xdc && green == 0xe6 && blue == 0xee }
	b.until(`performance.getEntriesByType("resource").filter(e => e.name.includes("/page/earth-") && e.name.endsWith(".bin")).length > 1`)
	b.showsPixels("land at the coast", 10_000, land)
	b.showsPixels("sea at the coast", 10_000, sea)
	b.screenshot("map-coast")

	b.enters("[name=place]", "31UFS", "\r")
	b.screenshot("map-square")
	b.presses("Draw a box")
	b.drags(700, 300, 1000, 600)
	b.until(`["west", "south", "east", "north"].every(n => document.querySelector("[name=" + n + "]").value !== "")`)
	b.until(`Number(document.querySelector("[name=west]").value) > 4 && Number(document.querySelector("[name=east]").value) < 6.5`)
	b.screenshot("map-drawn")
	b.clicks("[aria-label='Remove the area']")
	b.corners(",,,")
	b.fills("[name=country]", "Bosnia and Herzegovina")
	b.until(`Number(document.querySelector("[name=west]").value) > 15`)
	b.screenshot("map-country")
	if width := b.read(`document.querySelector(".ol-scale-line-inner").innerText`); !strings.HasSuffix(width, "km") {
		t.Errorf("the scale bar says %q", width)
	}
}

// showsPixels waits until at least n pixels of the map have a colour.
func (b *tab) showsPixels(what string, n int, is func(red, green, blue uint8) bool) {
	b.t.Helper()
	for range 100 {
		if b.pixels(is) >= n {
			return
		}
		b.until(`new Promise(later => setTimeout(() => later(true), 100))`)
	}
	b.screenshot("failed-" + b.t.Name())
	b.t.Fatalf("the map shows %d pixels of %s", b.pixels(is), what)
}
