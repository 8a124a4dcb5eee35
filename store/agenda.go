package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Agenda implements dispatch.Store. It reads the wakes before the jobs, or with them: a change in between is either read with the jobs or
// counted as an unseen wake.
func (s *Store) Agenda(ctx context.Context, a dispatch.Account, n int, stalled time.Duration) (g dispatch.Agenda, err error) {
	err = s.readOnly(ctx, s.look, "Agenda", func(q tx, now int64) error {
		l := accountReader{q: q, account: a, now: now, stalled: before(now, stalled)}
		row, err := q.GetAgenda(ctx, a.Platform(), a)
		if err != nil {
			return err
		}
		g = agendaOf(row)
		g.Now = at(now)
		if err := l.steps(ctx, n, row, &g); err != nil {
			return err
		}
		if g.Held, err = l.withoutFreed(ctx, row.Held); err != nil {
			return err
		}
		return l.lines(ctx, &g)
	})
	return g, err
}

func agendaOf(row query.GetAgendaRow) dispatch.Agenda {
	g := dispatch.Agenda{Starts: promptness(row.PromptStarts, row.StartLag), Restored: dispatch.Restored(row.Restored),
		Wakes: row.Wakes, Hold: at(row.Hold), Why: row.HoldAttention, Operator: row.OperatorNotice, Active: int(row.Active),
		NextWaiting: ever(row.Waiting), NextStart: at(row.Start), NextPoll: at(row.Learn),
		Next: at(row.Cancel), NextUnprepared: at(row.Unprepared), NextMeter: at(row.Meter), NextRemove: at(row.Remove)}
	if settle := at(row.Settle); g.Next.IsZero() || !settle.IsZero() && settle.Before(g.Next) {
		g.Next = settle
	}
	return g
}

// accountReader reads the state of one account.
type accountReader struct {
	q       tx
	account dispatch.Account
	now     int64
	stalled int64 // jobs without progress since then hold no slot
}

// before returns the time a span before now; 0, which is before everything, if the span is 0.
func before(now int64, span time.Duration) int64 {
	if span <= 0 {
		return 0
	}
	return now - span.Microseconds()
}

// ever returns when a waiting job is due; zero if that is dispatch.Never.
func ever(due int64) time.Time {
	if due >= micros(dispatch.Never) {
		return time.Time{}
	}
	return at(due)
}

// steps reads the jobs of each step for which any is due.
func (l accountReader) steps(ctx context.Context, n int, next query.GetAgendaRow, g *dispatch.Agenda) (err error) {
	for _, s := range []struct {
		name string
		due  int64 // of the first job; 0: there is none
		jobs *[]dispatch.Job
	}{
		{"cancel", next.Cancel, &g.Cancel}, {"settle", next.Settle, &g.Settle}, {"start", next.Start, &g.Start}, {"learn", next.Learn, &g.Poll},
	} {
		if s.due == 0 || s.due > l.now {
			continue
		}
		p := query.ListDueParams{Account: l.account, Step: s.name, Now: l.now, N: int64(n)}
		if *s.jobs, err = jobsOf(l.q.ListDue(ctx, p)); err != nil {
			return err
		}
	}
	if next.Meter > 0 && next.Meter <= l.now {
		if g.Meter, err = jobsOf(l.q.ListUnmetered(ctx, l.account, l.now, int64(n))); err != nil {
			return err
		}
	}
	if next.Remove > 0 && next.Remove <= l.now {
		g.Remove, err = jobsOf(l.q.ListToRemove(ctx, l.account, l.now, int64(n)))
	}
	return err
}

// lines reads the lines that have due waiting jobs. If none has, those that are due belong to tasks that a change under way stops, and the end of the
// change wakes the account.
func (l accountReader) lines(ctx context.Context, g *dispatch.Agenda) error {
	if g.NextWaiting.IsZero() || g.NextWaiting.After(g.Now) {
		return nil
	}
	all, err := l.allLines(ctx)
	g.NextWaiting = time.Time{}
	for _, line := range all {
		if g.NextWaiting.IsZero() || line.Due.Before(g.NextWaiting) {
			g.NextWaiting = line.Due
		}
		if micros(line.Due) <= l.now {
			line.Waiting = 0
			g.Lines = append(g.Lines, line)
		}
	}
	return err
}

// withoutFreed returns how many slots are in use if so many jobs hold one, unless they stalled.
func (l accountReader) withoutFreed(ctx context.Context, held int64) (int, error) {
	if l.stalled == 0 {
		return int(held), nil
	}
	freed, err := l.q.CountFreed(ctx, l.account, l.stalled)
	return int(held - freed), err
}

// allLines returns the lines that have waiting jobs which are not paused, sorted, with their slots and turns.
func (l accountReader) allLines(ctx context.Context) ([]dispatch.Line, error) {
	rows, err := l.q.ListLines(ctx, l.account)
	lines := make([]dispatch.Line, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, dispatch.Line{Owner: dispatch.UserID(r.Owner), Task: dispatch.TaskID(r.Task), Held: int(r.Held), OwnerHeld: int(r.OwnerHeld),
			Waiting: int(r.Waiting), Served: r.Served, OwnerServed: r.OwnerServed, First: dispatch.JobID(r.Head), Due: at(r.Due)})
	}
	sortLines(lines)
	return lines, err
}

// sortLines sorts in Go, because databases differ in their collation.
func sortLines(lines []dispatch.Line) {
	slices.SortFunc(lines, func(a, b dispatch.Line) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Task, b.Task))
	})
}

// Lines returns all lines of an account that have waiting jobs.
func (s *Store) Lines(ctx context.Context, a dispatch.Account) (lines []dispatch.Line, err error) {
	err = s.in(ctx, s.read, "Lines", func(q tx, _ int64) error {
		lines, err = accountReader{q: q, account: a}.allLines(ctx)
		return err
	})
	return lines, err
}

// Waiting returns the ids of the waiting jobs of a line from one to another.
func (s *Store) Waiting(ctx context.Context, a dispatch.Account, l dispatch.Line, from, to dispatch.Rank) ([]dispatch.JobID, error) {
	ids, err := s.queries(s.read).ListWaiting(ctx, query.ListWaitingParams{Account: a, Line: lineOf(l),
		FirstDue: micros(from.Due), FirstID: int64(from.ID), LastDue: micros(to.Due), LastID: int64(to.ID)})
	return ids, fail("Waiting", err)
}

// WaitingBefore returns how many waiting jobs of the line of j come before it.
func (s *Store) WaitingBefore(ctx context.Context, j dispatch.Job) (int, error) {
	n, err := s.queries(s.read).CountWaitingBefore(ctx, query.CountWaitingBeforeParams{Account: j.Account,
		Line: lineOf(dispatch.Line{Owner: j.Owner, Task: j.Task}), Due: micros(j.Due), ID: int64(j.ID)})
	return int(n), fail("WaitingBefore", err)
}

// Ready returns the first n waiting jobs of a line that are due.
func (s *Store) Ready(ctx context.Context, a dispatch.Account, l dispatch.Line, n int) (jobs []dispatch.Job, err error) {
	err = s.readOnly(ctx, s.look, "Ready", func(q tx, now int64) error {
		jobs, err = jobsOf(q.ListReady(ctx, query.ListReadyParams{Account: a, Line: lineOf(l), Now: now, N: int64(n)}))
		return err
	})
	return jobs, err
}

// Unprepared returns waiting jobs that are due and whose document could not be fetched.
func (s *Store) Unprepared(ctx context.Context, a dispatch.Account, n int) (jobs []dispatch.Job, err error) {
	err = s.readOnly(ctx, s.look, "Unprepared", func(q tx, now int64) error {
		jobs, err = jobsOf(q.ListUnprepared(ctx, a, now, int64(n)))
		return err
	})
	return jobs, err
}

// Listable returns the account's jobs below a base URL that a listing can report on.
func (s *Store) Listable(ctx context.Context, a dispatch.Account, base string) ([]dispatch.Job, error) {
	jobs, err := jobsOf(s.queries(s.look).Listable(ctx, a, base))
	return jobs, fail("Listable", err)
}

// Running returns n started and wanted jobs of the account, by due.
func (s *Store) Running(ctx context.Context, a dispatch.Account, n int) ([]dispatch.Job, error) {
	jobs, err := jobsOf(s.queries(s.look).ListRunning(ctx, a, int64(n)))
	return jobs, fail("Running", err)
}

// Bases returns the bases of all the account's jobs, sorted in Go because databases differ in their collation.
func (s *Store) Bases(ctx context.Context, a dispatch.Account) ([]string, error) {
	bases, err := s.queries(s.look).ListBases(ctx, a)
	slices.Sort(bases)
	return bases, fail("Bases", err)
}

// lineOf returns the name of a line in the database.
func lineOf(l dispatch.Line) string {
	return string(l.Owner) + "/" + strconv.FormatInt(int64(l.Task), 10)
}
