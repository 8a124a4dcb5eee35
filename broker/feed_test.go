package broker_test

import (
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/hub"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A feed has the jobs of its user that a visit saved, as the store has them, and says when more may have changed.
func TestFeed_HasWhatWasSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends atomic.Bool
		p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
			if ends.Load() {
				return dispatch.Report{Status: dispatch.Failed, Message: "no data"}, nil
			}
			return dispatch.Report{Status: dispatch.Running}, nil
		}}
		store := conformance.NewMemStore(clock{})
		h := open(store, backend("a", dispatch.AccessShared, p))
		defer h.stop()
		job := h.accept(t)
		time.Sleep(time.Minute)
		feed, stop := h.Feed("ann")
		foreign, stopForeign := h.Feed("bob")
		defer stopForeign()
		changed, unwatch := h.Watch("ann")
		defer unwatch()
		fed := func(what string, want []dispatch.JobID, others bool) {
			t.Helper()
			jobs, more := feed.Take()
			if more != others || len(jobs) != len(want) {
				t.Errorf("%s: %d jobs, others %t", what, len(jobs), more)
				return
			}
			for i, j := range jobs {
				is, err := store.Record(t.Context(), "ann", want[i])
				if err != nil || !reflect.DeepEqual(j, is.Job) {
					t.Errorf("%s: %v\n%+v is fed as\n%+v", what, err, is.Job, j)
				}
			}
		}
		fed("the first time", nil, true)
		ends.Store(true)
		if _, err := h.Read(t.Context(), "ann", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		<-changed
		fed("a job failed", []dispatch.JobID{job.ID}, false)
		fed("nothing happened", nil, false)
		for what, happen := range map[string]func(){
			"another job":             func() { h.accept(t) },
			"another process":         func() { h.HandleBroadcast([]dispatch.JobID{9}, []dispatch.UserID{"ann"}) },
			"signals that were lost":  func() { h.HandleBroadcast(nil, nil) },
			"a deleted job":           func() { _ = h.Delete(t.Context(), "ann", job.ID) },
			"more jobs than are kept": func() { addMany(feed, 101) },
		} {
			happen()
			synctest.Wait()
			if _, others := feed.Take(); !others {
				t.Errorf("%s: only some jobs have changed", what)
			}
			time.Sleep(time.Minute)
			feed.Take()
		}
		addMany(feed, 100)
		feed.Add(dispatch.Job{ID: 7, Version: 2})
		feed.Add(dispatch.Job{ID: 7, Version: 1})
		jobs, others := feed.Take()
		if len(jobs) != 100 || others {
			t.Errorf("of 100 jobs %d, others %t", len(jobs), others)
		}
		for _, j := range jobs {
			if j.ID == 7 && j.Version != 2 {
				t.Error("late news replaced what was known")
			}
		}
		foreign.Take()
		h.HandleBroadcast(nil, []dispatch.UserID{"ann"})
		if jobs, others := foreign.Take(); len(jobs) > 0 || others {
			t.Error("another user is fed")
		}
		stop()
		feed.Take()
		h.HandleBroadcast(nil, nil)
		if _, others := feed.Take(); others {
			t.Error("a closed feed is fed")
		}
	})
}

func addMany(f *hub.Feed, n int) {
	for id := range dispatch.JobID(n) {
		f.Add(dispatch.Job{ID: id + 1, Version: 1})
	}
}
