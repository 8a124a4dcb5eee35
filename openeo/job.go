package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// Submit creates a job, or starts the one that s.Ref names. A created job whose identifier did not arrive is Uncertain:
// the listing has it, with the tag.
func (p *Platform) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
	if s.Ref != (dispatch.Ref{}) {
		return p.start(ctx, t, s.Ref)
	}
	return p.create(ctx, t, s)
}

func (p *Platform) create(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
	const op = "openeo.create"
	f, err := p.known(ctx)
	if err != nil {
		return dispatch.Step{}, err
	}
	if !f.batch {
		return dispatch.Step{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: op, Text: "The platform has no batch jobs, only synchronous processing."}
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return dispatch.Step{}, err
	}
	o, err := p.order(ctx, f, bearer, s.Request)
	if err != nil {
		return dispatch.Step{}, err
	}
	body, err := o.body(withTag(s.Title, s.Tag), s.PlatformOptions())
	if err != nil {
		return dispatch.Step{}, err
	}
	a, err := p.call(ctx, op, http.MethodPost, "/jobs", bearer, body)
	if a == nil || a.Status >= 300 {
		return dispatch.Step{}, err
	}
	// It is created, however the rest of the answer arrived.
	id := created(a)
	if id == "" {
		return dispatch.Step{}, &dispatch.Error{Kind: dispatch.Uncertain, Op: op, Text: "The platform did not tell the job's identifier.", Err: err}
	}
	return dispatch.Step{Ref: dispatch.Ref{ID: id}}, nil
}

var jobLocation = regexp.MustCompile(`/jobs/([^/]+)/?$`)

// created is the identifier in the answer to POST /jobs: OpenEO-Identifier, else the last segment of Location (which is
// not followed, so its host does not matter), else id in the body; "" when there is none.
func created(a *upstream.Answer) string {
	if id := a.Header.Get("OpenEO-Identifier"); validID(id) {
		return id
	}
	if u, err := url.Parse(a.Header.Get("Location")); err == nil {
		if m := jobLocation.FindStringSubmatch(u.Path); m != nil && validID(m[1]) {
			return m[1]
		}
	}
	var body struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(a.Body, &body) == nil && validID(body.ID) {
		return body.ID
	}
	return ""
}

func (p *Platform) start(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Step, error) {
	const op = "openeo.start"
	step := dispatch.Step{Ref: ref}
	path, err := jobPath(op, ref)
	if err != nil {
		return step, err
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return step, err
	}
	a, err := p.call(ctx, op, http.MethodPost, path+"/results", bearer, nil)
	switch {
	case a == nil:
		return step, err
	case a.Status < 300, codeOf(a) == "JobLocked": // locked: it is queued or running
		step.Started = true
		return step, nil
	}
	return step, err
}

// withTag is a job's title as it is at the platform: listings must carry the title, and need carry nothing else of a
// client's.
func withTag(title, tag string) string {
	if tag == "" {
		return title
	}
	return title + " [" + tag + "]"
}

var tagged = regexp.MustCompile(`(?s)^.* \[([^\s\[\]]+)\]$`)

// tagOf is the inverse of withTag for a tag without spaces and brackets; "" for a title without one.
func tagOf(title string) string {
	m := tagged.FindStringSubmatch(title)
	if m == nil {
		return ""
	}
	return m[1]
}

// job is the metadata that GET /jobs and GET /jobs/{id} give.
type job struct {
	ID       string `json:"id"`
	Title    any    `json:"title"`
	Status   any    `json:"status"`
	Created  any    `json:"created"`
	Progress any    `json:"progress"`
	Costs    any    `json:"costs"`
	Usage    any    `json:"usage"`
}

var words = map[string]dispatch.Status{
	"created": dispatch.Accepted, "queued": dispatch.Queued, "running": dispatch.Running, "finished": dispatch.Finished,
	"canceled": dispatch.Canceled, "error": dispatch.Failed,
}

func (j job) report() dispatch.Report {
	r := dispatch.Report{Status: dispatch.Unknown, Costs: number(j.Costs, 0, math.MaxFloat64), Progress: number(j.Progress, 0, 100), Duration: j.duration()}
	word, _ := j.Status.(string)
	if status, ok := words[strings.ToLower(word)]; ok {
		r.Status = status
	}
	return r
}

var units = map[string]time.Duration{"ms": time.Millisecond, "milliseconds": time.Millisecond, "s": time.Second, "sec": time.Second,
	"second": time.Second, "seconds": time.Second, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour}

// duration is how long the job ran; 0 where that is not told, or in no unit of time.
func (j job) duration() time.Duration {
	usage, _ := j.Usage.(map[string]any)
	told, _ := usage["duration"].(map[string]any)
	value, _ := told["value"].(float64)
	unit, _ := told["unit"].(string)
	d := value * float64(units[strings.ToLower(unit)])
	if d < 0 || d > math.MaxInt64/2 {
		return 0
	}
	return time.Duration(d)
}

// number is v within bounds, nil if it is no number.
func number(v any, lowest, highest float64) *float64 {
	f, ok := v.(float64)
	if !ok {
		return nil
	}
	f = min(max(f, lowest), highest)
	return &f
}

// Status reads the job's metadata, and for a job in error why it is: what it last logged as errors, else what there is
// instead of its results.
func (p *Platform) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	const op = "openeo.status"
	path, err := jobPath(op, ref)
	if err != nil {
		return dispatch.Report{}, err
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return dispatch.Report{}, err
	}
	var j job
	if _, err := p.get(ctx, op, path, bearer, &j); err != nil {
		return dispatch.Report{}, err
	}
	r := j.report()
	if r.Status == dispatch.Failed {
		r.Message = cmp.Or(p.complaint(ctx, path, bearer), p.verdict(ctx, path, bearer))
	}
	return r, nil
}

// complaint is what a failed job last logged as errors; "" if that cannot be had.
func (p *Platform) complaint(ctx context.Context, path string, bearer dispatch.Secret) string {
	var page logPage
	if _, err := p.get(ctx, "openeo.complaint", path+"/logs?level=error", bearer, &page); err != nil {
		return ""
	}
	var said []string
	for _, l := range page.Logs {
		if e := l.entry(); e.Level == "error" && e.Message != "" && !slices.Contains(said, e.Message) {
			said = append(said, e.Message)
		}
	}
	const last = 3
	return upstream.Text(strings.Join(said[max(0, len(said)-last):], " "))
}

// verdict is what a back-end answers to who asks for the results of a job in error, which by the specification is the
// last error of its log; "" if it answers otherwise.
func (p *Platform) verdict(ctx context.Context, path string, bearer dispatch.Secret) string {
	a, err := p.call(ctx, "openeo.verdict", http.MethodGet, path+"/results", bearer, nil)
	if err == nil || a == nil || a.Status != http.StatusFailedDependency {
		return ""
	}
	return upstream.Text(upstream.Said(a))
}

// Cancel stops a job that runs or waits to, and deletes one that is only created. What has ended, or is gone, is left. A
// back-end that shows a canceled job as created again keeps it so until Cancel is repeated.
func (p *Platform) Cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	const op = "openeo.cancel"
	path, err := jobPath(op, ref)
	if err != nil {
		return err
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return err
	}
	var j job
	if _, err := p.get(ctx, op, path, bearer, &j); err != nil {
		return unlessGone(err)
	}
	switch status := j.report().Status; {
	case status.Final():
		return nil
	case status != dispatch.Accepted:
		path += "/results"
	}
	_, err = p.call(ctx, op, http.MethodDelete, path, bearer, nil)
	return unlessGone(err)
}

func unlessGone(err error) error {
	if dispatch.Is(err, dispatch.NotFound) {
		return nil
	}
	return err
}

const (
	listPage = 1000 // jobs asked for at once
	logsPage = 1000 // log entries, likewise
	maxPages = 1000
)

// List gives the account's jobs in the back-end's order. A listing that is known to be incomplete ends with an error.
func (p *Platform) List(ctx context.Context, t dispatch.Token, _ string) iter.Seq2[dispatch.Listed, error] {
	const op = "openeo.list"
	return func(yield func(dispatch.Listed, error) bool) {
		missing := false
		for page, err := range pages[jobPage](ctx, p, op, "/jobs?limit="+strconv.Itoa(listPage), t) {
			if err != nil {
				yield(dispatch.Listed{}, err)
				return
			}
			for _, j := range page.Jobs {
				if !yield(j.listed(), nil) {
					return
				}
			}
			missing = missing || len(page.Missing) > 0
		}
		if missing {
			yield(dispatch.Listed{}, &dispatch.Error{Kind: dispatch.Unavailable, Op: op, Text: "A part of the platform's federation does not answer."})
		}
	}
}

type jobPage struct {
	Jobs    []job    `json:"jobs"`
	Links   []link   `json:"links"`
	Missing []string `json:"federation:missing"`
}

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

func (p jobPage) links() []link { return p.Links }
func (p logPage) links() []link { return p.Links }

// pages reads a resource of the account page by page, as the links lead. A token goes to no other origin, so a link that
// leads there is an error, as one that leads back is: the pages would be incomplete.
func pages[P interface{ links() []link }](ctx context.Context, p *Platform, op, path string, t dispatch.Token) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		var none P
		bearer, err := p.bearer(ctx, t)
		if err != nil {
			yield(none, err)
			return
		}
		f, err := p.known(ctx)
		if err != nil {
			yield(none, err)
			return
		}
		seen := map[string]bool{}
		for url := f.url + path; url != ""; {
			if seen[url] || len(seen) == maxPages {
				yield(none, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: "The platform's pages do not end."})
				return
			}
			seen[url] = true
			var page P
			page, url, err = read[P](ctx, p, op, url, bearer)
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// read reads one page and tells the next, "" on the last.
func read[P interface{ links() []link }](ctx context.Context, p *Platform, op, url string, bearer dispatch.Secret) (page P, next string, err error) {
	a, err := p.client.Do(ctx, p.request(op, http.MethodGet, url, bearer, nil))
	if err != nil {
		return page, "", refine(a, err)
	}
	if err := upstream.JSON(a, op, &page); err != nil {
		return page, "", err
	}
	for _, l := range page.links() {
		if l.Rel == "next" {
			next = absolute(a.URL, l.Href)
			break
		}
	}
	if next != "" && !upstream.SameOrigin(next, p.endpoint) {
		return page, "", &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: "The platform's next page is at another host."}
	}
	return page, next, nil
}

func (j job) listed() dispatch.Listed {
	title, _ := j.Title.(string)
	return dispatch.Listed{Ref: dispatch.Ref{ID: j.ID}, Tag: tagOf(title), Created: moment(j.Created), Report: j.report()}
}

// moment reads an RFC 3339 time; zero if it is none.
func moment(v any) time.Time {
	s, _ := v.(string)
	at, _ := time.Parse(time.RFC3339, s)
	return at
}

type logPage struct {
	Logs  []logLine `json:"logs"`
	Links []link    `json:"links"`
}

type logLine struct {
	ID      any `json:"id"`
	Level   any `json:"level"`
	Message any `json:"message"`
	Time    any `json:"time"`
}

func (l logLine) entry() dispatch.LogEntry {
	level, _ := l.Level.(string)
	message, _ := l.Message.(string)
	return dispatch.LogEntry{Time: moment(l.Time), Level: strings.ToLower(level), Message: upstream.Text(message)}
}

const maxLogs = 20000

// Logs reads the job's log, 20,000 entries at most: by the back-end's next links where it gives them, else by the
// specification's offset, which is the id of the last entry.
func (p *Platform) Logs(ctx context.Context, t dispatch.Token, ref dispatch.Ref) ([]dispatch.LogEntry, error) {
	const op = "openeo.logs"
	path, err := jobPath(op, ref)
	if err != nil {
		return nil, err
	}
	path += "/logs?limit=" + strconv.Itoa(logsPage)
	var entries []dispatch.LogEntry
	seen, offset := map[string]bool{}, ""
	for more := true; more && len(entries) < maxLogs; {
		more = false
		for page, err := range pages[logPage](ctx, p, op, path+offset, t) {
			if err != nil {
				return entries, err
			}
			fresh := slices.DeleteFunc(page.Logs, func(l logLine) bool { return seen[l.id()] })
			for _, l := range fresh {
				seen[l.id()] = l.id() != ""
				entries = append(entries, l.entry())
			}
			last := ""
			if n := len(fresh); n >= logsPage {
				last = fresh[n-1].id()
			}
			offset, more = "&offset="+url.QueryEscape(last), last != ""
		}
	}
	return entries[:min(len(entries), maxLogs)], nil
}

// id is the entry's id; "" if it has none.
func (l logLine) id() string {
	switch id := l.ID.(type) {
	case string:
		return id
	case float64:
		return strconv.FormatFloat(id, 'f', -1, 64)
	}
	return ""
}
