package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

const (
	jobsOfTask  = 60
	jobsOfLists = 65 // with some of no task
)

// lively is a database with a task and jobs of none, which change as visits, owners and operators of any process change
// them.
type lively struct {
	*testing.T
	s    *store.Store
	rand *rand.Rand
}

// change changes jobs, the task, or what they show of their account.
func (w *lively) change() (what string) {
	ctx, id := w.Context(), dispatch.JobID(1+w.rand.IntN(jobsOfLists))
	switch n := w.rand.IntN(28); {
	case n < 14:
		j, err := w.s.Load(ctx, id)
		if dispatch.Is(err, dispatch.NotFound) {
			return "nothing"
		}
		w.must(err)
		return w.visit(j)
	case n < 16:
		note := fmt.Sprint("note <", n, ">")
		w.mayFail(w.s.AnnotateJob(ctx, anna, id, dispatch.AnnotationChange{Note: &note}))
		return "a note"
	case n == 16 && w.rand.IntN(3) == 0:
		_, _, err := w.s.CancelJobs(ctx, anna, 1, dispatch.Choice{Jobs: []dispatch.JobID{id, id%jobsOfTask + 1}})
		w.mayFail(err)
		return "a cancel"
	case n == 17 && w.rand.IntN(3) == 0:
		_, err := w.s.Cancel(ctx, anna, id, w.rand.IntN(4) > 0)
		w.mayFail(err)
		return "a deleted or canceled job"
	case n < 20:
		_, _, err := w.s.RetryTask(ctx, anna, 1, dispatch.Choice{})
		w.mayFail(err)
		return "a retry"
	case n == 20:
		_, err := w.s.PauseTask(ctx, anna, 1)
		w.mayFail(err)
		return "a pause"
	case n == 21:
		_, err := w.s.ResumeTask(ctx, anna, 1, nil)
		w.mayFail(err)
		return "a resume"
	case n == 22:
		w.must(w.s.Hold(ctx, "cdse/open", time.Duration(w.rand.IntN(2))*time.Hour, dispatch.NeedsOperator,
			fmt.Sprint("reason ", n)))
		return "a hold"
	case n == 23:
		w.must(w.s.Hold(ctx, "cdse/open", 0, dispatch.None, ""))
		return "the end of a hold"
	case n == 24:
		w.must(w.s.NoteResponse(ctx, "cdse", "It is down.", 0))
		return "an outage"
	case n == 25:
		w.must(w.s.NoteResponse(ctx, "cdse", "", 0))
		return "the end of an outage"
	case n == 26:
		w.must(w.s.Purge(ctx, 0))
		return "a purge"
	}
	return "nothing"
}

// visit changes a job as a visit does.
func (w *lively) visit(j dispatch.Job) (what string) {
	now := time.Now().Truncate(time.Microsecond)
	n := w.rand.IntN(6)
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

func (w *lively) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// mayFail accepts that the state does not allow a change.
func (w *lively) mayFail(err error) {
	if dispatch.KindOf(err) != dispatch.Conflict && dispatch.KindOf(err) != dispatch.NotFound &&
		dispatch.KindOf(err) != dispatch.Invalid {
		w.must(err)
	}
}

// What a stream of changes has sent adds up to what GET returns, whatever has changed and whoever changed it.
func TestStream_AddsUpToTheState(t *testing.T) {
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			jobs, s := taskOf(t, database(), jobsOfTask)
			var alone []dispatch.Draft
			for range jobsOfLists - jobsOfTask {
				alone = append(alone, dispatch.Draft{Body: []byte(`{"title":"t","parameters":{}}`),
					Job: dispatch.Job{Identity: dispatch.Identity{Owner: anna},
						Target: dispatch.Target{Account: "cdse/open"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
						Handover:  dispatch.Handover{Phase: dispatch.Waiting},
						Condition: dispatch.Condition{Status: dispatch.Accepted}}})
			}
			if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, alone); err != nil {
				t.Fatal(err)
			}
			w := &lively{t, s, rand.New(rand.NewPCG(5, 3))}
			served := serveWorld(t, newWorld(), func(c *Config) { c.Broker, c.Freshness = jobs, broker.AsKnown })
			const query = "?interval=3600&changes=true&parameters=false"
			followed := map[string]*follower{
				"/upscale_tasks/1": {client: served.open("/ws/upscale_tasks/1" + query)},
				"/jobs_status":     {client: served.open("/job_status" + query)},
			}
			for range 20 {
				changes := ""
				for range w.rand.IntN(8) {
					changes += w.change() + ", "
				}
				jobs.HandleBroadcast(nil, nil)
				for path, f := range followed {
					f.follows(t, ask(served.api, "GET", path+"?parameters=false", "").Body.Bytes(),
						path+" after "+changes)
				}
			}
		})
	}
}

// follower is a client of a stream.
type follower struct {
	*client
	view
}

// follows reads messages until they add up to a state, which does not change meanwhile.
func (f *follower) follows(t *testing.T, body []byte, when string) {
	t.Helper()
	want := view{}
	whole, kind := json.RawMessage(body), (*int64)(nil)
	if strings.HasPrefix(when, "/upscale_tasks") {
		kind = new(int64)
	}
	want.take(t, streamMessage{Type: "status", Data: &whole, Task: kind})
	for !reflect.DeepEqual(f.view, want) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, text, err := f.Read(ctx)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v\n%v\nand not %v", when, err, f.view, want)
		}
		var m streamMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		if m.Type == "status" || m.Type == "changes" {
			f.take(t, m)
		}
	}
}
