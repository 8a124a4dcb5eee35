package broker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestAccept_StoresTheWarning: what was not checked is named with the answer that accepts a job or task, and whenever
// they are read.
func TestAccept_StoresTheWarning(t *testing.T) {
	const warning = "Not checked in full: \"odd\"."
	withDocuments(t, &documented{text: "one", warn: warning}, func(t *testing.T, h *testBroker) {
		job := h.accept(t)
		if now := h.stored(t, job.ID); job.Request.Warning != warning || now.Request.Warning != warning {
			t.Errorf("a job has %q, then %q", job.Request.Warning, now.Request.Warning)
		}
		r := job.Request
		r.Warning, r.Parameters = "", nil
		task, err := h.AcceptTask(t.Context(), "ann", r, dispatch.Dimension{Name: "d",
			Values: []json.RawMessage{[]byte("1")}}, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		record, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", task.ID, time.Hour)
		if err != nil || task.Request.Warning != warning || record.Request.Warning != warning ||
			jobs[0].Request.Warning != warning {
			t.Errorf("a task has %q, then %q, and its job %q: %v", task.Request.Warning, record.Request.Warning,
				jobs[0].Request.Warning, err)
		}
	})
}

// TestAccept_WarnsOfAMissingDescription: a job whose parameters could not be checked says so, unless its owner did not
// want the check.
func TestAccept_WarnsOfAMissingDescription(t *testing.T) {
	p := struct {
		*script
		unanswering
	}{script: &script{}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		r := request("a")
		job, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil || !strings.Contains(job.Request.Warning, "not checked") {
			t.Errorf("the warning is %q, %v", job.Request.Warning, err)
		}
		r.Options = []byte(`{"validate":false}`)
		job, err = h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil || job.Request.Warning != "" {
			t.Errorf("the warning of a request that is not to be checked is %q, %v", job.Request.Warning, err)
		}
	})
}

// TestAccept_RefusesWhatItsPlatformDoesNotKnow: a task is refused like a job, before anything is stored. A service that
// is known only to those who have a token is looked up with theirs.
func TestAccept_RefusesWhatItsPlatformDoesNotKnow(t *testing.T) {
	refusals := map[string]dispatch.Kind{"nowhere": dispatch.NotFound, "sync": dispatch.Unsupported}
	p := struct {
		*script
		*knowing
	}{&script{}, &knowing{refusals}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		d := dispatch.Dimension{Name: "d", Values: []json.RawMessage{[]byte("1")}}
		wants := map[string]dispatch.Kind{"nowhere": dispatch.Invalid, "sync": dispatch.Unsupported}
		for application, want := range wants {
			r := request("a")
			r.Service.Application = application
			_, job := h.Accept(t.Context(), "ann", r, dispatch.Key{})
			r.Parameters = nil
			_, task := h.AcceptTask(t.Context(), "ann", r, d, dispatch.Key{})
			if !dispatch.Is(job, want) || !dispatch.Is(task, want) {
				t.Errorf("%s: a job %v, a task %v", application, job, task)
			}
		}
		r := request("a")
		r.Service.Application = "hidden"
		if job, err := h.Accept(t.Context(), "ann", r, dispatch.Key{}); err != nil || job.Request.Warning != "" {
			t.Errorf("with a token: %+v, %v", job, err)
		}
		stored := 0
		for _, err := range h.Jobs(t.Context(), "ann", dispatch.Page{Limit: 10}) {
			if stored++; err != nil {
				t.Error(err)
			}
		}
		if stored != 1 {
			t.Errorf("%d jobs were stored", stored)
		}
	})
}

// knowing is a checker that refuses some applications, and knows "hidden" only with a token.
type knowing struct{ refusals map[string]dispatch.Kind }

func (k *knowing) Check(
	_ context.Context, t dispatch.Token, r dispatch.Request, _ *dispatch.Dimension) (string, error) {
	kind, refused := k.refusals[r.Service.Application]
	if r.Service.Application == "hidden" && t.Secret == "" {
		kind, refused = dispatch.NotFound, true
	}
	if refused {
		return "", failure(kind)
	}
	return "", nil
}

// unanswering is a checker of a platform that does not answer.
type unanswering struct{}

func (unanswering) Check(context.Context, dispatch.Token, dispatch.Request, *dispatch.Dimension) (string, error) {
	return "", failure(dispatch.Unavailable)
}

// TestRunSync_StoresTheWarning: its owner sees it where runs are listed.
func TestRunSync_StoresTheWarning(t *testing.T) {
	p := struct {
		*talking
		warning
	}{running(), "odd"}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		result, err := h.RunSync(t.Context(), "ann", request("a"))
		if err != nil {
			t.Fatal(err)
		}
		result.Body.Close()
		runs, err := h.SyncRuns(t.Context(), "ann", dispatch.Page{})
		if err != nil || len(runs) != 1 || runs[0].Request.Warning != "odd" {
			t.Errorf("got %+v, %v", runs, err)
		}
	})
}

// warning is a checker that finds no fault, and warns of every request.
type warning string

func (w warning) Check(context.Context, dispatch.Token, dispatch.Request, *dispatch.Dimension) (string, error) {
	return string(w), nil
}
