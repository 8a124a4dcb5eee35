package broker

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Results returns the results of a job as a STAC Collection, nil while the job has not ended. If the job failed or was
// canceled: Conflict, with the reason. If the platform does not return the results of a finished job yet: Busy.
func (b *Broker) Results(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (json.RawMessage, error) {
	p, err := b.JobResult(ctx, u, id)
	return p.Collection, err
}

// JobResult returns what Results does, with the job. The error is returned, and JobResult.Err not set.
func (b *Broker) JobResult(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (p JobResult, err error) {
	p.Record, err = b.Records.Record(ctx, u, id)
	if err == nil && !p.Status.Final() {
		p.Record, err = b.Read(ctx, u, id, min(resultsFresh, b.minReadInterval(p.Account.Platform())))
	}
	if err != nil {
		return p, err
	}
	switch p.Status {
	case dispatch.Finished:
		p.Collection, err = b.collection(ctx, u, p.Record)
	case dispatch.Failed:
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Results",
			Text: "The job failed and has no results: " + p.Failure}
	case dispatch.Canceled:
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Results",
			Text: "The job was canceled and has no results."}
	}
	return p, err
}

// RecentResults returns what Results does, without a request to the platform while the links that it returned before
// are valid.
func (b *Broker) RecentResults(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (json.RawMessage, error) {
	r, err := b.Records.Record(ctx, u, id)
	if err != nil {
		return nil, err
	}
	if r.Status == dispatch.Finished {
		known, err := b.kept(ctx, u, id)
		if err != nil || known.Fresh(time.Now()) {
			return known.Body, err
		}
	}
	return b.Results(ctx, u, id)
}

func (b *Broker) kept(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Item, error) {
	all, err := b.Items.Items(ctx, u, []dispatch.JobID{id}, true)
	return all[id], err
}

const (
	resultsLag    = time.Hour // how long after the end of a job its results may become available
	resultsWithin = 5 * time.Second
	resultsEvery  = time.Second
)

// collection reads the results of a finished job and keeps them.
func (b *Broker) collection(ctx context.Context, u dispatch.UserID, j dispatch.Record) (json.RawMessage, error) {
	known, err := b.kept(ctx, u, j.ID)
	if err != nil {
		return nil, err
	}
	p := JobResult{Record: j}
	err = b.readItem(ctx, u, &p, nil, known)
	return p.Collection, err
}

// readItem reads the results of a finished job, of the task t if it is not nil, and keeps them. known is what is kept
// of them.
func (b *Broker) readItem(ctx context.Context, u dispatch.UserID, p *JobResult, t *dispatch.TaskRecord,
	known dispatch.Item) error {
	if known.Given && known.Body != nil {
		p.Item, p.Collection = known, b.untagged(known.Body)
		if known.Read {
			return nil
		}
		return b.keep(ctx, u, p, t)
	}
	results, err := fromPlatform(ctx, b, u, p.Record, func(ctx context.Context, at dispatch.Platform,
		t dispatch.Token) (json.RawMessage, error) {
		return at.Results(ctx, t, p.Ref)
	})
	if err != nil && dispatch.Is(errors.Unwrap(err), dispatch.NotFound) {
		err = errors.Join(b.Items.DropItem(ctx, p.ID), err)
	}
	if err != nil {
		return err
	}
	p.Collection = b.untagged(results)
	return b.keep(ctx, u, p, t)
}

// fromPlatform reads what a platform has of the results of a finished job, which may not be there yet.
func fromPlatform[T any](ctx context.Context, b *Broker, u dispatch.UserID, j dispatch.Record,
	read func(context.Context, dispatch.Platform, dispatch.Token) (T, error)) (got T, err error) {
	if !j.Removal.Removed.IsZero() {
		return got, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Results", Text: j.RemovedText()}
	}
	if j.Ref == (dispatch.Ref{}) {
		return got, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Results",
			Text: "The results of the job are no longer kept. The platform cannot provide them again: it returned " +
				"them with its response to the submission."}
	}
	for end := time.Now().Add(resultsWithin); ; {
		got, err = call(ctx, b, u, j.Account, read)
		if !dispatch.Is(err, dispatch.Conflict) || time.Now().Add(resultsEvery).After(end) ||
			dispatch.Sleep(ctx, resultsEvery) != nil {
			break
		}
	}
	switch {
	case dispatch.Is(err, dispatch.Conflict):
		return got, resultsLate(j, err)
	case dispatch.Is(err, dispatch.NotFound): // the job itself is there
		return got, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Results", Err: err,
			Text: "The platform no longer has the finished job or its results. Retry the job if you need them again."}
	}
	return got, err
}

// keep keeps the results of a job that were read, for nine tenths of the validity of their links, so that a client has
// time to follow one.
func (b *Broker) keep(ctx context.Context, u dispatch.UserID, p *JobResult, t *dispatch.TaskRecord) error {
	if p.Task != 0 && t == nil {
		whole, err := b.Records.Task(ctx, u, p.Task)
		if err != nil {
			return err
		}
		t = &whole
	}
	described := *p
	if t == nil {
		t = &dispatch.TaskRecord{}
	} else if described.Value == nil {
		described.Value = t.ValueOf(p.Request)
	}
	given := p.Item.Given
	p.Item = dispatch.Item{}
	if b.Describe != nil {
		p.Item = b.Describe(described, *t)
	}
	now := time.Now()
	p.Item.Job, p.Item.Task, p.Item.Account, p.Item.Read, p.Item.Given = p.ID, p.Task, p.Account, true, given
	p.Item.Until, p.Item.Body = now.Add(linksHold(p.Collection, now)/10*9), p.Collection
	kept := p.Item
	if len(kept.Body) > dispatch.KeptResults && !kept.Given { // what was given cannot be read again
		kept.Body = nil
	}
	return b.Items.KeepItem(ctx, kept)
}

// resultsLate returns the error for a finished job whose platform returns no results yet: Busy, and BadUpstream after
// an hour, so that the results of other jobs are not delayed for ever.
func resultsLate(r dispatch.Record, err error) error {
	if r.Read.Sub(r.Moved) > resultsLag {
		return &dispatch.Error{Kind: dispatch.BadUpstream, Op: "dispatch.Results",
			Text: "The platform reports the job as finished, but provides no results: " + dispatch.TextFor(err),
			Err:  err}
	}
	return &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.Results",
		Text: "The job has finished, but its platform does not provide the results yet. Try again later.",
		Err:  err, RetryAfter: comeBackSoon}
}

// JobResult is the result of one finished job.
type JobResult struct {
	dispatch.Record
	Collection json.RawMessage // STAC; nil: it is not known, or there is none
	Item       dispatch.Item   // what is kept of it
	Err        error           // why the results could not be read
}

// MayCome reports whether results that could not be read may be readable later.
func (p JobResult) MayCome() bool {
	switch {
	case p.Err == nil, dispatch.Is(p.Err, dispatch.BadUpstream), dispatch.Is(p.Err,
		dispatch.NotFound), dispatch.Is(p.Err, dispatch.Unsupported), dispatch.Is(p.Err, dispatch.Invalid),
		dispatch.Is(p.Err, dispatch.Conflict):
		return false
	}
	return true
}

// TaskResults is a task and the results of some of its finished jobs, in the order in which they finished. Task.Counts
// has the number of all.
type TaskResults struct {
	Task dispatch.TaskRecord
	Jobs []JobResult
	More bool // there are finished jobs after the last of Jobs
}

// TaskResults returns the results of a task's finished jobs after a position, n at most. Jobs are in the order in which
// they finished, so a client that follows the positions sees each once, even while the task runs. The results of each
// job are requested from the platform at most once, and not while the links that it returned before are valid. Results
// that cannot be read set JobResult.Err and do not affect others; the same position returns them when they can be read.
func (b *Broker) TaskResults(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
	n int) (f TaskResults, err error) {
	if f.Task, err = b.Records.Task(ctx, u, id); err != nil {
		return f, err
	}
	if f.Jobs, err = b.finished(ctx, u, id, after, n+1); err != nil {
		return f, err
	}
	f.More = len(f.Jobs) > n
	f.Jobs = f.Jobs[:min(n, len(f.Jobs))]
	return f, b.readResults(ctx, u, &f.Task, f.Jobs)
}

// TaskResult returns the results of one finished job of a task; NotFound if the job is not in the task or has not
// finished.
func (b *Broker) TaskResult(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	job dispatch.JobID) (f TaskResults, err error) {
	if f.Task, err = b.Records.Task(ctx, u, id); err != nil {
		return f, err
	}
	r, err := b.Records.Record(ctx, u, job)
	if err == nil && (r.Task != id || r.Status != dispatch.Finished) {
		err = &dispatch.Error{Kind: dispatch.NotFound, Op: "dispatch.TaskResult"}
	}
	if err != nil {
		return f, err
	}
	r.Value = f.Task.ValueOf(r.Request)
	f.Jobs = []JobResult{{Record: r}}
	return f, b.readResults(ctx, u, &f.Task, f.Jobs)
}

const (
	outlined      = 100 // maximum number of results that TaskOutline reads
	outlineWithin = 10 * time.Second
)

// TaskOutline returns a task, and a sequence of all its finished jobs with the results that are known, which is read in
// parts. The sequence reads up to 100 results that are not known, for up to 10 s, and sets JobResult.Err where that
// fails. It ends with the first error.
func (b *Broker) TaskOutline(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord,
	iter.Seq2[JobResult, error], error) {
	t, err := b.Records.Task(ctx, u, id)
	return t, func(yield func(JobResult, error) bool) {
		reading, cancel := context.WithTimeout(ctx, outlineWithin)
		defer cancel()
		left := outlined
		for after, more := (dispatch.ResultPosition{}), true; more; {
			part, err := b.finished(ctx, u, id, after, partSize)
			if err != nil {
				yield(JobResult{}, err)
				return
			}
			read, err := b.outline(reading, u, &t, part, left)
			if err != nil && ctx.Err() == nil && reading.Err() == nil {
				yield(JobResult{}, err)
				return
			}
			left -= read
			for _, p := range part {
				if !yield(p, nil) {
					return
				}
				after = p.ResultPosition()
			}
			more = len(part) == partSize
		}
	}, err
}

// outline fills in Item, without Body, of a part. It reads up to n unknown results, and returns how many it tried to
// read.
func (b *Broker) outline(ctx context.Context, u dispatch.UserID, t *dispatch.TaskRecord, part []JobResult,
	n int) (int, error) {
	known, err := b.Items.Items(ctx, u, idsOf(part), false)
	var unknown []JobResult
	var at []int
	for i := range part {
		part[i].Item = known[part[i].ID]
		if !part[i].Item.Read && len(unknown) < n {
			unknown, at = append(unknown, part[i]), append(at, i)
		}
	}
	_ = b.readResults(ctx, u, t, unknown) // an outline does without the results that are not available in time
	for i, p := range unknown {
		part[at[i]] = p
	}
	return len(unknown), err
}

func idsOf(jobs []JobResult) []dispatch.JobID {
	ids := make([]dispatch.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

// finished returns finished jobs of a task after a position, n at most, with their values and without the request that
// they share.
func (b *Broker) finished(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
	n int) ([]JobResult, error) {
	records, err := b.Records.FinishedJobs(ctx, u, id, after, n)
	jobs := make([]JobResult, len(records))
	for i, r := range records {
		jobs[i].Record = r
	}
	return jobs, err
}

const (
	partsAtOnce = 4 // of each account, so that a platform that does not respond does not delay others
	// shorter than a request, so that its response has the results that were read by then
	partsWithin = 30 * time.Second
)

// readResults reads the results of jobs of one task that are not kept, a few at once, and sets JobResult.Err where that
// fails. The error is that of ctx or of the database.
func (b *Broker) readResults(ctx context.Context, u dispatch.UserID, t *dispatch.TaskRecord, parts []JobResult) error {
	if len(parts) == 0 {
		return nil
	}
	known, err := b.Items.Items(ctx, u, idsOf(parts), true)
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, partsWithin)
	defer cancel()
	var all sync.WaitGroup
	places := bounds.Shares[dispatch.Account]{Most: partsAtOnce}
	for i := range parts {
		p := &parts[i]
		kept := known[p.ID]
		if kept.Read && kept.Fresh(time.Now()) {
			p.Item, p.Collection = kept, kept.Body
			continue
		}
		all.Go(func() {
			release, err := places.Acquire(reading, p.Account, 1)
			if err != nil {
				p.Err = errUnread
				return
			}
			defer release()
			defer dispatch.RecoverAsError(reading, b.Log, "dispatch.readResult", &p.Err)
			p.Err = b.readItem(reading, u, p, t, kept)
		})
	}
	all.Wait()
	for _, p := range parts {
		if p.Err != nil && (ctx.Err() != nil || dispatch.DatabaseError(p.Err) != nil) {
			return p.Err
		}
	}
	return nil
}

var errUnread = &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.readResults", Err: context.DeadlineExceeded,
	Text: "The results of other jobs took too long to read. Try again later."}
