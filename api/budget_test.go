package api

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// The limits of a task are checked when it is submitted, shown, and changed when it is resumed. Those of a single job
// are the platform's.
func TestTask_Limits(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	with := func(body, options string) string {
		return strings.TrimSuffix(strings.TrimSpace(body), "}") + `, "options": ` + options + `}`
	}
	for options, at := range map[string]string{
		`{"budget": "5"}`: "budget", `{"budget": 0}`: "budget", `{"budget": {"unit": "credits"}}`: "budget",
		`{"budget": 1e13}`: "budget",
		`{"budget": {"amount": 5, "units": "credits"}}`:                        "[body options budget units]",
		`{"budget": {"Amount": 5}}`:                                            "[body options budget Amount]",
		`{"budget": {"amount": 1, "unit": "` + strings.Repeat("x", 41) + `"}}`: "budget",
		`{"budget": {"amount": 1, "unit": "a\nb"}}`:                            "budget", `{"trial": 0}`: "trial",
		`{"trial": 1.5}`: "trial", `{"trial": "2"}`: "trial",
	} {
		if e := failed(t, ask(h, "POST", "/upscale_tasks", with(goodTask, options)), 422,
			"VALIDATION_ERROR"); !strings.Contains(fmt.Sprint(e), at) {
			t.Errorf("%s: %v", options, e)
		}
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", with(goodBody, `{"budget": "of the platform"}`)), 201)
	decode[any](t, ask(h, "POST", "/upscale_tasks", with(goodTask, `{"budget": {"amount": 5, "unit": "€"}, "trial": 1}`)),
		201)
	task := w.tasks[1]
	task.Budget, task.Trial = dispatch.Budget{Amount: 5, Unit: "€"}, 1
	task.Spending = &dispatch.Spending{Charges: []dispatch.Charge{{Unit: "€", Costs: 3, Runs: 2}}, Running: 1}
	task.Paused, task.Attention = true, dispatch.BudgetReached
	w.tasks[1] = task
	is := decode[wire.UpscalingTaskSummary](t, ask(h, "GET", "/upscale_tasks/1?limit=1", ""), 200)
	if is.Budget == nil || *is.Budget != (wire.TaskBudget{Amount: 5, Unit: "€", Spent: 3, Expected: 1.5}) ||
		is.Trial != 1 ||
		is.Attention.Code != "budget_reached" || !strings.Contains(is.Attention.Message, "higher budget") {
		t.Errorf("%+v", is)
	}
	for body, want := range map[string]*dispatch.Budget{"": nil, `{"budget": 8}`: {Amount: 8}, `{"budget": null}`: {},
		`{"budget": {"amount": 8, "unit": "credits"}}`: {Amount: 8, Unit: "credits"}} {
		decode[any](t, ask(h, "POST", "/upscale_tasks/1/resume", body), 200)
		if !reflect.DeepEqual(w.budget, want) {
			t.Errorf("%s: %+v, not %+v", body, w.budget, want)
		}
	}
	for _, wrong := range []string{`{}`, `[]`, `{"budget": -1}`, `{"budget": "8"}`,
		`{"budget": {"amount": 8, "unit": "\u0007"}}`, `{"budget": {"unit": "credits"}}`,
		`{"budget": {"amount": 8, "units": "credits"}}`, `{"amount": 8}`} {
		failed(t, ask(h, "POST", "/upscale_tasks/1/resume", wrong), 422, "VALIDATION_ERROR")
	}
}
