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
	return j, errors.Join(removalOf(r.RemovalDue, r.Removal, &j.Removal), annotationsOf(r.Annotations, &j.Annotations), namesOf(r.Names, &j.Names), meteredOf(r.Metered, &j.Metered), unmeteredOf(r.Unmetered, &j.Unmetered), refs(r.Strays, &j.Orphans), refs(r.Past, &j.Past), versionsOf(r.Versions, &j.Versions))
}

func versionsOf(text string, into *dispatch.Versions) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// versionsText is the inverse of versionsOf.
func versionsText(v dispatch.Versions) string {
	if v == (dispatch.Versions{}) {
		return ""
	}
	text, _ := encode(v) // cannot fail: strings only
	return text
}

func namesOf(text string, into *[]string) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// namesText is the inverse of namesOf.
func namesText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text, _ := encode(names) // cannot fail: texts only
	return text
}

func refs(text string, into *[]dispatch.Ref) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// textOf is the inverse of refs.
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
