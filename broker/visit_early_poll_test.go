package broker_test

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// timedPlatform is a platform whose jobs run for a given time each. It answers after a delay, and records when its jobs
// ran, and its requests.
type timedPlatform struct {
	script
	delay time.Duration
	runs  func() time.Duration

	mu    sync.Mutex
	ran   map[dispatch.Ref][2]time.Time
	order []dispatch.Ref
	reads []time.Time // of statuses, and listings
}

// listingPlatform also has a listing.
type listingPlatform struct{ *timedPlatform }

func newTimedPlatform(delay time.Duration, runs func() time.Duration) *timedPlatform {
	c := &timedPlatform{delay: delay, runs: runs, ran: map[dispatch.Ref][2]time.Time{}}
	c.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(c.delay)
		c.mu.Lock()
		defer c.mu.Unlock()
		r := dispatch.Ref{ID: s.Tag}
		c.ran[r] = [2]time.Time{time.Now(), time.Now().Add(c.runs())}
		c.order = append(c.order, r)
		return dispatch.SubmitResult{Ref: r, Started: true}, nil
	}
	return c
}

// logNormal returns run times with a median and a deviation of their logarithm, the same ones in each test.
func logNormal(median time.Duration, deviation float64) func() time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	return func() time.Duration {
		return time.Duration(float64(median) * math.Exp(deviation*r.NormFloat64()))
	}
}

func (c *timedPlatform) report(r dispatch.Ref) dispatch.Report {
	if time.Now().Before(c.ran[r][1]) {
		return dispatch.Report{Status: dispatch.Running}
	}
	return dispatch.Report{Status: dispatch.Finished}
}

func (c *timedPlatform) read() {
	c.mu.Lock()
	c.reads = append(c.reads, time.Now())
	c.mu.Unlock()
	time.Sleep(c.delay)
}

func (c *timedPlatform) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report(r), nil
}

func (c listingPlatform) List(context.Context, dispatch.Token, string) iter.Seq2[dispatch.Listed, error] {
	return func(yield func(dispatch.Listed, error) bool) {
		c.read()
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range c.order {
			r := c.order[len(c.order)-1-i]
			if !yield(dispatch.Listed{Ref: r, Tag: r.ID, Report: c.report(r)}, nil) {
				return
			}
		}
	}
}

// busy returns for which share of the time until the last job was submitted the slots had a job, when that was, and how
// often statuses were read.
func (c *timedPlatform) busy(slots int) (share float64, whole time.Duration, reads int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, last := c.ran[c.order[0]][0], c.ran[c.order[len(c.order)-1]][0]
	var sum time.Duration
	for _, ran := range c.ran {
		sum += min(ran[1].Sub(ran[0]), last.Sub(ran[0]))
	}
	whole = last.Sub(first)
	for _, at := range c.reads {
		if at.Before(last) {
			reads++
		}
	}
	return sum.Seconds() / whole.Seconds() / float64(slots), whole, reads
}

// taken waits until the platform has taken n jobs.
func (c *timedPlatform) taken(n int) {
	for {
		c.mu.Lock()
		taken := len(c.order)
		c.mu.Unlock()
		if taken >= n {
			return
		}
		time.Sleep(time.Second)
	}
}

// openWithTenSlots opens a broker for a platform with ten slots.
func openWithTenSlots(s conformance.Store, p dispatch.Platform, change func(*dispatch.Limits)) *testBroker {
	b := backend("a", dispatch.AccessShared, p)
	b.Limits.Jobs, b.Limits.Requests, b.Limits.MinPoll = 10, 8, 2*time.Second
	if change != nil {
		change(&b.Limits)
	}
	return open(s, b)
}

// While jobs wait, slots are busy for 97 % of the time, whatever the run times are.
func TestEarlyPolls_SlotsAreBusy(t *testing.T) {
	detector.Skip(t)
	for _, c := range []struct {
		name   string
		runs   func() time.Duration
		jobs   int
		single bool
		reads  float64 // of each job, at most; most of them are made whether jobs wait or not
	}{
		{"1 min", logNormal(time.Minute, .5), 60, false, 6},
		{"10 min", logNormal(10*time.Minute, .5), 60, false, 40},
		{"3 h", logNormal(3*time.Hour, .5), 30, false, 80},
		{"10 min, always", logNormal(10*time.Minute, 0), 60, false, 10},
		{"1 min, without a listing", logNormal(time.Minute, .5), 60, true, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTimedPlatform(50*time.Millisecond, c.runs)
				var platform dispatch.Platform = listingPlatform{p}
				if c.single {
					platform = p
				}
				h := openWithTenSlots(conformance.NewMemStore(clock{}), platform, nil)
				defer h.stop()
				h.task(t, c.jobs)
				p.taken(c.jobs)
				share, whole, reads := p.busy(10)
				if each := float64(reads) / float64(c.jobs); share < .97 || each > c.reads {
					t.Errorf("slots are busy for %.4f of %v, want .97; each job is read %.1f times, want at most %.0f",
						share, whole, each, c.reads)
				}
			})
		})
	}
}

// Two listings that are read only because jobs wait are limits.min_poll apart, five send times, 2 % of the run time, or
// as long as a listing takes. All reads are counted, also those that do not depend on waiting jobs: for these, a job of
// a fixed run time has ten at most.
func TestEarlyPolls_AreBounded(t *testing.T) {
	detector.Skip(t)
	for _, c := range []struct {
		name        string
		delay, runs time.Duration
		change      func(*dispatch.Limits)
		gap         time.Duration
	}{
		{"min_poll", 20 * time.Millisecond, 3 * time.Second, func(l *dispatch.Limits) { l.MinPoll = 5 * time.Second },
			5 * time.Second},
		{"no min_poll", 20 * time.Millisecond, 100 * time.Millisecond, func(l *dispatch.Limits) { l.MinPoll = 0 },
			250 * time.Millisecond},
		{"rate", 20 * time.Millisecond, 3 * time.Second, func(l *dispatch.Limits) { l.Pace = time.Second },
			5 * time.Second},
		{"slow listings", 8 * time.Second, 10 * time.Second, nil, 8 * time.Second},
		{"long jobs", 20 * time.Millisecond, time.Hour, nil, 72 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTimedPlatform(c.delay, logNormal(c.runs, .3))
				h := openWithTenSlots(conformance.NewMemStore(clock{}), listingPlatform{p}, c.change)
				defer h.stop()
				const jobs = 60
				h.task(t, jobs)
				p.taken(jobs)
				_, whole, reads := p.busy(10)
				planned := jobs * 10 * max(1, int(c.runs/(10*time.Minute)))
				if c.runs < 5*time.Second {
					planned = jobs // none is alive when its first planned read comes, unless a look was late
				}
				if most := int(whole/c.gap) + planned; reads > most {
					t.Errorf("%d reads in %v, want at most %d", reads, whole, most)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				for i, at := range p.reads[1:] {
					if c.name == "no min_poll" && at.Sub(p.reads[i]) < c.gap {
						t.Errorf("a listing %v after the one before", at.Sub(p.reads[i]))
					}
				}
			})
		})
	}
}

// When no job waits, statuses are read as rarely as Timing says.
func TestEarlyPolls_OnlyWhileJobsWait(t *testing.T) {
	counts := map[bool]int{}
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newTimedPlatform(20*time.Millisecond, func() time.Duration { return 2 * time.Minute })
			h := openWithTenSlots(conformance.NewMemStore(clock{}), listingPlatform{p}, nil)
			defer h.stop()
			if h.task(t, 10); waits {
				h.task(t, 1)
			}
			time.Sleep(119 * time.Second)
			p.mu.Lock()
			defer p.mu.Unlock()
			counts[waits] = len(p.reads)
		})
	}
	if counts[false] == 0 || counts[true] < 2*counts[false] {
		t.Errorf("%d reads of ten jobs, %d while another one waits", counts[false], counts[true])
	}
}
