package api

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

const jobsOfTask = 60

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// renewable is a database with a task, which change as visits, owners and operators of any process change them.
type renewable struct {
	*testing.T
	s    *store.Store
	rand *rand.Rand
	down dispatch.JobID // whose platform does not respond; 0: none
}

// change changes jobs of the task, or the task.
func (w *renewable) change() (what string) {
	ctx, id := w.Context(), cmp.Or(w.down, dispatch.JobID(1+w.rand.IntN(jobsOfTask)))
	j, err := w.s.Load(ctx, id)
	w.must(err)
	if w.down > 0 {
		return w.visit(j)
	}
	switch n := w.rand.IntN(26); {
	case n < 14:
		return w.visit(j)
	case n < 16:
		note := fmt.Sprint("note <", n, ">")
		w.mayFail(w.s.AnnotateJob(ctx, "anna", id, dispatch.AnnotationChange{Note: &note}))
		return "a note"
	case n == 16 && w.rand.IntN(3) == 0:
		_, _, err := w.s.CancelJobs(ctx, "anna", 1, dispatch.Choice{Jobs: []dispatch.JobID{id, id%jobsOfTask + 1}})
		w.mayFail(err)
		return "a cancel"
	case n == 17 && w.rand.IntN(3) == 0:
		_, err := w.s.Cancel(ctx, "anna", id, w.rand.IntN(4) > 0)
		w.mayFail(err)
		return "a deleted or canceled job"
	case n < 20:
		_, _, err := w.s.RetryTask(ctx, "anna", 1, dispatch.Choice{})
		w.mayFail(err)
		return "a retry"
	case n == 20:
		_, err := w.s.PauseTask(ctx, "anna", 1)
		w.mayFail(err)
		return "a pause"
	case n == 21:
		_, err := w.s.ResumeTask(ctx, "anna", 1, nil)
		w.mayFail(err)
		return "a resume"
	case n == 22:
		w.must(w.s.Hold(ctx, "cdse/open", time.Duration(w.rand.IntN(2))*time.Hour, dispatch.NeedsOperator,
			fmt.Sprint("reason ", n)))
		return "a hold"
	case n == 23:
		w.must(w.s.Hold(ctx, "cdse/open", 0, dispatch.None, ""))
		return "the end of a hold"
	}
	return "nothing"
}

// visit changes a job as a visit does.
func (w *renewable) visit(j dispatch.Job) (what string) {
	now := time.Now().Truncate(time.Microsecond)
	n := w.rand.IntN(6)
	j.Tries, w.down = 0, 0
	switch {
	case j.Phase == dispatch.Waiting && n < 2: // an intent changes nothing that is shown
		what, j.Phase = "an intent", dispatch.Creating
	case j.Phase == dispatch.Waiting || j.Phase == dispatch.Creating && n < 4:
		what, j.Phase, j.Status, j.Ref, j.Checked, j.Updated = "a start", dispatch.Started, dispatch.Submitted,
			dispatch.Ref{ID: fmt.Sprint("j-", j.ID)}, now, now
	case j.Phase == dispatch.Creating:
		what, j.Phase = "a lapse", dispatch.Waiting
	case j.Phase == dispatch.Ended:
		return "nothing"
	case n < 3:
		what, j.Checked = "a time of asking", now
	case n == 3 && w.rand.IntN(3) == 0:
		what, j.Tries, j.Looks = "an outage", 1, 0
		w.down = j.ID
	case n < 5:
		what, j.Status, j.Checked, j.Updated = "a status", dispatch.Running, now, now
	default:
		what, j.Phase, j.Status, j.Checked, j.Updated = "an end", dispatch.Ended, []dispatch.Status{dispatch.Finished,
			dispatch.Failed}[w.rand.IntN(2)], now, now
	}
	j.Epoch++
	_, err := w.s.Save(w.Context(), []dispatch.Job{j})
	w.must(err)
	return what
}

func (w *renewable) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// mayFail accepts that the state does not allow a change.
func (w *renewable) mayFail(err error) {
	if dispatch.KindOf(err) != dispatch.Conflict && dispatch.KindOf(err) != dispatch.NotFound &&
		dispatch.KindOf(err) != dispatch.Invalid {
		w.must(err)
	}
}

// A whole state that is made of an earlier one says what the database says, to the byte, whatever has changed and
// whoever changed it.
func TestRenew_IsTheWholeTask(t *testing.T) {
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			a, of, s := taskOf(t, database(), jobsOfTask)
			a.wholes.least = 1
			a.revisions.notePolled(of)
			w, renewed := &renewable{T: t, s: s, rand: rand.New(rand.NewPCG(5, 3))}, 0
			for range 60 {
				changes := ""
				for range w.rand.IntN(3) {
					changes += w.change() + ", "
				}
				got, err := a.renew(t.Context(), of)
				if w.must(err); got == nil {
					got, err = a.buildRevised(t.Context(), of)
				} else {
					renewed++
				}
				w.must(err)
				want, err := a.buildSnapshot(t.Context(), of)
				w.must(err)
				if !bytes.Equal(got.message, want.message) || got.digest != want.digest || got.live != want.live ||
					got.largest != want.largest {
					t.Fatalf("after %s: %s\nnot %s", changes, got.message, want.message)
				}
				switch kept := a.wholes.last(of); {
				case kept != nil && !want.live:
					t.Fatal("the state of a task is kept that has ended, whose parameters may be deleted")
				case kept != nil:
					// only later changes are read; all of this test are within the lag
					kept.base.since = kept.base.since.Add(commitLag)
				}
			}
			if renewed < 20 {
				t.Errorf("%d states were made of an earlier one", renewed)

			}
		})
	}
}

// Whole states are kept for a minute after they were last read, and together take a bounded memory.
func TestWholes_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wholes{least: 1}
		state := func(id dispatch.TaskID, size int) *snapshot {
			return &snapshot{topic: topic{task: id}, outline: outline{live: true}, base: &base{}, texts: []jobText{{}},
				message: make([]byte, size)}
		}
		w.keep(state(1, wholesTogether/2))
		time.Sleep(wholesFor - time.Second)
		again, more := state(1, wholesTogether/2), state(2, wholesTogether/2+1)
		w.keep(again)
		w.keep(more)
		time.Sleep(2 * time.Second)
		if w.last(topic{task: 1}) != again || w.last(topic{task: 2}) != nil {
			t.Error("the first state expired while it was read, or more is kept than there is room for")
		}
		time.Sleep(wholesFor)
		if w.keep(more); w.last(topic{task: 1}) != nil || w.last(topic{task: 2}) != more || w.bytes != len(more.message) {
			t.Errorf("%d bytes are kept of %v", w.bytes, w.of)
		}
		more.live = false
		if w.keep(more); w.last(topic{task: 2}) != nil || w.bytes != 0 {
			t.Errorf("%d bytes are kept of %v", w.bytes, w.of)
		}
	})
}
