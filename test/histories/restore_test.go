package histories

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

type twoStep = conformance.TwoStep

// losing is a two-step platform that loses the given number of creates, which have no effect and get no response.
type losing struct {
	twoStep
	creates *atomic.Int32
}

func (l losing) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	if s.Ref == (dispatch.Ref{}) && l.creates.Add(-1) >= 0 {
		return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Uncertain, Op: "losing", Text: "no answer"}
	}
	return l.twoStep.Submit(ctx, t, s)
}

// TestRestored_CreateInDoubtLeavesForeignJobsAlone checks a create in doubt after a restore, when the database assigns
// an id again. The broker must neither adopt the run of the earlier job with this id nor cancel it as an orphan,
// because that job may belong to another user.
func TestRestored_CreateInDoubtLeavesForeignJobsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 4, Requests: 4, Pace: 50 * time.Millisecond, Send: 30 * time.Second})
		first := h.start("one")
		time.Sleep(time.Second)
		lost, err := first.Accept(t.Context(), "ann", request(), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		first.stop()
		<-first.done

		// the database from before the job was accepted
		h.store, h.jobs = conformance.NewMemStore(h.clock), map[dispatch.JobID]dispatch.Job{}
		h.seed++ // new random events
		creates := new(atomic.Int32)
		creates.Store(1)
		h.platform = func(l conformance.Link) dispatch.Platform { return losing{conformance.TwoStep{Link: l}, creates} }
		second := h.start("two")
		h.procs = []*process{second}
		time.Sleep(time.Second)
		again, err := second.Accept(t.Context(), "bob", request(), dispatch.Key{})
		if err != nil || again.ID != lost.ID {
			t.Fatalf("Accept = job %d, %v; want id %d again", again.ID, err, lost.ID)
		}
		time.Sleep(time.Hour)
		again, err = second.Read(t.Context(), "bob", again.ID, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range h.world.Runs() {
			switch {
			case r.Ref == again.Ref && r.Ref == (dispatch.Ref{ID: "p1"}):
				t.Errorf("bob's job adopted ann's run %s", r.Ref)
			case r.Ref.ID == "p1" && (r.Dropped || !r.Stopped.IsZero()):
				t.Errorf("ann's run was canceled")
			}
		}
		if again.Phase != dispatch.Ended || again.Ref == (dispatch.Ref{}) {
			t.Errorf("bob's job is %s %s with ref %q", again.Phase, again.Status, again.Ref)
		}
		h.end()
	})
}

// TestRestored_AccountWithoutAListing checks that, after a restore, an account whose platform has no listing submits no
// jobs until the operator allows it.
func TestRestored_AccountWithoutAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 4, Requests: 4, Send: 30 * time.Second})
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} }
		first := h.start("one")
		time.Sleep(time.Second)
		first.acceptTask("ann", request(), 6) // two jobs wait
		time.Sleep(10 * time.Second)
		first.stop()
		<-first.done
		if _, err := h.store.MarkRestored(t.Context(), dispatch.CompareFirst); err != nil {
			t.Fatal(err)
		}
		before := len(h.world.Runs())
		second := h.start("two")
		h.procs = []*process{second}
		time.Sleep(2 * time.Hour)
		if n := len(h.world.Runs()); n != before || before == 0 {
			t.Errorf("%d runs before the restore, %d two hours after it", before, n)
		}
		all, err := h.store.TaskJobs(t.Context(), "ann", 1, dispatch.Page{})
		if err != nil || all[5].Phase != dispatch.Waiting || all[5].Attention != dispatch.NeedsOperator {
			t.Errorf("the waiting job is %s %q, %v", all[5].Phase, all[5].Attention, err)
		}
		if _, err := h.store.MarkRestored(t.Context(), dispatch.CompareIfLists); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if n := len(h.world.Runs()); n != 6 {
			t.Errorf("%d runs after the operator allowed submissions, want 6", n)
		}
		h.end()
	})
}

// barred is a two-step platform that rejects the tokens of one account until a given time.
type barred struct {
	twoStep
	account dispatch.Account
	until   time.Time
}

func (b barred) bars(t dispatch.Token) error {
	if strings.HasPrefix(t.Secret.Reveal(), string(b.account)+"#") && time.Now().Before(b.until) {
		return &dispatch.Error{Kind: dispatch.SignInRequired, Op: "barred", Text: "no"}
	}
	return nil
}

func (b barred) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	if err := b.bars(t); err != nil {
		return dispatch.SubmitResult{}, err
	}
	return b.twoStep.Submit(ctx, t, s)
}

func (b barred) List(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	if err := b.bars(t); err != nil {
		return func(yield func(dispatch.Listed, error) bool) { yield(dispatch.Listed{}, err) }
	}
	return b.twoStep.List(ctx, t, base)
}

// TestRestored_EveryListingIsCompared checks that, after a restore, each account is compared with the listings of all
// its base addresses, with its own token. Jobs that were submitted after the backup must be adopted and not be
// submitted again. An account whose token is rejected must submit no jobs until it has been compared.
func TestRestored_EveryListingIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 1, Requests: 4, Send: 30 * time.Second})
		first := h.start("one")
		time.Sleep(time.Second)
		for _, u := range []dispatch.UserID{"ann", "bob"} {
			for _, namespace := range []string{"", "b", "c"} {
				r := request()
				r.Service.Endpoint = "https://q.example"
				if namespace != "" {
					r.Service.Namespace = &namespace
				}
				first.acceptTask(u, r, 2)
			}
		}
		time.Sleep(time.Second)
		r := &restoring{history: h}
		r.take() // one job of each user is at the platform, the others wait
		time.Sleep(24 * time.Hour)
		h.procs = []*process{first}
		r.putBack()
		before := len(h.world.Runs())
		h.platform = func(l conformance.Link) dispatch.Platform {
			return barred{conformance.TwoStep{Link: l}, "q/bob", time.Now().Add(time.Hour)}
		}
		second := h.start("two")
		h.procs = []*process{second}
		for _, after := range []time.Duration{50 * time.Minute, 24 * time.Hour} {
			time.Sleep(after)
			if n := len(h.world.Runs()); n != before || before != 12 {
				t.Errorf("%d runs before the restore, %d after it, want 12 each", before, n)
			}
		}
		for _, u := range []dispatch.UserID{"ann", "bob"} {
			adopted := 0
			for task := range dispatch.TaskID(6) {
				jobs, _ := h.store.TaskJobs(t.Context(), u, task+1, dispatch.Page{})
				for _, j := range jobs {
					if j.Phase == dispatch.Ended && j.Ref.ID != "" && j.Attention == dispatch.None {
						adopted++
					}
				}
			}
			if adopted != 6 {
				t.Errorf("%d jobs of %s have what they ran at the platform, want 6", adopted, u)
			}
		}
		h.end()
	})
}
