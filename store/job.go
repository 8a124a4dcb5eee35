package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listedColumns are the columns of a job as lists have it, see [dispatch.Job.Listed]. jobRow.listed has their order.
const listedColumns = `
		jobs.id, jobs.task, jobs.number, jobs.owner, jobs.account, jobs.names, jobs.desired, jobs.annotations,
		jobs.retries, jobs.retried, jobs.phase, jobs.ref_id, jobs.status, jobs.seen, jobs.progress, jobs.costs, jobs.unit,
		jobs.spent, jobs.duration, jobs.metered, jobs.attention, jobs.notice, jobs.failure, jobs.due, jobs.looks,
		jobs.tries, jobs.awaited, jobs.created, jobs.updated, jobs.checked, jobs.moved, jobs.started, jobs.ended,
		jobs.version, jobs.versions`

// jobColumns are all columns of a job that visits read. jobRow.whole has their order.
const jobColumns = listedColumns + `,
		jobs.base, jobs.service, jobs.hidden, jobs.paused, jobs.budgeted, jobs.max_duration, jobs.epoch,
		jobs.attempt, jobs.nonces, jobs.send_by, jobs.begun, jobs.intent_lease, jobs.ref_base, jobs.orphans, jobs.past,
		jobs.unmetered, jobs.removal_due, jobs.removal, jobs.deadline, jobs.refused, jobs.unmoved, jobs.traceparent`

// jobRow is a row of a job: what is stored as such is scanned straight into the job.
type jobRow struct {
	dispatch.Job

	names, annotations, metered, versions string // of lists, too
	orphans, past, unmetered, removal     string
	removalDue                            int64
}

// listed returns where listedColumns are scanned to.
func (r *jobRow) listed() []any {
	j := &r.Job
	return []any{
		number(&j.ID), number(&j.Task), number(&j.Number), text(&j.Owner), text(&j.Account), &r.names, text(&j.Desired),
		&r.annotations, number(&j.Retries), number(&j.Retried), text(&j.Phase), &j.Ref.ID, text(&j.Status), text(&j.Seen),
		&j.Progress, &j.Costs, &j.Unit, &j.Spent, duration(&j.Duration), &r.metered, text(&j.Attention), &j.Notice,
		&j.Failure, instant(&j.Due), number(&j.Looks), number(&j.Tries), &j.Awaited, instant(&j.Created),
		instant(&j.Updated), instant(&j.Checked), instant(&j.Moved), instant(&j.Started), instant(&j.Ended),
		number(&j.Version), &r.versions,
	}
}

// whole returns where jobColumns are scanned to.
func (r *jobRow) whole() []any {
	j := &r.Job
	return append(r.listed(),
		&j.Base, number(&j.Service), &j.Hidden, &j.Paused, &j.Budgeted, duration(&j.MaxDuration), number(&j.Epoch),
		number(&j.Attempt), text(&j.Nonces), instant(&j.SendBy), number(&j.Begun), number(&j.IntentLease), &j.Ref.Base,
		&r.orphans, &r.past, &r.unmetered, number(&r.removalDue), &r.removal, instant(&j.Deadline), instant(&j.Refused),
		duration(&j.Unmoved), &j.Traceparent)
}

// decoded returns the job of a row that was scanned. What it holds of an earlier row is replaced.
func (r *jobRow) decoded() (dispatch.Job, error) {
	j := &r.Job
	var errs [8]error
	j.Names, errs[0] = decoded[[]string](r.names)
	j.Annotations, errs[1] = decoded[dispatch.Annotations](r.annotations)
	j.Metered, errs[2] = decoded[dispatch.Metered](r.metered)
	j.Versions, errs[3] = decoded[dispatch.Versions](r.versions)
	j.Orphans, errs[4] = decoded[[]dispatch.Ref](r.orphans)
	j.Past, errs[5] = decoded[[]dispatch.Ref](r.past)
	j.Unmetered, errs[6] = unmeteredOf(r.unmetered)
	j.Removal, errs[7] = removalOf(r.removalDue, r.removal)
	return *j, errors.Join(errs[:]...)
}

// selectJobs returns jobs, by a condition and an order.
func selectJobs(ctx context.Context, q querier, where string, args ...any) ([]dispatch.Job, error) {
	return listAs(ctx, q, (*jobRow).whole, (*jobRow).decoded, "SELECT "+jobColumns+" FROM jobs "+where, args...)
}

// loadJobs is selectJobs for a visit, which may change the jobs.
func loadJobs(ctx context.Context, q querier, where string, args ...any) ([]dispatch.Job, error) {
	jobs, err := selectJobs(ctx, q, where, args...)
	return asLoaded(jobs), err
}

// asLoaded sets Loaded of jobs that are stored as they are.
func asLoaded(jobs []dispatch.Job) []dispatch.Job {
	loaded := slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Loaded = &loaded[i]
	}
	return jobs
}

// decoded returns a part of a job, which most jobs lack: then the text is empty. It takes no pointer to the part, by
// which the decoder would force every job to the heap.
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

// listText is the inverse of decoded for lists.
func listText[T string | int64 | dispatch.Status | dispatch.Ref](all []T) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := encode(all) // cannot fail: texts and numbers only
	return text
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

// storableText replaces the characters that PostgreSQL cannot store in a text, so that no response is lost because of
// them.
func storableText(s string) string {
	if storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// allStorable returns Invalid for texts that PostgreSQL cannot store.
func allStorable(op string, texts ...string) error {
	if slices.ContainsFunc(texts, func(s string) bool { return !storable(s) }) {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "store." + op,
			Text: "A text is not valid UTF-8, or holds a NUL character."}
	}
	return nil
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
