package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/visit"
)

const (
	platformRuns = 16               // synchronous runs under way at each platform
	userRuns     = 4                // of each user at each platform, so that runs of one user do not block others
	runWithin    = 30 * time.Minute // for a run, including the time in which its result is read
	runRenewed   = 30 * time.Second // how often a run under way is confirmed in the store
	runLapses    = 2 * time.Minute  // after this time without confirmation the process of a run counts as lost
	runSaved     = 10 * time.Second // how long one attempt to record the end of a run may take
	runRecorded  = time.Hour        // for how long that is retried
)

// SyncRuns returns a user's synchronous runs, newest first.
func (b *Broker) SyncRuns(ctx context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.Record, error) {
	runs, err := b.Records.SyncRuns(ctx, u, p)
	records := make([]dispatch.Record, len(runs))
	for i, r := range runs {
		records[i] = r.Record()
	}
	return records, err
}

// RunSync runs a request while the client waits. The run is recorded before anything is sent, counts in the user's
// quotas and usage, and shows in [Broker.SyncRuns]. If ctx ends before the result was read to its end, the run is
// canceled if the platform supports that. After 30 minutes the run is abandoned, even while its result is being read.
// LimitReached when the user has too many runs under way at the platform, Busy when too many of all users are.
func (b *Broker) RunSync(ctx context.Context, u dispatch.UserID, r dispatch.Request) (*dispatch.SyncResult, error) {
	backend, r, _, err := b.admit(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	warning, err := b.checkSync(ctx, u, backend, r)
	if err != nil {
		return nil, err
	}
	runner, can := backend.Platform.(dispatch.SyncRunner)
	if !can {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.RunSync",
			Text: "This platform has no synchronous runs. Submit a job instead."}
	}
	release, err := b.enterSync(ctx, backend, u)
	if err != nil {
		return nil, err
	}
	run, err := b.beginRun(ctx, dispatch.SyncRun{Owner: u, Account: backend.Account(u), Status: dispatch.Running,
		Request: dispatch.Request{Title: r.Title, Label: r.Label, Service: r.Service, Warning: warning,
			Format: r.Format}})
	if err != nil {
		release()
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, runWithin, dispatch.ErrTooLong)
	run.limited, run.left = limited, func() { cancel(); release() }
	result, err := withToken(limited, b, backend, run.Account,
		func(ctx context.Context, t dispatch.Token) (result *dispatch.SyncResult, err error) {
			defer dispatch.RecoverAsError(ctx, b.Log, "dispatch.RunSync", &err)
			return runner.RunSync(ctx, t, dispatch.Submission{Request: r, Created: run.claim})
		})
	if err != nil {
		err = run.tooLong(err)
		run.end(ctx, err)
		return nil, err
	}
	result.Run, result.Body = run.ID, &runBody{ReadCloser: result.Body, ctx: ctx, run: run}
	return result, nil
}

// checkSync checks what a synchronous run is to run, as far as that is possible before anything is sent. The warning
// states what could not be checked.
func (b *Broker) checkSync(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend, r dispatch.Request) (
	warning string, err error) {
	if r.Process != nil {
		return "", backend.Platform.(dispatch.GraphRunner).CheckGraph(ctx, r, nil)
	}
	if err := b.AwaitDocument(ctx, backend, u, r.Service); err != nil {
		return "", err
	}
	return b.check(ctx, u, backend, r, nil)
}

// enterSync counts a synchronous run for its user and its platform, once both are below their limits.
func (b *Broker) enterSync(ctx context.Context, backend *dispatch.Backend, u dispatch.UserID) (release func(),
	err error) {
	releaseOwn, err := b.limits.acquire(ctx, "runs of "+backend.Name+"/"+string(u), userRuns)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.LimitReached, Op: "dispatch.RunSync", RetryAfter: comeBackSoon,
			Text: fmt.Sprintf("You have %d synchronous runs under way at %s. Wait until one has ended, or submit a "+
				"job instead.", userRuns, backend.Name)}
	}
	releaseAll, err := b.limits.acquire(ctx, "runs at "+backend.Name, platformRuns)
	if err != nil {
		releaseOwn()
		return nil, err
	}
	return func() { releaseAll(); releaseOwn() }, nil
}

// syncRun is a recorded run under way.
type syncRun struct {
	dispatch.SyncRun
	broker  *Broker
	limited context.Context // of the run
	left    func()          // counts the run no longer
	stop    context.CancelFunc
	once    sync.Once
}

// tooLong returns the error of a run, which is that of its limit if that has ended it.
func (r *syncRun) tooLong(err error) error {
	if !errors.Is(context.Cause(r.limited), dispatch.ErrTooLong) {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Uncertain, Op: "dispatch.RunSync", Err: errors.Join(dispatch.ErrTooLong, err),
		Text: fmt.Sprintf("The run did not end within %.0f minutes, the limit of synchronous runs. Submit a job "+
			"instead.", runWithin.Minutes())}
}

func (b *Broker) beginRun(ctx context.Context, r dispatch.SyncRun) (*syncRun, error) {
	if err := b.Store.BeginSyncRun(ctx, &r, runLapses, b.quotas(r.Account)...); err != nil {
		return nil, err
	}
	b.audit(ctx, "run", r.Owner, dispatch.Job{Identity: dispatch.Identity{ID: r.ID},
		Target: dispatch.Target{Account: r.Account}}, 1)
	run := &syncRun{SyncRun: r, broker: b}
	var under context.Context
	under, run.stop = context.WithCancel(context.WithoutCancel(ctx))
	go run.confirm(under)
	return run, nil
}

// confirm renews the run in the store every runRenewed.
func (r *syncRun) confirm(ctx context.Context) {
	for dispatch.Sleep(ctx, runRenewed) == nil {
		if err := r.renew(ctx); err != nil && ctx.Err() == nil {
			r.broker.Log.Log(ctx, dispatch.LogLevel(err), "renewing a synchronous run failed", "job", int64(r.ID),
				"error", err)
		}
	}
}

func (r *syncRun) renew(ctx context.Context) (err error) {
	defer dispatch.RecoverAsError(ctx, r.broker.Log, "dispatch.RenewSyncRun", &err)
	return r.broker.Store.RenewSyncRun(ctx, r.ID, runLapses)
}

// claim records the platform job that was created for the run, which is refused if it is that of another job or run:
// its results may be another user's.
func (r *syncRun) claim(ctx context.Context, ref dispatch.Ref) error {
	err := r.broker.Store.ClaimRef(ctx, r.ID, ref)
	if dispatch.Is(err, dispatch.Conflict) {
		return &dispatch.Error{Kind: dispatch.BadUpstream, Op: "dispatch.RunSync", Err: err, Text: fmt.Sprintf(
			"The platform returned the identifier %q for this run, which it has given to another job, so that "+
				"the two cannot be told apart. Its results were not read. Tell the operator of the platform.", ref.ID)}
	}
	return err
}

// end records how the run ended, once, and counts it no longer.
func (r *syncRun) end(ctx context.Context, err error) {
	r.once.Do(func() {
		defer r.left()
		r.stop()
		r.Status, r.Failure = outcomeOf(ctx, err)
		r.record(context.WithoutCancel(ctx))
		r.broker.Log.InfoContext(ctx, "audit", "action", "run ended", "user", string(r.Owner), "account",
			string(r.Account), slog.Int64("job", int64(r.ID)), "status", string(r.Status))
	})
}

// record stores how the run ended. If the store refuses, it retries for an hour.
func (r *syncRun) record(ctx context.Context) {
	err := r.save(ctx)
	if err == nil {
		return
	}
	r.broker.Log.WarnContext(ctx, "recording the end of a synchronous run failed; it is retried", "job", int64(r.ID),
		"error", err)
	go func() {
		for begun, pause := time.Now(), dispatch.Repair; err != nil &&
			time.Since(begun) < runRecorded; pause = min(2*pause, visit.LongestRepair) {
			time.Sleep(pause)
			err = r.save(ctx)
		}
		if err != nil {
			r.broker.Log.WarnContext(ctx, "recording the end of a synchronous run failed for an hour and is abandoned",
				"job", int64(r.ID), "error", err)
		}
	}()
}

func (r *syncRun) save(ctx context.Context) (err error) {
	defer dispatch.RecoverAsError(ctx, r.broker.Log, "dispatch.EndSyncRun", &err)
	ctx, cancel := context.WithTimeout(ctx, runSaved)
	defer cancel()
	return r.broker.Store.EndSyncRun(ctx, r.SyncRun)
}

// outcomeOf returns the status of a run that ended with err, and the text for its owner.
func outcomeOf(ctx context.Context, err error) (dispatch.Status, string) {
	switch {
	case err == nil:
		return dispatch.Finished, ""
	case ctx.Err() != nil, errors.Is(err, errClosedEarly):
		return dispatch.Canceled, ""
	}
	return dispatch.Failed, dispatch.TextFor(err)
}

var errClosedEarly = errors.New("the result was not read to its end")

// runBody is the result of a run. The run ends when the body is closed or cannot be read.
type runBody struct {
	io.ReadCloser
	ctx  context.Context
	run  *syncRun
	read bool // it was read to its end
}

func (b *runBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.read = true
	case err != nil:
		err = b.run.tooLong(err)
		b.run.end(b.ctx, err)
	}
	return n, err
}

// Close ends the run: as finished only if its result was read to its end.
func (b *runBody) Close() error {
	err := b.ReadCloser.Close()
	if b.read {
		b.run.end(b.ctx, nil)
	} else {
		b.run.end(b.ctx, errClosedEarly)
	}
	return err
}
