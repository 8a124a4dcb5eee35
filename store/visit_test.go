package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// prompt is a two-step platform that responds to each submit after 50 ms, and expects the given number of jobs.
type prompt struct {
	jobs   int64
	made   atomic.Int64
	begun  atomic.Int64
	ending chan struct{} // closed when all have started
}

func (p *prompt) TwoStep() bool                         { return true }
func (p *prompt) Base(dispatch.Service) (string, error) { return "", nil }
func (p *prompt) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (p *prompt) Invalidate(dispatch.Account, dispatch.Token) {}

func (p *prompt) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	<-time.After(50 * time.Millisecond)
	if s.Ref == (dispatch.Ref{}) {
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: fmt.Sprint(p.made.Add(1))}}, nil
	}
	if p.begun.Add(1) == p.jobs {
		close(p.ending)
	}
	return dispatch.SubmitResult{Ref: s.Ref, Started: true}, nil
}

func (p *prompt) Status(context.Context, dispatch.Token, dispatch.Ref) (dispatch.Report, error) {
	return dispatch.Report{Status: dispatch.Running}, nil
}

func (p *prompt) Results(context.Context, dispatch.Token, dispatch.Ref) (json.RawMessage, error) {
	return nil, &dispatch.Error{Kind: dispatch.Conflict}
}

// BenchmarkPerformanceOfVisits counts the statements, transactions and CPU time that starting a job takes.
func BenchmarkPerformanceOfVisits(b *testing.B) {
	for _, requests := range []int{8, 32} {
		for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(b.TempDir(), "v.db"),
			"PostgreSQL": postgres.Database(b)} {
			before := conformance.CPU(b)
			queries, transactions := perJob(b, dsn, requests, 1000)
			fmt.Fprintf(os.Stdout,
				"%s, requests: %d: %.1f statements, %.2f transactions, %v of CPU without the server's, per started "+
					"job (two requests, as in openEO)\n",
				name, requests, queries, transactions, ((conformance.CPU(b) - before) / 1000).Round(10*
					time.Microsecond))
		}
	}
}

// TestVisit_QueriesPerJob limits the statements and transactions per started job, which grow if turns do unnecessary
// work.
func TestVisit_QueriesPerJob(t *testing.T) {
	queries, transactions := perJob(t, "sqlite:"+filepath.Join(t.TempDir(), "v.db"), 8, 100)
	t.Logf("%.1f statements, %.2f transactions per job", queries, transactions)
	if queries > 16 || transactions > 4 {
		t.Error("too many; want at most 16 statements and 4 transactions")
	}
}

func perJob(t testing.TB, dsn string, requests, jobs int) (queries, transactions float64) {
	t.Helper()
	s := open(t, dsn, conformance.WallClock{})
	q, x := store.Count(s)
	p := &prompt{jobs: int64(jobs), ending: make(chan struct{})}
	limits := dispatch.Limits{Jobs: 10_000, Requests: requests, MinPoll: time.Hour, Send: 30 * time.Second}
	b := conformance.NewBroker(s, p, &dispatch.Backend{Name: "p", Access: dispatch.AccessOpen, Platform: p,
		Limits: limits})
	task := &dispatch.Task{Owner: "ann", Account: "p/open", Request: dispatch.Request{Parameters: []byte(`{}`)},
		Dimension: "d"}
	kept := make([]dispatch.Draft, jobs)
	for i := range kept {
		kept[i] = dispatch.Draft{Body: []byte("1"), Job: dispatch.Job{Identity: dispatch.Identity{Number: i + 1,
			Owner: "ann"}, Target: dispatch.Target{Account: "p/open"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, kept); err != nil {
		t.Fatal(err)
	}
	q.Store(0)
	x.Store(0)
	stop := conformance.RunBroker(b)
	<-p.ending
	stop()
	return float64(q.Load()) / float64(jobs), float64(x.Load()) / float64(jobs)
}

// ready is a one-step platform that responds at once.
type ready struct{ prompt }

func (*ready) TwoStep() bool { return false }

func (p *ready) Submit(context.Context, dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: fmt.Sprint(p.made.Add(1))}, Started: true}, nil
}

// BenchmarkPerformanceOfConsecutiveJobs measures the time from a request to the answer of a platform that responds at
// once, for a client that submits one job after the other, with the statements and transactions of each.
func BenchmarkPerformanceOfConsecutiveJobs(b *testing.B) {
	const jobs = 300
	for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(b.TempDir(), "c.db"),
		"PostgreSQL": postgres.Database(b)} {
		s := open(b, dsn, conformance.WallClock{})
		queries, transactions := store.Count(s)
		p := &ready{}
		limits := dispatch.Limits{Jobs: 10_000, Requests: 8, MinPoll: time.Hour, Send: 30 * time.Second}
		br := conformance.NewBroker(s, p, &dispatch.Backend{Name: "p", Label: dispatch.OGCProcess,
			Endpoint: "https://p.example", Access: dispatch.AccessOpen, Platform: p, Limits: limits})
		stop := conformance.RunBroker(br)
		var times []time.Duration
		before := conformance.CPU(b)
		for range jobs {
			begin := time.Now()
			_, err := br.Accept(b.Context(), "ann", dispatch.Request{Title: "t", Label: dispatch.OGCProcess,
				Format:  "json",
				Service: dispatch.Service{Endpoint: "https://p.example", Application: "app"}}, dispatch.Key{})
			if err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(begin))
		}
		used := conformance.CPU(b) - before
		stop()
		slices.Sort(times)
		fmt.Fprintf(os.Stdout,
			"%s, consecutive jobs: %v (median), %v of CPU without the server's, %.1f statements, %.2f transactions "+
				"for each\n", name, times[jobs/2].Round(10*time.Microsecond), (used / jobs).Round(10*time.Microsecond),
			float64(queries.Load())/jobs, float64(transactions.Load())/jobs)
	}
}

// TestUntil_IsBoundedForAllTimes: also for the time of paused jobs. No [time.Duration] reaches that far.
func TestUntil_IsBoundedForAllTimes(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).UnixMicro()
	for then, want := range map[int64]time.Duration{
		0: time.Hour, now - 1: 0, now: 0, now + 1000: time.Millisecond, now + time.Hour.Microseconds() + 1: time.Hour,
		dispatch.Never.UnixMicro(): time.Hour, math.MaxInt64: time.Hour,
	} {
		if got := store.Until(now, then); got != want {
			t.Errorf("%v until %d, want %v", got, then, want)
		}
	}
}
