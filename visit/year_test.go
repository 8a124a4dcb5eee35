package visit

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

var wholeYear = flag.Bool("year", false, "simulate a year of 1,000 platforms instead of 10")

const (
	simulated = 365 * dispatch.Day
	jobsAYear = 10_400 // of one platform, on average
)

// TestYear_QueuesStayBounded simulates a year of platforms on a clock that jumps from event to event: jobs and tasks
// arrive in the rhythm of days and weeks, share gives the slots, Timing plans the status reads that show which jobs
// have ended, and Schedule gives send times. Queues that have room for their jobs do not grow, and slots do not stand
// empty. Those of platforms with too little room do grow, which shows that this would be seen.
func TestYear_QueuesStayBounded(t *testing.T) {
	detector.Skip(t)
	platforms := 10
	if *wholeYear {
		platforms = 1000
	}
	is := simulatePlatforms(platforms, .7)
	t.Logf("%d platforms whose slots are busy for 70 %% of the time: %s", platforms, is)
	if is.jobs < 10_000*platforms {
		t.Errorf("%d jobs are too few", is.jobs)
	}
	if is.grow() {
		t.Error("the queues grow")
	}
	if is.idle() > .02 {
		t.Errorf("slots were empty for %.1f %% of the time in which jobs waited", 100*is.idle())
	}
	if over := simulatePlatforms(10, 1.2); !over.grow() {
		t.Errorf("the queues of platforms that get more than they can run do not grow: %s", over)
	}
}

// yearOfPlatforms is what simulations of platforms show, all together.
type yearOfPlatforms struct {
	jobs, reads, singles  int
	waited                [4]float64    // seconds for which jobs waited, by quarter
	most, queueCount      int           // jobs and queues that waited at one platform at once, at most
	backlog               time.Duration // the longest time for which jobs always waited at a platform
	single                time.Duration // sum of the times for which single jobs waited
	sendWait              time.Duration // the longest wait of a request for its send time
	emptySlots, allOfThem float64       // seconds for which slots were empty, and all slots, while jobs waited
}

// grow reports whether much more jobs waited in the last quarter than in the second.
func (y *yearOfPlatforms) grow() bool { return y.waited[3] > 1.5*y.waited[1] }

func (y *yearOfPlatforms) idle() float64 { return y.emptySlots / y.allOfThem }

func (y *yearOfPlatforms) String() string {
	text := fmt.Sprintf("%d jobs, each seen by %.0f status reads at most. On average", y.jobs,
		float64(y.reads)/float64(y.jobs))
	for i, w := range y.waited {
		text += fmt.Sprintf(" %.0f", w/(simulated/4).Seconds())
		if i < 3 {
			text += ","
		}
	}
	return text + fmt.Sprintf(
		" jobs wait in the four quarters, %d at most at one platform, in %d queues at most. After %.1f days at most "+
			"no job waits there. "+
			"Single jobs wait for %s on average, requests for their send time for %s at most. Slots are empty for "+
			"%.2f %% of the time in which jobs wait.",
		y.most, y.queueCount, y.backlog.Hours()/24, (y.single/time.Duration(y.singles)).Round(time.Minute),
		y.sendWait.Round(time.Millisecond), 100*y.idle())
}

func (y *yearOfPlatforms) add(p *yearOfPlatforms) {
	y.jobs, y.reads, y.singles, y.single = y.jobs+p.jobs, y.reads+p.reads, y.singles+p.singles, y.single+p.single
	for i := range y.waited {
		y.waited[i] += p.waited[i]
	}
	y.most, y.queueCount = max(y.most, p.most), max(y.queueCount, p.queueCount)
	y.backlog, y.sendWait = max(y.backlog, p.backlog), max(y.sendWait, p.sendWait)
	y.emptySlots, y.allOfThem = y.emptySlots+p.emptySlots, y.allOfThem+p.allOfThem
}

// simulatePlatforms simulates n platforms, whose jobs need a share of the time of their slots.
func simulatePlatforms(n int, load float64) *yearOfPlatforms {
	all, each := &yearOfPlatforms{}, make(chan int)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range each {
				p := newSimulatedPlatform(i, load)
				p.run()
				mu.Lock()
				all.add(&p.yearOfPlatforms)
				mu.Unlock()
			}
		})
	}
	for i := range n {
		each <- i
	}
	close(each)
	workers.Wait()
	return all
}

// simulatedPlatform is a platform with a shared account. Times are since the begin of the year.
type simulatedPlatform struct {
	yearOfPlatforms
	random *rand.Rand
	timing dispatch.Timing
	slots  int
	median float64 // seconds that a job runs

	now      time.Duration
	arrival  time.Duration    // of the next request
	queues   []dispatch.Queue // that have waiting jobs
	alone    map[dispatch.UserID][]time.Duration
	held     map[dispatch.Queue]int // by owner and task
	heldBy   map[dispatch.UserID]int
	turns    map[dispatch.Queue]int64
	turnOf   map[dispatch.UserID]int64
	served   int64
	running  []simulatedJob
	waiting  int
	since    time.Duration // when jobs began to wait
	schedule dispatch.Schedule
	booked   time.Time
	sent     time.Time // when the last request was sent
}

type simulatedJob struct {
	queue       dispatch.Queue // its owner and task
	ended, seen time.Duration
}

const deviation = 1. // of the logarithm of run times

func newSimulatedPlatform(seed int, load float64) *simulatedPlatform {
	p := &simulatedPlatform{random: rand.New(rand.NewPCG(uint64(seed), 1)), timing: dispatch.Timing{}.Complete(),
		alone: map[dispatch.UserID][]time.Duration{},
		held:  map[dispatch.Queue]int{}, heldBy: map[dispatch.UserID]int{}, turns: map[dispatch.Queue]int64{},
		turnOf: map[dispatch.UserID]int64{}}
	p.slots = 1 + p.random.IntN(16)
	p.median = load * float64(p.slots) * simulated.Seconds() / jobsAYear / math.Exp(deviation*deviation/2)
	p.arrival = p.nextArrival(0)
	return p
}

func (p *simulatedPlatform) run() {
	for p.now < simulated {
		next := p.arrival
		for _, j := range p.running {
			next = min(next, j.seen)
		}
		p.pass(min(next, simulated))
		p.end()
		if p.arrival <= p.now {
			p.arrive()
		}
		p.give()
	}
}

// pass lets time pass.
func (p *simulatedPlatform) pass(to time.Duration) {
	if passed := (to - p.now).Seconds(); p.waiting > 0 {
		p.waited[min(3, p.now/(simulated/4))] += passed * float64(p.waiting)
		p.allOfThem += passed * float64(p.slots)
		p.backlog = max(p.backlog, to-p.since)
	} else {
		p.since = to
	}
	p.now = to
}

// end removes the jobs whose end is seen.
func (p *simulatedPlatform) end() {
	p.running = slices.DeleteFunc(p.running, func(j simulatedJob) bool {
		if j.seen > p.now {
			return false
		}
		p.heldBy[j.queue.Owner]--
		if p.held[j.queue]--; p.held[j.queue] == 0 {
			delete(p.held, j.queue)
		}
		if p.waiting > 0 {
			p.emptySlots += (j.seen - max(j.ended, p.since)).Seconds()
		}
		return true
	})
}

// Of ten requests, seven are single jobs, and three are tasks with 14 jobs on average and 500 at most.
const (
	tasks    = .3
	mostJobs = 500
	meanJobs = 1 - tasks + tasks*13.7
)

// nextArrival returns when the request after one arrives: in the day more often than at night, and less often at
// weekends.
func (p *simulatedPlatform) nextArrival(after time.Duration) time.Duration {
	const most, mean, weekend = 1.6, 6.2 / 7, .6
	for {
		pause := simulated.Seconds() / (jobsAYear / meanJobs) / most * mean
		after += time.Duration(p.random.ExpFloat64() * pause * float64(time.Second))
		rate := 1 + .6*math.Sin(2*math.Pi*after.Hours()/24)
		if after/dispatch.Day%7 >= 5 {
			rate *= weekend
		}
		if p.random.Float64() < rate/most {
			return after
		}
	}
}

// arrive stores a request of one of 20 users.
func (p *simulatedPlatform) arrive() {
	l := dispatch.Queue{Owner: dispatch.UserID(rune('a' + p.random.IntN(20))), Waiting: 1, Due: p.at(p.now),
		First: dispatch.JobID(p.jobs)}
	if p.random.Float64() < tasks {
		l.Task, l.Waiting = dispatch.TaskID(p.jobs+1), 1+min(mostJobs, int(8*math.Exp(p.random.NormFloat64())))
	} else {
		p.alone[l.Owner] = append(p.alone[l.Owner], p.now)
	}
	p.jobs, p.waiting, p.arrival = p.jobs+l.Waiting, p.waiting+l.Waiting, p.nextArrival(p.now)
	known := slices.IndexFunc(p.queues, func(k dispatch.Queue) bool { return k.Owner == l.Owner && k.Task == l.Task })
	if known >= 0 {
		p.queues[known].Waiting++
		return
	}
	p.queues = append(p.queues, l)
}

// at returns a time of the year as the store's time.
func (p *simulatedPlatform) at(t time.Duration) time.Time { return time.Unix(0, 0).Add(t) }

// give gives the free slots to queues.
func (p *simulatedPlatform) give() {
	for p.slots > len(p.running) && p.waiting > 0 {
		for i, l := range p.queues {
			key := dispatch.Queue{Owner: l.Owner, Task: l.Task}
			p.queues[i].Held, p.queues[i].Served = p.held[key], p.turns[key]
			p.queues[i].OwnerHeld, p.queues[i].OwnerServed = p.heldBy[l.Owner], p.turnOf[l.Owner]
		}
		for _, l := range dispatch.Share(p.queues, p.slots-len(p.running)) {
			p.start(l)
		}
		p.queues = slices.DeleteFunc(p.queues, func(l dispatch.Queue) bool { return l.Waiting == 0 })
	}
	p.most, p.queueCount = max(p.most, p.waiting), max(p.queueCount, len(p.queues))
}

// start submits a job of a queue, unless none waits any more, with two requests, as in openEO.
func (p *simulatedPlatform) start(l dispatch.Queue) {
	i := slices.IndexFunc(p.queues, func(k dispatch.Queue) bool { return k.Owner == l.Owner && k.Task == l.Task })
	if p.queues[i].Waiting == 0 {
		return
	}
	key := dispatch.Queue{Owner: l.Owner, Task: l.Task}
	p.queues[i].Waiting--
	p.waiting--
	p.served++
	p.turns[key], p.turnOf[l.Owner] = p.served, p.served
	p.held[key]++
	p.heldBy[l.Owner]++
	if l.Task == 0 {
		p.singles, p.single = p.singles+1, p.single+p.now-p.alone[l.Owner][0]
		p.alone[l.Owner] = p.alone[l.Owner][1:]
	} else if p.queues[i].Waiting == 0 {
		delete(p.turns, key)
	}
	p.send()
	p.send()
	begun := p.sent.Sub(p.at(0))
	runs := time.Duration(p.median * math.Exp(deviation*p.random.NormFloat64()) * float64(time.Second))
	p.running = append(p.running, simulatedJob{key, begun + runs, begun + p.seenAfter(runs)})
}

// send sends a request to the platform, which permits one in a second.
func (p *simulatedPlatform) send() {
	now := dispatch.Later(p.at(p.now), p.sent)
	for given := false; !given; {
		s, _ := p.schedule.Reserve(dispatch.SendTimeRequest{Pace: time.Second, Purpose: dispatch.Acting,
			Ahead: dispatch.SendTimeAhead}, &p.booked, now)
		now, given = now.Add(s.Wait), s.Given
	}
	p.sent, p.sendWait = now, max(p.sendWait, now.Sub(p.at(p.now)))
}

// seenAfter returns after which time a status read shows the end of a job that runs for a time. That is without early
// polls, so later than it could be.
func (p *simulatedPlatform) seenAfter(runs time.Duration) (at time.Duration) {
	for at < runs {
		pause := p.timing.PollAfter(at)
		n := time.Duration(1)
		if pause == p.timing.Poll {
			n = (runs - at + pause - 1) / pause
		}
		at, p.reads = at+n*pause, p.reads+int(n)
	}
	return at
}
