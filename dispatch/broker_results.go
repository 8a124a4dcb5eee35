package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"
)

// Results returns the results of a job as a STAC Collection, nil while the job has not ended. If the job failed or was canceled: Conflict,
// with the reason. If the platform does not return the results of a finished job yet: Busy.
func (b *Broker) Results(ctx context.Context, u UserID, id JobID) (json.RawMessage, error) {
	p, err := b.JobResult(ctx, u, id)
	return p.Collection, err
}

// JobResult returns what Results does, with the job. The error is returned, and JobResult.Err not set.
func (b *Broker) JobResult(ctx context.Context, u UserID, id JobID) (p JobResult, err error) {
	p.Record, err = b.Store.Record(ctx, u, id)
	if err == nil && !p.Status.Final() {
		p.Record, err = b.Read(ctx, u, id, min(resultsFresh, b.minReadInterval(p.Account.Platform())))
	}
	if err != nil {
		return p, err
	}
	switch p.Status {
	case Finished:
		p.Collection, err = b.collection(ctx, u, p.Record)
	case Failed:
		err = &Error{Kind: Conflict, Op: "dispatch.Results", Text: "The job failed and has no results: " + p.Failure}
	case Canceled:
		err = &Error{Kind: Conflict, Op: "dispatch.Results", Text: "The job was canceled and has no results."}
	}
	return p, err
}

// RecentResults returns what Results does, without a request to the platform while the links that it returned before are valid.
func (b *Broker) RecentResults(ctx context.Context, u UserID, id JobID) (json.RawMessage, error) {
	r, err := b.Store.Record(ctx, u, id)
	if err != nil {
		return nil, err
	}
	if known := b.results.fresh(r.resultKey()); known != nil && r.Status == Finished {
		return known, nil
	}
	return b.Results(ctx, u, id)
}

const (
	resultsLag    = time.Hour // how long after the end of a job its results may become available
	resultsWithin = 5 * time.Second
	resultsEvery  = time.Second
)

func (b *Broker) collection(ctx context.Context, u UserID, j Record) (json.RawMessage, error) {
	results, err := b.Store.Result(ctx, u, j.ID)
	if err != nil {
		return nil, err
	}
	if results = b.untagged(results); results != nil {
		b.results.keep(j.resultKey(), results)
		return results, nil
	}
	if !j.Removal.Removed.IsZero() {
		return nil, &Error{Kind: Conflict, Op: "dispatch.Results", Text: j.removedText()}
	}
	if j.Ref == (Ref{}) {
		return nil, &Error{Kind: Conflict, Op: "dispatch.Results", Text: "The job finished, and its results are no longer kept. Its platform has none to ask for: it returned them in its response to the submission."}
	}
	for end := time.Now().Add(resultsWithin); ; {
		results, err = call(ctx, b, u, j.Account, func(ctx context.Context, p Platform, t Token) ([]byte, error) {
			return p.Results(ctx, t, j.Ref)
		})
		results = b.untagged(results)
		if !Is(err, Conflict) || time.Now().Add(resultsEvery).After(end) || sleep(ctx, resultsEvery) != nil {
			break
		}
	}
	switch {
	case Is(err, Conflict):
		return nil, j.resultsLate(err)
	case err == nil:
		b.results.keep(j.resultKey(), results)
	}
	return results, err
}

// resultsLate returns the error for a finished job whose platform returns no results yet: Busy, and BadUpstream after an hour, so that the
// results of other jobs are not delayed for ever.
func (r Record) resultsLate(err error) error {
	if r.Read.Sub(r.Moved) > resultsLag {
		return &Error{Kind: BadUpstream, Op: "dispatch.Results", Text: "The platform called the job finished, and gives no results: " + TextFor(err), Err: err}
	}
	return &Error{Kind: Busy, Op: "dispatch.Results", Text: "The job has finished, but its platform does not give the results yet. Ask again later.",
		Err: err, RetryAfter: comeBackSoon}
}

// JobResult is the result of one finished job.
type JobResult struct {
	Record
	Collection json.RawMessage // STAC; nil: it is not known, or there is none
	Err        error           // why there is no Collection and never will be
}

// ResultPosition is a position in the order in which the jobs of a task finished, after that job. The zero value is the beginning.
type ResultPosition struct {
	At  time.Time
	Job JobID
}

// ResultPosition returns the position after a finished job.
func (r Record) ResultPosition() ResultPosition { return ResultPosition{r.Moved, r.ID} }

// Compare returns -1, 0 or 1 if m is before n, equal to it, or after it.
func (m ResultPosition) Compare(n ResultPosition) int {
	return cmp.Or(m.At.Compare(n.At), cmp.Compare(m.Job, n.Job))
}

// TaskResults is a task and the results of some of its finished jobs, in the order in which they finished. Task.Counts has the number of all.
type TaskResults struct {
	Task TaskRecord
	Jobs []JobResult
	More bool // there are finished jobs after the last of Jobs
}

// TaskResults returns the results of a task's finished jobs after a position, n at most. Jobs are in the order in which they finished, so a
// client that follows the positions sees each once, even while the task runs. The results of each job are requested from the platform at most
// once, and not while the links that it returned before are valid. If results may become available later, TaskResults returns an error; if
// they never will, JobResult.Err is set.
func (b *Broker) TaskResults(ctx context.Context, u UserID, id TaskID, after ResultPosition, n int) (f TaskResults, err error) {
	if f.Task, err = b.Store.Task(ctx, u, id); err != nil {
		return f, err
	}
	if f.Jobs, err = b.finished(ctx, u, id, after, n+1); err != nil {
		return f, err
	}
	f.More = len(f.Jobs) > n
	f.Jobs = f.Jobs[:min(n, len(f.Jobs))]
	return f, b.readResults(ctx, u, f.Jobs)
}

// TaskResult returns the results of one finished job of a task; NotFound if the job is not in the task or has not finished.
func (b *Broker) TaskResult(ctx context.Context, u UserID, id TaskID, job JobID) (f TaskResults, err error) {
	if f.Task, err = b.Store.Task(ctx, u, id); err != nil {
		return f, err
	}
	r, err := b.Store.Record(ctx, u, job)
	if err == nil && (r.Task != id || r.Status != Finished) {
		err = &Error{Kind: NotFound, Op: "dispatch.TaskResult"}
	}
	if err != nil {
		return f, err
	}
	r.Value = f.Task.ValueOf(r.Request)
	f.Jobs = []JobResult{{Record: r}}
	return f, b.readResults(ctx, u, f.Jobs)
}

const (
	outlined      = 100 // maximum number of results that TaskOutline reads
	outlineWithin = 10 * time.Second
)

// TaskOutline returns a task, and a sequence of all its finished jobs with the results that are known, which is read in parts. The sequence
// reads up to 100 results that are not known, and leaves out those that are not available within 10 s. It ends with the first error.
func (b *Broker) TaskOutline(ctx context.Context, u UserID, id TaskID) (TaskRecord, iter.Seq2[JobResult, error], error) {
	t, err := b.Store.Task(ctx, u, id)
	return t, func(yield func(JobResult, error) bool) {
		reading, cancel := context.WithTimeout(ctx, outlineWithin)
		defer cancel()
		left := outlined
		for after, more := (ResultPosition{}), true; more; {
			part, err := b.finished(ctx, u, id, after, partSize)
			if err != nil {
				yield(JobResult{}, err)
				return
			}
			left -= b.outline(reading, u, part, left)
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

// outline fills in the known results of a part. It reads up to n unknown ones, and returns how many it tried to read.
func (b *Broker) outline(ctx context.Context, u UserID, part []JobResult, n int) int {
	var unknown []JobResult
	for _, p := range part {
		if len(unknown) < n && b.results.last(p.resultKey()) == nil {
			unknown = append(unknown, p)
		}
	}
	_ = b.readResults(ctx, u, unknown) // results that are not available now are left out
	for i, p := range part {
		part[i].Collection = b.results.last(p.resultKey())
	}
	return len(unknown)
}

// finished returns finished jobs of a task after a position, n at most, with their values and without the request that they share.
func (b *Broker) finished(ctx context.Context, u UserID, id TaskID, after ResultPosition, n int) ([]JobResult, error) {
	records, err := b.Store.FinishedJobs(ctx, u, id, after, n)
	jobs := make([]JobResult, len(records))
	for i, r := range records {
		jobs[i].Record = r
	}
	return jobs, err
}

const partsAtOnce = 4

// readResults reads the results that are not cached, a few at once. After an error that may pass it starts no more reads; those under way run
// to their end, so that their results are cached.
func (b *Broker) readResults(ctx context.Context, u UserID, parts []JobResult) error {
	var all sync.WaitGroup
	places, failed := make(chan struct{}, partsAtOnce), make(chan error, len(parts))
	for i := range parts {
		if parts[i].Collection = b.results.fresh(parts[i].resultKey()); parts[i].Collection != nil {
			continue
		}
		places <- struct{}{}
		if len(failed) > 0 {
			break
		}
		all.Go(func() {
			if err := b.readResult(ctx, u, &parts[i]); err != nil {
				failed <- err
			}
			<-places
		})
	}
	all.Wait()
	if len(failed) > 0 {
		return <-failed
	}
	return nil
}

// readResult reads the results of one job. A permanent error is stored in JobResult.Err.
func (b *Broker) readResult(ctx context.Context, u UserID, p *JobResult) (err error) {
	defer RecoverAsError(ctx, b.Log, "dispatch.readResult", &err)
	p.Collection, err = b.collection(ctx, u, p.Record)
	switch {
	case err == nil:
		return nil
	case Is(err, BadUpstream), Is(err, NotFound), Is(err, Unsupported), Is(err, Invalid), Is(err, Conflict):
		p.Err = err
		return nil
	}
	return err
}

func (j Job) resultKey() resultKey { return resultKey{j.ID, j.Ref} }
