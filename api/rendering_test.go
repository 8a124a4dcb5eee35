package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
)

// stuck is a client that receives nothing until it disconnects.
type stuck struct {
	http.ResponseWriter
	left chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	<-s.left
	return 0, http.ErrHandlerTimeout
}

// While one user has four lists of large requests written that nobody receives, another user's list is written at once.
func TestRendering_OneUserDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := New(w.config())
		defer h.Close()
		h.(*api).Cores = limits.NewCores(2)
		for id := range dispatch.JobID(4) {
			w.jobs[id+1] = largeRecord(id+1, anna, 10<<20)
		}
		w.jobs[5] = largeRecord(5, bert, 4<<20)
		left := make(chan struct{})
		const readers = 4
		done := make(chan struct{})
		for range readers {
			go func() {
				defer func() { _ = recover(); done <- struct{}{} }() // the handler aborts
				h.ServeHTTP(stuck{httptest.NewRecorder(), left}, listOf("anna"))
			}()
		}
		synctest.Wait()
		begin, got := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(got, listOf("bert"))
		if took := time.Since(begin); got.Code != http.StatusOK || got.Body.Len() < 4<<20 || took > 0 {
			t.Errorf("another's list: %d with %d bytes after %v", got.Code, got.Body.Len(), took)
		}
		close(left)
		for range readers {
			<-done
		}
		synctest.Wait()
		if of := h.(*api).Rendering; of.Bytes.Clients()+of.Lists.Clients() != 0 {
			t.Errorf("%d users are kept", of.Bytes.Clients()+of.Lists.Clients())
		}
		if n := h.(*api).Cores.Clients(); n != 0 {
			t.Errorf("%d users still have a turn", n)
		}
	})
}

// pagesRead is a broker that counts concurrent reads of a list's jobs.
type pagesRead struct {
	*world
	reading, most atomic.Int64
}

func (p *pagesRead) Jobs(ctx context.Context, u dispatch.UserID, page dispatch.Page) iter.Seq2[dispatch.Record, error] {
	all := p.world.Jobs(ctx, u, page)
	return func(yield func(dispatch.Record, error) bool) {
		p.most.Store(max(p.most.Load(), p.reading.Add(1)))
		defer p.reading.Add(-1)
		time.Sleep(time.Millisecond)
		all(yield)
	}
}

// Of thirty requests for a large list, few read the database at once, and each is answered.
func TestRendering_LargeListsOfOneUserWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := &pagesRead{world: w}
		c := w.config()
		c.Broker, c.Limits.UserRequests = p, 2*limits.ListsOfUser
		h := New(c)
		defer h.Close()
		w.jobs[1] = largeRecord(1, anna, large+1)
		var all sync.WaitGroup
		for range 2 * limits.ListsOfUser {
			all.Go(func() {
				if got := ask(h, "GET", "/jobs_status", ""); got.Code != http.StatusOK || got.Body.Len() < large {
					t.Errorf("%d with %d bytes", got.Code, got.Body.Len())
				}
			})
		}
		all.Wait()
		if most := p.most.Load(); most > limits.ListsOfUser {
			t.Errorf("%d read at once", most)
		}
	})
}

func listOf(who string) *http.Request {
	r := httptest.NewRequest("GET", "/jobs_status", nil)
	r.Header.Set("Authorization", "Bearer token-"+who)
	return r
}

func largeRecord(id dispatch.JobID, owner dispatch.UserID, bytes int) dispatch.Record {
	return dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: id, Owner: owner, Created: moment},
		Target: dispatch.Target{Account: "cdse/shared"}, Handover: dispatch.Handover{Phase: dispatch.Ended},
		Condition: dispatch.Condition{Status: dispatch.Finished, Updated: moment}},
		Request: dispatch.Request{Title: "large", Parameters: json.RawMessage(`{"x":"` + strings.Repeat("x", bytes) + `"}`)}}
}

// A user has at most half of the memory, waits only for that half, and a larger request takes all of it.
func TestRendering_OfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const whole = limits.LeastRenderMemory
		r := limits.NewRendering(1)
		first, err := r.Acquire(t.Context(), anna, 10*whole)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes.TryAcquire(anna, 1) != nil {
			t.Error("a user has more than half")
		}
		other := r.Bytes.TryAcquire(bert, whole/2)
		if other == nil {
			t.Fatal("another has no half")
		}
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Acquire(within, anna, 1); err == nil {
			t.Error("who waits in vain has it")
		}
		got := make(chan func())
		go func() {
			release, err := r.Acquire(context.Background(), anna, 1)
			if err != nil {
				t.Error(err)
			}
			got <- release
		}()
		synctest.Wait()
		first()
		(<-got)()
		other()
		if kept := r.Bytes.Clients() + r.Lists.Clients(); kept != 0 || r.Bytes.TryAcquire(anna, whole/2) == nil ||
			r.Bytes.TryAcquire(bert, whole/2) == nil {
			t.Errorf("%d users are kept", kept)
		}
	})
}
