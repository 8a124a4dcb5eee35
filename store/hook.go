package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Hooks = (*Store)(nil)

// AddHook stores a new hook, unless its owner has too many.
func (s *Store) AddHook(ctx context.Context, h dispatch.Hook, most int) error {
	return s.in(ctx, s.write, "AddHook", func(q tx, now int64) error {
		if err := s.lockInTransaction(ctx, q, "hooks of "+string(h.Owner)); err != nil {
			return err
		}
		rows, err := q.AddHook(ctx, query.AddHookParams{ID: h.ID, Owner: h.Owner, Kind: string(h.Kind), Url: h.URL, Statuses: joinStatuses(h.Statuses), Key: h.Key, Sealed: h.Text,
			Now: now, Most: int64(most)})
		if err == nil && rows == 0 {
			return &dispatch.Error{Kind: dispatch.LimitReached, Op: "store.AddHook", RetryAfter: time.Hour, Text: "You have too many hooks. Delete one first."}
		}
		return err
	})
}

// Hook returns a hook of a user.
func (s *Store) Hook(ctx context.Context, u dispatch.UserID, id string) (dispatch.Hook, error) {
	row, err := s.queries(s.read).GetHook(ctx, id, u)
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.Hook{}, noHook(err)
	}
	return hookOf(row), fail("Hook", err)
}

// Hooks returns the hooks of a job, of a task, or of all jobs of a user.
func (s *Store) Hooks(ctx context.Context, u dispatch.UserID, of dispatch.JobID, or dispatch.TaskID) ([]dispatch.Hook, error) {
	rows, err := s.queries(s.read).ListHooks(ctx, u, of, int64(or))
	return hooksOf(rows), fail("Hooks", err)
}

// DeleteHook deletes a hook. Its deliveries that a process has claimed may still be sent.
func (s *Store) DeleteHook(ctx context.Context, u dispatch.UserID, id string) error {
	return s.in(ctx, s.write, "DeleteHook", func(q tx, _ int64) error {
		rows, err := q.DeleteHook(ctx, id, u)
		if err == nil && rows == 0 {
			return noHook(nil)
		}
		return errors.Join(err, q.DeleteDeliveries(ctx, id))
	})
}

// Deliveries returns the last deliveries of a hook.
func (s *Store) Deliveries(ctx context.Context, u dispatch.UserID, id string, n int) ([]dispatch.Delivery, error) {
	if _, err := s.Hook(ctx, u, id); err != nil {
		return nil, err
	}
	rows, err := s.queries(s.read).ListDeliveries(ctx, id, int64(n))
	return deliveriesOf(rows), fail("Deliveries", err)
}

// TestHook adds a test delivery to a hook, unless it had many lately. release has locked the hook, so that no other process counts meanwhile.
func (s *Store) TestHook(ctx context.Context, u dispatch.UserID, id string) error {
	return s.release(ctx, "TestHook", u, id, func(q tx, now int64) error {
		had, err := q.CountTests(ctx, id, now-dispatch.TestsWithin.Microseconds())
		if err != nil {
			return err
		}
		if had.Tests >= dispatch.MostTests {
			return &dispatch.Error{Kind: dispatch.LimitReached, Op: "store.TestHook", RetryAfter: dispatch.TestsWithin / dispatch.MostTests,
				Text: fmt.Sprintf("This hook was sent %d tests in the last %v. Wait before you send another.", had.Tests, dispatch.TestsWithin)}
		}
		return q.AddTestDelivery(ctx, id, int(max(now, had.Last+1)), now)
	})
}

// SendAgain makes a stored delivery due.
func (s *Store) SendAgain(ctx context.Context, u dispatch.UserID, id string, e dispatch.Event) error {
	return s.release(ctx, "SendAgain", u, id, func(q tx, now int64) error {
		rows, err := q.SendAgain(ctx, query.SendAgainParams{Now: now, Hook: id, Job: subjectOf(e), Epoch: e.Epoch, Status: e.Status})
		if err == nil && rows == 0 {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.SendAgain", Text: "This hook has no such delivery."}
		}
		return err
	})
}

// release tries the receiver of a hook again, unless it was tried a moment ago, and changes deliveries of the hook.
func (s *Store) release(ctx context.Context, op string, u dispatch.UserID, id string, change func(q tx, now int64) error) error {
	return s.in(ctx, s.write, op, func(q tx, now int64) error {
		if _, err := q.GetHook(ctx, id, u); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return noHook(err)
			}
			return err
		}
		if err := q.ReleaseHook(ctx, now-dispatch.ReleasesEvery.Microseconds(), id); err != nil {
			return err
		}
		return change(q, now)
	})
}

// DueHooks returns hooks with due deliveries.
func (s *Store) DueHooks(ctx context.Context, n, each int) (due []dispatch.Hook, err error) {
	err = s.readOnly(ctx, s.read, "DueHooks", func(q tx, now int64) error {
		rows, err := q.ListDueHooks(ctx, now, int64(each), int64(n))
		due = hooksOf(rows)
		return err
	})
	return due, err
}

// ClaimDeliveries takes due deliveries of a hook.
func (s *Store) ClaimDeliveries(ctx context.Context, hook string, lease time.Duration, n int) (claimed []dispatch.Delivery, err error) {
	err = s.in(ctx, s.write, "ClaimDeliveries", func(q tx, now int64) error {
		rows, err := q.ClaimDeliveries(ctx, query.ClaimDeliveriesParams{Lease: now + lease.Microseconds(), Now: now, Hook: hook, N: int64(n)})
		claimed = deliveriesOf(rows)
		return err
	})
	return claimed, err
}

// SettleDeliveries stores the results of tries.
func (s *Store) SettleDeliveries(ctx context.Context, h dispatch.Hook, all []dispatch.Delivery) error {
	return s.in(ctx, s.write, "SettleDeliveries", func(q tx, now int64) error {
		for _, d := range all {
			if err := q.SettleDelivery(ctx, query.SettleDeliveryParams{State: string(d.State), Due: micros(d.Due), Answer: d.Answer, Notice: d.Notice,
				Hook: d.Hook, Job: subjectOf(d.Event), Epoch: d.Epoch, Status: d.Status, Tries: d.Tries}); err != nil {
				return err
			}
		}
		if h.Gone {
			if err := q.EndDeliveries(ctx, "The receiver answered that it wants nothing more.", h.ID); err != nil {
				return err
			}
		}
		return q.SettleHook(ctx, query.SettleHookParams{Failures: int64(h.Failures), Hold: micros(h.Hold), Gone: h.Gone, Now: now, ID: h.ID})
	})
}

func joinStatuses(all []dispatch.Status) string {
	text := "|"
	for _, s := range all {
		text += string(s) + "|"
	}
	return text
}

func hooksOf(rows []query.Hook) []dispatch.Hook {
	all := make([]dispatch.Hook, len(rows))
	for i, r := range rows {
		all[i] = hookOf(r)
	}
	return all
}

func hookOf(r query.Hook) dispatch.Hook {
	h := dispatch.Hook{ID: r.ID, Owner: r.Owner, Kind: dispatch.HookKind(r.Kind), Job: r.Job, Task: r.Task, URL: r.Url, Gone: r.Gone, Failures: int(r.Failures), Hold: at(r.Hold), Created: at(r.Created),
		Sealed: dispatch.Sealed{Key: r.Key, Text: r.Sealed}}
	h.Statuses = splitStatuses(r.Statuses)
	return h
}

// splitStatuses is the inverse of joinStatuses.
func splitStatuses(text string) (all []dispatch.Status) {
	for s := range strings.SplitSeq(strings.Trim(text, "|"), "|") {
		all = append(all, dispatch.Status(s))
	}
	return all
}

func deliveriesOf(rows []query.Delivery) []dispatch.Delivery {
	all := make([]dispatch.Delivery, len(rows))
	for i, r := range rows {
		all[i] = dispatch.Delivery{Hook: r.Hook, Event: eventOf(r), Task: r.Task, Number: r.Number,
			Happened: at(r.Happened), Queued: at(r.Queued), Due: at(r.Due), State: dispatch.DeliveryState(r.State), Tries: r.Tries, Tried: at(r.Tried),
			Answer: r.Answer, Notice: r.Notice}
	}
	return all
}

// subjectOf returns what an event is stored under: the number of its job, or that of its task with a minus.
func subjectOf(e dispatch.Event) dispatch.JobID {
	if e.Of != 0 {
		return dispatch.JobID(-e.Of)
	}
	return e.Job
}

// eventOf is the inverse of subjectOf.
func eventOf(r query.Delivery) dispatch.Event {
	e := dispatch.Event{Job: r.Job, Epoch: r.Epoch, Status: r.Status}
	if r.Job < 0 {
		e.Job, e.Of = 0, dispatch.TaskID(-r.Job)
	}
	return e
}

func noHook(err error) error {
	return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.Hook", Text: "You have no such hook.", Err: err}
}
