package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// pinning is a platform that pins requests to documents. It lets one job finish with each release.
type pinning struct {
	documented
	refuse error

	got sync.Mutex
	ran []string // the definitions of submissions; "-": none
}

func (p *pinning) Pin(_ context.Context, _ dispatch.Token, r dispatch.Request, _ *dispatch.Dimension,
	d *dispatch.Document) (string, error) {
	if p.refuse != nil || d == nil {
		return "", p.refuse
	}
	return d.Hash(), nil
}

func (p *pinning) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	p.got.Lock()
	defer p.got.Unlock()
	if s.Definition == nil {
		s.Definition = json.RawMessage("-")
	}
	p.ran = append(p.ran, string(s.Definition))
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
}

func (p *pinning) definitions() []string {
	p.got.Lock()
	defer p.got.Unlock()
	return slices.Clone(p.ran)
}

func (p *pinning) seen() string { return fmt.Sprint(p.definitions()) }

// reading counts how often the definition of a job is read.
type reading struct {
	conformance.Store
	read atomic.Int32
}

func (s *reading) Definition(ctx context.Context, id dispatch.JobID) ([]byte, error) {
	s.read.Add(1)
	return s.Store.Definition(ctx, id)
}

func withPins(t *testing.T, p *pinning, test func(*testing.T, *testBroker, *reading)) {
	synctest.Test(t, func(t *testing.T) {
		p.status = finishes
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 1
		s := &reading{Store: conformance.NewMemStore(clock{})}
		h := open(s, b)
		test(t, h, s)
		h.stop()
	})
}

func tiles(n int) dispatch.Dimension {
	d := dispatch.Dimension{Name: "tile"}
	for i := range n {
		d.Values = append(d.Values, json.RawMessage(fmt.Sprint(i)))
	}
	return d
}

// What runs of a task is the document that there was when it was accepted, whatever becomes of it.
func TestPin_NothingChangesInATask(t *testing.T) {
	for name, options := range map[string]string{"by default": "", "asked": `{"pin":true}`} {
		t.Run(name, func(t *testing.T) {
			p := &pinning{}
			p.text = "one"
			withPins(t, p, func(t *testing.T, h *testBroker, _ *reading) {
				r := request("a")
				r.Options = json.RawMessage(options)
				if _, err := h.AcceptTask(t.Context(), "ann", r, tiles(4), dispatch.Key{}); err != nil {
					t.Fatal(err)
				}
				p.set("two", nil)
				asked := p.asked
				time.Sleep(10 * time.Minute)
				if p.seen() != "[one one one one]" || p.asked != asked {
					t.Errorf("ran %v; the definition was asked for %d times", p.seen(), p.asked-asked)
				}
			})
		})
	}
}

// Single jobs, and tasks that say so, run with the document that there is.
func TestPin_IsNotTheDefault(t *testing.T) {
	p := &pinning{}
	p.text = "one"
	withPins(t, p, func(t *testing.T, h *testBroker, s *reading) {
		r := request("a")
		r.Options = json.RawMessage(`{"pin":false}`)
		if _, err := h.AcceptTask(t.Context(), "ann", r, tiles(2), dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		h.accept(t)
		time.Sleep(10 * time.Minute)
		r.Options = json.RawMessage(`{"pin":true}`)
		if _, err := h.Accept(t.Context(), "ann", r, dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if p.seen() != "[- - - one]" || s.read.Load() != 1 {
			t.Errorf("ran %v; the definition was read %d times", p.seen(), s.read.Load())
		}
	})
}

// A request that is to be pinned and cannot be is refused. A task whose client did not ask runs without a pin.
func TestPin_ThatCannotBe(t *testing.T) {
	p := &pinning{refuse: failure(dispatch.Unavailable)}
	p.text = "one"
	withPins(t, p, func(t *testing.T, h *testBroker, _ *reading) {
		r := request("a")
		if _, err := h.AcceptTask(t.Context(), "ann", r, tiles(1), dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		r.Options = json.RawMessage(`{"pin":true}`)
		_, err := h.AcceptTask(t.Context(), "ann", r, tiles(1), dispatch.Key{})
		wantKind(t, err, dispatch.Unavailable)
		time.Sleep(time.Minute)
		if p.seen() != "[-]" {
			t.Errorf("ran %v", p.seen())
		}
	})
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		r := request("a")
		r.Options = json.RawMessage(`{"pin":true}`)
		_, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		wantKind(t, err, dispatch.Invalid)
	})
}

// The jobs of a task at several platforms are pinned to the document that is stored with the task. One that is defined
// by another document is not, and the task is refused if its client asked for pins.
func TestPin_AtSeveralPlatforms(t *testing.T) {
	for name, c := range map[string]struct {
		other, options string
		refused        bool
		pins           [2]bool
	}{
		"the same document":              {"one", "", false, [2]bool{true, true}},
		"another document":               {"two", "", false, [2]bool{true, false}},
		"another document, and asked":    {"two", `{"pin":true}`, true, [2]bool{}},
		"the same document, and not one": {"one", `{"pin":false}`, false, [2]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := &pinning{}, &pinning{}
				a.text, b.text, a.status, b.status = "one", c.other, finishes, finishes
				h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, a),
					backend("b", dispatch.AccessShared, b))
				defer h.stop()
				r := spreadRequest()
				r.Options = json.RawMessage(c.options)
				task, err := h.AcceptTask(t.Context(), "ann", r, tiles(8), dispatch.Key{})
				if c.refused {
					wantKind(t, err, dispatch.Invalid)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, placement := range task.Request.Placements {
					if (placement.Pin != "") != c.pins[i] {
						t.Errorf("placement %d is pinned to %q", i, placement.Pin)
					}
				}
				time.Sleep(30 * time.Minute)
				for i, p := range []*pinning{a, b} {
					for _, ran := range p.definitions() {
						if (ran == "one") != c.pins[i] {
							t.Errorf("at platform %d ran %q", i, ran)
						}
					}
				}
				if a, b := len(a.definitions()), len(b.definitions()); a+b != 8 {
					t.Errorf("%d and %d jobs ran", a, b)
				}
			})
		})
	}
}
