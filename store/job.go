package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// selectJobs returns jobs, by a condition and an order.
func selectJobs(ctx context.Context, q querier, where string, args ...any) ([]dispatch.Job, error) {
	return list(ctx, q, whole, "SELECT "+jobColumns+" FROM jobs "+where, args...)
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

// decoded returns what is stored as JSON; zero if the text is empty. It takes no pointer to it, by which the decoder
// would force the whole that it belongs to to the heap.
func decoded[T any](text string) (v T, err error) {
	if text == "" {
		return v, nil
	}
	into := new(T)
	err = json.Unmarshal([]byte(text), into)
	return *into, err
}

// encodedIn is where JSON is scanned to.
type encodedIn[T any] struct{ to *T }

// Scan implements [sql.Scanner].
func (e encodedIn[T]) Scan(from any) (err error) {
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("%T is not a text", from)
	}
	*e.to, err = decoded[T](text)
	return err
}

// encoded is the inverse of decoded.
func encoded[T any](v T, empty func(T) bool) string {
	if empty(v) {
		return ""
	}
	text, _ := encode(v) // cannot fail: texts, finite numbers and times
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
