package visit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	mostUnsaved   = 1000             // number of kept responses from which on this process sends no new request
	saveWithin    = 10 * time.Second // for one store call of the backlog
	LongestRepair = 30 * time.Second // between two attempts to save the backlog
	unsavedEvery  = time.Minute      // between two log lines about the backlog
	// how long a job must stay unknown to the store before a response about it is dropped
	missingFor   = time.Hour
	missingAtEnd = 5 * time.Second // the same when the process ends
)

// backlog keeps the responses to submissions that a visit could not save before its lease ran out. They are saved as
// soon as the store answers again, even if another process has the account by then: Save checks the version of the row
// and needs no lease. Responses to all other requests are not kept, because those requests can be repeated.
type backlog struct {
	mu      sync.Mutex
	kept    []jobOutcomes
	saving  bool           // a goroutine saves them
	working sync.WaitGroup // that goroutine, and those that collect the responses of visits that panicked
	over    atomic.Bool    // the process ends, see Drain
}

// Unsaved returns how many responses to submissions wait in memory to be saved.
func (vs *Visits) Unsaved() int {
	vs.backlog.mu.Lock()
	defer vs.backlog.mu.Unlock()
	return len(vs.backlog.kept)
}

// Drain waits for the runs under way, and until every kept response is saved, or its job has stayed unknown to the
// store for [missingAtEnd]. The caller bounds the time by ending the process.
func (vs *Visits) Drain() {
	vs.backlog.over.Store(true)
	vs.runs.all.Wait()
	vs.backlog.working.Wait()
}

// await waits for a pause between attempts to save. When the process ends, it waits for a second at most.
func (l *backlog) await(pause time.Duration) {
	for end := time.Now().Add(pause); time.Now().Before(end); {
		if time.Sleep(min(time.Until(end), dispatch.Repair)); l.over.Load() {
			return
		}
	}
}

// full reports whether so many responses are kept that no new request may be sent.
func (l *backlog) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept) >= mostUnsaved
}

// keepUnsaved takes over responses to submissions from a visit.
func (vs *Visits) keepUnsaved(received []jobOutcomes) {
	submitted := func(o dispatch.Outcome) bool { return o.Asked == dispatch.AskSubmit }
	vs.keep(slices.DeleteFunc(slices.Clone(received),
		func(s jobOutcomes) bool { return !slices.ContainsFunc(s.outcomes, submitted) }))
}

// keep saves responses without a visit.
func (vs *Visits) keep(received []jobOutcomes) {
	if len(received) == 0 {
		return
	}
	vs.backlog.mu.Lock()
	defer vs.backlog.mu.Unlock()
	vs.backlog.kept = append(vs.backlog.kept, received...)
	if !vs.backlog.saving {
		vs.backlog.saving = true
		vs.backlog.working.Go(func() { vs.saveBacklog(context.Background()) })
	}
}

// mustNotBeLost reports whether any response names a platform job or holds a result, and therefore must not be lost.
func (s jobOutcomes) mustNotBeLost() bool {
	return slices.ContainsFunc(s.outcomes, func(o dispatch.Outcome) bool {
		return (o.Asked == dispatch.AskSubmit || o.Asked == dispatch.AskSearch) && o.Ref != (dispatch.Ref{}) ||
			o.Result != nil
	})
}

// saveBacklog saves the kept responses, and returns when none is left.
func (vs *Visits) saveBacklog(ctx context.Context) {
	var logged time.Time
	for pause := dispatch.Repair; ; {
		saved, err := vs.saveKept(ctx)
		if vs.backlog.done() {
			if !logged.IsZero() {
				vs.Log.InfoContext(ctx, "all responses of platforms are saved")
			}
			return
		}
		if logged.IsZero() || time.Since(logged) >= unsavedEvery {
			logged = time.Now()
			vs.Log.WarnContext(ctx, "responses of platforms cannot be saved; they are kept in memory and retried",
				"unsaved", vs.Unsaved())
		}
		if saved > 0 {
			pause = dispatch.Repair
		}
		if err != nil {
			vs.Log.DebugContext(ctx, "saving responses failed", "error", err)
		}
		vs.backlog.await(pause)
		pause = min(2*pause, LongestRepair)
	}
}

func (l *backlog) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saving = len(l.kept) > 0
	return !l.saving
}

// saveKept tries to save each kept response once, and stops when the store does not answer.
func (vs *Visits) saveKept(ctx context.Context) (saved int, err error) {
	vs.backlog.mu.Lock()
	received := slices.Clone(vs.backlog.kept)
	vs.backlog.mu.Unlock()
	left := received[:0:0]
	for i, s := range received {
		err = vs.saveLate(ctx, &s)
		if err == nil {
			saved++
			continue
		}
		left = append(left, s)
		if dispatch.DatabaseError(err) != nil {
			left = append(left, received[i+1:]...)
			break
		}
	}
	vs.backlog.mu.Lock()
	vs.backlog.kept = append(left, vs.backlog.kept[len(received):]...)
	vs.backlog.mu.Unlock()
	return saved, err
}

// saveLate applies the responses about one job to its current row, and wakes its account. Conflict: the row keeps
// changing. NotFound: the job is not in the store at present.
func (vs *Visits) saveLate(ctx context.Context, s *jobOutcomes) (err error) {
	defer dispatch.RecoverAsError(ctx, vs.Log, "dispatch.saveLate", &err)
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	j, err := vs.Store.Load(ctx, s.job.ID)
	if dispatch.Is(err, dispatch.NotFound) {
		return vs.missingJob(ctx, s, err)
	}
	if err != nil {
		return err
	}
	g, err := vs.AgendaOf(ctx, j.Account, 1)
	if err != nil {
		return err
	}
	s.job, s.missing = j, time.Time{}
	seen := map[dispatch.Ref]dispatch.JobID{}
	for i, o := range s.outcomes {
		if s.outcomes[i], err = vs.distinct(ctx, seen, o.Account, j, o); err != nil {
			return err
		}
	}
	saved, err := vs.Store.Save(ctx, []dispatch.Job{s.next(g.Now)}, j.Account)
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		return &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.saveLate", Text: "The job was changed meanwhile."}
	}
	vs.Hub.NotifySaved(ctx, j, saved[0], s.outcomes[len(s.outcomes)-1].Err)
	if freedSlot(j, saved[0]) && g.Why == dispatch.Full && g.Now.Before(g.Hold) {
		err = vs.Store.Hold(ctx, j.Account, 0, dispatch.None, "")
	}
	vs.Hub.Wake(j.Account)
	return err
}

// missingJob returns nil once a response may be dropped because its job is gone, and err until then. A database replica
// that lags behind may lack the job for a while, so a response that must not be lost is kept for [missingFor], or
// [missingAtEnd].
func (vs *Visits) missingJob(ctx context.Context, s *jobOutcomes, err error) error {
	if s.missing.IsZero() {
		s.missing = time.Now()
	}
	patience := missingFor
	if vs.backlog.over.Load() {
		patience = missingAtEnd
	}
	if s.mustNotBeLost() && time.Since(s.missing) < patience {
		return err
	}
	for _, o := range s.outcomes {
		vs.Log.WarnContext(ctx, "a response is dropped: its job is not in the database", "job", int64(s.job.ID),
			"account", string(s.job.Account), "ref", o.Ref.ID)
	}
	return nil
}
