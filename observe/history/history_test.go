package history_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/history"
)

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// observer counts its calls.
type observer struct{ calls int }

func (o *observer) JobsAccepted(string, int)                            { o.calls++ }
func (o *observer) JobSaved(_, _ dispatch.Job)                          { o.calls++ }
func (o *observer) RequestEnded(string, string, time.Duration, error)   { o.calls++ }
func (o *observer) JobAsked(dispatch.Job, string, time.Duration, error) { o.calls++ }
func (o *observer) Acted(string, dispatch.Job)                          { o.calls++ }

// database keeps events, unless it is away.
type database struct {
	history.Store
	mu   sync.Mutex
	away bool
	kept []dispatch.JobEvent
}

func (d *database) AddEvents(_ context.Context, events []dispatch.JobEvent) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errors.New("away")
	}
	d.kept = append(d.kept, events...)
	return nil
}

func (d *database) set(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

func (d *database) events() []dispatch.JobEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}

func TestRecorder_KeepsWhatChangesAndWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, db := &observer{}, &database{}
		r := history.New(next, db, wall{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		waits := dispatch.Job{Identity: dispatch.Identity{ID: 7}, Handover: dispatch.Handover{Phase: dispatch.Waiting,
			Attempt: 1}}
		created := waits
		created.Phase, created.Ref = dispatch.Created, dispatch.Ref{ID: "j-1"}
		r.Acted("submit", waits)
		r.JobAsked(waits, "create", time.Second, nil)
		r.JobSaved(waits, created)
		r.JobSaved(created, created) // the same again is no event
		r.JobAsked(created, "status", time.Second, nil)
		again := created
		again.Tries = 1
		// the first failure was one
		r.JobAsked(again, "status", time.Second, &dispatch.Error{Kind: dispatch.Unavailable})
		r.JobAsked(created, "start", time.Second, &dispatch.Error{Kind: dispatch.Busy, Text: "Full.",
			Err: errors.New("Bearer secret")})
		db.set(true)
		time.Sleep(time.Minute)
		if len(db.events()) != 0 {
			t.Fatal("the database is away")
		}
		db.set(false)
		time.Sleep(2 * time.Second)
		stop()
		synctest.Wait()
		var what []string
		for _, e := range db.events() {
			what = append(what, e.What+" "+e.Outcome+" "+e.Detail)
		}
		want := []string{"submit  ", "create ok ", "changed  j-1", "start busy Full."}
		if len(what) != len(want) {
			t.Fatalf("%q", what)
		}
		for i := range want {
			if what[i] != want[i] {
				t.Errorf("%q, want %q", what[i], want[i])
			}
		}
		if next.calls != 7 {
			t.Errorf("the next observer was called %d times", next.calls)
		}
	})
}

// What happens during a long outage of the database is bounded, and the loss is logged by Run when the database is
// back.
func TestRecorder_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{away: true}
		r := history.New(&observer{}, db, wall{}, slog.New(slog.DiscardHandler))
		for range 50_000 {
			r.Acted("submit", dispatch.Job{Identity: dispatch.Identity{ID: 1}})
		}
		db.set(false)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		r.Run(ctx)
		if n := len(db.events()); n != 20_000 {
			t.Errorf("%d events", n)
		}
	})
}
