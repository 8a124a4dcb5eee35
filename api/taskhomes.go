package api

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TaskPlatforms is how far the jobs of a task are at each of its platforms.
type TaskPlatforms struct {
	Platforms []PlatformProgress `json:"platforms" nullable:"false" doc:"In the order of the request; one for a task with one service"`
}

// PlatformProgress is how far the jobs of a task are at one platform.
type PlatformProgress struct {
	TaskHome
	Counts  map[string]int `json:"counts" doc:"Number of jobs by status, without deleted jobs. A waiting job is where it would run if nothing changes"`
	PerHour float64        `json:"per_hour" doc:"How many jobs finish there in an hour, from those that finished in the last hour, or since the task was accepted; of a task that has ended, before its end"`

	State      string        `json:"state,omitempty" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"What you can expect of the platform now, as in GET /platforms. Absent: the platform is no longer configured"`
	LastAnswer *time.Time    `json:"last_answer,omitempty" doc:"When the platform last responded about a job of any user, accurate to some seconds. Absent: it has not"`
	Failure    string        `json:"failure,omitempty" doc:"What went wrong at the last request, if that failed"`
	Attention  *JobAttention `json:"attention,omitempty" doc:"Why none of your jobs is submitted there at present"`
}

const (
	rateOver = time.Hour   // what the rate of a platform is measured over
	rateFrom = time.Minute // at least, so that the first job makes no rate of thousands
)

// readTaskPlatforms counts the jobs of a task by platform.
func (a *api) readTaskPlatforms(ctx context.Context, in *request) (*status[TaskPlatforms], error) {
	id, err := in.taskID()
	if err != nil {
		return nil, err
	}
	u := user(ctx)
	if err := a.Broker.Freshen(ctx, u, dispatch.Scope{Task: id}, a.Freshness); err != nil {
		return nil, err
	}
	t, err := a.Broker.Task(ctx, u, id)
	if err != nil {
		return nil, taskError(err)
	}
	tally := platformTally{}
	turn := heavyTurn{work: a.heavy, user: u}
	defer turn.releaseTurn()
	for j, err := range inTurns(ctx, &turn, a.Broker.TaskJobs(ctx, u, id, dispatch.Page{Most: -1})) {
		if err != nil {
			return nil, err
		}
		tally.add(j)
	}
	turn.releaseTurn()
	homes := a.taskHomes(t)
	if len(homes) == 0 {
		homes = []TaskHome{{Platform: t.Account.Platform(), Service: ServiceDetails(t.Request.Service)}}
	}
	states, _, _, err := a.Broker.Platforms(ctx, u)
	if err != nil {
		return nil, err
	}
	shown := TaskPlatforms{Platforms: []PlatformProgress{}}
	for _, h := range homes {
		one := PlatformProgress{TaskHome: h, Counts: map[string]int{}, PerHour: tally.perHour(h.Platform, t)}
		for s, n := range tally.counts[h.Platform] {
			one.Counts[string(a.shown(s))] += n
		}
		if i := slices.IndexFunc(states, func(p dispatch.PlatformInfo) bool { return p.Name == h.Platform }); i >= 0 {
			is := a.platform(states[i])
			one.State, one.LastAnswer, one.Failure, one.Attention = is.State, is.LastAnswer, is.Failure, is.Attention
		}
		shown.Platforms = append(shown.Platforms, one)
	}
	return &status[TaskPlatforms]{revalidate, shown}, nil
}

// platformTally counts jobs by the name of their platform.
type platformTally struct {
	counts map[string]dispatch.Counts
	ends   map[string][]time.Time // of finished jobs
	last   time.Time              // when one ended last
	live   bool                   // some have not ended
	read   time.Time
}

func (p *platformTally) add(j dispatch.Record) {
	at := j.Account.Platform()
	if p.counts == nil {
		p.counts, p.ends = map[string]dispatch.Counts{}, map[string][]time.Time{}
	}
	if p.counts[at] == nil {
		p.counts[at] = dispatch.Counts{}
	}
	p.counts[at][j.Status]++
	p.read = j.Read
	switch {
	case !j.Status.Final():
		p.live = true
	case j.Moved.After(p.last):
		p.last = j.Moved
	}
	if j.Status == dispatch.Finished {
		p.ends[at] = append(p.ends[at], j.Moved)
	}
}

// perHour returns how many jobs of a task finish at a platform in an hour, rounded to tenths.
func (p *platformTally) perHour(platform string, t dispatch.TaskRecord) float64 {
	until := p.last
	if p.live {
		until = p.read
	}
	span, n := min(rateOver, max(rateFrom, until.Sub(t.Created))), 0
	for _, end := range p.ends[platform] {
		if end.After(until.Add(-span)) {
			n++
		}
	}
	return math.Round(10*float64(n)*float64(time.Hour)/float64(span)) / 10
}
