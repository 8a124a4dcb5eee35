package page

import (
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestPage_BudgetAndTrial opens a task on trial whose budget does not pay for all tiles. After the trial the page says
// what the others are expected to cost. They run until the budget is reached, go on with a higher one, and a forecast
// says when they end.
func TestPage_BudgetAndTrial(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Run: 3 * time.Second})
	b := s.enter(t, "#/tasks")
	b.shows("tasks")
	id := b.read(
		`fetch("upscale_tasks", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({
		title: "limited", service: {id: "composite"}, format: "gtiff", parameters: {temporal_extent: ["2024-06-01", "2024-07-01"]},
		dimension: {name: "spatial_extent", values: Array.from({length: 20}, (_, i) => ({west: i / 10, south: 45, east: (i + 1) / 10, north: 45.1}))},
		options: {trial: 3, budget: {amount: 13, unit: "credits"}},
	})}).then(r => r.json()).then(t => String(t.id ?? JSON.stringify(t)))`)
	b.opens(s.address + "/#/tasks/" + id)
	b.shows("task")

	b.sees(".paused[data-why=trial_ended]")
	b.until(`document.querySelector("[data-view=task]").innerText.includes("34 credits")`) // 17 tiles at 2 credits
	b.sees(".budget[data-spent='6'][data-amount='13']")
	b.audit("trial-ended")
	b.presses("Run the other 17 tiles")

	b.sees(".paused[data-why=budget_reached]")
	b.sees(".budget[data-spent='12']")
	b.audit("budget-reached")
	b.fills("[name=budget]", "12.5")
	b.clicks(".paused [type=submit]")
	b.sees(".paused .notice.error")
	b.fills("[name=budget]", "100")
	b.clicks(".paused [type=submit]")
	b.until(`!document.querySelector(".paused")`)
	b.sees("[data-forecast]")
	b.sees("[data-done='20']")
	b.sees(".budget[data-spent='40'][data-amount='100']")
}
