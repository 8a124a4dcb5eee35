package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
)

// Filter selects jobs and tasks of a list. The zero value selects all.
type Filter struct {
	Statuses  []wire.Status
	Platforms []string
	Since     time.Time // only what has changed since
	Labels    []string  // with all of these labels, each written as key=value
	Title     string    // only titles that contain this text
	Service   string    // only of this service: its id in the catalogue, or its application

	CreatedAfter, CreatedBefore time.Time // only what was created from then on, or before
	// OldestFirst reverses the order of a list, which otherwise begins with the newest element. The jobs of a task are
	// listed by number only: with it the broker refuses the request.
	OldestFirst bool
	// WithParameters includes the parameters of jobs, which may be large.
	WithParameters bool
	PageSize       int // number of elements that are requested at once; 0: 200
}

const pageSize = 200

func (f Filter) query() url.Values {
	size := f.PageSize
	if size <= 0 {
		size = pageSize
	}
	q := url.Values{"limit": {strconv.Itoa(size)}, "parameters": {strconv.FormatBool(f.WithParameters)}}
	if f.OldestFirst {
		q.Set("sort", "created")
	}
	for _, s := range f.Statuses {
		q.Add("status", string(s))
	}
	for _, p := range f.Platforms {
		q.Add("platform", p)
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	for _, l := range f.Labels {
		q.Add("labels", l)
	}
	for name, text := range map[string]string{"title": f.Title, "service": f.Service} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"created_after": f.CreatedAfter, "created_before": f.CreatedBefore} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q
}

// NewKey returns a random Idempotency-Key.
func NewKey() string { return rand.Text() }

// Submit submits a job. The key is sent as the Idempotency-Key: with the same key and request, even from another
// process, nothing is submitted twice within a day. "": a random key.
func (c *Client) Submit(ctx context.Context, r wire.BaseJobRequest, key string) (j wire.ProcessingJobSummary,
	err error) {
	return j, c.create(ctx, "/unit_jobs", r, key, &j)
}

// Upscale submits a task. The key is as in Submit.
func (c *Client) Upscale(ctx context.Context, r wire.UpscalingTaskRequest, key string) (t wire.UpscalingTaskSummary,
	err error) {
	return t, c.create(ctx, "/upscale_tasks", r, key, &t)
}

// Estimate estimates a request for a job and submits nothing.
func (c *Client) Estimate(ctx context.Context, r wire.BaseJobRequest) (e wire.Estimate, err error) {
	return e, c.post(ctx, "/estimate", r, &e)
}

// EstimateTask estimates a request for a task and submits nothing.
func (c *Client) EstimateTask(ctx context.Context, r wire.UpscalingTaskRequest) (e wire.Estimate, err error) {
	return e, c.post(ctx, "/estimate", r, &e)
}

func (c *Client) create(ctx context.Context, path string, body any, key string, v any) error {
	if key == "" {
		key = NewKey()
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body,
		header: http.Header{"Idempotency-Key": {key}}}, v)
	return err
}

func jobPath(id int64) string  { return fmt.Sprintf("/unit_jobs/%d", id) }
func taskPath(id int64) string { return fmt.Sprintf("/upscale_tasks/%d", id) }

// Job reads a job.
func (c *Client) Job(ctx context.Context, id int64) (j wire.ProcessingJob, err error) {
	return j, c.get(ctx, jobPath(id), &j)
}

// Cancel cancels a job, which stays in the list.
func (c *Client) Cancel(ctx context.Context, id int64) (j wire.ProcessingJob, err error) {
	return j, c.post(ctx, jobPath(id)+"/cancel", nil, &j)
}

// Delete cancels a job and removes it from the list.
func (c *Client) Delete(ctx context.Context, id int64) error { return c.remove(ctx, jobPath(id)) }

// Discard does what Delete does, and has the job deleted at its platform, with its results, when it has ended there. It
// does not wait for that.
func (c *Client) Discard(ctx context.Context, id int64) error {
	return c.remove(ctx, jobPath(id)+alsoAtPlatform)
}

const alsoAtPlatform = "?platform=true"

// Annotate changes the labels and the note of a job.
func (c *Client) Annotate(ctx context.Context, id int64, change wire.AnnotationsPatch) (j wire.ProcessingJob,
	err error) {
	_, err = c.do(ctx, call{method: http.MethodPatch, path: jobPath(id), body: change}, &j)
	return j, err
}

// AnnotateTask changes the labels and the note of a task.
func (c *Client) AnnotateTask(ctx context.Context, id int64, change wire.AnnotationsPatch) (t wire.UpscalingTaskSummary,
	err error) {
	_, err = c.do(ctx, call{method: http.MethodPatch, path: taskPath(id), body: change}, &t)
	return t, err
}

// Task reads a task with all its jobs. For a task of thousands of jobs, TaskSummary and TaskJobs take less memory.
func (c *Client) Task(ctx context.Context, id int64) (t wire.UpscalingTask, err error) {
	return t, c.get(ctx, taskPath(id), &t)
}

// TaskSummary reads a task without its jobs.
func (c *Client) TaskSummary(ctx context.Context, id int64) (t wire.UpscalingTask, err error) {
	err = c.get(ctx, taskPath(id)+"?limit=1&parameters=false", &t)
	t.Jobs = nil
	return t, err
}

// Retry submits the failed jobs of a task again.
func (c *Client) Retry(ctx context.Context, id int64) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "retry", nil)
}

// CancelTask cancels the jobs of a task that have not ended. The task stays in the list.
func (c *Client) CancelTask(ctx context.Context, id int64) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "cancel", nil)
}

// RetryJobs submits those of the chosen jobs of a task that failed again.
func (c *Client) RetryJobs(ctx context.Context, id int64, chosen wire.JobChoice) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "retry", chosen)
}

// CancelJobs cancels those of the chosen jobs of a task that have not ended.
func (c *Client) CancelJobs(ctx context.Context, id int64, chosen wire.JobChoice) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "cancel", chosen)
}

// Pause keeps the jobs of a task that wait from being submitted. Those that were submitted go on.
func (c *Client) Pause(ctx context.Context, id int64) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "pause", nil)
}

// Resume ends the pause of a task.
func (c *Client) Resume(ctx context.Context, id int64) (wire.UpscalingTaskSummary, error) {
	return c.change(ctx, id, "resume", nil)
}

// ResumeWithin ends the pause of a task that was submitted with a budget, and gives the budget a new amount, in its
// unit or in another one; 0 ends the budget.
func (c *Client) ResumeWithin(ctx context.Context, id int64, amount float64, unit ...string) (wire.UpscalingTaskSummary,
	error) {
	within := map[string]any{"budget": nil}
	switch {
	case amount != 0 && len(unit) > 0:
		within["budget"] = map[string]any{"amount": amount, "unit": unit[0]}
	case amount != 0:
		within["budget"] = amount
	}
	return c.change(ctx, id, "resume", within)
}

// change changes a task, and returns it without its jobs.
func (c *Client) change(ctx context.Context, id int64, action string, body any) (t wire.UpscalingTaskSummary,
	err error) {
	return t, c.post(ctx, taskPath(id)+"/"+action, body, &t)
}

// DeleteTask cancels a task with its jobs and removes it from the list.
func (c *Client) DeleteTask(ctx context.Context, id int64) error { return c.remove(ctx, taskPath(id)) }

// DiscardTask does what DeleteTask does, and has the jobs deleted at their platform, as Discard does.
func (c *Client) DiscardTask(ctx context.Context, id int64) error {
	return c.remove(ctx, taskPath(id)+alsoAtPlatform)
}

func (c *Client) get(ctx context.Context, path string, v any) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: path}, v)
	return err
}

func (c *Client) post(ctx context.Context, path string, body, v any) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body}, v)
	return err
}

func (c *Client) remove(ctx context.Context, path string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// Jobs yields the jobs that belong to no task, newest first. It reads pages as they are needed.
func (c *Client) Jobs(ctx context.Context, f Filter) iter.Seq2[wire.ProcessingJobSummary, error] {
	return pages(ctx, c, "/jobs_status", f.listing("processing"),
		func(l wire.JobsStatusResponse) []wire.ProcessingJobSummary { return l.ProcessingJobs }, nextQuery)
}

// Tasks yields the tasks without their jobs, newest first. It reads pages as they are needed.
func (c *Client) Tasks(ctx context.Context, f Filter) iter.Seq2[wire.UpscalingTaskSummary, error] {
	return pages(ctx, c, "/jobs_status", f.listing("upscaling"),
		func(l wire.JobsStatusResponse) []wire.UpscalingTaskSummary { return l.UpscalingTasks }, nextQuery)
}

func (f Filter) listing(kind string) url.Values {
	q := f.query()
	q.Set("filter", kind)
	return q
}

// TaskJobs yields the jobs of a task in the order of the dimension's values. It reads pages as they are needed.
func (c *Client) TaskJobs(ctx context.Context, id int64, f Filter) iter.Seq2[wire.ProcessingJobSummary, error] {
	return pages(ctx, c, taskPath(id), f.query(),
		func(t wire.UpscalingTask) []wire.ProcessingJobSummary { return t.Jobs }, nextQuery)
}

// Provenance returns how the results of a job came about, as PROV-JSON.
func (c *Client) Provenance(ctx context.Context, id int64) (p json.RawMessage, err error) {
	return p, c.get(ctx, jobPath(id)+"/provenance", &p)
}

// TaskProvenance returns how the results of a task's jobs came about, as PROV-JSON, a few hundred bytes for each job.
func (c *Client) TaskProvenance(ctx context.Context, id int64) (p json.RawMessage, err error) {
	return p, c.get(ctx, taskPath(id)+"/provenance", &p)
}

// TaskDimensions returns how far the jobs of a task are, by the values of each of its dimensions.
func (c *Client) TaskDimensions(ctx context.Context, id int64) ([]wire.DimensionProgress, error) {
	var all wire.TaskDimensions
	err := c.get(ctx, taskPath(id)+"/dimensions", &all)
	return all.Dimensions, err
}

// TaskPlatforms returns how far the jobs of a task are at each of its platforms.
func (c *Client) TaskPlatforms(ctx context.Context, id int64) ([]wire.PlatformProgress, error) {
	var all wire.TaskPlatforms
	err := c.get(ctx, taskPath(id)+"/platforms", &all)
	return all.Platforms, err
}

// pages yields the elements of a list. next returns what the query of the page after one has besides that of the first;
// nil: there is none.
func pages[P, E any](ctx context.Context, c *Client, path string, query url.Values, elements func(P) []E,
	next func(http.Header, P) url.Values) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for q := query; q != nil; {
			var page P
			header, err := c.do(ctx, call{method: http.MethodGet, path: path, query: q}, &page)
			if err != nil {
				var none E
				yield(none, err)
				return
			}
			for _, e := range elements(page) {
				if !yield(e, nil) {
					return
				}
			}
			q = withRest(next(header, page), query)
		}
	}
}

// withRest adds the members of a first page's query that the next one's does not have. nil stays nil.
func withRest(next, first url.Values) url.Values {
	if next == nil {
		return nil
	}
	all := maps.Clone(first)
	maps.Copy(all, next)
	return all
}

// Log yields what the platform logged about a job, oldest first, after the first skip entries.
func (c *Client) Log(ctx context.Context, id int64, skip int) iter.Seq2[wire.LogEntry, error] {
	return pages(ctx, c, jobPath(id)+"/logs", url.Values{"offset": {strconv.Itoa(skip)}},
		func(p wire.LogPage) []wire.LogEntry { return p.Logs }, nextQuery)
}

// Results returns the results of a job; nil while there are none. The links of its assets may expire; they are fresh in
// each response.
func (c *Client) Results(ctx context.Context, id int64) (found *wire.Collection, err error) {
	return found, c.get(ctx, jobPath(id)+"/results", &found)
}

// TaskResults returns the STAC Collection of a task, which has no assets: TaskItems yields the results of its jobs.
func (c *Client) TaskResults(ctx context.Context, id int64) (found wire.Collection, err error) {
	return found, c.get(ctx, taskPath(id)+"/results", &found)
}

// Item is the results of one job of a task, a STAC Item.
type Item struct {
	wire.Item
	Raw json.RawMessage // the whole document
}

// UnmarshalJSON keeps the whole document in Raw.
func (i *Item) UnmarshalJSON(text []byte) error {
	i.Raw = slices.Clone(text)
	return json.Unmarshal(text, &i.Item)
}

// TaskItem returns the results of one finished job of a task. The error is a *[MissingResults] if these cannot be read.
func (c *Client) TaskItem(ctx context.Context, task, job int64) (i Item, err error) {
	err = c.get(ctx, fmt.Sprintf("%s/results/items/%d", taskPath(task), job), &i)
	if e, refused := errors.AsType[*Error](err); refused && e.Missing != nil {
		err = e.Missing
	}
	return i, err
}

// TaskItems yields the results of a task's finished jobs, in the order in which they finished. It reads pages as they
// are needed. For a job whose results cannot be read it yields a *[MissingResults], and goes on; any other error ends
// the sequence.
func (c *Client) TaskItems(ctx context.Context, id int64) iter.Seq2[Item, error] {
	type page struct {
		Features []Item                 `json:"features"`
		Missing  []*wire.MissingResults `json:"eodispatch:missing"`
		Links    []wire.Link            `json:"links"`
	}
	return func(yield func(Item, error) bool) {
		for q := (url.Values{"limit": {"50"}}); q != nil; {
			var p page
			if _, err := c.do(ctx, call{method: http.MethodGet, path: taskPath(id) + "/results/items", query: q},
				&p); err != nil {
				yield(Item{}, err)
				return
			}
			for _, i := range p.Features {
				if !yield(i, nil) {
					return
				}
			}
			for _, m := range p.Missing {
				if !yield(Item{Item: wire.Item{ID: strconv.FormatInt(m.ID, 10)}}, m) {
					return
				}
			}
			q = nil
			for _, l := range p.Links {
				if l.Rel == "next" {
					q = queryOf(l.Href)
				}
			}
		}
	}
}

const (
	pollFor = 30 * time.Second // that a broker waits for a change of a job
	// the same while the job waits for its turn, as its place in the queue is not a change
	pollInQueue   = 10 * time.Second
	refusedWithin = 15 * time.Minute // Persist takes errors of the broker for an outage
)

// WatchJob yields a job now and after each change, and ends when the job has ended. Its place in the queue is read
// every few seconds. It goes on after lost connections and misses no change between two requests. The error is that of
// ctx, or the broker's refusal.
func (c *Client) WatchJob(ctx context.Context, id int64) iter.Seq2[wire.ProcessingJob, error] {
	return func(yield func(wire.ProcessingJob, error) bool) {
		r := call{method: http.MethodGet, path: jobPath(id)}
		back, last, tag := backOff{}, wire.ProcessingJob{}, ""
		for {
			var j wire.ProcessingJob
			header, err := c.do(ctx, r, &j)
			if err != nil && (last.ID == 0 || !passes(err) || back.wait(ctx) != nil) {
				yield(j, errors.Join(err, ctx.Err()))
				return
			}
			if err != nil {
				continue
			}
			modified, current := j.ID != 0, header.Get("ETag")
			news := modified && (tag == "" || tag != current || !samePlace(last, j))
			if news && !yield(j, nil) || j.Status.Final() {
				return
			}
			if modified {
				last = j
			}
			back, tag, r = backOff{}, current, readAfter(r, current, last, modified)
		}
	}
}

// samePlace reports whether a job has the same place in the queue, or none, as before.
func samePlace(a, b wire.ProcessingJob) bool {
	return (a.QueuePosition == nil) == (b.QueuePosition == nil) && (a.QueuePosition == nil ||
		*a.QueuePosition == *b.QueuePosition)
}

// readAfter returns the request that follows one by which last became known: it waits for a change or, if there was
// none and the job is in a queue, reads the job as it is, for its place there.
func readAfter(r call, tag string, last wire.ProcessingJob, modified bool) call {
	r.query, r.header = nil, http.Header{}
	pause := pollFor
	if last.QueuePosition != nil {
		if !modified {
			return r
		}
		pause = pollInQueue
	}
	r.query = url.Values{"wait": {strconv.Itoa(int(pause / time.Second))}}
	if tag != "" {
		r.header.Set("If-None-Match", tag)
	}
	return r
}

// Persist calls f until it succeeds, through the outages that streams outlive: lost connections, and for a quarter of
// an hour a broker that answers with errors of its own, or with results that are missing and may come. It returns any
// other error of f, and that of ctx.
func Persist(ctx context.Context, f func() error) error {
	back, began := backOff{}, time.Now()
	for {
		err := f()
		if err == nil || !passes(err) {
			return err
		}
		if _, lost := errors.AsType[*url.Error](err); !lost && time.Since(began) > refusedWithin {
			return err
		}
		if back.wait(ctx) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// passes reports whether an error of a request says nothing about what was requested, so that a later request may
// succeed.
func passes(err error) bool {
	if e, refused := errors.AsType[*Error](err); refused {
		return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
	}
	if m, missing := errors.AsType[*wire.MissingResults](err); missing {
		return m.Temporary
	}
	_, lost := errors.AsType[*url.Error](err)
	return lost && !errors.Is(err, context.Canceled)
}

// backOff doubles the pause between attempts, up to half a minute.
type backOff struct{ last time.Duration }

func (b *backOff) wait(ctx context.Context) error {
	b.last = min(max(500*time.Millisecond, 2*b.last), 30*time.Second)
	return wait(ctx, b.last)
}
