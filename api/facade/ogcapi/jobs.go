package ogcapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// The statuses of the standard (statusCode.yaml).
const (
	waiting    = "created" // of Part 4: it was not started
	accepted   = "accepted"
	running    = "running"
	successful = "successful"
	failed     = "failed"
	dismissed  = "dismissed"
)

// statusInfo is a job (statusInfo.yaml). Clients read jobID as text and progress as a whole number. One that was
// removed has no progress.
type statusInfo struct {
	ProcessID string     `json:"processID,omitempty"`
	Type      string     `json:"type"`
	JobID     string     `json:"jobID"`
	ID        string     `json:"id"`                   // of version 2.0
	Entity    string     `json:"processingEntityType"` // of version 2.0
	Status    string     `json:"status"`
	Message   string     `json:"message,omitempty"`
	Created   time.Time  `json:"created"`
	Started   time.Time  `json:"started,omitzero"`
	Finished  *time.Time `json:"finished,omitempty"`
	Updated   time.Time  `json:"updated"`
	Progress  *int       `json:"progress,omitempty"`
	Exception *exception `json:"exception,omitempty"` // of version 2.0, of a job that failed
	Links     []link     `json:"links"`
}

const (
	typeProcess = "process"
	entityType  = "ogc-api-processes"
)

// statusWords are words of drafts and of openEO for the statuses.
var statusWords = map[string]string{"queued": accepted, "pending": accepted, "started": running,
	"succeeded": successful, "finished": successful, "error": failed, "canceled": dismissed, "cancelled": dismissed}

// statusOf returns the standard's word for a status. A status that is not known is shown as the last one that is.
func statusOf(s, seen dispatch.Status) string {
	switch s {
	case dispatch.Running:
		return running
	case dispatch.Finished:
		return successful
	case dispatch.Failed:
		return failed
	case dispatch.Canceled:
		return dismissed
	case dispatch.Unknown:
		if seen == dispatch.Running {
			return running
		}
	}
	return accepted
}

func (f *Facade) jobInfo(in *request, r dispatch.Record) statusInfo {
	status := statusOf(r.Status, r.Seen)
	if r.Desired == dispatch.WantCancel && !r.Status.Final() {
		status = dismissed // it is canceled at its platform, or will be
	}
	info := f.info(in, facade.ID{Job: r.ID}, status, r.Request)
	info.Message, info.Created, info.Updated = cmp.Or(r.Failure, r.Notice), r.Created.UTC(), r.Updated.UTC()
	if info.Started = r.Started.UTC(); r.Status.Final() {
		info.Finished = new(r.EndTime().UTC())
	}
	if r.Progress != nil {
		info.Progress = percent(*r.Progress)
	}
	return info.complete()
}

func (f *Facade) taskInfo(in *request, t dispatch.TaskRecord) statusInfo {
	status := t.Counts.AsOneJob()
	info := f.info(in, facade.ID{Task: t.ID}, statusOf(status, dispatch.Running), t.Request)
	info.Created, info.Updated, info.Progress = t.Created.UTC(), cmp.Or(t.Updated, t.Created).UTC(), percent(t.Progress)
	info.Message = fmt.Sprintf("%d jobs: %d finished, %d failed, %d canceled", t.Counts.Jobs(),
		t.Counts[dispatch.Finished], t.Counts[dispatch.Failed], t.Counts[dispatch.Canceled])
	if status.Final() {
		info.Finished = new(cmp.Or(t.Ended.UTC(), info.Updated))
	}
	return info.complete()
}

// percent returns a progress as a whole number from 0 to 100.
func percent(progress float64) *int { return new(int(min(max(progress, 0), 100))) }

// newInfo returns what all jobs and tasks have in common, whether or not they were started.
func newInfo(in *request, id facade.ID, status string) statusInfo {
	text := facade.WriteID(id)
	at := in.root + "/jobs/" + text
	return statusInfo{Type: typeProcess, JobID: text, ID: text, Entity: entityType, Status: status, Links: []link{
		{at, "self", mediaJSON, ""}, {at, "status", mediaJSON, "Status"}, {at, "monitor", mediaJSON, "Status"},
		{at + "/inputs", "inputs", mediaJSON, "Inputs"}}}
}

// info returns what jobs and tasks that were started have in common.
func (f *Facade) info(in *request, id facade.ID, status string, r dispatch.Request) statusInfo {
	info := newInfo(in, id, status)
	at := in.root + "/jobs/" + info.JobID
	info.Progress, info.Links = new(0), append(info.Links, link{at + "/prov", "provenance", mediaJSON, "Provenance"})
	if process, path, listed := f.processOf(in.view, r); listed {
		info.ProcessID = process
		info.Links = append(info.Links, link{in.root + path, "process", mediaJSON, "Process"})
	}
	if status == successful {
		info.Links = append(info.Links, link{at + "/results", relation("results"), mediaJSON, "Results"})
	}
	return info
}

// complete sets the progress of a job that was successful, and the exception of one that failed.
func (s statusInfo) complete() statusInfo {
	switch s.Status {
	case successful:
		s.Progress = new(100)
	case failed:
		e := unended(failed, s.Message).(exception)
		e.Type, e.Title = typeBadRequest, http.StatusText(e.Status)
		s.Exception = &e
	}
	return s
}

// ownJob returns a job of the user that the view shows, with a status no older than fresh.
func (f *Facade) ownJob(in *request, id dispatch.JobID, fresh time.Duration) (dispatch.Record, error) {
	r, err := f.jobs.Read(in.Context(), in.user, id, fresh)
	if err == nil && !in.view.shows(r.Account, r.Request) {
		err = errNoJob
	}
	return r, err
}

// ownTask returns a task of the user that the view shows.
func (f *Facade) ownTask(in *request, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	t, err := f.jobs.Task(in.Context(), in.user, id)
	if err == nil && !in.view.shows(t.Account, t.Request) {
		err = errNoJob
	}
	return t, err
}

func (f *Facade) readJob(in *request, id facade.ID) (*answer, error) {
	info, err := f.anyInfo(in, id)
	return &answer{Body: info}, err
}

// anyInfo returns the status of a job or a task, also of one that was not started.
func (f *Facade) anyInfo(in *request, id facade.ID) (statusInfo, error) {
	info, err := f.infoOf(in, id)
	if dispatch.Is(err, dispatch.NotFound) {
		if n, kept, found := f.unstarted(in, id); found {
			return f.unstartedInfo(in, n, kept), nil
		}
	}
	return info, err
}

// infoOf returns the status of a job or a task.
func (f *Facade) infoOf(in *request, id facade.ID) (info statusInfo, err error) {
	if id.Task != 0 {
		if err := f.Broker.Freshen(in.Context(), in.user, dispatch.Scope{Task: id.Task}, f.Freshness); err != nil {
			return info, err
		}
		t, err := f.ownTask(in, id.Task)
		if err != nil {
			return info, err
		}
		return f.taskInfo(in, t), nil
	}
	r, err := f.ownJob(in, id.Job, f.Freshness)
	if err != nil {
		return info, err
	}
	return f.jobInfo(in, r), nil
}

// dismiss cancels a job that has not ended, which stays in the list as dismissed, and removes one that has.
func (f *Facade) dismiss(in *request, id facade.ID) (*answer, error) {
	a, err := f.dismissStarted(in, id)
	if !dispatch.Is(err, dispatch.NotFound) && err != errNoJob {
		return a, err
	}
	n, kept, found := f.unstarted(in, id)
	if !found {
		return nil, err
	}
	return removed(in, f.unstartedInfo(in, n, kept)), f.Broker.DeleteUnstarted(in.Context(), in.user, n.ID)
}

func (f *Facade) dismissStarted(in *request, id facade.ID) (*answer, error) {
	if id.Task != 0 {
		return f.dismissTask(in, id.Task)
	}
	ctx := in.Context()
	r, err := f.ownJob(in, id.Job, broker.AsKnown)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return nil, f.missingJob(in, id.Job)
	case err != nil:
		return nil, err
	case r.Status == dispatch.Canceled, r.Desired == dispatch.WantCancel && !r.Status.Final():
		return nil, errGone
	case r.Status.Final():
		return removed(in, f.jobInfo(in, r)), f.Broker.Delete(ctx, in.user, id.Job)
	}
	if r, err = f.Broker.Cancel(ctx, in.user, id.Job); err != nil {
		return nil, err
	}
	info := f.jobInfo(in, r)
	if info.Status != dismissed { // it has ended meanwhile
		return removed(in, info), f.Broker.Delete(ctx, in.user, id.Job)
	}
	return &answer{Body: info}, nil
}

// removed returns the response to the removal of a job, which is not found from then on: neither its status nor its
// results.
func removed(in *request, info statusInfo) *answer {
	info.Status, info.Progress, info.Exception, info.Message = dismissed, nil, nil,
		"The job was removed: its status and its results are not found here any more."
	info.Links = []link{{in.root + "/jobs", "up", mediaJSON, "Your jobs"}}
	return &answer{Body: info}
}

// missingJob returns the error for a job that the user has not got.
func (f *Facade) missingJob(in *request, id dispatch.JobID) error {
	switch deleted, err := f.Broker.Deleted(in.Context(), in.user, id); {
	case err != nil:
		return err
	case deleted:
		return errGone
	}
	return errNoJob
}

// dismissTask removes a task and cancels its jobs.
func (f *Facade) dismissTask(in *request, id dispatch.TaskID) (*answer, error) {
	t, err := f.ownTask(in, id)
	if err != nil {
		return nil, err
	}
	return removed(in, f.taskInfo(in, t)), f.Broker.DeleteTask(in.Context(), in.user, id)
}

const (
	someJobs    = 10    // of a page, if the request does not say how many: the standard's default
	mostJobs    = 1_000 // of a page
	mostScanned = 2_000 // jobs and tasks that are read for one page
)

// listJobs returns a page of jobs and tasks, newest first.
func (f *Facade) listJobs(in *request) (*answer, error) {
	query := in.URL.Query()
	limit, err := limitOf(query, someJobs, mostJobs)
	if err != nil {
		return nil, err
	}
	filter, err := parseJobFilter(query)
	if err != nil {
		return nil, err
	}
	at, ok := f.positionOf(in, query.Get("cursor"))
	if !ok {
		return nil, badQuery("cursor is not one of a next link of this list.")
	}
	if err := f.Broker.Freshen(in.Context(), in.user, dispatch.Scope{Alone: true, Tasks: true},
		f.Freshness); err != nil {
		return nil, err
	}
	jobs, next, err := f.page(in, filter, at, limit)
	if err != nil {
		return nil, err
	}
	cursor := ""
	if next != nil {
		cursor = f.cursor(in, *next)
	}
	return listed(in, "jobs", jobs, query, cursor), nil
}

const cursorPurpose = "ogcapi jobs"

func (f *Facade) cursor(in *request, p broker.Position) string {
	text, _ := json.Marshal(p) // cannot fail
	return in.Seal(in.user, cursorPurpose, text)
}

func (f *Facade) positionOf(in *request, cursor string) (p broker.Position, ok bool) {
	if cursor == "" {
		return p, true
	}
	text, ok := in.Unseal(in.user, cursorPurpose, cursor)
	return p, ok && json.Unmarshal(text, &p) == nil
}

// page returns the jobs after a position that a filter selects, limit at most, and where the next page begins; nil:
// there is none. It may return fewer although there are more: it reads a bounded number of jobs.
func (f *Facade) page(in *request, filter jobFilter, at broker.Position, limit int) (jobs []statusInfo,
	next *broker.Position, err error) {
	jobs = []statusInfo{}
	scanned := 0
	for e, err := range f.Broker.History(in.Context(), in.user, at,
		broker.Kinds{Jobs: true, Tasks: true, Unstarted: true},
		dispatch.Page{Limit: filter.readAtOnce(in.view, limit), Accounts: in.view.accounts(in.user)}) {
		switch {
		case err != nil:
			return nil, nil, err
		case len(jobs) == limit, scanned == mostScanned:
			return jobs, &at, nil
		case filter.isBefore(e.Created()):
			return jobs, nil, nil
		}
		scanned++
		at = e.After
		if info, shown := f.entryInfo(in, e); shown && filter.selects(info) {
			jobs = append(jobs, info)
		}
	}
	return jobs, nil, nil
}

// entryInfo returns the status of an entry of the history, and whether the view shows it.
func (f *Facade) entryInfo(in *request, e broker.Entry) (info statusInfo, shown bool) {
	switch {
	case e.Job != nil:
		return f.jobInfo(in, *e.Job), in.view.shows(e.Job.Account, e.Job.Request)
	case e.Task != nil:
		return f.taskInfo(in, *e.Task), in.view.shows(e.Task.Account, e.Task.Request)
	}
	kept, own := keptIn(e.Unstarted.Body)
	return f.unstartedInfo(in, *e.Unstarted, kept), own && kept.shownIn(in.view)
}

// jobFilter is what the query of GET /jobs selects (OGC 18-062r2, annex on job lists). Empty members select all.
type jobFilter struct {
	none                     bool // nothing is selected
	processes, statuses      []string
	from, until              time.Time
	minDuration, maxDuration *float64 // seconds
}

func parseJobFilter(query url.Values) (f jobFilter, err error) {
	types := append(listOf(query, "type"), listOf(query, "processingEntityType")...)
	f.none = len(types) > 0 && !slices.Contains(types, typeProcess) && !slices.Contains(types, entityType)
	f.processes, f.statuses = listOf(query, "processID"), listOf(query, "status")
	for i, p := range f.processes { // version 2.0 has URIs
		if _, id, isURI := strings.Cut(p, "/processes/"); isURI {
			f.processes[i] = unescaped(id)
		}
	}
	for i, s := range f.statuses {
		f.statuses[i] = cmp.Or(statusWords[strings.ToLower(s)], s)
		if !slices.Contains([]string{waiting, accepted, running, successful, failed, dismissed}, f.statuses[i]) {
			return f, badQuery("status must be created, accepted, running, successful, failed or dismissed.")
		}
	}
	var ok bool
	if f.from, f.until, ok = facade.Interval(query.Get("datetime")); !ok {
		return f, badQuery("datetime must be a time such as 2024-06-01T00:00:00Z, or two with a slash between them, " +
			"of which one may be two dots.")
	}
	if f.minDuration, err = secondsOf(query, "minDuration"); err != nil {
		return f, err
	}
	f.maxDuration, err = secondsOf(query, "maxDuration")
	return f, err
}

// listOf reads a parameter that may be repeated, or have several values with commas between them.
func listOf(query url.Values, name string) (all []string) {
	for _, value := range query[name] {
		all = append(all, strings.Split(value, ",")...)
	}
	return all
}

func secondsOf(query url.Values, name string) (*float64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) {
		return nil, badQuery("%s must be a number of seconds.", name)
	}
	return &n, nil
}

// readAtOnce returns how many jobs a page of limit jobs needs; 0: it depends on what the filter selects.
func (f jobFilter) readAtOnce(v view, limit int) int {
	if f.none || v.namespace != "" || f.processes != nil || f.statuses != nil || !f.from.IsZero() ||
		!f.until.IsZero() || f.minDuration != nil || f.maxDuration != nil {
		return 0
	}
	return limit + 1
}

// isBefore reports whether a job, and so all after it in the list, is older than what the filter selects.
func (f jobFilter) isBefore(created time.Time) bool {
	return f.none || !f.from.IsZero() && created.Before(f.from)
}

func (f jobFilter) selects(s statusInfo) bool {
	last := s.Updated
	if s.Finished != nil {
		last = *s.Finished
	}
	took := last.Sub(s.Created).Seconds()
	return (f.processes == nil || slices.Contains(f.processes, s.ProcessID)) && (f.statuses == nil ||
		slices.Contains(f.statuses, s.Status)) &&
		(f.until.IsZero() || !s.Created.After(f.until)) && (f.minDuration == nil || took >= *f.minDuration) &&
		(f.maxDuration == nil || took <= *f.maxDuration)
}

// unended returns the error for results of a job that has none.
func unended(status, failure string) error {
	switch status {
	case failed:
		return exception{Status: http.StatusInternalServerError, Detail: "The job failed: " +
			cmp.Or(failure, "its platform gives no reason.")}
	case dismissed:
		return exception{Status: http.StatusGone, Detail: "The job was dismissed and has no results."}
	}
	return errNotReady
}
