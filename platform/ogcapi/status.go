package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
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

// statusWords holds the words of Part 1 1.0, of the 2.0 draft and Part 4, of WPS, and of the openEO profile.
var statusWords = map[string]dispatch.Status{
	"created": dispatch.Accepted,

	"accepted": dispatch.Queued, "queued": dispatch.Queued, "pending": dispatch.Queued, "submitted": dispatch.Queued,

	"running": dispatch.Running, "started": dispatch.Running, "processing": dispatch.Running,
	"paused": dispatch.Running,

	"successful": dispatch.Finished, "succeeded": dispatch.Finished, "success": dispatch.Finished,
	"finished": dispatch.Finished, "completed": dispatch.Finished,

	"failed": dispatch.Failed, "failure": dispatch.Failed, "error": dispatch.Failed, "exception": dispatch.Failed,

	"dismissed": dispatch.Canceled, "canceled": dispatch.Canceled, "cancelled": dispatch.Canceled,
}

// parseStatus parses a status word in any case, with or without the prefix "Process" of WPS.
func parseStatus(word string) dispatch.Status {
	word = strings.ToLower(strings.TrimSpace(word))
	if s, ok := statusWords[word]; ok {
		return s
	}
	if s, ok := statusWords[strings.TrimPrefix(word, "process")]; ok {
		return s
	}
	return dispatch.Unknown
}

// statusInfo is a job as servers describe it, in all spellings. A member of an unexpected type counts as absent.
type statusInfo map[string]json.RawMessage

// parseStatusInfo returns an empty statusInfo for what is none.
func parseStatusInfo(raw []byte) (s statusInfo) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// id returns the job's identifier: jobID in 1.0, id in 2.0.
func (s statusInfo) id() string {
	for _, name := range []string{"jobID", "id", "job_id", "jobId"} {
		if id := identifier(s[name]); isJobID(id) {
			return id
		}
	}
	return ""
}

func (s statusInfo) status() dispatch.Status { return parseStatus(stac.Text(s["status"])) }

// isJob reports whether this is a job, and not a result that has some of the same members.
func (s statusInfo) isJob() bool {
	named := s["jobID"] != nil || s["job_id"] != nil || s["processID"] != nil || stac.Text(s["type"]) == "process"
	return named && s.id() != "" && s.status() != dispatch.Unknown
}

func (s statusInfo) progress() *float64 {
	for _, name := range []string{"progress", "percentCompleted"} {
		raw := strings.TrimSuffix(identifier(s[name]), "%")
		if n, err := strconv.ParseFloat(raw, 64); err == nil && !math.IsNaN(n) {
			n = min(max(n, 0), 100)
			return &n
		}
	}
	return nil
}

// message returns the platform's message about the job. In the 2.0 draft the cause of a failure is the member
// exception; Weaver has a list.
func (s statusInfo) message() string {
	return cmp.Or(causeIn(s["exception"]), causeIn(s["exceptions"]), upstream.Text(stac.Text(s["message"])))
}

// causeIn returns the cause in an exception: an object, a text, or the last one with a cause in a list of these, such
// as the one in a list that led to the others.
func causeIn(raw json.RawMessage) string {
	switch kindOf(raw) {
	case '"':
		return upstream.Text(stac.Text(raw))
	case '[':
		var all []json.RawMessage
		_ = json.Unmarshal(raw, &all) // valid: it is a part of a document
		for _, one := range slices.Backward(all) {
			if kindOf(one) == '[' {
				continue
			}
			if cause := causeIn(one); cause != "" {
				return cause
			}
		}
	case '{':
		var exception map[string]json.RawMessage
		_ = json.Unmarshal(raw, &exception)
		for _, name := range causes {
			if cause := upstream.Text(stac.Text(exception[name])); cause != "" {
				return cause
			}
		}
	}
	return ""
}

// causes are the members of an exception that may have its cause: those of RFC 7807, of WPS, and of servers' own, the
// most telling first.
var causes = []string{"detail", "Text", "text", "description", "message", "title"}

func (s statusInfo) report() dispatch.Report {
	return dispatch.Report{Status: s.status(), Progress: s.progress(), Message: s.message(), Duration: s.duration(),
		Started: s.time("started"), Ended: s.time("finished")}
}

// duration returns how long the job ran by the server's clock; 0 if unknown.
func (s statusInfo) duration() time.Duration {
	started, finished := s.time("started"), s.time("finished")
	if started.IsZero() || finished.Before(started) {
		return 0
	}
	return finished.Sub(started)
}

func (s statusInfo) time(name string) time.Time {
	at := stac.Text(s[name])
	if at == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, at); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// isJobID reports whether an identifier from a server can be put into a URL.
func isJobID(id string) bool {
	return id != "" && id != "." && id != ".." && len(id) <= maxSegment && !strings.ContainsAny(id, "\\?#\r\n\x00")
}

const opStatus = "ogcapi.Status"

// Status reads the job's statusInfo. For a failed job without a message it also looks for the cause.
func (p *Platform) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	info, err := p.statusInfo(ctx, t, ref)
	if err != nil {
		return dispatch.Report{}, err
	}
	report := info.report()
	if report.Status == dispatch.Failed && report.Message == "" {
		report.Message = p.failureCause(ctx, t, ref, info)
	}
	return report, nil
}

// failureCause finds out why a job failed: from the response in place of its results, by 1.0 an exception, or a text;
// else from the last errors in the log files that the job links to.
func (p *Platform) failureCause(ctx context.Context, t dispatch.Token, ref dispatch.Ref, info statusInfo) string {
	if a, err := p.get(ctx, opStatus, p.job(ref, "results"), t); a != nil {
		plain := document{header: a.Header}.media() == "text/plain"
		cause := ""
		if err != nil || plain {
			cause = cmp.Or(upstream.Text(upstream.Message(a)), causeIn(a.Body))
		}
		if cause != "" {
			return cause
		}
	}
	var all []string
	for lines := range p.logFiles(ctx, t, ref, info) {
		all = append(all, lines...)
	}
	errors := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !errorLine.MatchString(line) })
	const last = 3
	if len(errors) > 0 {
		return upstream.Text(strings.Join(errors[max(0, len(errors)-last):], " "))
	}
	return upstream.Text(strings.Join(all[max(0, len(all)-1):], ""))
}

// errorLine matches log lines that report an error.
var errorLine = regexp.MustCompile(`(?i)error|exception|failed|fatal`)

func (p *Platform) statusInfo(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (statusInfo, error) {
	a, err := p.get(ctx, opStatus, p.job(ref), t)
	if err != nil {
		return nil, aboutJob(a, err)
	}
	var info statusInfo
	if err := upstream.JSON(a, opStatus, &info); err != nil {
		return nil, err
	}
	if info["status"] == nil {
		return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: opStatus,
			Text: "The platform's response has no status."}
	}
	return info, nil
}

// aboutJob returns the error of a request about a job, which a proxy does not know.
func aboutJob(a *upstream.Answer, err error) error {
	if err != nil && a != nil && upstream.OfProxy(a) {
		return refine(err, dispatch.Unavailable, "")
	}
	return err
}

func asError(err error) (*dispatch.Error, bool) { return errors.AsType[*dispatch.Error](err) }

// exception returns the identity of an error by the standard: the last part of its type, as in
// ".../exceptions/ogcapi-processes-1/1.0/no-such-job", or a server's own short code such as "NoSuchJob"; in lower case
// and without hyphens. "" means that the response has none, so a proxy or a router may have sent it.
func exception(body []byte) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	for _, name := range []string{"type", "code"} {
		word := stac.Text(m[name])
		if u, err := url.Parse(word); err == nil && word != "about:blank" {
			word = u.Path[strings.LastIndex(u.Path, "/")+1:]
		}
		word = strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(word))
		if word != "" && word != "about:blank" {
			return word
		}
	}
	return ""
}

// saysUnsupported reports whether an error means that the server lacks the ability, rather than that the account lacks
// the right.
func saysUnsupported(body []byte) bool {
	e := exception(body)
	text := strings.ToLower(string(body[:min(len(body), 4096)]))
	return strings.Contains(e, "notimplemented") || strings.Contains(e, "notsupported") ||
		strings.Contains(e, "unsupported") ||
		strings.Contains(text, "not implemented") || strings.Contains(text, "not supported")
}
