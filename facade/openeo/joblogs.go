package openeo

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
}

// logPage is a part of a log.
type logPage struct {
	Level string     `json:"level"`
	Logs  []logEntry `json:"logs"`
	Links []link     `json:"links"`
}

// readLogs returns the log of a batch job after the entry that the query parameter offset names: what the platform logged, and what the
// broker has to say. Of a task it is the failures of its jobs, in the order in which they failed.
func (f *Facade) readLogs(r *request) (*answer, error) {
	query := r.URL.Query()
	limit, err := pageLimit(query)
	if err != nil {
		return nil, err
	}
	level := cmp.Or(query.Get("level"), "debug")
	if !slices.Contains(levels, level) {
		return nil, refused(http.StatusBadRequest, "ProcessParameterInvalid", "The query parameter level must be error, warning, info or debug.")
	}
	is, err := f.find(r, dispatch.AsKnown)
	if err != nil {
		return nil, err
	}
	all, err := f.logOf(r, is)
	if err != nil {
		return nil, err
	}
	after := placeOf(query.Get("offset"))
	all = slices.DeleteFunc(all, func(e logEntry) bool {
		return query.Has("offset") && !after.before(placeOf(e.ID)) || slices.Index(levels, e.Level) > slices.Index(levels, level)
	})
	page := logPage{Level: level, Logs: all, Links: []link{}}
	if page.Logs == nil {
		page.Logs = []logEntry{}
	}
	if limit > 0 && len(all) > limit {
		page.Logs = all[:limit]
		query.Set("offset", page.Logs[limit-1].ID)
		page.Links = append(page.Links, link{Rel: "next", Href: r.root + "/jobs/" + is.id() + "/logs?" + query.Encode(), Type: "application/json"})
	}
	return &answer{body: page}, nil
}

// logPlace is a position in a log. In the log of a job the first number counts the entries of the platform, and the second those of the broker
// after them; in the log of a task the numbers are the time of a failure and the job.
type logPlace struct{ first, second int64 }

// placeOf parses the id of an entry; any other text is the beginning of the log.
func placeOf(id string) (p logPlace) {
	first, second, _ := strings.Cut(id, ".")
	p.first, _ = strconv.ParseInt(first, 10, 64)
	p.second, _ = strconv.ParseInt(second, 10, 64)
	return p
}

func (p logPlace) before(q logPlace) bool {
	return cmp.Or(cmp.Compare(p.first, q.first), cmp.Compare(p.second, q.second)) < 0
}

func (p logPlace) id() string {
	if p.second == 0 {
		return strconv.FormatInt(p.first, 10)
	}
	return fmt.Sprintf("%d.%d", p.first, p.second)
}

// logOf returns the whole log of a batch job.
func (f *Facade) logOf(r *request, is entry) ([]logEntry, error) {
	switch {
	case is.unstarted != nil:
		return nil, nil
	case is.task != nil:
		return f.failuresOf(r, is.task.ID)
	}
	logged, err := f.Broker.Logs(r.Context(), r.user, is.job.ID)
	if err != nil && !ended(is.status()) {
		return nil, err
	}
	var all []logEntry
	for i, e := range logged {
		all = append(all, logEntry{logPlace{int64(i) + 1, 0}.id(), knownLevel(e.Level), e.Message, known(e.Time)})
	}
	return append(all, ownEntries(*is.job, int64(len(all)))...), nil
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

// ownEntries returns what the broker has to say about a job after n entries of its platform: why it failed, or why it makes no progress.
func ownEntries(j dispatch.Record, n int64) (all []logEntry) {
	add := func(level, message string) {
		all = append(all, logEntry{logPlace{n, int64(len(all)) + 1}.id(), level, message, known(j.Updated)})
	}
	if j.Request.Warning != "" {
		add("warning", j.Request.Warning)
	}
	switch {
	case j.Status == dispatch.Failed:
		add("error", cmp.Or(j.Failure, "The batch job failed."))
	case j.Attention != dispatch.None:
		add("warning", strings.TrimSpace(string(j.Attention)+". "+j.Notice))
	case j.Status == dispatch.Unknown:
		add("warning", "The platform does not tell the status of this batch job at present. The last known one is shown.")
	}
	return all
}

// failuresOf returns the failures of the jobs of a task.
func (f *Facade) failuresOf(r *request, id dispatch.TaskID) (all []logEntry, err error) {
	for j, err := range f.Broker.TaskJobs(r.Context(), r.user, id, dispatch.Page{Most: -1, Statuses: []dispatch.Status{dispatch.Failed}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, logEntry{logPlace{j.Moved.UnixMicro(), int64(j.ID)}.id(), "error",
			fmt.Sprintf("Tile %d failed: %s", j.Number, cmp.Or(j.Failure, "no reason is known.")), known(j.Moved)})
	}
	slices.SortFunc(all, func(a, b logEntry) int {
		if placeOf(a.ID).before(placeOf(b.ID)) {
			return -1
		}
		return 1
	})
	return all, nil
}
