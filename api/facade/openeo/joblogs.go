package openeo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// levels are the levels of log entries, the most severe first.
var levels = []string{"error", "warning", "info", "debug"}

// logEntry is one entry of the log of a batch job. Ids ascend in the order of logPlace.
type logEntry struct {
	ID      string     `json:"id"`
	Level   string     `json:"level"`
	Message string     `json:"message"`
	Time    *time.Time `json:"time,omitempty"`
	Links   []link     `json:"links,omitempty"`
}

// logPage is a part of a log.
type logPage struct {
	Level string     `json:"level"`
	Logs  []logEntry `json:"logs"`
	Links []link     `json:"links"`
}

// longestLog bounds the entries of a response, also for a client that asks for all.
const longestLog = 10_000

// readLogs returns the log of a batch job after the entry that the query parameter offset names: what the platform
// logged, and what the broker has to say. Of a task it is the failures of its jobs, in the order in which they failed.
func (f *Facade) readLogs(r *request) (*answer, error) {
	query := r.URL.Query()
	limit, err := pageLimit(query)
	if err != nil {
		return nil, err
	}
	level := cmp.Or(query.Get("level"), "debug")
	if !slices.Contains(levels, level) {
		return nil, badParameter("level", "must be error, warning, info or debug")
	}
	offset := query.Get("offset") // the JavaScript client begins with an empty one
	after, ok := parsePlace(offset)
	if offset != "" && !ok {
		return nil, badParameter("offset", "is not the id of an entry of this log")
	}
	found, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	all, err := f.logOf(r, found, after)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e logEntry) bool {
		return offset != "" && after.compare(e.place()) >= 0 || slices.Index(levels, e.Level) > slices.Index(levels,
			level)
	})
	page := logPage{Level: level, Logs: all, Links: []link{}}
	if page.Logs == nil {
		page.Logs = []logEntry{}
	}
	if limit = min(cmp.Or(limit, longestLog), longestLog); len(all) > limit {
		page.Logs = all[:limit]
		query.Set("offset", page.Logs[limit-1].ID)
		page.Links = append(page.Links, link{Rel: "next", Type: "application/json",
			Href: r.root + "/jobs/" + found.id() + "/logs?" + query.Encode()})
	}
	return &answer{Body: page}, nil
}

// logPlace is a position in a log. In the log of a job the first number counts the entries of the platform, and the
// second those of the broker after them; in the log of a task the numbers are the time of a failure and the job.
type logPlace struct{ first, second int64 }

var placePattern = regexp.MustCompile(`^([0-9]{1,18})(?:\.([0-9]{1,18}))?$`)

// parsePlace parses the id of an entry.
func parsePlace(id string) (p logPlace, ok bool) {
	m := placePattern.FindStringSubmatch(id)
	if m == nil {
		return p, false
	}
	p.first, _ = strconv.ParseInt(m[1], 10, 64) // digits
	p.second, _ = strconv.ParseInt(cmp.Or(m[2], "0"), 10, 64)
	return p, true
}

// place returns the place of an entry.
func (e logEntry) place() logPlace {
	p, _ := parsePlace(e.ID)
	return p
}

func (e logEntry) compare(other logEntry) int { return e.place().compare(other.place()) }

func (p logPlace) compare(q logPlace) int {
	return cmp.Or(cmp.Compare(p.first, q.first), cmp.Compare(p.second, q.second))
}

func (p logPlace) id() string {
	if p.second == 0 {
		return strconv.FormatInt(p.first, 10)
	}
	return fmt.Sprintf("%d.%d", p.first, p.second)
}

// logOf returns the log of a batch job. Of a task it may leave out the entries up to a place, and all but the first
// ones after it.
func (f *Facade) logOf(r *request, job entry, after logPlace) ([]logEntry, error) {
	switch {
	case job.Unstarted != nil:
		return nil, nil
	case job.Task != nil:
		return f.failuresOf(r, job.Task.ID, after)
	}
	logged, err := f.Broker.Logs(r.Context(), r.user, job.Job.ID)
	if err != nil && !ended(job.status()) {
		return nil, err
	}
	var all []logEntry
	for i, e := range logged {
		all = append(all, logEntry{ID: logPlace{int64(i) + 1, 0}.id(), Level: knownLevel(e.Level), Message: e.Message,
			Time: known(e.Time)})
	}
	for _, own := range ownEntries(*job.Job, logged) {
		if job.Job.Attention == dispatch.NeedsSignIn {
			own.Links = signInLinks(r.SignInLink(job.Job.Account))
		}
		all = append(all, own)
	}
	slices.SortStableFunc(all, logEntry.compare)
	return all, nil
}

// signInLinks returns the link to a page where the user signs in; "": there is none.
func signInLinks(href string) []link {
	if href == "" {
		return nil
	}
	return []link{{Rel: "related", Href: href, Title: "Sign in, or link an account"}}
}

func knownLevel(level string) string {
	if slices.Contains(levels, level) {
		return level
	}
	return "info"
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// ownEntries returns what the broker has to say about a job among the entries of its platform: why it failed, or why it
// makes no progress. An entry stands after those that the platform wrote before it, and each kind has a number, so that
// ids do not change while the log grows.
func ownEntries(j dispatch.Record, logged []dispatch.LogEntry) (all []logEntry) {
	add := func(kind int64, level, message string, at time.Time) {
		all = append(all, logEntry{ID: logPlace{writtenBefore(logged, at), kind}.id(), Level: level, Message: message,
			Time: known(at)})
	}
	if j.Request.Warning != "" {
		add(1, "warning", j.Request.Warning, j.Created)
	}
	var noted map[string]json.RawMessage
	_ = json.Unmarshal(j.Request.Facade, &noted) // empty for jobs of other interfaces
	var warning string
	if json.Unmarshal(noted[memberWarning], &warning) == nil {
		add(5, "warning", warning, j.Created)
	}
	switch {
	case j.Status == dispatch.Failed:
		add(2, "error", cmp.Or(j.Failure, "The batch job failed."), j.Moved)
	case j.Attention != dispatch.None:
		add(3, "warning", strings.TrimSpace(string(j.Attention)+". "+cmp.Or(j.Notice, j.Failure)), j.Updated)
	case j.Status == dispatch.Unknown:
		add(4, "warning",
			"The platform does not report the status of this batch job at present. The last known one is shown.",
			j.Updated)
	}
	return all
}

// writtenBefore returns how many entries of a platform's log come before a time. Entries without a time come with the
// next one that has one.
func writtenBefore(logged []dispatch.LogEntry, at time.Time) int64 {
	for i, e := range logged {
		if e.Time.After(at) {
			return int64(i)
		}
	}
	return int64(len(logged))
}

// failuresOf returns the failures of the jobs of a task after a place in its log, the first ones if they are many.
func (f *Facade) failuresOf(r *request, id dispatch.TaskID, after logPlace) (all []logEntry, err error) {
	failed := f.Broker.TaskJobs(r.Context(), r.user, id,
		dispatch.Page{Most: -1, Statuses: []dispatch.Status{dispatch.Failed}})
	for j, err := range r.InTurns(r.Context(), r.user, failed) {
		if err != nil {
			return nil, err
		}
		at := logPlace{j.Moved.UnixMicro(), int64(j.ID)}
		if at.compare(after) <= 0 {
			continue
		}
		if all = append(all, failureEntry(at, j)); len(all) == 2*longestLog {
			slices.SortFunc(all, logEntry.compare)
			all = slices.Delete(all, longestLog+1, len(all)) // one more than is shown, so that the log has a next page
		}
	}
	slices.SortFunc(all, logEntry.compare)
	return all, nil
}

func failureEntry(at logPlace, j dispatch.Record) logEntry {
	return logEntry{ID: at.id(), Level: "error", Message: fmt.Sprintf("Tile %d failed: %s", j.Number,
		cmp.Or(j.Failure, "no reason is known.")), Time: known(j.Moved)}
}
