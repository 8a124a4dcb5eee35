package conformance

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/eodispatch/eodispatch/dispatch"
)

// quotas checks that quotas count stored jobs, per account or in total, and deleted jobs for a day.
func (t storeTest) quotas() {
	ctx := t.Context()
	ask := func(u dispatch.UserID, a dispatch.Account, n int, within ...dispatch.Quota) error {
		jobs := make([]dispatch.Draft, n)
		for i := range jobs {
			jobs[i] = draft(u, a)
		}
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, jobs, within...)
		return err
	}
	refused := func(err error, text string) {
		t.Helper()
		t.kind(err, dispatch.LimitReached)
		if got := dispatch.TextFor(err); got != text {
			t.Errorf("refused with %q, want %q", got, text)
		}
	}
	all, here := dispatch.Quota{Live: 5}, dispatch.Quota{Account: shared, Live: 3, Daily: 6}
	t.must(ask(ann, shared, 2, all, here))
	wakes := t.readAgenda().Wakes
	refused(ask(ann, shared, 2, all, here), "A user may have 3 unfinished jobs at p. You have 2, and request 2.")
	t.must(ask(ann, "q/shared", 2, all, dispatch.Quota{Account: "q/shared", Live: 2}))
	refused(ask(ann, "q/shared", 2, all), "A user may have 5 unfinished jobs. You have 4, and request 2.")
	t.must(ask(bob, shared, 3, all, here))
	if g := t.readAgenda(); g.Wakes != wakes+1 {
		t.Errorf("%d wakes: what was refused wakes", g.Wakes-wakes)
	}
	list, err := t.s.Records(ctx, ann, dispatch.Page{})
	t.must(err)
	if len(list) != 4 {
		t.Fatalf("%d jobs were kept", len(list))
	}
	for _, r := range list {
		_, err := t.s.Cancel(ctx, ann, r.ID, true)
		t.must(err)
	}
	t.must(ask(ann, shared, 3, all, here))
	_, err = t.s.Cancel(ctx, ann, list[0].ID+5, false)
	t.kind(err, dispatch.NotFound) // another user's
	mine, err := t.s.Records(ctx, ann, dispatch.Page{})
	t.must(err)
	_, err = t.s.Cancel(ctx, ann, mine[0].ID, false)
	t.must(err)
	refused(ask(ann, shared, 2, dispatch.Quota{Account: shared, Daily: 6}),
		"A user may submit 6 jobs at p in 24 hours. You submitted 5, and request 2.")
	t.must(ask(ann, shared, 1, all, here))
	t.db.Pass(dispatch.Day)
	t.must(ask(ann, "q/shared", 1, dispatch.Quota{Daily: 1}))
}

// parallelQuotas checks that concurrent submits, in any process, use up the quota exactly.
func (t storeTest) parallelQuotas() {
	const most = 7
	handles := t.handles(4)
	var all sync.WaitGroup
	var kept, turned atomic.Int64
	for i := range 24 {
		all.Go(func() {
			jobs := []dispatch.Draft{draft(ann, shared)}
			k := dispatch.Key{Text: fmt.Sprint(i), Fingerprint: "f"}
			_, err := handles[i%len(handles)].Accept(t.Context(), k, nil, jobs, dispatch.Quota{Live: 100},
				dispatch.Quota{Account: shared, Live: most})
			switch {
			case err == nil:
				kept.Add(1)
			case dispatch.Is(err, dispatch.LimitReached):
				turned.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := t.s.Records(t.Context(), ann, dispatch.Page{})
	t.must(err)
	if len(list) != most || kept.Load() != most || turned.Load() != 24-most {
		t.Errorf("%d kept, %d said to be, %d turned away", len(list), kept.Load(), turned.Load())
	}
}

// keysBeyondQuotas checks that a key returns what it stands for regardless of the quota, and stands for nothing that a
// quota refused.
func (t storeTest) keysBeyondQuotas() {
	ctx, one := t.Context(), dispatch.Quota{Live: 1}
	accept := func(k dispatch.Key) (dispatch.KeyTarget, dispatch.JobID, error) {
		jobs := []dispatch.Draft{draft(ann, shared)}
		r, err := t.s.Accept(ctx, k, nil, jobs, one)
		return r, jobs[0].ID, err
	}
	first, second := dispatch.Key{Text: "k", Fingerprint: "f"}, dispatch.Key{Text: "l", Fingerprint: "f"}
	_, id, err := accept(first)
	t.must(err)
	r, _, err := accept(first)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{Job: id})
	_, _, err = accept(dispatch.Key{Text: "k", Fingerprint: "g"})
	t.kind(err, dispatch.Conflict)
	_, _, err = accept(second)
	t.kind(err, dispatch.LimitReached)
	_, err = t.s.Cancel(ctx, ann, id, false)
	t.must(err)
	r, _, err = accept(second)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{})
}

// retryWithinQuota checks that a retried task counts as live again.
func (t storeTest) retryWithinQuota() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 3)
	for _, j := range jobs[:2] {
		t.end(j.ID, dispatch.Failed, nil)
	}
	_, _, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}, dispatch.Quota{Live: 2})
	t.kind(err, dispatch.LimitReached)
	if j := t.load(jobs[0].ID); j.Phase != dispatch.Ended {
		t.Errorf("after a refused retry, a job is %s", j.Phase)
	}
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}, dispatch.Quota{Live: 3})
	t.must(err)
	if n != 2 {
		t.Errorf("%d jobs are retried", n)
	}
}
