package store

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

func jobOf(r query.Job) (dispatch.Job, error) {
	j := dispatch.Job{
		ID: r.ID, Task: r.Task, Number: r.Number, Owner: r.Owner, Account: r.Account, Base: r.Base,
		Desired: r.Desired, Hidden: r.Hidden, Paused: r.Paused, Budgeted: r.Budgeted,
		Phase: r.Phase, Epoch: r.Turn, Attempt: r.Attempt, Nonces: r.Nonces, SendBy: at(r.SendBy), Ref: dispatch.Ref{Base: r.RefBase, ID: r.RefID},
		Status: r.Status, Seen: r.Seen, Progress: r.Progress, Costs: r.Costs,
		Attention: r.Attention, Notice: r.Notice, Failure: r.Failure,
		MaxDuration: span(r.MaxDuration), Deadline: at(r.Deadline), Duration: span(r.Duration),
		Due: at(r.Due), Looks: r.Looks, Unmoved: span(r.Unmoved), Tries: r.Tries, Awaited: r.Awaited,
		Created: at(r.Created), Updated: at(r.Updated), Checked: at(r.Checked), Moved: at(r.Moved), Version: r.Version,
	}
	j.Service, j.Refused, j.IntentLease, j.Begun = r.ServiceHash, at(r.Refused), r.IntentLease, r.Begun
	j.Unit, j.Spent, j.Traceparent = r.Unit, r.Spent, r.Traceparent
	j.Retries, j.Retried = r.Retries, r.Retried
	var errs [8]error
	j.Removal, errs[0] = removalOf(r.RemovalDue, r.Removal)
	j.Annotations, errs[1] = decoded[dispatch.Annotations](r.Annotations)
	j.Metered, errs[2] = decoded[dispatch.Metered](r.Metered)
	j.Unmetered, errs[3] = unmeteredOf(r.Unmetered)
	j.Orphans, errs[4] = decoded[[]dispatch.Ref](r.Strays)
	j.Past, errs[5] = decoded[[]dispatch.Ref](r.Past)
	j.Versions, errs[6] = decoded[dispatch.Versions](r.Versions)
	j.Names, errs[7] = decoded[[]string](r.Names)
	return j, errors.Join(errs[:]...)
}

// decoded returns a part of a job, which most jobs lack: then the text is empty. It takes no pointer to the part, by which the decoder would force
// every job to the heap.
func decoded[T any](text string) (part T, err error) {
	if text == "" {
		return part, nil
	}
	into := new(T)
	err = json.Unmarshal([]byte(text), into)
	return *into, err
}

// versionsText is the inverse of decoded.
func versionsText(v dispatch.Versions) string {
	if v == (dispatch.Versions{}) {
		return ""
	}
	text, _ := encode(v) // cannot fail: strings only
	return text
}

// namesText is the inverse of decoded.
func namesText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text, _ := encode(names) // cannot fail: texts only
	return text
}

// textOf is the inverse of decoded.
func textOf(refs []dispatch.Ref) string {
	if len(refs) == 0 {
		return ""
	}
	text, _ := encode(refs) // cannot fail: strings only
	return text
}

func jobsOf(rows []query.Job, err error) ([]dispatch.Job, error) {
	if err != nil {
		return nil, err
	}
	jobs := make([]dispatch.Job, len(rows))
	for i, r := range rows {
		if jobs[i], err = jobOf(r); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// requestOf decodes a job's request. For a task's job, body is its value and shared the task's request.
func requestOf(j dispatch.Job, body, shared, dimension string) (r dispatch.Request, err error) {
	if j.Task == 0 {
		return r, json.Unmarshal([]byte(body), &r)
	}
	t := dispatch.Task{Dimension: dimension}
	if err := json.Unmarshal([]byte(shared), &t.Request); err != nil {
		return r, err
	}
	return t.RequestFor(j, json.RawMessage(body))
}

// encode does not escape HTML, so that a RawMessage stays as it is.
func encode(v any) (string, error) {
	text, err := dispatch.Encode(v)
	return string(text), err
}

// storableText replaces the characters that PostgreSQL cannot store in a text, so that no response is lost because of them.
func storableText(s string) string {
	if storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
