package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
)

// slowRequests is a broker that takes a second for each large request and counts how many it reads at once.
type slowRequests struct {
	*world
	reading, most atomic.Int64
}

func (s *slowRequests) Request(ctx context.Context, r dispatch.Record) (dispatch.Request, error) {
	now := s.reading.Add(1)
	defer s.reading.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(time.Second) // of synctest
	return s.world.Request(ctx, r)
}

const (
	large  = 8 << 20     // bytes of a list
	listed = large/2 + 1 // of a record of which two make such a list
)

// Of five large lists of two users, one is read and encoded at a time on two cores. Users take turns, and short lists
// do not wait.
func TestHeavyWork_LeavesACore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := &slowRequests{world: w}
		c := w.config()
		c.Broker = s
		h := New(c)
		defer h.Close()
		h.(*api).Cores = limits.NewCores(2)
		for id := range dispatch.JobID(2) {
			w.jobs[id+1] = largeRecord(id+1, anna, listed)
		}
		w.jobs[3] = largeRecord(3, bert, large+1)
		for id, j := range w.jobs {
			j.Request.Service.Endpoint = "https://a.example.org"
			w.jobs[id] = j
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { checkLarge(t, h, "anna", 2*listed) })
		}
		synctest.Wait()
		began := time.Now()
		all.Go(func() {
			checkLarge(t, h, "bert", large)
			if took := time.Since(began); took > 4*time.Second { // two turns of anna and one of bert
				t.Errorf("bert's list took %v", took)
			}
		})
		synctest.Wait()
		if got := ask(h, "GET", "/jobs_status?parameters=false", ""); got.Code != http.StatusOK ||
			time.Since(began) > 0 {
			t.Errorf("a short list: %d after %v", got.Code, time.Since(began))
		}
		all.Wait()
		if most := s.most.Load(); most != 1 {
			t.Errorf("%d large requests were read at once", most)
		}
	})
}

// Requests that read many jobs and write few, as those with filters do, take turns as well: they read nothing more
// while others have the turn, and short requests go on.
func TestHeavyWork_ReadsThatWriteLittle(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	defer h.Close()
	h.(*api).Cores = limits.NewCores(2)
	for i := range 2_000 {
		id := dispatch.JobID(i + 1)
		w.jobs[id] = dispatch.Record{Request: dispatch.Request{Title: "common"},
			Job: dispatch.Job{Identity: dispatch.Identity{ID: id, Owner: anna, Task: dispatch.TaskID(i % 2), Number: i,
				Created: moment.Add(time.Duration(i) * time.Second)}, Target: dispatch.Target{Account: "cdse/shared"},
				Handover:  dispatch.Handover{Phase: dispatch.Ended},
				Condition: dispatch.Condition{Status: dispatch.Finished, Updated: moment}}}
	}
	w.tasks[1] = dispatch.TaskRecord{Counts: dispatch.Counts{dispatch.Finished: 1000},
		Task: dispatch.Task{ID: 1, Owner: anna, Account: "cdse/shared", Created: moment}}
	for _, path := range []string{"/jobs_status?title=rare", "/upscale_tasks/1?title=rare",
		"/upscale_tasks/1?labels=a%3Db", "/upscale_tasks/1/platforms",
		"/upscale_tasks/1/dimensions", "/upscale_tasks/1/tiles", "/upscale_tasks/1/provenance"} {
		release, err := h.(*api).Cores.Acquire(t.Context(), "user "+string(bert), 1)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan int, 1)
		go func() { answered <- ask(h, "GET", path, "").Code }()
		for h.(*api).Cores.Clients() < 2 {
			select {
			case code := <-answered:
				t.Fatalf("%s answered %d without a turn", path, code)
			case <-time.After(time.Millisecond):
			}
		}
		if got := ask(h, "GET", "/jobs_status?limit=5", ""); got.Code != http.StatusOK {
			t.Errorf("a short list: %d", got.Code)
		}
		release()
		if code := <-answered; code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// Two lists of a user with many small elements pass the turn on after pieces, not after each element.
func TestHeavyWork_PassesTheTurnOnAfterPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const elements, size = 10_000, 250
		cores := limits.NewCores(2)
		var mu sync.Mutex
		var order []int // which list worked on an element
		var both sync.WaitGroup
		for list := range 2 {
			both.Go(func() {
				turn := limits.HeavyTurn{Cores: cores, User: anna}
				defer turn.ReleaseTurn()
				for range elements {
					time.Sleep(time.Microsecond) // of synctest
					mu.Lock()
					order = append(order, list)
					mu.Unlock()
					if err := turn.Count(t.Context(), size); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		both.Wait()
		alternations := len(slices.Compact(order)) - 1
		// lists begin without a turn
		if most := 2*elements*size/limits.PieceSize + 2*limits.HeavyAfter/size; alternations < 10 ||
			alternations > most {
			t.Errorf("the lists alternated %d times, want 10 to %d", alternations, most)
		}
	})
}

func checkLarge(t *testing.T, h http.Handler, who string, least int) {
	got := httptest.NewRecorder()
	h.ServeHTTP(got, listOf(who))
	if got.Code != http.StatusOK || got.Body.Len() < least {
		t.Errorf("%s: %d with %d bytes", who, got.Code, got.Body.Len())
	}
}
