package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Agenda implements dispatch.Store. It reads the wakes before the jobs: a change in between is either read with the jobs or
// counted as an unseen wake.
func (s *Store) Agenda(ctx context.Context, a dispatch.Account, n int, stalled time.Duration) (g dispatch.Agenda, err error) {
	err = s.readOnly(ctx, s.look, "Agenda", func(q tx, now int64) error {
		l := accountReader{q: q, account: a, now: now, stalled: before(now, stalled)}
		g = dispatch.Agenda{Now: at(now)}
		if err := l.row(ctx, &g); err != nil {
			return err
		}
		due, err := l.nextDue(ctx, &g)
		if err != nil {
			return err
		}
		if err := l.steps(ctx, n, due, &g); err != nil {
			return err
		}
		return l.lines(ctx, &g)
	})
	return g, err
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

func (l accountReader) row(ctx context.Context, g *dispatch.Agenda) error {
	row, err := l.q.GetAccount(ctx, l.account.Platform(), l.account)
	g.Starts, g.Restored = promptness(row.PromptStarts, row.StartLag), dispatch.Restored(row.Restored)
	g.Wakes, g.Hold, g.Why = row.Wakes, at(row.Hold), row.HoldAttention
	return err
}

func (l accountReader) nextDue(ctx context.Context, g *dispatch.Agenda) (query.NextDueRow, error) {
	row, err := l.q.NextDue(ctx, l.account)
	g.NextWaiting, g.NextStart, g.NextPoll = at(row.Waiting), at(row.Start), at(row.Learn)
	g.Next, g.NextUnprepared = at(row.Cancel), at(row.Unprepared)
	if settle := at(row.Settle); g.Next.IsZero() || !settle.IsZero() && settle.Before(g.Next) {
		g.Next = settle
	}
	return row, err
}

// steps reads the jobs of each step for which any is due.
func (l accountReader) steps(ctx context.Context, n int, next query.NextDueRow, g *dispatch.Agenda) (err error) {
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
	return nil
}

// lines reads the lines that have due waiting jobs, and counts the slots in use.
func (l accountReader) lines(ctx context.Context, g *dispatch.Agenda) error {
	rows, err := l.q.CountHeld(ctx, l.stalled, l.account)
	if err != nil {
		return err
	}
	for _, h := range rows {
		g.Held += int(h.Held - h.Freed)
		g.Active += int(h.Active)
	}
	if g.NextWaiting.IsZero() || g.NextWaiting.After(g.Now) {
		return nil
	}
	waiting, err := l.q.ListLines(ctx, l.account)
	taken := slotsOf(rows)
	for _, r := range waiting {
		if r.Due <= l.now {
			g.Lines = append(g.Lines, taken.of(r))
		}
	}
	sortLines(g.Lines)
	return err
}

// slots counts the slots in use by line and by owner.
type slots struct {
	line  map[dispatch.Line]int
	owner map[dispatch.UserID]int
}

func slotsOf(rows []query.CountHeldRow) slots {
	s := slots{map[dispatch.Line]int{}, map[dispatch.UserID]int{}}
	for _, h := range rows {
		s.line[dispatch.Line{Owner: h.Owner, Task: h.Task}] += int(h.Held)
		s.owner[h.Owner] += int(h.Held)
	}
	return s
}

// of returns a line with its slots and turns.
func (s slots) of(r query.ListLinesRow) dispatch.Line {
	l := parseLine(r.Line)
	l.Held, l.OwnerHeld = s.line[l], s.owner[l.Owner]
	l.Served, l.OwnerServed, l.First, l.Due = r.Served, r.OwnerServed, dispatch.JobID(r.Head), at(r.Due)
	return l
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
		held, err := q.CountHeld(ctx, 0, a)
		if err != nil {
			return err
		}
		counts, err := q.CountWaiting(ctx, a)
		if err != nil {
			return err
		}
		waiting := map[string]int64{}
		for _, c := range counts {
			waiting[c.Line] = c.N
		}
		rows, err := q.ListLines(ctx, a)
		taken := slotsOf(held)
		lines = make([]dispatch.Line, len(rows))
		for i, r := range rows {
			lines[i] = taken.of(r)
			lines[i].Waiting = int(waiting[r.Line])
		}
		sortLines(lines)
		return err
	})
	return lines, err
}

// Waiting returns the ids of the waiting jobs of a line.
func (s *Store) Waiting(ctx context.Context, a dispatch.Account, l dispatch.Line) ([]dispatch.JobID, error) {
	ids, err := s.queries(s.read).ListWaiting(ctx, a, lineOf(l))
	return ids, fail("Waiting", err)
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

// parseLine is the inverse of lineOf. Owners may contain slashes.
func parseLine(name string) dispatch.Line {
	i := strings.LastIndexByte(name, '/')
	task, _ := strconv.ParseInt(name[i+1:], 10, 64)
	return dispatch.Line{Owner: dispatch.UserID(name[:i]), Task: dispatch.TaskID(task)}
}
