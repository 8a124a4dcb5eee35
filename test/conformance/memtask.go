package conformance

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// task returns a task of its owner.
func (s *MemStore) task(u dispatch.UserID, id dispatch.TaskID) (dispatch.Task, error) {
	t, known := s.tasks[id]
	if !known || t.Owner != u || t.Hidden {
		return t, notFound()
	}
	return t, nil
}

func (s *MemStore) Tasks(_ context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.TaskRecord, error) {
	now, unlock := s.lock()
	defer unlock()
	records := []dispatch.TaskRecord{}
	for id := range s.tasks {
		if t, err := s.task(u, id); err == nil && s.wanted(t, p, now) {
			record := s.counted(t, now)
			record.Request = head(record.Request, p)
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b dispatch.TaskRecord) int { return p.Compare(a.Place(), b.Place()) })
	return limited(records, p), nil
}

// wanted reports whether a page selects a task.
func (s *MemStore) wanted(t dispatch.Task, p dispatch.Page, now time.Time) bool {
	changed := slices.ContainsFunc(s.jobs, func(r *row) bool {
		return r.Task == t.ID && !r.Hidden && r.Updated.After(p.Since)
	})
	return p.Follows(dispatch.Place{Created: t.Created, ID: int64(t.ID)}) && (p.Since.IsZero() || changed ||
		t.Edited.After(p.Since)) &&
		(len(p.Statuses) == 0 || slices.Contains(p.Statuses, s.counted(t, now).Counts.Status())) &&
		(len(p.Accounts) == 0 || runsAt(t, p.Accounts)) && p.Label.Selects(t.Annotations.Labels)
}

// runsAt reports whether jobs of the task may run at one of the accounts.
func runsAt(t dispatch.Task, accounts []dispatch.Account) bool {
	return slices.Contains(accounts, t.Account) ||
		slices.ContainsFunc(placementsOf(t), func(h dispatch.Placement) bool {
			return slices.Contains(accounts, h.Account)
		})
}

func (s *MemStore) Task(_ context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	return s.counted(t, now), nil
}

func (s *MemStore) counted(t dispatch.Task, now time.Time) dispatch.TaskRecord {
	counts, live := dispatch.Counts{}, 0.0
	var attentions []dispatch.Attention
	var ended time.Time
	for _, r := range s.jobs {
		if r.Task != t.ID || r.Hidden {
			continue
		}
		if r.Status.Final() {
			ended = latest(ended, r.Moved)
		}
		attentions = append(attentions, r.Attention)
		counts[r.Status]++
		t.Updated = latest(t.Updated, r.Updated)
		if !r.Status.Final() && r.Progress != nil {
			live += *r.Progress
		}
	}
	r := dispatch.TaskRecord{Task: s.tried(t), Counts: counts, Ended: counts.End(ended),
		Progress: counts.Progress(live)}
	if t.Budget != (dispatch.Budget{}) {
		spending := s.spending(t.ID)
		r.Spending = &spending
	}
	if s.changedAt(t, t.Account) || s.changedElsewhere(t) {
		r.Attention = dispatch.ServiceChanged
	}
	if acc := s.firstHold(t); acc.hold.After(now) && !t.Paused && counts[dispatch.Accepted] > 0 {
		attentions = append(attentions, acc.why)
	}
	r.Attention = r.Attend(attentions...)
	return r
}

func (s *MemStore) TaskJobs(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	p dispatch.Page) ([]dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	return s.taskJobs(u, id, p, now)
}

func (s *MemStore) taskJobs(u dispatch.UserID, id dispatch.TaskID, p dispatch.Page,
	now time.Time) (records []dispatch.Record, err error) {
	if _, err := s.task(u, id); err != nil {
		return nil, err
	}
	for _, r := range s.jobs { // ordered by id, and so by number
		if r.Task != id || r.Hidden || !r.fits(p) || int64(r.Number) <= p.After.ID {
			continue
		}
		record, err := s.record(r, now)
		if err != nil {
			return nil, err
		}
		records = append(records, s.bounded(record, r, p))
	}
	return limited(records, p), nil
}

func (s *MemStore) FinishedJobs(_ context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
	n int) ([]dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	records, err := s.taskJobs(u, id, dispatch.Page{Statuses: []dispatch.Status{dispatch.Finished},
		Most: math.MaxInt32}, now)
	for i := range records {
		whole, _ := s.find(records[i].ID) // it is there
		records[i].Job = whole.job()
	}
	slices.SortFunc(records, func(a, b dispatch.Record) int { return a.ResultPosition().Compare(b.ResultPosition()) })
	records = slices.DeleteFunc(records, func(r dispatch.Record) bool { return r.ResultPosition().Compare(after) <= 0 })
	return records[:min(n, len(records))], err
}

func (s *MemStore) CancelTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID, hide bool) (dispatch.Account,
	error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return "", err
	}
	for _, r := range s.jobs {
		if r.Task == id && !r.Hidden {
			r.cancel(now)
		}
	}
	s.mark(id, false, dispatch.None, now)
	for _, r := range s.jobs {
		if r.Task == id && hide {
			r.Hidden = true
		}
	}
	kept := s.tasks[id]
	kept.Hidden = hide
	s.tasks[id] = kept
	s.wakeTask(t, now)
	return t.Account, nil
}

func (s *MemStore) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	a, err := s.CancelTask(ctx, u, id, true)
	if err != nil {
		return "", err
	}
	now, unlock := s.lock()
	defer unlock()
	for _, r := range s.jobs {
		if r.Task == id {
			r.planRemoval(now)
		}
	}
	return a, nil
}

// FinishChanges finds nothing: changes are made at once.
func (s *MemStore) FinishChanges(context.Context, time.Duration) ([]dispatch.FinishedChange, error) {
	return nil, nil
}

func (s *MemStore) CancelJobs(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.Choice) (dispatch.Account, int, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.chosen(u, id, c)
	if err != nil {
		return "", 0, err
	}
	n := 0
	for _, r := range s.jobs {
		if r.Task == id && !r.Hidden && c.Contains(r.Job) && r.cancel(now) {
			n++
		}
	}
	s.wakeTask(t, now)
	return t.Account, n, nil
}

// chosen returns a task of its owner, if it has all jobs that the choice names.
func (s *MemStore) chosen(u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice) (dispatch.Task, error) {
	t, err := s.task(u, id)
	for i, job := range c.Jobs {
		if r, unknown := s.visible(u, job); err == nil && (unknown != nil || r.Task != id) {
			return t, c.NoSuchJob(i)
		}
	}
	return t, err
}

func (s *MemStore) PauseTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err == nil {
		err = s.counted(t, now).Counts.Pausable("conformance.PauseTask")
	}
	if err != nil {
		return "", err
	}
	if !t.Paused || t.PausedFor == dispatch.Trial || t.PausedFor == dispatch.CostsAwaited {
		s.mark(id, true, dispatch.None, now)
	}
	s.wakeTask(t, now)
	return t.Account, nil
}

func (s *MemStore) ResumeTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (dispatch.Account, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return "", err
	}
	if err := s.setBudget(t, budget); err != nil {
		return "", err
	}
	s.mark(id, false, dispatch.None, now)
	s.wakeTask(t, now)
	return t.Account, nil
}

// mark pauses or resumes a task and its jobs.
func (s *MemStore) mark(id dispatch.TaskID, pause bool, why dispatch.Attention, now time.Time) {
	if t := s.tasks[id]; t.Paused != pause || t.PausedFor != why {
		t.Paused, t.PausedFor, t.Edited, t.Updated = pause, why, now, now
		if !pause {
			t.Trial = 0
		}
		s.tasks[id] = t
	}
	s.markJobs(id, pause, math.MaxInt, now)
}

// markJobs pauses or resumes the first jobs of a task.
func (s *MemStore) markJobs(id dispatch.TaskID, pause bool, most int, now time.Time) {
	for _, r := range s.jobs {
		ended := r.Phase == dispatch.Ended && r.Status != dispatch.Failed
		if r.Task != id || r.Paused == pause || r.Number > most || pause && (r.Hidden || ended) {
			continue
		}
		r.Paused = pause
		switch r.Phase {
		case dispatch.Waiting:
			r.Version, r.Updated, r.Attention, r.Notice = r.Version+1, now, dispatch.None, ""
			if r.Due = now; pause {
				r.Refused, r.Attention = time.Time{}, dispatch.Paused
			}
			if pause && len(r.Orphans) == 0 {
				r.Due, r.Tries = time.Time{}, 0
			}
		case dispatch.Creating:
			r.Version++
		}
	}
}

func (s *MemStore) RetryTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice,
	within ...dispatch.Quota) (dispatch.Account, int, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.chosen(u, id, c)
	if err != nil {
		return "", 0, err
	}
	var failed []*row
	for _, r := range s.jobs {
		if r.Task == id && r.Retryable() && c.Contains(r.Job) {
			failed = append(failed, r)
		}
	}
	if err := s.admit(u, len(failed), s.bytesAgain(u, failed, now), within, now); err != nil {
		return "", 0, err
	}
	for _, r := range failed {
		r.Job = r.RetryAmong(len(t.Request.Placements) > 0, now)
		r.Version++
	}
	if len(failed) > 0 {
		s.wakeTask(t, now)
	}
	return t.Account, len(failed), nil
}

// admit returns nil if an owner may have n more jobs with requests of so many bytes.
func (s *MemStore) admit(u dispatch.UserID, n int, bytes int64, within []dispatch.Quota, now time.Time) error {
	for _, q := range within {
		live, lately := 0, 0
		for _, r := range s.jobs {
			if r.Owner != u || q.Account != "" && r.Account != q.Account {
				continue
			}
			if r.Phase != dispatch.Ended && live < q.Live {
				live++
			}
			if r.Created.After(now.Add(-dispatch.Day)) && lately < q.Daily {
				lately++
			}
		}
		running, begun := s.countRuns(u, q, now)
		unstarted, unstartedBytes := s.countUnstarted(u, q.Account, now)
		month := dispatch.Charge{Month: now.UTC().Format("2006-01")}
		for k, c := range s.ledger {
			if k.owner == u && k.account == q.Account && k.month == month.Month && c.Costs > month.Costs {
				month.Costs, month.Unit = c.Costs, k.unit
			}
		}
		has := dispatch.QuotaUse{Charge: month, Live: live + running + unstarted, Lately: lately + begun,
			Bytes: s.bytes(u, now) + unstartedBytes}
		if err := q.Admit(has, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

func (s *MemStore) FinishedRuns(_ context.Context, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash,
	n int) (runs []dispatch.FinishedRun, err error) {
	_, unlock := s.lock()
	defer unlock()
	return s.finishedRuns(u, a, service, n), nil
}

func (s *MemStore) FinishedRequests(_ context.Context, u dispatch.UserID, a dispatch.Account,
	service dispatch.ServiceHash, n int) (runs []dispatch.FinishedRun, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, r := range s.finished(u, a, service, n) {
		run := r.run()
		if len(r.body) <= dispatch.PartMost {
			run.Body = slices.Clone(r.body)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (s *MemStore) FinishedRunsOfTask(_ context.Context, id dispatch.TaskID, n int) ([]dispatch.FinishedRun, error) {
	_, unlock := s.lock()
	defer unlock()
	var jobs []*row
	for _, r := range s.jobs {
		if r.Task == id && id != 0 && !r.Hidden && r.Status == dispatch.Finished {
			jobs = append(jobs, r)
		}
	}
	return runsOf(lastEnded(jobs, n)), nil
}

func (s *MemStore) finishedRuns(u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash,
	n int) []dispatch.FinishedRun {
	return runsOf(s.finished(u, a, service, n))
}

func (s *MemStore) finished(u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int) (jobs []*row) {
	for _, r := range s.jobs {
		if r.Owner == u && r.Account == a && r.Service == service && r.Status == dispatch.Finished {
			jobs = append(jobs, r)
		}
	}
	return lastEnded(jobs, n)
}

// lastEnded returns the n jobs that ended last.
func lastEnded(jobs []*row, n int) []*row {
	slices.SortFunc(jobs, func(a, b *row) int { return cmp.Or(b.Moved.Compare(a.Moved), cmp.Compare(b.ID, a.ID)) })
	return jobs[:min(n, len(jobs))]
}

func runsOf(jobs []*row) (runs []dispatch.FinishedRun) {
	for _, j := range jobs {
		runs = append(runs, j.run())
	}
	return runs
}

func (j *row) run() dispatch.FinishedRun {
	return dispatch.FinishedRun{Costs: j.Costs, Unit: j.Unit, Duration: j.Duration, Task: j.Task, SendBy: j.SendBy,
		Ended: j.Moved}
}

func (s *MemStore) Underway(_ context.Context, id dispatch.TaskID) (all []time.Time, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, r := range s.jobs {
		if r.Task == id && !r.Hidden && (r.Status == dispatch.Submitted || r.Status == dispatch.Queued ||
			r.Status == dispatch.Running) {
			all = append(all, r.SendBy)
		}
	}
	return all, nil
}

func (s *MemStore) Usage(_ context.Context, u dispatch.UserID, d time.Duration) (all []dispatch.Usage, err error) {
	now, unlock := s.lock()
	defer unlock()
	by := map[dispatch.Account]*dispatch.Usage{}
	for _, r := range s.jobs {
		if r.Owner != u {
			continue
		}
		if by[r.Account] == nil {
			by[r.Account] = &dispatch.Usage{Account: r.Account}
		}
		use := by[r.Account]
		use.Jobs++
		if r.Phase != dispatch.Ended {
			use.Live++
		}
		if r.Created.After(now.Add(-d)) {
			use.Lately++
		}
		if r.Costs != nil && *r.Costs >= 0 && *r.Costs <= dispatch.HighestCosts {
			if use.Costs == nil {
				use.Costs = new(float64)
			}
			*use.Costs += *r.Costs
		}
	}
	s.addRuns(by, u, now, d)
	for _, use := range by {
		all = append(all, *use)
	}
	for k, c := range s.ledger {
		if k.owner == u {
			c.Costs = math.Round(c.Costs*1e6) / 1e6
			all = dispatch.AddCharge(all, k.account, c)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.Usage) int { return cmp.Compare(a.Account, b.Account) })
	return all, nil
}

func (s *MemStore) LabelCharges(_ context.Context, u dispatch.UserID, label string,
	n int) (all []dispatch.AccountCharge, err error) {
	_, unlock := s.lock()
	defer unlock()
	for k, c := range s.labeled {
		if k.owner == u && k.name == label {
			c.Costs, c.Label = math.Round(c.Costs*1e6)/1e6, &k.value
			all = append(all, dispatch.AccountCharge{Account: k.account, Charge: c})
		}
	}
	slices.SortFunc(all, func(a, b dispatch.AccountCharge) int {
		return cmp.Or(cmp.Compare(b.Month, a.Month), cmp.Compare(b.Costs, a.Costs), cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.Unit, b.Unit), cmp.Compare(*a.Label, *b.Label))
	})
	return all[:min(n, len(all))], nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
