package store_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

type tracedPart struct{}

// TestTrace_NamesTransactionsWithTheirStatements: of a transaction the names of its statements are traced as parts of
// it, and what failed.
func TestTrace_NamesTransactionsWithTheirStatements(t *testing.T) {
	for dsn, more := range map[string][]string{"sqlite:" + filepath.Join(t.TempDir(), "d.db"): nil,
		postgres.Database(t): {"Now", "Accept/Batch"}} {
		s := open(t, dsn, conformance.NewStillClock(start))
		var mu sync.Mutex
		var names, failed []string
		s.Trace(func(ctx context.Context, name string) (context.Context, func(error)) {
			if whole, ok := ctx.Value(tracedPart{}).(string); ok {
				name = whole + "/" + name
			}
			mu.Lock()
			defer mu.Unlock()
			names = append(names, name)
			return context.WithValue(ctx, tracedPart{}, name), func(err error) {
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, name)
				}
			}
		})
		if _, err := s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, nil, drafts(1)); err != nil {
			t.Fatal(err)
		}
		for _, want := range append(more, "UPDATE ids", "Accept", "Accept/INSERT keys", "Accept/INSERT jobs",
			"Accept/INSERT accounts") {
			if !slices.Contains(names, want) {
				t.Errorf("%s is not among %v", want, names)
			}
		}
		if len(failed) > 0 {
			t.Errorf("%v failed", failed)
		}
		if _, err := s.FindKey(t.Context(), drafts(1)[0].Owner, dispatch.Key{Text: "k",
			Fingerprint: "other"}); !dispatch.Is(err, dispatch.Conflict) {
			t.Fatal(err)
		}
		if !slices.Equal(failed, []string{"FindKey"}) {
			t.Errorf("%v failed", failed)
		}
	}
}

// TestMarkAwaited_WritesForLiveJobsOnly: a list of which all jobs have ended is read without a transaction of the
// writer.
func TestMarkAwaited_WritesForLiveJobsOnly(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.NewStillClock(start))
	var names []string
	s.Trace(func(ctx context.Context, name string) (context.Context, func(error)) {
		names = append(names, name)
		return ctx, func(error) {}
	})
	job := drafts(1)
	job[0].Phase, job[0].Status = dispatch.Ended, dispatch.Finished
	for _, writes := range []bool{false, true} {
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, job); err != nil {
			t.Fatal(err)
		}
		names = nil
		if _, err := s.MarkAwaited(t.Context(), job[0].Owner, dispatch.Scope{Alone: true}, 0, 0); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, "UPDATE jobs") != writes {
			t.Errorf("with a live job %v: %v", writes, names)
		}
		job = drafts(1)
		job[0].Phase, job[0].Status = dispatch.Started, dispatch.Running
	}
}

// TestSpread_NoStatementForOnePlatform: a task at one platform has no statement about placements, when it is accepted,
// run, paused, resumed, retried and read; a task at two platforms has.
func TestSpread_NoStatementForOnePlatform(t *testing.T) {
	statements := func(placements []dispatch.Placement) (about []string) {
		s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.WallClock{})
		var mu sync.Mutex
		s.Trace(func(ctx context.Context, name string) (context.Context, func(error)) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(name, "task_placements") {
				about = append(about, name)
			}
			return ctx, func(error) {}
		})
		const jobs = 20
		p := &prompt{jobs: jobs, ending: make(chan struct{})}
		b := conformance.NewBroker(s, p, &dispatch.Backend{Name: "p", Access: dispatch.AccessOpen, Platform: p,
			Limits: dispatch.Limits{Jobs: 100, Requests: 4, MinPoll: time.Hour, Send: 30 * time.Second}})
		task := &dispatch.Task{Owner: "ann", Account: "p/open", Request: dispatch.Request{Parameters: []byte(`{}`),
			Placements: placements}, Dimension: "d"}
		kept := make([]dispatch.Draft, jobs)
		for i := range kept {
			kept[i] = dispatch.Draft{Body: []byte("1"), Job: dispatch.Job{Identity: dispatch.Identity{Number: i + 1,
				Owner: "ann"}, Target: dispatch.Target{Account: "p/open"},
				Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
				Condition: dispatch.Condition{Status: dispatch.Accepted}}}
		}
		if _, err := s.Accept(t.Context(), dispatch.Key{}, task, kept); err != nil {
			t.Fatal(err)
		}
		stop := conformance.RunBroker(b)
		<-p.ending
		stop()
		for _, change := range []func(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord,
			error){b.PauseTask,
			func(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
				return b.ResumeTask(ctx, u, id, nil)
			}, func(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
				return b.RetryTask(ctx, u, id, dispatch.Choice{})
			}, b.Task} {
			if _, err := change(t.Context(), "ann", task.ID); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(about)
	}
	if about := statements(nil); len(about) > 0 {
		t.Errorf("of a task at one platform: %q", about)
	}
	if about := statements([]dispatch.Placement{{Account: "p/open"}, {Account: "q/open"}}); len(about) == 0 {
		t.Error("no statement about placements is traced for a task that has some")
	}
}

// TestTrace_NamesStatements by what they do, and to which table.
func TestTrace_NamesStatements(t *testing.T) {
	for text, want := range map[string]string{
		"\n\t\tSELECT EXISTS (\n\t\t\tSELECT 1 FROM (SELECT 2))": "SELECT",
		"SELECT (SELECT 1 FROM hooks) FROM jobs":                 "SELECT hooks",
		"\n\t\tUPDATE ids\n\t\tSET last = 1":                     "UPDATE ids",
		"INSERT INTO turns (line) VALUES ($1)":                   "INSERT turns",
		"COMMIT":                                                 "COMMIT", "": "",
	} {
		if name := store.NameOf(text); name != want {
			t.Errorf("%q is named %q", text, name)
		}
	}
}
