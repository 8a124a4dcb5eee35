package broker_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

// removing is a platform that removes jobs.
type removing struct {
	script
	remove func(dispatch.Ref) error

	mu      sync.Mutex
	removed []string
}

func (p *removing) Remove(_ context.Context, _ dispatch.Token, r dispatch.Ref) error {
	p.mu.Lock()
	p.removed = append(p.removed, r.ID)
	p.mu.Unlock()
	if p.remove != nil {
		return p.remove(r)
	}
	return nil
}

func (p *removing) requests() int { return len(p.ids()) }

// ids are those of the requests.
func (p *removing) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.removed)
}

func finishes(dispatch.Token) (dispatch.Report, error) {
	return dispatch.Report{Status: dispatch.Finished}, nil
}

// In these tests time is that of testing/synctest, as in all that use with.

func TestRemoval_FollowsADeletion(t *testing.T) {
	p := &removing{script: script{status: finishes}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		ended, other, kept := h.accept(t), h.accept(t), h.accept(t)
		time.Sleep(time.Minute)
		wantKind(t, h.Discard(t.Context(), "bob", ended.ID), dispatch.NotFound)
		if err := h.Discard(t.Context(), "ann", ended.ID); err != nil {
			t.Fatal(err)
		}
		_, err := h.Read(t.Context(), "ann", ended.ID, time.Second)
		wantKind(t, err, dispatch.NotFound)
		if err := h.Delete(t.Context(), "ann", other.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		j, err := h.Store.Load(t.Context(), ended.ID)
		if p.requests() != 1 || err != nil || p.ids()[0] != j.Ref.ID || j.Removal.Removed.IsZero() ||
			!j.Removal.Due.IsZero() {
			t.Errorf("removed %v; the job %+v, %v", p.ids(), j.Removal, err)
		}
		if r := h.stored(t, kept.ID); r.Removal != (dispatch.Removal{}) {
			t.Errorf("a job that was kept: %+v", r.Removal)
		}
	})
}

// A job that runs is canceled first.
func TestRemoval_OfAJobThatRuns(t *testing.T) {
	p := &removing{}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		if err := h.Discard(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if p.cancels.Load() != 1 || p.requests() != 1 {
			t.Errorf("%d cancels, removed %v", p.cancels.Load(), p.ids())
		}
	})
}

// All jobs of a task are removed, and so are the attempts before a retry.
func TestRemoval_OfATaskAndItsAttempts(t *testing.T) {
	p := &removing{script: script{status: func(dispatch.Token) (dispatch.Report, error) {
		return dispatch.Report{Status: dispatch.Failed, Message: "no"}, nil
	}}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		task, err := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile",
			Values: []json.RawMessage{[]byte("1"), []byte("2")}}, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := h.RetryTask(t.Context(), "ann", task.ID, dispatch.Choice{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if err := h.DiscardTask(t.Context(), "ann", task.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		different := map[string]bool{}
		for _, id := range p.ids() {
			different[id] = true
		}
		if len(different) != 4 || p.requests() != 4 || int(p.submits.Load()) != 4 {
			t.Errorf("%d submitted, removed %v", p.submits.Load(), p.ids())
		}
	})
}

// A removal is repeated after pauses that grow, is done when the platform does not find the job, and is given up after
// a week, or at once where the platform removes nothing. What the platform still has is shown.
func TestRemoval_IsRepeatedAndGivenUp(t *testing.T) {
	detector.Skip(t)
	for name, c := range map[string]struct {
		answers     func(n int) error
		done        bool
		least, most int // requests
		says        string
	}{
		"fails for a while": {func(n int) error {
			if n < 5 {
				return failure(dispatch.Unavailable)
			}
			return nil
		}, true, 5, 5, "job removed from its platform"},
		"gone already": {func(int) error { return failure(dispatch.NotFound) }, true, 1, 1,
			"job removed from its platform"},
		"cannot":          {func(int) error { return failure(dispatch.Unsupported) }, false, 1, 1, "was given up"},
		"fails for ever":  {func(int) error { return failure(dispatch.Unavailable) }, false, 20, 60, "was given up"},
		"never permitted": {func(int) error { return failure(dispatch.Forbidden) }, false, 20, 60, "was given up"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &removing{script: script{status: finishes}}
			p.remove = func(dispatch.Ref) error { return c.answers(p.requests()) }
			with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
				r := h.accept(t)
				time.Sleep(time.Minute)
				if err := h.Discard(t.Context(), "ann", r.ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(9 * 24 * time.Hour)
				j, err := h.Store.Load(t.Context(), r.ID)
				if err != nil || !j.Removal.Due.IsZero() || j.Removal.Removed.IsZero() == c.done ||
					(j.Attention == dispatch.NotRemoved) == c.done {
					t.Errorf("%+v, %s: %s, %v", j.Removal, j.Attention, j.Notice, err)
				}
				if n := p.requests(); n < c.least || n > c.most {
					t.Errorf("%d requests, want %d to %d", n, c.least, c.most)
				}
				if !strings.Contains(h.logs.String(), c.says) {
					t.Errorf("the log does not say %q", c.says)
				}
			})
		})
	}
}

// A broker that starts again goes on with removals. Without a token they wait, and nobody is asked to sign in for them.
func TestRemoval_WaitsForAToken(t *testing.T) {
	p := &removing{script: script{status: finishes}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		h.tokens.set(failure(dispatch.SignInRequired))
		if err := h.Discard(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		all, _, _, err := h.Platforms(t.Context(), "ann")
		if err != nil || !all[0].Hold.IsZero() || p.requests() != 0 {
			t.Errorf("the platform is shown as %+v, %v; removed %v", all, err, p.ids())
		}
		h.tokens.set(nil)
		if time.Sleep(7 * time.Hour); p.requests() != 1 {
			t.Errorf("removed %v", p.ids())
		}
	})
}

// The results of a job that retention removed from its platform are gone, and that is said without a request.
func TestRemoval_TakesTheResultsAway(t *testing.T) {
	asked := 0
	p := &removing{script: script{status: finishes}}
	p.results = func(dispatch.Token) (json.RawMessage, error) { asked++; return nil, failure(dispatch.NotFound) }
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		j, err := h.Store.Load(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		j.Removal.Due = time.Now() // as the store plans it
		if _, err := h.Store.Save(t.Context(), []dispatch.Job{j}, j.Account); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err = h.Results(t.Context(), "ann", r.ID)
		if wantKind(t, err, dispatch.Conflict); p.requests() != 1 || asked != 0 ||
			!strings.Contains(dispatch.TextFor(err), "was removed from its platform") {
			t.Errorf("removed %v, %d requests for results: %v", p.ids(), asked, err)
		}
	})
}
