package broker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// In these tests time is that of testing/synctest, as in all that use with.

func aboutApp(platform string, s dispatch.Service) bool {
	return platform == "a" && s.Application == "app"
}

// Requests get the defaults of all policies for their service, keep what they say themselves, and are refused beyond a
// limit. Other services are left as they are.
func TestPolicy_OfRequests(t *testing.T) {
	strict := dispatch.Policy{Applies: aboutApp, MaxDuration: time.Hour, Format: "gtiff",
		Budget:  dispatch.Budget{Amount: 10, Unit: "credits"},
		Options: map[string]json.RawMessage{"memory": []byte(`"4g"`), "trial": []byte("2")}}
	loose := dispatch.Policy{Applies: aboutApp, MaxDuration: 3 * time.Hour, Format: "json",
		Budget:  dispatch.Budget{Amount: 99},
		Options: map[string]json.RawMessage{"memory": []byte(`"1g"`), "cores": []byte("2")}}
	for name, c := range map[string]struct {
		service, format, options string
		task                     bool
		kept, keptFormat         string // "": refused
	}{
		"nothing is given": {"app", "", ``, false, `{"cores":2,"max_duration":3600,"memory":"4g"}`, "gtiff"},
		"all is given": {"app", "netcdf", `{"memory":"8g","cores":1,"max_duration":60}`, false,
			`{"memory":"8g","cores":1,"max_duration":60}`, "netcdf"},
		"a task": {"app", "", `{}`, true,
			`{"budget":{"amount":10,"unit":"credits"},"cores":2,"max_duration":3600,"memory":"4g","trial":2}`, "gtiff"},
		"a task with a budget": {"app", "json", `{"budget":3,"trial":1,"cores":1}`, true,
			`{"budget":3,"cores":1,"max_duration":3600,"memory":"4g","trial":1}`, "json"},
		"longer than permitted": {"app", "json", `{"max_duration":3601}`, false, "", ""},
		"another service":       {"other", "json", `{"max_duration":86400}`, false, `{"max_duration":86400}`, "json"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
				h.Policies = []dispatch.Policy{strict, loose}
				r := request("a")
				r.Service.Application, r.Format, r.Options = c.service, c.format, json.RawMessage(c.options)
				var kept dispatch.Request
				var err error
				if c.task {
					var task dispatch.TaskRecord
					if task, err = h.AcceptTask(t.Context(), "ann", r, tiles(3), dispatch.Key{}); err == nil {
						kept = task.Request
					}
				} else {
					var job dispatch.Record
					if job, err = h.Accept(t.Context(), "ann", r, dispatch.Key{}); err == nil {
						kept = h.stored(t, job.ID).Request
					}
				}
				if c.kept == "" {
					wantKind(t, err, dispatch.Invalid)
					return
				}
				if err != nil || string(kept.Options) != c.kept || kept.Format != c.keptFormat {
					t.Errorf("%s, %s, %v", kept.Options, kept.Format, err)
				}
			})
		})
	}
}

// A job has the longest run time of its service as its own.
func TestPolicy_LimitsTheRunTime(t *testing.T) {
	p := &script{}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		h.Policies = []dispatch.Policy{{Applies: aboutApp, MaxDuration: time.Hour}}
		r := h.accept(t)
		time.Sleep(2 * time.Hour)
		if r = h.stored(t, r.ID); r.Attention != dispatch.Overdue || p.cancels.Load() != 1 {
			t.Errorf("%s %s, %d cancels", r.Status, r.Attention, p.cancels.Load())
		}
	})
}

// Who may not run a service gets Forbidden, for jobs, tasks and synchronous runs, and for what makes jobs of a task run
// that was accepted before.
func TestPolicy_WhoMay(t *testing.T) {
	p := &talking{run: func(dispatch.Token) (*dispatch.SyncResult, error) { return nil, failure(dispatch.Unavailable) }}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		may := false
		h.Policies = []dispatch.Policy{{Applies: aboutApp, Entitled: func(context.Context) bool { return true }},
			{Applies: aboutApp, Entitled: func(context.Context) bool { return may }}}
		_, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		wantKind(t, err, dispatch.Forbidden)
		_, err = h.AcceptTask(t.Context(), "ann", request("a"), tiles(2), dispatch.Key{})
		wantKind(t, err, dispatch.Forbidden)
		_, err = h.RunSync(t.Context(), "ann", request("a"))
		wantKind(t, err, dispatch.Forbidden)
		other := request("a")
		other.Service.Application = "other"
		if _, err = h.Accept(t.Context(), "ann", other, dispatch.Key{}); err != nil {
			t.Error(err)
		}
		may = true
		if _, err = h.Accept(t.Context(), "ann", request("a"), dispatch.Key{}); err != nil {
			t.Error(err)
		}
		if p.submits.Load() != 2 {
			t.Errorf("%d submitted, want 2", p.submits.Load())
		}
		task, err := h.AcceptTask(t.Context(), "ann", request("a"), tiles(2), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		may = false
		_, err = h.RetryTask(t.Context(), "ann", task.ID, dispatch.Choice{})
		wantKind(t, err, dispatch.Forbidden)
		_, err = h.ResumeTask(t.Context(), "ann", task.ID, nil)
		wantKind(t, err, dispatch.Forbidden)
	})
}

// strictPlatform permits no options at all.
type strictPlatform struct{ script }

func (p *strictPlatform) Permitted(r dispatch.Request) error {
	return permitsNone(r)
}

// The options of a task that the broker itself evaluates are no matter of the platform's permits, whoever gave them:
// the client, or the rules for the service.
func TestPermits_OwnOptionsOfTasks(t *testing.T) {
	for name, options := range map[string]string{"of a rule": `{}`,
		"of the client": `{"budget":5,"trial":1,"max_duration":60,"retries":1,"validate":false}`} {
		t.Run(name, func(t *testing.T) {
			with(t, dispatch.AccessShared, &strictPlatform{}, func(t *testing.T, h *testBroker) {
				h.Policies = []dispatch.Policy{{Applies: aboutApp, Budget: dispatch.Budget{Amount: 7},
					Options: map[string]json.RawMessage{"trial": []byte("2")}}}
				r := request("a")
				r.Options = json.RawMessage(options)
				if _, err := h.AcceptTask(t.Context(), "ann", r, tiles(3), dispatch.Key{}); err != nil {
					t.Errorf("task: %v", err)
				}
				r.Options = json.RawMessage(`{"budget":5}`)
				_, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
				wantKind(t, err, dispatch.Invalid)
				r.Options = json.RawMessage(`{"budget":5,"plan":"premium"}`)
				_, err = h.AcceptTask(t.Context(), "ann", r, tiles(3), dispatch.Key{})
				wantKind(t, err, dispatch.Invalid)
			})
		})
	}
}

func permitsNone(r dispatch.Request) error {
	if r.PlatformOptions() == nil {
		return nil
	}
	return dispatch.NewPermits(nil).Check("test", string(r.PlatformOptions()), "options")
}
