package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Load returns a job to a visit, regardless of its owner.
func (s *Store) Load(ctx context.Context, id dispatch.JobID) (dispatch.Job, error) {
	j, err := one(ctx, s.on(s.look), whole, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, id)
	if err != nil {
		return dispatch.Job{}, fail("Load", err)
	}
	return asLoaded([]dispatch.Job{j})[0], nil
}

// RefHolder returns the job or run of an account that has an identifier at its platform.
func (s *Store) RefHolder(ctx context.Context, a dispatch.Account, r dispatch.Ref) (id dispatch.JobID, err error) {
	err = s.on(s.look).QueryRowContext(ctx, `
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
	var names, body, shared, dimension string
	q := s.on(s.look)
	err = q.QueryRowContext(ctx, `
		SELECT jobs.task, jobs.number, jobs.account, jobs.names, requests.body, COALESCE(tasks.request, ''),
			COALESCE(tasks.dimension, '')
		FROM jobs JOIN requests ON requests.job = jobs.id LEFT JOIN tasks ON tasks.id = jobs.task
		WHERE jobs.id = $1`, id).Scan(&j.Task, &j.Number, &j.Account, &names, &body, &shared, &dimension)
	if err == nil {
		j.Names, err = decoded[[]string](names)
	}
	if err == nil {
		r, err = requestOf(j, body, shared, dimension)
	}
	if err == nil && r.Service.Inline() {
		var process string
		err = q.QueryRowContext(ctx, `
			SELECT documents.body FROM jobs
				JOIN definitions ON definitions.task = jobs.task
					AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END
				JOIN documents ON documents.hash = definitions.document
			WHERE jobs.id = $1`, id).Scan(&process)
		r.Process = json.RawMessage(process)
	}
	if err != nil {
		return dispatch.Request{}, fail("Request", err)
	}
	return r, nil
}

// Intend commits the next request of each job and renews the lease. The account's row is written last, as in Wake, so
// that the two cannot deadlock. The rows of tasks with a budget are locked first. If a budget is reached, FinishChanges
// pauses the jobs of the task that are left, so that the visit goes on with those of others.
func (s *Store) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits,
	jobs []dispatch.Job) (kept []dispatch.Job, err error) {
	if slices.ContainsFunc(jobs, func(j dispatch.Job) bool { return j.Budgeted }) {
		ctx = allow(ctx, listWithin)
	}
	err = s.inVisit(ctx, "Intend", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, isWaiting)
		if err != nil {
			return err
		}
		admitted, err := within.admit(ctx, jobs)
		if err != nil {
			return err
		}
		intended := make([]dispatch.Job, len(admitted))
		for i, j := range admitted {
			intended[i] = j.Intend(at(now).Add(limits.Send))
		}
		var slots int64
		if kept, slots, err = write(ctx, q, intended, true); err != nil {
			return err
		}
		if kept, err = within.pause(ctx, kept); err != nil {
			return err
		}
		return renew(ctx, q, l, now, limits.Lease(), slots)
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// Save stores the outcomes of responses and wakes accounts. The accounts' rows are written last, as in Wake.
func (s *Store) Save(ctx context.Context, jobs []dispatch.Job, wakes ...dispatch.Account) (saved []dispatch.Job,
	err error) {
	err = s.inVisit(ctx, "Save", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, runsNoMore)
		if err != nil {
			return err
		}
		if saved, _, err = write(ctx, q, jobs, false); err != nil || len(saved) == 0 {
			return err
		}
		resumed, err := within.resume(ctx)
		if err != nil {
			return err
		}
		for _, a := range append(resumed, wakes...) {
			if err := wake(ctx, q, a, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return saved, nil
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
		var given []dispatch.Job
		err := s.in(ctx, s.visit, "FailWithoutSignIn", func(q tx, now int64) (err error) {
			var w where
			w.and("jobs.account = " + w.arg(string(a)))
			w.and("jobs.step IN ('wait', 'start', 'cancel')")
			w.and("(jobs.phase = 'waiting' AND NOT jobs.paused OR jobs.phase = 'created' AND jobs.desired = 'run')")
			w.and(`EXISTS (SELECT 1 FROM accounts a WHERE a.id = jobs.account
				AND a.sign_in_since BETWEEN 1 AND CAST(` + w.arg(now-patience.Microseconds()) + ` AS BIGINT))`)
			w.most = givenUpAtOnce
			given, err = changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) {
				return j.FailWithoutSignIn(failure, at(now))
			})
			return err
		})
		if err != nil {
			return jobs, err
		}
		if jobs = append(jobs, given...); len(given) < givenUpAtOnce {
			return jobs, nil
		}
	}
}
