package visit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// runsAtOnce is how many runs this process has under way at a platform that has no limits.jobs.
	runsAtOnce = 16
	// runsQuick is for how long a run is treated as any request. A visit goes on without longer ones.
	runsQuick = 2 * time.Second
	// runConfirmed is how often a run under way is confirmed in the store.
	runConfirmed = 10 * time.Second
)

// runs counts the runs that are under way in this process.
type runs struct {
	mu  sync.Mutex
	at  map[string]int // by platform
	all sync.WaitGroup
}

func (r *runs) count(platform string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[platform]
}

func (r *runs) enter(b *dispatch.Backend) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Limits.Jobs == 0 && r.at[b.Name] >= runsAtOnce {
		return &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.run", RetryAfter: dispatch.Repair,
			Text: "The platform has as many synchronous runs as it is given at once. The job waits for the end of one."}
	}
	dispatch.SetInMap(&r.at, b.Name, r.at[b.Name]+1)
	r.all.Add(1)
	return nil
}

func (r *runs) leave(platform string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[platform]--
	r.all.Done()
}

// run is a submission whose response is the results of the job, because its process only runs synchronously. It takes
// as long as the process. From [runsQuick] on its job shows that it runs, and stays in the phase Creating with its
// slot. If this process ends, the job is no longer confirmed, and is settled as any submission whose response was lost.
type run struct {
	visit   *visit
	request platformRequest

	ctx  context.Context
	stop context.CancelCauseFunc // of ctx; nil: it has not begun
	left *time.Timer             // when the visit goes on
}

// errUnwanted ends the request of a run whose owner canceled it, or that took longer than its owner permits.
var errUnwanted = errors.New("the run is no longer wanted")

// begin implements [dispatch.Submission.Runs].
func (r *run) begin(ctx context.Context) (context.Context, error) {
	if err := r.visit.visits.runs.enter(r.visit.backend); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.visit.timing.GiveUpAfter)
	r.ctx, r.stop = context.WithCancelCause(limited)
	context.AfterFunc(r.ctx, cancel)
	r.left = time.AfterFunc(runsQuick, func() {
		r.confirm()
		r.visit.responses <- platformResponse{r.request, nil}
		r.confirmRegularly()
	})
	return r.ctx, nil
}

// end hands over how the run ended: to the visit, or to the store if the visit went on without it.
func (r *run) end(outcomes []jobOutcome) {
	v := r.visit
	if r.stop == nil {
		v.responses <- platformResponse{r.request, outcomes}
		return
	}
	o := &outcomes[0].Outcome
	if o.Err != nil && errors.Is(context.Cause(r.ctx), errUnwanted) {
		*o = dispatch.Outcome{Asked: dispatch.AskCancel, Attempt: o.Attempt, Epoch: o.Epoch}
	}
	r.stop(nil)
	defer v.visits.runs.leave(v.backend.Name)
	if r.left.Stop() {
		v.responses <- platformResponse{r.request, outcomes}
		return
	}
	v.visits.keep([]jobOutcomes{{job: outcomes[0].job,
		outcomes: []dispatch.Outcome{v.answered(*o, r.request.asked)}}})
}

func (r *run) confirmRegularly() {
	for dispatch.Sleep(r.ctx, runConfirmed) == nil {
		r.confirm()
	}
}

// confirm stores that the request is under way for the duration of a lease, or ends it if it is no longer wanted. What
// cannot be stored is stored the next time.
func (r *run) confirm() {
	vs, id := r.visit.visits, r.request.jobs[0].ID
	if err := r.store(); err != nil && r.ctx.Err() == nil {
		vs.Log.DebugContext(r.ctx, "confirming a run failed", "job", int64(id), "error", err)
	}
}

func (r *run) store() (err error) {
	vs, intended := r.visit.visits, r.request.jobs[0]
	defer dispatch.RecoverAsError(r.ctx, vs.Log, "dispatch.run: store", &err)
	ctx, cancel := context.WithTimeout(r.ctx, saveWithin)
	defer cancel()
	j, err := vs.Store.Load(ctx, intended.ID)
	if err != nil || j.Phase != dispatch.Creating || j.Attempt != intended.Attempt {
		return err
	}
	now := r.request.asked.Add(time.Since(r.request.at))
	if j.Unwanted(now) {
		r.stop(errUnwanted)
		return nil
	}
	saved, err := vs.Store.Save(ctx, []dispatch.Job{j.RunsUntil(now.Add(r.visit.backend.Limits.Lease()), now)})
	for _, s := range saved {
		vs.Hub.NotifySaved(ctx, j, s, nil)
	}
	return err
}
