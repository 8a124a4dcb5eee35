package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

type zzStat struct {
	n int
	d time.Duration
}

var (
	zzMu  sync.Mutex
	zzAll = map[string]*zzStat{}
)

func zzNote(q string, t time.Time) {
	d := time.Since(t)
	zzMu.Lock()
	defer zzMu.Unlock()
	s := zzAll[q]
	if s == nil {
		s = &zzStat{}
		zzAll[q] = s
	}
	s.n++
	s.d += d
}

type zzQ struct{ querier }

func (c zzQ) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	defer zzNote(q, time.Now())
	return c.querier.ExecContext(ctx, q, args...)
}
func (c zzQ) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	defer zzNote(q, time.Now())
	return c.querier.QueryContext(ctx, q, args...)
}
func (c zzQ) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	defer zzNote(q, time.Now())
	return c.querier.QueryRowContext(ctx, q, args...)
}

// ZZTrace times statements.
func ZZTrace(s *Store) {
	adapt := s.adapt
	s.adapt = func(db *sql.DB, on querier) querier { return zzQ{adapt(db, on)} }
}

// ZZReport prints them.
func ZZReport(jobs int) {
	type r struct {
		q string
		*zzStat
	}
	var all []r
	var n int
	var d time.Duration
	for q, s := range zzAll {
		all = append(all, r{q, s})
		n += s.n
		d += s.d
	}
	sort.Slice(all, func(i, j int) bool { return all[i].d > all[j].d })
	fmt.Fprintf(os.Stdout, "TOTAL %.2f/job %.1fus/job\n", float64(n)/float64(jobs), float64(d.Microseconds())/float64(jobs))
	for i, a := range all {
		if i > 45 {
			break
		}
		q := a.q
		q = oneLine(q)
		if len(q) > 230 {
			q = q[:160] + " ... " + q[len(q)-70:]
		}
		fmt.Fprintf(os.Stdout, "%6.2f/job %7.1fus/job %6.1fus each  %s\n", float64(a.n)/float64(jobs), float64(a.d.Microseconds())/float64(jobs), float64(a.d.Microseconds())/float64(a.n), q)
	}
	zzAll = map[string]*zzStat{}
}
