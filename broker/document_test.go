package broker_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// documented is a platform whose services are defined elsewhere, and which takes one job at a time.
type documented struct {
	script
	mu    sync.Mutex
	text  string
	err   error
	slow  time.Duration
	wrong []dispatch.Fault
	warn  string // of each check
	asked int
}

func (d *documented) Document(ctx context.Context, s dispatch.Service) ([]byte, error) {
	select {
	case <-time.After(d.slow):
	case <-ctx.Done():
		return nil, failure(dispatch.Unavailable)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if s.Application == "inside" {
		return nil, d.err
	}
	return []byte(d.text), d.err
}

func (d *documented) Check(_ context.Context, _ dispatch.Token, r dispatch.Request, dim *dispatch.Dimension) (string,
	error) {
	if d.wrong == nil || !r.Checked() {
		return d.warn, nil
	}
	return "", &dispatch.Error{Kind: dispatch.Invalid, Op: "test", Text: "because", Faults: d.wrong}
}

func (d *documented) set(text string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.err = text, err
}

// withDocuments runs a test in its own time with a broker at a platform that has room for one job.
func withDocuments(t *testing.T, p *documented, test func(*testing.T, *testBroker)) {
	synctest.Test(t, func(t *testing.T) {
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 1
		h := open(conformance.NewMemStore(clock{}), b)
		test(t, h)
		h.stop()
	})
}

func (h *testBroker) revalidate(t *testing.T) {
	t.Helper()
	if err := h.Revalidate(t.Context()); err != nil {
		t.Errorf("Revalidate: %v", err)
	}
}

func TestRevalidate_ShowsAChangedDocument(t *testing.T) {
	p := &documented{text: "one"}
	over := make(chan struct{})
	p.status = func(dispatch.Token) (dispatch.Report, error) {
		select {
		case <-over:
			return dispatch.Report{Status: dispatch.Finished}, nil
		default:
			return dispatch.Report{Status: dispatch.Running}, nil
		}
	}
	withDocuments(t, p, func(t *testing.T, h *testBroker) {
		running, task, waiting := h.accept(t), h.task(t, 2), h.accept(t)
		shown := func(want dispatch.Attention) {
			t.Helper()
			record, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", task, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			got := []dispatch.Attention{record.Attention, jobs[0].Attention, jobs[1].Attention,
				h.stored(t, waiting.ID).Attention}
			if !slices.Equal(got, []dispatch.Attention{want, want, want, want}) ||
				h.stored(t, running.ID).Attention != dispatch.None {
				t.Errorf("task, its jobs and the other that waits have %q, not %q", got, want)
			}
		}
		h.revalidate(t)
		shown(dispatch.None)
		p.set("", failure(dispatch.Unavailable))
		h.revalidate(t)
		shown(dispatch.None) // that it cannot be read says nothing
		p.set("two", nil)
		seen, stop := h.Watch("ann")
		defer stop()
		h.revalidate(t)
		select {
		case <-seen:
		default:
			t.Error("the watcher is not notified")
		}
		shown(dispatch.ServiceChanged)
		h.revalidate(t)
		if n := strings.Count(h.logs.String(), "document changed"); n != 1 {
			t.Errorf("logged %d times: %s", n, h.logs)
		}
		for _, id := range []dispatch.JobID{running.ID, waiting.ID} {
			if d, err := h.Document(t.Context(), "ann", id); err != nil || string(d.Body) != "one" ||
				d.Platform != "a" {
				t.Errorf("of job %d is kept %+v, %v", id, d, err)
			}
		}
		close(over)
		time.Sleep(time.Hour)
		record, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", task, time.Hour)
		if err != nil || jobs[0].Status != dispatch.Finished || jobs[1].Status != dispatch.Finished ||
			h.stored(t, waiting.ID).Status != dispatch.Finished {
			t.Errorf("what waited was not submitted all the same: %v, %v", jobs, err)
		}
		if record.Attention != dispatch.ServiceChanged || jobs[0].Attention != dispatch.None {
			t.Errorf("in the end: %q, and a job %q", record.Attention, jobs[0].Attention)
		}
		asked := p.asked
		h.revalidate(t)
		if p.asked != asked {
			t.Error("asked for the document while nothing waits")
		}
	})
}

// A document that is not to be had holds nobody up for long, and is not kept.
func TestRevalidate_DocumentThatCannotBeRead(t *testing.T) {
	for name, p := range map[string]*documented{
		"silent":  {text: "late", slow: time.Hour},
		"refused": {err: failure(dispatch.Invalid)},
	} {
		withDocuments(t, p, func(t *testing.T, h *testBroker) {
			begin := time.Now()
			r := h.accept(t)
			if took := time.Since(begin); took > 6*time.Second || r.Status != dispatch.Submitted {
				t.Errorf("%s: %s after %v", name, r.Status, took)
			}
			if d, err := h.Document(t.Context(), "ann", r.ID); d != nil || err != nil {
				t.Errorf("%s: kept %v, %v", name, d, err)
			}
			_, err := h.Document(t.Context(), "bob", r.ID)
			wantKind(t, err, dispatch.NotFound)
		})
	}
}

func TestDocument_ServiceWithoutOne(t *testing.T) {
	p := &documented{text: "one"}
	withDocuments(t, p, func(t *testing.T, h *testBroker) {
		h.accept(t) // takes the room
		r := request("a")
		r.Service.Application = "inside"
		record, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		p.set("two", nil)
		h.revalidate(t)
		if d, err := h.Document(t.Context(), "ann", record.ID); d != nil || err != nil ||
			h.stored(t, record.ID).Attention != dispatch.None {
			t.Errorf("%v, %v", d, err)
		}
	})
}

// TestAccept_FaultsAreRefused refuses jobs and tasks with all faults before anything is kept or sent, unless the client
// will not have it checked.
func TestAccept_FaultsAreRefused(t *testing.T) {
	p := &documented{text: "one", wrong: []dispatch.Fault{{Loc: []any{"body", "parameters", "x"}},
		{Loc: []any{"body", "dimension", "values", 1}}}}
	withDocuments(t, p, func(t *testing.T, h *testBroker) {
		dimension := dispatch.Dimension{Name: "tile", Values: values(2)}
		for _, accept := range []func(dispatch.Request) error{
			func(r dispatch.Request) error { _, err := h.Accept(t.Context(), "ann", r, dispatch.Key{}); return err },
			func(r dispatch.Request) error {
				_, err := h.AcceptTask(t.Context(), "ann", r, dimension, dispatch.Key{})
				return err
			},
		} {
			err := accept(request("a"))
			wantKind(t, err, dispatch.Invalid)
			if e, ok := err.(*dispatch.Error); !ok || len(e.Faults) != 2 {
				t.Errorf("not all faults: %v", err)
			}
			h.keptNothing(t)
			if n := p.submits.Load(); n > 0 {
				t.Errorf("%d submits", n)
			}
		}
		for _, options := range []string{`{"validate":true}`, `{"Validate":false}`, `{"validate":null}`} {
			r := request("a")
			r.Options = json.RawMessage(options)
			_, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
			wantKind(t, err, dispatch.Invalid)
		}
		r := request("a")
		r.Options = json.RawMessage(`{"validate":false,"memory":"4g"}`)
		if _, err := h.AcceptTask(t.Context(), "ann", r, dimension, dispatch.Key{}); err != nil {
			t.Error(err)
		}
	})
}

func TestRequest_PlatformOptions(t *testing.T) {
	for options, want := range map[string]string{
		``: ``, `null`: `null`, `{}`: `{}`, `{"a":1.10}`: `{"a":1.10}`, `{"validate":false}`: ``,
		`{"validate":null}`:          ``,
		`{"validate":true,"a":1.10}`: `{"a":1.10}`, `{"max_duration":60}`: ``,
		`{"a":1.10,"max_duration":null}`: `{"a":1.10}`,
		`{"Validate":false}`:             `{"Validate":false}`,
	} {
		if got := (dispatch.Request{Options: json.RawMessage(options)}).PlatformOptions(); string(got) != want {
			t.Errorf("of %s go on %s, not %s", options, got, want)
		}
	}
}

// keptNothing checks that ann has no task and no job.
func (h *testBroker) keptNothing(t *testing.T) {
	t.Helper()
	tasks, err := conformance.Tasks(t.Context(), h.Broker, "ann", time.Hour)
	jobs, jobsErr := conformance.Jobs(t.Context(), h.Broker, "ann", time.Hour)
	if err != nil || jobsErr != nil || len(tasks)+len(jobs) > 0 {
		t.Errorf("kept %v, %v; %v, %v", tasks, jobs, err, jobsErr)
	}
}
