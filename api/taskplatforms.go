package api

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	rateOver = time.Hour   // what the rate of a platform is measured over
	rateFrom = time.Minute // at least, so that the first job makes no rate of thousands
)

// readTaskPlatforms counts the jobs of a task by platform.
func (a *api) readTaskPlatforms(ctx context.Context, in *openapi.Request,
	id dispatch.TaskID) (*openapi.Status[wire.TaskPlatforms], error) {
	u := call.User(ctx)
	t, err := a.freshTask(ctx, id)
	if err != nil {
		return nil, err
	}
	tally := platformTally{}
	turn := a.HeavyTurn(u)
	defer turn.ReleaseTurn()
	for j, err := range limits.InTurns(ctx, &turn, a.Broker.TaskJobs(ctx, u, id, dispatch.Page{Most: -1})) {
		if err != nil {
			return nil, err
		}
		tally.add(j)
	}
	turn.ReleaseTurn()
	placements := a.TaskPlacements(t)
	if len(placements) == 0 {
		placements = []wire.TaskHome{{Platform: t.Account.Platform(), Service: wire.ServiceDetails(t.Request.Service)}}
	}
	states, _, _, err := a.Broker.Platforms(ctx, u)
	if err != nil {
		return nil, err
	}
	shown := wire.TaskPlatforms{Platforms: []wire.PlatformProgress{}}
	for _, h := range placements {
		one := wire.PlatformProgress{TaskHome: h, Counts: a.Counts(tally.counts[h.Platform]),
			PerHour: tally.perHour(h.Platform, t)}
		if i := slices.IndexFunc(states, func(p broker.PlatformInfo) bool { return p.Name == h.Platform }); i >= 0 {
			info := a.platform(states[i])
			one.State, one.LastAnswer = info.State, info.LastAnswer
			one.Failure, one.Attention = info.Failure, info.Attention
		}
		shown.Platforms = append(shown.Platforms, one)
	}
	return openapi.StatusOf(shown), nil
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
