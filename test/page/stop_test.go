package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// another opens an address in a further tab of the browser, which has the same session.
func (b *tab) another(address string) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &tab{t: b.t, ctx: ctx}
	other.opens(address)
	return other
}

// confirms presses the button of an open dialog that acts.
func (b *tab) confirms() {
	b.t.Helper()
	b.clicks("dialog[open] :is(.danger, .primary)")
}

// counts waits until the table of tiles shows a number of tiles with a status.
func (b *tab) counts(status string, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelectorAll("table.tiles tr[data-status=%s]").length === %d`, status, n))
}

// TestPage_StopsTasks pauses a task and resumes it, cancels two of its tiles, and then, in two tabs at the same time,
// all of it; the platform cancels nothing until both have asked. What one tab does, the other shows. In the end the
// task is deleted from the list.
func TestPage_StopsTasks(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Stuck: true})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.startsTiles()
	b.clicks("#tab-tiles")
	b.counts("running", 4) // the slots of the platform
	other := b.another(b.read("location.href"))
	other.counts("created", 10)

	b.clicks("#tab-overview")
	b.presses("Pause")
	other.clicks("#tab-overview")
	other.sees(".paused")
	b.until(`document.querySelector(".paused")?.innerText.includes("10 tiles are held")`)
	b.audit("paused")
	b.clicks("#tab-tiles")
	b.until(`[...document.querySelectorAll("tr[data-status=created]")].every(r => r.nextElementSibling?.innerText.includes("held until you resume"))`)
	b.presses("Tasks")
	b.clicks(".chip[data-state=paused]")
	b.until(
		`location.hash.includes("status=paused") && document.querySelector("table.runs tbody")?.innerText.includes("Paused")`)
	b.read(`(history.back(), "")`)
	other.clicks(".paused button")
	b.until(`document.querySelector("[data-view=task][data-state=ready]") && !document.querySelector(".paused")`)

	other.clicks("#tab-tiles")
	b.until(`document.querySelectorAll("tr.reason").length === 0`)
	for _, n := range []int{1, 2} {
		b.clicks(fmt.Sprintf("tr[data-status=created]:nth-last-child(%d) input", n))
	}
	b.sees("[data-selected='2']")
	b.presses("Cancel 2 tiles")
	b.confirms()
	b.counts("canceled", 2)
	other.counts("canceled", 2)

	const cancel = "DELETE /jobs/{id}/results"
	s.world.OpenEO.Faults.Set(simulator.Fault{Route: cancel, Status: 503})
	for _, one := range []*tab{b, other} {
		one.clicks("#tab-overview")
		one.presses("Cancel")
		one.sees("dialog[open]")
	}
	for _, one := range []*tab{b, other} {
		one.confirms()
		one.until(`!document.querySelector("dialog[open]") && !document.querySelector(".notice.error")`)
	}
	s.world.OpenEO.Faults.Set()
	for _, one := range []*tab{b, other} {
		one.clicks("#tab-tiles")
		one.counts("canceled", 14)
		one.sees("[data-done='14']")
	}

	b.presses("Tasks")
	b.clicks("table.runs tbody input")
	b.presses("Delete")
	b.confirms()
	b.until(`document.querySelector("[data-view=tasks]")?.innerText.includes("You have no tasks yet")`)
	other.until(`document.querySelector("main").innerText.includes("This task does not exist")`)
}
