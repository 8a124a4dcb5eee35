package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkPerformanceOfRefusals measures how long an acceptance takes for eight users who post jobs at the same time:
// without and with a ninth who is over the quota and posts in a loop.
func BenchmarkPerformanceOfRefusals(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, _ func()) {
		quota := dispatch.Quota{Live: 1}
		over := func(ctx context.Context) error {
			jobs := drafts(1)
			jobs[0].Owner, jobs[0].Account = "over", "p/over"
			_, err := s.Accept(ctx, dispatch.Key{}, nil, jobs, quota)
			return err
		}
		if err := over(b.Context()); err != nil {
			b.Fatal(err)
		}
		alone := medianAcceptance(b, s)
		ctx, stop := context.WithCancel(b.Context())
		refused, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				if err := over(b.Context()); !dispatch.Is(err, dispatch.LimitReached) {
					b.Error(err)
					return
				}
				refused++
			}
		}()
		beside := medianAcceptance(b, s)
		stop()
		<-ended
		fmt.Fprintf(os.Stdout, "%s: a job is accepted in %v (median), and in %v beside %d refusals: %.2f\n", b.Name(),
			alone.Round(10*time.Microsecond), beside.Round(10*time.Microsecond), refused,
			float64(beside)/float64(alone))
	})
}

// medianAcceptance returns the median duration of the acceptances of eight users, each of whom posts 200 jobs.
func medianAcceptance(b *testing.B, s conformance.Store) time.Duration {
	b.Helper()
	var mu sync.Mutex
	var times []time.Duration
	var users sync.WaitGroup
	for user := range 8 {
		users.Go(func() {
			for range 200 {
				jobs := drafts(1)
				jobs[0].Owner = dispatch.UserID(fmt.Sprintf("user %d", user))
				jobs[0].Account = dispatch.Account("p/" + jobs[0].Owner)
				begun := time.Now()
				_, err := s.Accept(b.Context(), dispatch.Key{}, nil, jobs, dispatch.Quota{Live: 1_000_000})
				took := time.Since(begun)
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	slices.Sort(times)
	return times[len(times)/2]
}
