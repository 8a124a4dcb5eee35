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
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// Submit creates a job, or starts the one that s.Ref names. If a job was created but its identifier did not arrive, the
// error is Uncertain: the listing shows the job with its tag.
func (p *Platform) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	if s.Ref != (dispatch.Ref{}) {
		return p.start(ctx, t, s.Ref)
	}
	return p.create(ctx, t, s)
}

func (p *Platform) create(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	const op = "openeo.create"
	f, bearer, err := p.factsAndBearer(ctx, t)
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	if !f.batch {
		return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: op,
			Text: "The platform has no batch jobs, only synchronous processing."}
	}
	o, err := p.order(ctx, f, bearer, s)
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	body, err := o.body(withTag(s.Title, s.Tag), s.PlatformOptions())
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	a, err := p.call(ctx, op, http.MethodPost, "/jobs", bearer, body)
	if a == nil || a.Status >= 300 {
		return dispatch.SubmitResult{}, p.refusedPin(f, s, err)
	}
	// The job is created, even if the rest of the response is damaged.
	id := created(a)
	if id == "" {
		return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Uncertain, Op: op,
			Text: "The platform did not return the job's identifier.", Err: err}
	}
	versions := f.versions
	versions.Definition = o.defined
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: id}, Versions: versions}, nil
}

var jobLocation = regexp.MustCompile(`/jobs/([^/]+)/?$`)

// created returns the identifier in the response to POST /jobs: OpenEO-Identifier, else the last segment of Location
// (which is not followed, so its host does not matter), else id in the body; "" for none.
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

func (p *Platform) start(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.SubmitResult, error) {
	const op = "openeo.start"
	step := dispatch.SubmitResult{Ref: ref}
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return step, err
	}
	a, err := p.call(ctx, op, http.MethodPost, path+"/results", bearer, nil)
	if page := upstream.PageInstead(op, a); page != nil {
		return step, page
	}
	switch {
	case a == nil:
		return step, err
	case a.Status < 300, codeOf(a) == "JobLocked": // locked: it is queued or running
		step.Started = true
		return step, nil
	}
	return step, err
}

// withTag returns a job's title at the platform. Listings must show the title, and need not show anything else that a
// client sent.
func withTag(title, tag string) string {
	if tag == "" {
		return title
	}
	return title + " [" + tag + "]"
}

var tagged = regexp.MustCompile(`(?s)^.* \[([^\s\[\]]+)\]$`)

const maxTag = 256 // bytes

// tagOf is the inverse of withTag for a tag without spaces and brackets; "" for a title without a tag.
func tagOf(title string) string {
	m := tagged.FindStringSubmatch(title[max(0, len(title)-maxTag):])
	if m == nil {
		return ""
	}
	return m[1]
}

// job is the metadata of GET /jobs and GET /jobs/{id}.
type job struct {
	ID       string          `json:"id"`
	Title    json.RawMessage `json:"title"`
	Status   json.RawMessage `json:"status"`
	Created  json.RawMessage `json:"created"`
	Updated  json.RawMessage `json:"updated"` // the last change of the status
	Started  json.RawMessage `json:"started"` // since 1.3
	Progress json.RawMessage `json:"progress"`
	Costs    json.RawMessage `json:"costs"`
	Usage    json.RawMessage `json:"usage"`
}

var statusWords = map[string]dispatch.Status{
	"created": dispatch.Accepted, "queued": dispatch.Queued, "running": dispatch.Running, "finished": dispatch.Finished,
	"canceled": dispatch.Canceled, "error": dispatch.Failed,
}

func (j job) report(f facts) dispatch.Report {
	r := dispatch.Report{Status: dispatch.Unknown, Costs: number(j.Costs, 0, math.MaxFloat64),
		Progress: number(j.Progress, 0, 100), Unit: f.unit}
	r.Duration, r.Metered = j.metered()
	r.Started, r.Ended = moment(j.Started), moment(j.Updated)
	if status, ok := statusWords[strings.ToLower(stac.Text(j.Status))]; ok {
		r.Status = status
	}
	return r
}

var timeUnits = map[string]time.Duration{"ms": time.Millisecond, "milliseconds": time.Millisecond, "s": time.Second,
	"sec":    time.Second,
	"second": time.Second, "seconds": time.Second, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
	"days": 24 * time.Hour}

// metered returns how long the job ran and what it used. The run time is 0 if that is missing, or has no unit of time.
func (j job) metered() (d time.Duration, m dispatch.Metered) {
	if j.Usage == nil { // as in listings, which may be long
		return 0, m
	}
	var usage map[string]json.RawMessage
	_ = json.Unmarshal(j.Usage, &usage)
	m = dispatch.Metered{CPU: amount(usage["cpu"]), Memory: amount(usage["memory"]),
		Input: amount(usage["input_pixel"])}
	ran := amount(usage["duration"])
	if ran == nil {
		return 0, m
	}
	span := ran.Value * float64(timeUnits[strings.ToLower(ran.Unit)])
	if span > math.MaxInt64/2 {
		return 0, m
	}
	return time.Duration(span), m
}

// amount returns a metric of a job's usage; nil if it has no number.
func amount(raw json.RawMessage) *dispatch.Amount {
	var amount map[string]json.RawMessage
	_ = json.Unmarshal(raw, &amount)
	value := number(amount["value"], 0, math.MaxFloat64)
	if value == nil {
		return nil
	}
	return &dispatch.Amount{Value: *value, Unit: unitName(amount["unit"])}
}

// number returns v if it is a number within the bounds, and nil otherwise.
func number(v json.RawMessage, lowest, highest float64) *float64 {
	var f *float64
	if v == nil || json.Unmarshal(v, &f) != nil || f == nil {
		return nil
	}
	*f = min(max(*f, lowest), highest)
	return f
}

// Status reads the job's metadata. For a job in error it also looks for the cause: the last errors of its log or, where
// the log has none, the error that the back-end answers in place of results.
func (p *Platform) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.status"
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return dispatch.Report{}, err
	}
	var j job
	if _, err := p.get(ctx, op, path, bearer, &j); err != nil {
		return dispatch.Report{}, err
	}
	f, err := p.backendFacts(ctx)
	if err != nil {
		return dispatch.Report{}, err
	}
	r := j.report(f)
	if r.Status == dispatch.Failed {
		r.Message = p.loggedErrors(ctx, path, bearer)
		if r.Message == "" {
			r.Message = p.failureOfResults(ctx, path, bearer)
		}
	}
	return r, nil
}

// loggedErrors returns the last three distinct error messages of a job's log; "" if the log cannot be read or has none.
func (p *Platform) loggedErrors(ctx context.Context, path string, bearer dispatch.Secret) string {
	var page logPage
	if _, err := p.get(ctx, "openeo.logs", path+"/logs?level=error", bearer, &page); err != nil {
		return ""
	}
	const last = 3
	var messages []string
	for _, l := range slices.Backward(page.Logs) {
		if e := l.entry(); e.Level == "error" && e.Message != "" && !slices.Contains(messages, e.Message) {
			messages = append(messages, e.Message)
		}
		if len(messages) == last {
			break
		}
	}
	slices.Reverse(messages)
	return upstream.Text(strings.Join(messages, " "))
}

// failureOfResults requests the results of a job in error. By the specification the back-end answers 424 with the last
// error of the job's log; "" if it answers otherwise.
func (p *Platform) failureOfResults(ctx context.Context, path string, bearer dispatch.Secret) string {
	a, err := p.call(ctx, "openeo.results", http.MethodGet, path+"/results", bearer, nil)
	if err == nil || a == nil || a.Status != http.StatusFailedDependency {
		return ""
	}
	return upstream.Text(upstream.Message(a))
}

// Cancel stops a queued or running job, and deletes one that is only created. It does nothing if the job has ended or
// does not exist. Some back-ends show a canceled job as created again; it stays so until Cancel is repeated.
func (p *Platform) Cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.cancel"
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return err
	}
	var j job
	if _, err := p.get(ctx, op, path, bearer, &j); err != nil {
		return unlessGone(err)
	}
	switch status := j.report(facts{}).Status; {
	case status.Final():
		return nil
	case status != dispatch.Accepted:
		path += "/results"
	}
	a, err := p.call(ctx, op, http.MethodDelete, path, bearer, nil)
	return cmp.Or(unlessGone(err), upstream.PageInstead(op, a))
}

// Remove deletes an ended job, which by the standard also deletes its results.
func (p *Platform) Remove(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.remove"
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return err
	}
	a, err := p.call(ctx, op, http.MethodDelete, path, bearer, nil)
	return cmp.Or(err, upstream.PageInstead(op, a))
}

func unlessGone(err error) error {
	if dispatch.Is(err, dispatch.NotFound) {
		return nil
	}
	return err
}

const (
	listPage = 1000 // jobs per request
	logsPage = 1000 // log entries per request
)

// List returns the account's jobs in the back-end's order. A listing that is known to be incomplete ends with an error.
func (p *Platform) List(ctx context.Context, t dispatch.Token, _ string) iter.Seq2[dispatch.Listed, error] {
	const op = "openeo.list"
	return func(yield func(dispatch.Listed, error) bool) {
		ctx, end := p.answers.Begin(ctx)
		defer end()
		f, bearer, err := p.factsAndBearer(ctx, t)
		if err != nil {
			yield(dispatch.Listed{}, err)
			return
		}
		missing := false
		for page, err := range pages[jobPage](ctx, p, op, "/jobs?limit="+strconv.Itoa(listPage), bearer) {
			if err != nil {
				yield(dispatch.Listed{}, err)
				return
			}
			for _, raw := range page.Jobs {
				var j job
				if json.Unmarshal(raw, &j) != nil { // the bounds of JSON hold for the page
					yield(dispatch.Listed{}, upstream.JSON(&upstream.Answer{Body: raw}, op, &j))
					return
				}
				if validID(j.ID) && !yield(j.listed(f), nil) { // the broker never stored an invalid id
					return
				}
			}
			missing = missing || len(page.Missing) > 0
		}
		if missing {
			yield(dispatch.Listed{}, &dispatch.Error{Kind: dispatch.Unavailable, Op: op,
				Text: "The platform's list of jobs is incomplete, because a member of its federation does not " +
					"respond."})
		}
	}
}

type jobPage struct {
	Jobs    []json.RawMessage `json:"jobs"` // decoded one by one
	Links   []link            `json:"links"`
	Missing []string          `json:"federation:missing"`
}

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

func (p jobPage) links() []link { return p.Links }
func (p logPage) links() []link { return p.Links }

// pages reads a resource of the account page by page along its links.
func pages[P interface{ links() []link }](ctx context.Context, p *Platform, op, path string,
	bearer dispatch.Secret) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		f, err := p.backendFacts(ctx)
		if err != nil {
			var none P
			yield(none, err)
			return
		}
		upstream.Pages(op, f.url+path, func(url string) (page P, a *upstream.Answer, next string, err error) {
			if a, err = p.Client.Do(ctx, p.request(op, http.MethodGet, url, bearer, nil)); err != nil {
				return page, a, "", refine(a, err)
			}
			err = upstream.JSON(a, op, &page)
			if i := slices.IndexFunc(page.links(), func(l link) bool { return l.Rel == "next" }); i >= 0 {
				next = page.links()[i].Href
			}
			return page, a, next, err
		})(yield)
	}
}

// listed returns a job of a listing. Listings of real back-ends have no usage.
func (j job) listed(f facts) dispatch.Listed {
	r := j.report(f)
	r.Partial = j.Usage == nil
	return dispatch.Listed{Ref: dispatch.Ref{ID: j.ID}, Tag: tagOf(stac.Text(j.Title)), Created: moment(j.Created),
		Report: r}
}

// moment parses an RFC 3339 time; zero if it is not one.
func moment(v json.RawMessage) time.Time {
	at, _ := time.Parse(time.RFC3339, stac.Text(v))
	return at
}

type logPage struct {
	Logs  []logLine `json:"logs"`
	Links []link    `json:"links"`
}

type logLine struct {
	ID      json.RawMessage `json:"id"`
	Level   json.RawMessage `json:"level"`
	Message json.RawMessage `json:"message"`
	Time    json.RawMessage `json:"time"`
}

func (l logLine) entry() dispatch.LogEntry {
	return dispatch.LogEntry{Time: moment(l.Time), Level: strings.ToLower(stac.Text(l.Level)),
		Message: upstream.Text(stac.Text(l.Message))}
}

const maxLogs = 20000

// Logs reads the job's log, at most 20,000 entries: along the back-end's next links if there are any, else by the
// specification's offset, which is the id of the last entry.
func (p *Platform) Logs(ctx context.Context, t dispatch.Token, ref dispatch.Ref) ([]dispatch.LogEntry, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.logs"
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return nil, err
	}
	path += "/logs?limit=" + strconv.Itoa(logsPage)
	var entries []dispatch.LogEntry
	seen, offset := map[string]bool{}, ""
	for more := true; more && len(entries) < maxLogs; {
		more = false
		for page, err := range pages[logPage](ctx, p, op, path+offset, bearer) {
			if err != nil {
				return entries, err
			}
			fresh := slices.DeleteFunc(page.Logs, func(l logLine) bool { return seen[l.id()] })
			for _, l := range fresh[:min(len(fresh), maxLogs-len(entries))] {
				seen[l.id()] = l.id() != ""
				entries = append(entries, l.entry())
			}
			if len(entries) >= maxLogs {
				return entries, nil
			}
			last := ""
			if n := len(fresh); n >= logsPage {
				last = fresh[n-1].id()
			}
			offset, more = "&offset="+url.QueryEscape(last), last != ""
		}
	}
	return entries, nil
}

// id returns the entry's id; "" for none.
func (l logLine) id() string {
	if id := stac.Text(l.ID); id != "" {
		return id
	}
	if id := number(l.ID, -math.MaxFloat64, math.MaxFloat64); id != nil {
		return strconv.FormatFloat(*id, 'f', -1, 64)
	}
	return ""
}
