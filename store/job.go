package store

import (
	"context"
	"encoding/json"
	"slices"

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

// requestOf decodes a job's request. For a task's job, body is its value and shared the task's request.
func requestOf(j dispatch.Job, body, shared, dimension string) (r dispatch.Request, err error) {
	if j.Task == 0 {
		return dispatch.ParseRequest(body)
	}
	t := dispatch.Task{Dimension: dimension}
	if err := json.Unmarshal([]byte(shared), &t.Request); err != nil {
		return r, err
	}
	return t.RequestFor(j, json.RawMessage(body))
}
