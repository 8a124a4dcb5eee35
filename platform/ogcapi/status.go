package ogcapi

import (
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
	"github.com/eodispatch/eodispatch/upstream"
)

// statusWords are the words of Part 1 1.0, of the 2.0 draft and Part 4, of WPS, and of the openEO profile.
var statusWords = map[string]dispatch.Status{
	"created": dispatch.Accepted,

	"accepted": dispatch.Queued, "queued": dispatch.Queued, "pending": dispatch.Queued, "submitted": dispatch.Queued,

	"running": dispatch.Running, "started": dispatch.Running, "processing": dispatch.Running, "paused": dispatch.Running,

	"successful": dispatch.Finished, "succeeded": dispatch.Finished, "success": dispatch.Finished,
	"finished": dispatch.Finished, "completed": dispatch.Finished,

	"failed": dispatch.Failed, "failure": dispatch.Failed, "error": dispatch.Failed, "exception": dispatch.Failed,

	"dismissed": dispatch.Canceled, "canceled": dispatch.Canceled, "cancelled": dispatch.Canceled,
}

// parseStatus reads a status word in any case, and with the "Process" that WPS puts before it.
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

// statusInfo is a job as servers describe it, in all spellings. Members of another shape than expected are as good as
// absent.
type statusInfo map[string]json.RawMessage

func parseStatusInfo(raw []byte) (statusInfo, error) {
	var s statusInfo
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("null")
	}
	return s, nil
}

// id is the job's identifier, jobID in 1.0 and id in 2.0.
func (s statusInfo) id() string {
	for _, name := range []string{"jobID", "id", "job_id", "jobId"} {
		if id := identifier(s[name]); isJobID(id) {
			return id
		}
	}
	return ""
}

// process is the identifier of the job's process, of which 2.0 gives the URI.
func (s statusInfo) process() string {
	uri := text(s["processID"])
	if _, id, ok := strings.Cut(uri, "/processes/"); ok {
		return id
	}
	return uri
}

func (s statusInfo) status() dispatch.Status { return parseStatus(text(s["status"])) }

// isJob reports whether this is a job and not a result that has some of its members.
func (s statusInfo) isJob() bool {
	named := s["jobID"] != nil || s["job_id"] != nil || s["processID"] != nil || text(s["type"]) == "process"
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

// message is what the platform says about the job. The 2.0 draft has the cause of a failure in a member of its own.
func (s statusInfo) message() string {
	message := upstream.Text(text(s["message"]))
	var exception map[string]json.RawMessage
	if json.Unmarshal(s["exception"], &exception) != nil {
		return message
	}
	for _, name := range []string{"detail", "description", "message", "title"} {
		if cause := upstream.Text(text(exception[name])); cause != "" {
			return cause
		}
	}
	return message
}

func (s statusInfo) report() dispatch.Report {
	return dispatch.Report{Status: s.status(), Progress: s.progress(), Message: s.message(), Duration: s.duration()}
}

// duration is how long the job ran, by the server's own clock; 0 where it does not tell.
func (s statusInfo) duration() time.Duration {
	started, finished := s.time("started"), s.time("finished")
	if started.IsZero() || finished.Before(started) {
		return 0
	}
	return finished.Sub(started)
}

// time reads a timestamp; zero where there is none.
func (s statusInfo) time(name string) time.Time {
	at := text(s[name])
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, at); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// isJobID reports whether an identifier that a server gave can be put into a URL.
func isJobID(id string) bool {
	return id != "" && id != "." && id != ".." && len(id) <= maxSegment && !strings.ContainsAny(id, "\\?#\r\n\x00")
}

const opStatus = "ogcapi.Status"

// Status reads the job's statusInfo, and of a job that failed without a word, why it did.
func (p *Platform) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	info, err := p.statusInfo(ctx, t, ref)
	if err != nil {
		return dispatch.Report{}, err
	}
	report := info.report()
	if report.Status == dispatch.Failed && report.Message == "" {
		report.Message = p.complaint(ctx, t, ref, info)
	}
	return report, nil
}

// complaint is what else says why a job failed: what there is instead of its results, by 1.0 its exception; else the
// last errors in the log files that it links to.
func (p *Platform) complaint(ctx context.Context, t dispatch.Token, ref dispatch.Ref, info statusInfo) string {
	if a, err := p.get(ctx, opStatus, p.job(ref, "results"), t); err != nil && a != nil {
		if said := upstream.Text(upstream.Said(a)); said != "" {
			return said
		}
	}
	var said []string
	for _, href := range logFiles(info) {
		lines, _ := p.logLines(ctx, t, p.job(ref), href)
		said = append(said, lines...)
	}
	errors := slices.DeleteFunc(slices.Clone(said), func(line string) bool { return !complains.MatchString(line) })
	const last = 3
	if len(errors) > 0 {
		return upstream.Text(strings.Join(errors[max(0, len(errors)-last):], " "))
	}
	return upstream.Text(strings.Join(said[max(0, len(said)-1):], ""))
}

// complains finds the lines of a log that tell of an error.
var complains = regexp.MustCompile(`(?i)error|exception|failed|fatal`)

func (p *Platform) statusInfo(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (statusInfo, error) {
	a, err := p.get(ctx, opStatus, p.job(ref), t)
	if err != nil {
		return nil, err
	}
	var info statusInfo
	if err := upstream.JSON(a, opStatus, &info); err != nil {
		return nil, err
	}
	if info["status"] == nil {
		return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: opStatus, Text: "The platform's answer has no status."}
	}
	return info, nil
}

// asError gives the error that upstream made.
func asError(err error) (*dispatch.Error, bool) { return errors.AsType[*dispatch.Error](err) }

// exception is the identity of an error by the standard: the last part of its type, as in
// ".../exceptions/ogcapi-processes-1/1.0/no-such-job", or a server's own short code, as "NoSuchJob"; in lower case and
// without hyphens. "": the answer carries none, so a proxy or a router may have given it.
func exception(body []byte) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	for _, name := range []string{"type", "code"} {
		word := text(m[name])
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

// saysUnsupported reports whether an error means that the server lacks the ability, and not that we lack the right.
func saysUnsupported(body []byte) bool {
	e := exception(body)
	said := strings.ToLower(string(body[:min(len(body), 4096)]))
	return strings.Contains(e, "notimplemented") || strings.Contains(e, "notsupported") || strings.Contains(e, "unsupported") ||
		strings.Contains(said, "not implemented") || strings.Contains(said, "not supported")
}
