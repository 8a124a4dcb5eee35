package histories

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// deadly is a two-step platform whose adapter kills the process when it submits a job with "bad" in its title.
type deadly struct {
	twoStep
	process func(name string) *process
	name    string
}

func (p deadly) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	if strings.Contains(s.Request.Title, "bad") {
		p.process(p.name).kill()
	}
	return p.twoStep.Submit(ctx, t, s)
}

// TestSetAside_JobThatEndsTheProcess checks that a job whose submission kills the process is set aside after the third
// time, and that the other jobs continue.
func TestSetAside_JobThatEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second})
		var processes sync.Map // by name
		h.platform = func(l conformance.Link) dispatch.Platform {
			return deadly{twoStep{Link: l}, func(name string) *process {
				p, _ := processes.Load(name)
				return p.(*process)
			}, l.Process}
		}
		deaths, names := 0, []string{"one", "two", "three", "four", "five"}
		next := func() *process {
			p := h.start(names[deaths])
			processes.Store(names[deaths], p)
			return p
		}
		p := next()
		time.Sleep(time.Second)
		p.acceptTask("ann", request(), 8)
		bad := request()
		bad.Title = "bad"
		p.acceptTask("bob", bad, 1)
		for range 6 * 60 * 2 {
			time.Sleep(30 * time.Second)
			if p.killed() && deaths < 4 {
				deaths++
				p = next()
			}
		}
		aside, ended := h.outcomes(t, 9)
		if deaths != 3 || aside != 1 || ended != 8 {
			t.Errorf("%d processes died, %d jobs were set aside, %d ended otherwise; want 3, 1, 8", deaths, aside,
				ended)
		}
		h.procs = []*process{p}
		h.end()
	})
}

// outcomes returns how many of the first n jobs were set aside, and how many ended without attention.
func (h *history) outcomes(t *testing.T, n int) (aside, ended int) {
	for id := range dispatch.JobID(n) {
		j, err := h.store.Load(t.Context(), id+1)
		if err != nil {
			t.Fatal(err)
		}
		if j.Attention == dispatch.SetAside {
			aside++
		}
		if j.Phase == dispatch.Ended && j.Attention == dispatch.None {
			ended++
		}
	}
	return aside, ended
}

// inHand returns how many of the first n jobs have submissions without a response, and the maximum number of these for
// one job.
func (h *history) inHand(t *testing.T, n int) (begun, most int) {
	for id := range dispatch.JobID(n) {
		j, err := h.store.Load(t.Context(), id+1)
		if err != nil {
			t.Fatal(err)
		}
		if j.Begun > 0 {
			begun++
		}
		most = max(most, j.Begun)
	}
	return begun, most
}

// TestSetAside_NotAfterKills checks that no job is set aside when the process is killed three times during many
// submissions.
func TestSetAside_NotAfterKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		h := calm(t, dispatch.Limits{Jobs: n, Requests: n, Send: 30 * time.Second})
		p := h.start("one")
		time.Sleep(time.Second)
		p.acceptTask("ann", request(), n)
		for _, name := range []string{"two", "three", "four"} {
			for begun, end := 0, time.Now().Add(10*time.Minute); begun < n/4 &&
				time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				begun, _ = h.inHand(t, n)
			}
			p.kill()
			begun, most := h.inHand(t, n)
			t.Logf("killed with %d jobs in hand, %d times at most", begun, most)
			p = h.start(name)
			time.Sleep(time.Minute)
		}
		time.Sleep(6 * time.Hour)
		if aside, ended := h.outcomes(t, n); aside != 0 || ended != n {
			t.Errorf("%d jobs are set aside, %d ended otherwise; want 0 and %d", aside, ended, n)
		}
		h.procs = []*process{p}
		h.end()
	})
}

// lethal is a two-step platform whose adapter kills the process when it reads the status of a started job with "bad" in
// its title or, if listings is set, when it reads a listing.
type lethal struct {
	twoStep
	kill     func()
	first    *sync.Map // whether a bad job has started, by Ref
	listings bool
}

func (p lethal) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	step, err := p.twoStep.Submit(ctx, t, s)
	_, bad := p.first.Load(s.Ref)
	// the title comes with the create, not with the start
	if step.Ref != (dispatch.Ref{}) && (bad || strings.Contains(s.Request.Title, "bad")) {
		p.first.Store(step.Ref, step.Started)
	}
	return step, err
}

func (p lethal) Status(ctx context.Context, t dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	if started, bad := p.first.Load(r); bad && started.(bool) && !p.listings {
		p.kill()
	}
	return p.twoStep.Status(ctx, t, r)
}

func (p lethal) List(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	if p.listings {
		p.kill()
	}
	return p.twoStep.List(ctx, t, base)
}

// TestSetAside_ReadThatEndsTheProcessDelaysNobodyElse checks that other jobs of the account end even though reading one
// status, or any listing, kills the process each time.
func TestSetAside_ReadThatEndsTheProcessDelaysNobodyElse(t *testing.T) {
	for name, listings := range map[string]bool{"a status": false, "the listing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := calm(t, dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second})
				h.world.NoList = !listings
				var processes sync.Map // by name
				first := new(sync.Map)
				h.platform = func(l conformance.Link) dispatch.Platform {
					kill := func() { p, _ := processes.Load(l.Process); p.(*process).kill() }
					return lethal{twoStep{Link: l}, kill, first, listings}
				}
				deaths := 0
				next := func() *process {
					name := fmt.Sprint("process ", deaths)
					p := h.start(name)
					processes.Store(name, p)
					return p
				}
				p := next()
				time.Sleep(time.Second)
				bad := request()
				bad.Title = "bad"
				p.acceptTask("bob", bad, 1)
				p.acceptTask("ann", request(), 8)
				for range 12 * 60 * 2 {
					time.Sleep(30 * time.Second)
					if p.killed() {
						deaths++
						p = next()
					}
				}
				ended := 0
				for id := range dispatch.JobID(9) {
					j, err := h.store.Load(t.Context(), id+1)
					if err != nil {
						t.Fatal(err)
					}
					if j.Phase == dispatch.Ended && j.Attention == dispatch.None {
						ended++
					} else if j.Attention != dispatch.SetAside {
						t.Errorf("job %d is %s %q after %d reads without a response", j.ID, j.Phase, j.Attention,
							j.Tries)
					}
				}
				if ended < 8 || deaths > 20 || deaths < 3 {
					t.Errorf("%d processes died in 12 hours, and %d of 9 jobs ended; want 3 to 20 and at least 8",
						deaths, ended)
				}
				t.Logf("%d processes died in 12 hours, and %d jobs ended", deaths, ended)
				h.procs = []*process{p}
				h.end()
			})
		})
	}
}

// submissions returns the number of submissions of the first n jobs since the last response to each.
func (h *history) submissions(t *testing.T, n int) (sum int) {
	for id := range dispatch.JobID(n) {
		j, err := h.store.Load(t.Context(), id+1)
		if err != nil {
			t.Fatal(err)
		}
		sum += j.Begun
	}
	return sum
}

// unsettled returns how many of the first n jobs have neither started nor ended.
func (h *history) unsettled(t *testing.T, n int) (sum int) {
	for id := range dispatch.JobID(n) {
		j, err := h.store.Load(t.Context(), id+1)
		if err != nil {
			t.Fatal(err)
		}
		if j.Phase != dispatch.Started && j.Phase != dispatch.Ended {
			sum++
		}
	}
	return sum
}

// TestSetAside_NotAfterKillsInARow kills the process during many submissions, and twice more as soon as it has repeated
// one of them. It checks that no job is set aside, and that all are settled within 30 minutes.
func TestSetAside_NotAfterKillsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 120
		h := calm(t, dispatch.Limits{Jobs: n, Requests: n / 3, Send: 30 * time.Second})
		p := h.start("one")
		time.Sleep(time.Second)
		p.acceptTask("ann", request(), n)
		for i, name := range []string{"two", "three", "four"} {
			want := n / 6
			if i > 0 {
				want = h.submissions(t, n) + 1
			}
			for end := time.Now().Add(10 * time.Minute); h.submissions(t, n) < want && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
			}
			p.kill()
			begun, most := h.inHand(t, n)
			t.Logf("killed with %d jobs in hand, %d times at most", begun, most)
			p = h.start(name)
		}
		began := time.Now()
		for h.unsettled(t, n) > 0 && time.Since(began) < time.Hour {
			time.Sleep(10 * time.Second)
		}
		t.Logf("settled after %v", time.Since(began))
		if took := time.Since(began); took > 30*time.Minute {
			t.Errorf("the jobs were settled after %v, want at most 30 minutes", took)
		}
		if aside, _ := h.outcomes(t, n); aside != 0 {
			t.Errorf("%d jobs are set aside, want none", aside)
		}
		h.procs = []*process{p}
		h.end()
	})
}
