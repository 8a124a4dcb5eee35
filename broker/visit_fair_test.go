package broker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// busyPlatform runs jobs for a minute each, and notes the order in which it took them.
type busyPlatform struct {
	*script
	mu    sync.Mutex
	ends  map[dispatch.Ref]time.Time
	order []string
}

func newBusyPlatform() *busyPlatform {
	c := &busyPlatform{script: &script{}, ends: map[dispatch.Ref]time.Time{}}
	c.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		ref := dispatch.Ref{ID: s.Tag}
		c.ends[ref], c.order = time.Now().Add(time.Minute), append(c.order, s.Title)
		return dispatch.SubmitResult{Ref: ref, Started: true}, nil
	}
	return c
}

func (c *busyPlatform) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.ends[r]) {
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

// taken is how many jobs were taken so far, and place which of them one was; -1: it was not.
func (c *busyPlatform) taken() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.order) }
func (c *busyPlatform) place(title string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Index(c.order, title)
}

// Ten thousand waiting jobs of one user delay a single job, another's or that user's own, by one freed slot at most,
// and so they do a later task.
func TestFairShare_LargeTaskDelaysOthersByOneSlot(t *testing.T) {
	detector.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		kept, err := store.Open(t.Context(), "sqlite::memory:", clock{})
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		p := newBusyPlatform()
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 2
		h := open(kept, b)
		defer h.stop()
		h.task(t, 10_000)
		time.Sleep(10 * time.Minute)
		for i, who := range []dispatch.UserID{"bob", "ann", "ann", "bob"} {
			r := request("a")
			r.Title = fmt.Sprintf("%s's %d", who, i)
			first := r.Title
			synctest.Wait() // a visit may be giving slots by an agenda that it read before
			before := p.taken()
			if i < 2 {
				_, err = h.Accept(t.Context(), who, r, dispatch.Key{})
			} else {
				first += " - Processing Job 1"
				_, err = h.AcceptTask(t.Context(), who, r, dispatch.Dimension{Name: "tile", Values: values(3)},
					dispatch.Key{})
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Minute)
			if at := p.place(first); at < 0 || at-before > 1 {
				t.Errorf("%s was taken after %d others of %d", first, at-before, p.taken()-before)
			}
		}
	})
}

// A job has a place in the queue only while it waits for its turn: not while its account waits for its user, the
// operator, or a platform that is configured.
func TestQueuePlaces_OnlyOfJobsThatWaitForASlot(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.Backends[0].Limits.Jobs = 1
		id := h.task(t, 3)
		time.Sleep(time.Second)
		for _, c := range []struct {
			why  dispatch.Attention
			want string
		}{
			{dispatch.None, "- 0 1"}, {dispatch.Full, "- 0 1"}, {dispatch.NotTaken, "- 0 1"},
			{dispatch.Unreachable, "- 0 1"},
			{dispatch.NeedsSignIn, "- - -"}, {dispatch.NeedsOperator, "- - -"}, {dispatch.NoPlatform, "- - -"},
			{dispatch.None, "- 0 1"},
		} {
			d := time.Hour
			if c.why == dispatch.None {
				d = 0
			}
			if err := h.Store.Hold(t.Context(), "a/shared", d, c.why, "because"); err != nil {
				t.Fatal(err)
			}
			_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, broker.AsKnown)
			if got := places(jobs); err != nil || got != c.want {
				t.Errorf("%q: places %s, want %s; %v", c.why, got, c.want, err)
			}
		}
	})
}

// Nobody waits for the platform's response to a job while other jobs have all its slots.
func TestAccept_ReturnsSoonWhileNoSlotIsFree(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.Backends[0].Limits.Jobs = 1
		h.task(t, 3)
		time.Sleep(time.Second)
		before := time.Now()
		j, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{})
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("the response took %v", took)
		}
		if err != nil || j.Status != dispatch.Accepted || j.Ahead == nil || *j.Ahead != 0 {
			t.Errorf("%s %v, %v", j.Status, j.Ahead, err)
		}
	})
}

func places(jobs []dispatch.Record) string {
	var all []string
	for _, j := range jobs {
		place := "-"
		if j.Ahead != nil {
			place = fmt.Sprint(*j.Ahead)
		}
		all = append(all, place)
	}
	return strings.Join(all, " ")
}
