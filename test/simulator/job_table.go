package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// job is one job of a server. course is nil until the job is started.
type job struct {
	number  uint64
	id      string
	account string
	base    string // the OGC namespace; "" for none
	title   string
	tag     string
	process string
	body    []byte // of the request that created it
	created time.Time
	updated time.Time
	course  *course
	word    string // status word set by SetStatus
}

func (j *job) at(t time.Time) phase {
	if j.course == nil {
		return created
	}
	return j.course.at(t)
}

// ended returns when the job had run to its end, or was stopped; zero if it has not run, or runs at t.
func (j *job) ended(t time.Time) time.Time {
	switch {
	case !j.at(t).final():
		return time.Time{}
	case !j.course.stopped.IsZero() && j.course.stopped.Before(j.course.end):
		return j.course.stopped
	}
	return j.course.end
}

// seen returns the phase that a status request reports, which by l may lag or be wrong at first.
func (j *job) seen(now time.Time, l Life) phase {
	p := j.at(now.Add(-l.Lag))
	if p != created && p != canceled && now.Before(j.course.flicker) {
		return failed
	}
	return p
}

func (j *job) progress(t time.Time) float64 {
	if j.course == nil {
		return 0
	}
	return j.course.progress(t)
}

// jobTable holds the jobs of a server, ordered by creation within each account.
type jobTable struct {
	seed  uint64
	count uint64
	byID  map[string]*job
	of    map[string][]*job
	live  map[string]map[*job]bool // started jobs; ended ones are removed when they are counted
}

// add assigns the job its number and id.
func (t *jobTable) add(j *job) {
	if t.byID == nil {
		t.byID, t.of, t.live = map[string]*job{}, map[string][]*job{}, map[string]map[*job]bool{}
	}
	t.count++
	j.number = t.count
	r := rand.New(rand.NewPCG(t.seed, j.number))
	j.id = fmt.Sprintf("j-%08x%016x", uint32(j.number), r.Uint64())
	t.byID[j.id] = j
	t.of[j.account] = append(t.of[j.account], j)
}

func (t *jobTable) remove(j *job) {
	delete(t.byID, j.id)
	i, _ := slices.BinarySearchFunc(t.of[j.account], j.number, func(k *job, n uint64) int {
		return cmp.Compare(k.number, n)
	})
	t.of[j.account] = slices.Delete(t.of[j.account], i, i+1)
	delete(t.live[j.account], j)
}

// full reports whether the account has as many started, unfinished jobs as slots. 0 slots: it never is.
func (t *jobTable) full(account string, slots int, now time.Time) bool {
	if slots == 0 {
		return false
	}
	live := t.live[account]
	maps.DeleteFunc(live, func(j *job, _ bool) bool { p := j.at(now); return p == created || p.final() })
	return len(live) >= slots
}

func (t *jobTable) start(j *job, life Life, now time.Time) {
	c := life.begin(now, t.seed, j.number)
	j.course, j.updated = &c, now
	if t.live[j.account] == nil {
		t.live[j.account] = map[*job]bool{}
	}
	t.live[j.account][j] = true
}

// page returns the account's jobs that keep accepts, newest first, at most n (0: all), created before number (0: from
// the newest). more reports whether there are others.
func (t *jobTable) page(account string, before uint64, n int, keep func(*job) bool) (page []*job, more bool) {
	for _, j := range slices.Backward(t.of[account]) {
		if before > 0 && j.number >= before || !keep(j) {
			continue
		}
		if n > 0 && len(page) == n {
			return page, true
		}
		page = append(page, j)
	}
	return page, false
}
