package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Load returns a job to a visit, regardless of its owner.
func (s *Store) Load(ctx context.Context, id dispatch.JobID) (dispatch.Job, error) {
	j, err := one(ctx, s.on(s.agendas), whole, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, id)
	if err != nil {
		return dispatch.Job{}, fail("Load", err)
	}
	return asLoaded([]dispatch.Job{j})[0], nil
}

// RefHolder returns the job or run of an account that has an identifier at its platform.
func (s *Store) RefHolder(ctx context.Context, a dispatch.Account, r dispatch.Ref) (id dispatch.JobID, err error) {
	err = s.on(s.agendas).QueryRowContext(ctx, `
		SELECT CAST(COALESCE((
			SELECT max(id) FROM jobs WHERE account = $1 AND ref_id = CAST($2 AS TEXT) AND ref_id <> '' AND ref_base = $3), (
			SELECT max(id) FROM sync_runs
			WHERE account = $1 AND ref_id = CAST($2 AS TEXT) AND ref_id <> '' AND ref_base = $3), 0) AS BIGINT)`,
		a, storableText(r.ID), storableText(r.Base)).Scan(&id)
	return id, fail("RefHolder", err)
}

// Request returns a job's request to a visit.
func (s *Store) Request(ctx context.Context, id dispatch.JobID) (r dispatch.Request, err error) {
	j := dispatch.Job{}
	var body, shared, dimension string
	q := s.on(s.agendas)
	err = q.QueryRowContext(ctx, `
		SELECT jobs.task, jobs.number, jobs.account, jobs.names, requests.body, COALESCE(tasks.request, ''),
			COALESCE(tasks.dimension, '')
		FROM jobs JOIN requests ON requests.job = jobs.id LEFT JOIN tasks ON tasks.id = jobs.task
		WHERE jobs.id = $1`, id).Scan(&j.Task, &j.Number, &j.Account, encodedIn[[]string]{&j.Names}, &body, &shared,
		&dimension)
	if err == nil {
		r, err = requestOf(j, body, shared, dimension)
	}
	if err == nil && r.Service.Inline() {
		var process string
		process, err = definition(ctx, q, id)
		r.Process = json.RawMessage(process)
	}
	if err != nil {
		return dispatch.Request{}, fail("Request", err)
	}
	return r, nil
}

// Hold keeps the account from submitting for d, and stores why. d 0 ends that and wakes the account.
func (s *Store) Hold(ctx context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention,
	notice string) error {
	return s.inVisit(ctx, "Hold", 1, func(q tx, now int64) error {
		if d <= 0 {
			return endHold(ctx, q, a, now)
		}
		return beginHold(ctx, q, a, hold{until: now + d.Microseconds(), why: why, notice: storableText(notice)}, now)
	})
}

// givenUpAtOnce is how many jobs one transaction fails because their user does not sign in.
const givenUpAtOnce = 500

// FailWithoutSignIn fails the jobs that have needed their user for longer than patience.
func (s *Store) FailWithoutSignIn(ctx context.Context, a dispatch.Account, patience time.Duration, failure string,
) (jobs []dispatch.Job, err error) {
	for {
		given, err := result(ctx, s.in, s.visit, "FailWithoutSignIn", func(q tx, now int64) ([]dispatch.Job, error) {
			var w where
			w.and("jobs.account = " + w.arg(string(a)))
			w.and("jobs.step IN ('wait', 'start', 'cancel')")
			w.and("(jobs.phase = 'waiting' AND NOT jobs.paused OR jobs.phase = 'created' AND jobs.desired = 'run')")
			w.and(`EXISTS (SELECT 1 FROM accounts a WHERE a.id = jobs.account
				AND a.sign_in_since BETWEEN 1 AND CAST(` + w.arg(now-patience.Microseconds()) + ` AS BIGINT))`)
			w.most = givenUpAtOnce
			return changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) {
				return j.FailWithoutSignIn(failure, at(now))
			})
		})
		if err != nil {
			return jobs, err
		}
		if jobs = append(jobs, given...); len(given) < givenUpAtOnce {
			return jobs, nil
		}
	}
}
