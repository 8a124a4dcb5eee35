package conformance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) Dequeue(ctx context.Context, room dispatch.Room, ttl time.Duration) (leases []dispatch.Lease,
	wait time.Duration, err error) {
	if err := ctx.Err(); err != nil { // the leases would have no holder
		return nil, 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "conformance.Dequeue", Err: err}
	}
	now, unlock := s.lock()
	defer unlock()
	wait = time.Hour
	given := map[string]int{}
	for _, name := range s.byPlatform(s.queue(), now) {
		acc := s.accounts[name]
		n, counted := s.roomFor(room, name.Platform(), now)
		switch {
		case acc.until.After(now):
			wait = min(wait, acc.until.Sub(now))
		case acc.due.After(now):
			wait = min(wait, acc.due.Sub(now))
		case n <= 0:
		case given[counted] == n:
			wait = 0
		default:
			given[counted]++
			acc.generation++
			acc.countLapse(now)
			acc.until = now.Add(ttl)
			leases = append(leases, dispatch.Lease{Account: name, Generation: acc.generation, Lapses: acc.lapses})
		}
	}
	return leases, wait, nil
}

// countLapse records at a Dequeue whether the last lease expired.
func (a *account) countLapse(now time.Time) {
	if !a.lapsed.After(now.Add(-dispatch.LapsesCount)) {
		a.lapses = 0
	}
	if !a.until.IsZero() {
		a.lapses, a.lapsed = a.lapses+1, now
	}
}

// byPlatform orders a queue by platform, beginning with the platform of the longest-due account.
func (s *MemStore) byPlatform(queue []dispatch.Account, now time.Time) []dispatch.Account {
	first := map[string]time.Time{}
	for _, name := range slices.Backward(queue) {
		if acc := s.accounts[name]; !acc.until.After(now) {
			first[name.Platform()] = acc.due
		}
	}
	slices.SortStableFunc(queue, func(a, b dispatch.Account) int {
		return cmp.Or(first[a.Platform()].Compare(first[b.Platform()]), cmp.Compare(a.Platform(), b.Platform()))
	})
	return queue
}

// roomFor returns how many accounts of a platform may be leased, and under which name they are counted.
func (s *MemStore) roomFor(room dispatch.Room, platform string, now time.Time) (n int, counted string) {
	if n, known := room.Platforms[platform]; known {
		return n, platform
	}
	if seen, noted := s.served[platform]; noted && seen.After(now.Add(-room.Unserved)) {
		return 0, ""
	}
	return room.Others, ""
}

func (s *MemStore) NoteServed(_ context.Context, platforms []string) error {
	now, unlock := s.lock()
	defer unlock()
	s.follow(now)
	for _, platform := range platforms {
		s.served[platform] = now
	}
	return nil
}

// follow moves planned times if the clock was set back since a process last served.
func (s *MemStore) follow(now time.Time) {
	var last time.Time
	for _, seen := range s.served {
		last = latest(last, seen)
	}
	soon, back := now.Add(dispatch.ClockJump), last.Sub(now)
	if !last.After(soon) {
		return
	}
	move := func(t *time.Time) {
		if t.After(soon) {
			*t = t.Add(-back)
		}
	}
	for platform := range s.served {
		if s.served[platform].After(now) {
			s.served[platform] = now
		}
	}
	for _, r := range s.jobs {
		if r.Due.After(soon) {
			move(&r.SendBy)
			move(&r.Due)
		}
	}
	for _, acc := range s.accounts {
		move(&acc.due)
		move(&acc.hold)
		if acc.until.After(last) {
			move(&acc.until)
		}
	}
}

// queue returns the accounts that have a planned visit, ordered by due time.
func (s *MemStore) queue() (names []dispatch.Account) {
	for name, acc := range s.accounts {
		if !acc.due.IsZero() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b dispatch.Account) int {
		return cmp.Or(s.accounts[a].due.Compare(s.accounts[b].due), strings.Compare(string(a), string(b)))
	})
	return names
}

func (s *MemStore) Renew(_ context.Context, l dispatch.Lease, ttl time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	return s.renew(l, now.Add(ttl))
}

func (s *MemStore) renew(l dispatch.Lease, until time.Time) error {
	acc := s.of(l.Account)
	if acc.generation != l.Generation {
		return conflict()
	}
	acc.until = until
	return nil
}

func (s *MemStore) Release(_ context.Context, l dispatch.Lease, wakes int64, due time.Time) error {
	now, unlock := s.lock()
	defer unlock()
	acc := s.of(l.Account)
	if acc.generation != l.Generation {
		return conflict()
	}
	if acc.wakes != wakes {
		due = now
	}
	acc.generation++
	acc.until, acc.due = time.Time{}, micros(due)
	return nil
}

func (s *MemStore) Wake(_ context.Context, a dispatch.Account) error {
	now, unlock := s.lock()
	defer unlock()
	s.wake(a, now)
	return nil
}

func (s *MemStore) RefHolder(_ context.Context, a dispatch.Account, ref dispatch.Ref) (dispatch.JobID, error) {
	_, unlock := s.lock()
	defer unlock()
	return s.refHolder(a, ref), nil
}

func (s *MemStore) refHolder(a dispatch.Account, ref dispatch.Ref) (holder dispatch.JobID) {
	if ref.ID == "" {
		return 0
	}
	for _, r := range s.jobs {
		if r.Account == a && r.Ref == ref {
			holder = max(holder, r.ID)
		}
	}
	for _, r := range s.runs {
		if holder == 0 && r.Account == a && r.Ref == ref {
			holder = r.ID
		}
	}
	return holder
}

func (s *MemStore) Load(_ context.Context, id dispatch.JobID) (dispatch.Job, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil {
		return dispatch.Job{}, err
	}
	return r.job(), nil
}

func (s *MemStore) Request(_ context.Context, id dispatch.JobID) (dispatch.Request, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil {
		return dispatch.Request{}, err
	}
	q, err := s.request(r)
	if d := s.defined[definedBy(r.Job)]; err == nil && d != nil && q.Service.Inline() {
		q.Process = slices.Clone(d.Body)
	}
	return q, err
}

func (s *MemStore) Intend(_ context.Context, l dispatch.Lease, limits dispatch.Limits,
	jobs []dispatch.Job, outcomes ...dispatch.Job) (kept []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	if err := s.renew(l, now.Add(limits.Lease())); err != nil {
		return nil, err
	}
	within := s.rooms(jobs)
	for _, j := range outcomes {
		if j, ok := s.write(j); ok {
			kept = append(kept, j)
		}
	}
	for _, j := range jobs {
		waited := j.Phase == dispatch.Waiting
		if waited && !within.admit(j) {
			continue
		}
		if r, err := s.find(j.ID); err != nil || r.Desired != dispatch.WantRun {
			continue
		}
		if j, ok := s.write(j.Intend(now.Add(limits.Send))); ok {
			kept = append(kept, j)
			if waited {
				s.of(l.Account).serve(j)
			}
		}
	}
	s.pauseFull(within, now)
	for _, a := range s.resumeBudgeted(kept, now) {
		s.wake(a, now)
	}
	for i, j := range kept {
		if r, err := s.find(j.ID); err == nil {
			kept[i] = r.job()
		}
	}
	return kept, nil
}

// serve records that a job got a slot.
func (a *account) serve(j dispatch.Job) {
	if a.turns == nil {
		a.turns, a.owners = map[dispatch.Queue]int64{}, map[dispatch.UserID]int64{}
	}
	a.served++
	a.turns[dispatch.Queue{Owner: j.Owner, Task: j.Task}] = a.served
	a.owners[j.Owner] = a.served
}

// forgetTurns deletes the turns of queues of which no job waits or holds a slot.
func (s *MemStore) forgetTurns() {
	for name, a := range s.accounts {
		maps.DeleteFunc(a.turns, func(l dispatch.Queue, _ int64) bool {
			return !slices.ContainsFunc(s.jobs, func(r *row) bool {
				return r.Account == name && r.Owner == l.Owner && r.Task == l.Task &&
					(r.Phase.HoldsSlot() || r.Phase == dispatch.Waiting && !r.Paused)
			})
		})
	}
}

// write replaces what visits may write, if the version matches.
func (s *MemStore) write(j dispatch.Job) (dispatch.Job, bool) {
	r, err := s.find(j.ID)
	if err != nil || r.Version != j.Version {
		return j, false
	}
	result := j.Result
	j.Annotations, j.Retries, j.Budgeted, j.MaxDuration, j.Duration = r.Annotations, r.Retries, r.Budgeted,
		r.MaxDuration, j.Duration.Truncate(time.Microsecond)
	j.Unmoved = j.Unmoved.Truncate(time.Microsecond)
	j.Desired, j.Hidden, j.Paused, j.Version, j.Result = r.Desired, r.Hidden, r.Paused, r.Version+1, nil
	j.Loaded = nil
	for _, t := range []*time.Time{&j.Due, &j.SendBy, &j.Refused, &j.Deadline, &j.Updated, &j.Checked, &j.Moved,
		&j.Started, &j.Ended, &j.Removal.Due, &j.Removal.Since, &j.Removal.Removed} {
		*t = micros(*t)
	}
	j.Unmetered = slices.Clone(j.Unmetered)
	for i, u := range j.Unmetered {
		j.Unmetered[i].Ended, j.Unmetered[i].Due = micros(u.Ended), micros(u.Due)
	}
	s.book(r.Job, j)
	before := r.Job
	r.Job = j
	r.changeItem(before, result)
	return r.job(), true
}

// book adds to the ledger what a change of a job says about costs.
func (s *MemStore) book(was, is dispatch.Job) {
	c := dispatch.Charge{Month: is.Updated.UTC().Format("2006-01"), Unit: is.Unit,
		Costs: is.Spent + dispatch.Bookable(is.Costs) - (was.Spent + dispatch.Bookable(was.Costs))}
	retried := was.Costs != nil && is.Costs == nil
	if was.Costs == nil && is.Costs != nil || was.Spent != is.Spent && !retried {
		c.Runs = 1
	}
	if c.Costs == 0 && c.Runs == 0 { // between amounts that are not booked
		return
	}
	key := charged{is.Owner, is.Account, c.Month, c.Unit}
	s.ledger[key] = plus(s.ledger[key], c)
	labels := maps.Clone(s.tasks[is.Task].Annotations.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, is.Annotations.Labels)
	for name, value := range labels {
		s.labeled[costLabel{key, name, value}] = plus(s.labeled[costLabel{key, name, value}], c)
	}
	if is.Task != 0 {
		s.spent[taskUnit{is.Task, c.Unit}] = plus(s.spent[taskUnit{is.Task, c.Unit}], c)
	}
}

func plus(a, b dispatch.Charge) dispatch.Charge {
	b.Costs, b.Runs = a.Costs+b.Costs, a.Runs+b.Runs
	return b
}

func (s *MemStore) Save(_ context.Context, jobs []dispatch.Job, wake ...dispatch.Account) (saved []dispatch.Job,
	err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range jobs {
		if j, ok := s.write(j); ok {
			saved = append(saved, j)
		}
	}
	for _, a := range append(s.resumeBudgeted(saved, now), wake...) {
		if len(saved) > 0 {
			s.wake(a, now)
		}
	}
	return saved, nil
}

func (s *MemStore) Hold(_ context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention,
	notice string) error {
	now, unlock := s.lock()
	defer unlock()
	acc := s.of(a)
	if d <= 0 {
		acc.hold, acc.since, acc.why, acc.notice = time.Time{}, time.Time{}, dispatch.None, ""
		s.wake(a, now)
		return nil
	}
	switch {
	case why != dispatch.NeedsSignIn:
		acc.since = time.Time{}
	case acc.since.IsZero(), !acc.hold.After(now.Add(-24 * time.Hour)):
		acc.since = now
	}
	acc.hold, acc.why, acc.notice = now.Add(d.Truncate(time.Microsecond)), why, notice
	return nil
}

func (s *MemStore) FailWithoutSignIn(_ context.Context, a dispatch.Account, patience time.Duration,
	failure string) (given []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	if acc := s.of(a); acc.since.IsZero() || acc.since.After(now.Add(-patience)) {
		return nil, nil
	}
	for id, r := range s.jobs {
		if r.Account != a || !r.Phase.Inert() || r.Desired != dispatch.WantRun ||
			r.Phase == dispatch.Waiting && r.Paused {
			continue
		}
		j := &r.Job
		j.Phase, j.Status, j.Attention, j.Notice, j.Failure = dispatch.Ended, dispatch.Failed, dispatch.NeedsSignIn, "",
			failure
		j.Awaited, j.Moved, j.Updated = false, now, now
		j.Epoch++
		j.Version++
		s.jobs[id] = r
		given = append(given, *j)
	}
	return given, nil
}

func (s *MemStore) ReserveSendTime(_ context.Context, a dispatch.SendTimeRequest) (dispatch.SendTime, error) {
	now, unlock := s.lock()
	defer unlock()
	platform := a.Account.Platform()
	if s.tables[platform] == nil {
		s.tables[platform] = &dispatch.Schedule{}
	}
	booked := new(time.Time)
	if acc := s.accounts[a.Account]; acc != nil && a.Purpose != dispatch.Calling {
		booked = &acc.booked[a.Purpose]
	}
	served, anew := s.tables[platform].Reserve(a, booked, now)
	if is := *booked; anew {
		for name, acc := range s.accounts {
			if name.Platform() == platform {
				acc.booked = [2]time.Time{}
			}
		}
		*booked = is
	}
	return served, nil
}
