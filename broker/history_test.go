package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A history has jobs, tasks and what was not started by creation, and goes on behind each of its entries.
func TestHistory_GoesOnBehindEachEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, &script{}))
		defer h.stop()
		var want []string
		for i := range 3 {
			time.Sleep(time.Second)
			want = append(want, fmt.Sprint("j", h.accept(t).ID))
			time.Sleep(time.Second)
			want = append(want, fmt.Sprint("t", h.acceptTask(t, "1", "2")))
			time.Sleep(time.Second)
			n, err := h.CreateUnstarted(t.Context(), "ann", "a", i == 1, "later", []byte("{}"), dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint("u", n.ID))
		}
		read := func(at broker.Position, kinds broker.Kinds, p dispatch.Page) (names []string,
			after []broker.Position) {
			t.Helper()
			for e, err := range h.History(t.Context(), "ann", at, kinds, p) {
				switch {
				case err != nil:
					t.Fatal(err)
				case e.Job != nil:
					names = append(names, fmt.Sprint("j", e.Job.ID))
				case e.Task != nil:
					names = append(names, fmt.Sprint("t", e.Task.ID))
				default:
					names = append(names, fmt.Sprint("u", e.Unstarted.ID))
				}
				after = append(after, e.After)
			}
			return names, after
		}
		slices.Reverse(want)
		all := broker.Kinds{Jobs: true, Tasks: true, Unstarted: true}
		got, after := read(broker.Position{}, all, dispatch.Page{})
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i, at := range after {
			if rest, _ := read(at, all, dispatch.Page{}); !slices.Equal(rest, want[i+1:]) {
				t.Errorf("behind %s: got %v, want %v", want[i], rest, want[i+1:])
			}
		}
		oldest, _ := read(broker.Position{}, broker.Kinds{Jobs: true, Tasks: true},
			dispatch.Page{Oldest: true, Limit: 2})
		if first := []string{want[8], want[7], want[5], want[4]}; !slices.Equal(oldest, first) {
			t.Errorf("the oldest are %v, want %v", oldest, first)
		}
	})
}

// A job is awaited until it has ended, and until the wait is over.
func TestAwaitEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, &script{}))
		defer h.stop()
		job, begun := h.accept(t), time.Now()
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r := h.AwaitEnd(waiting, job, 10*time.Second); r.Status.Final() || time.Since(begun) != time.Minute {
			t.Errorf("%s after %v", r.Status, time.Since(begun))
		}
		ended := make(chan dispatch.Record, 1)
		go func() { ended <- h.AwaitEnd(t.Context(), job, 10*time.Second) }()
		synctest.Wait()
		if _, err := h.Cancel(t.Context(), "ann", job.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case r := <-ended:
			if r.Status != dispatch.Canceled {
				t.Error(r.Status)
			}
		default:
			t.Error("the end is not noticed")
		}
	})
}
