package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// mostShown bounds a value that is repeated to a client, in bytes, so that ten thousand of them stay small.
const mostShown = 1024

// valueKey stands for a value of a dimension.
type valueKey struct {
	dimension string
	name      string // of the value
	hash      [sha256.Size]byte
}

// grouping sorts the jobs of a task by the values of its dimensions.
type grouping struct {
	dimensions []*wire.DimensionProgress
	tallies    [][]dispatch.Tally // of the values of each dimension
	values     map[valueKey]int   // positions in Values
}

// add counts a job for each of its values.
func (g *grouping) add(j dispatch.Record, arguments []dispatch.Argument) {
	for i, argument := range arguments {
		if i == len(g.dimensions) {
			g.dimensions = append(g.dimensions, &wire.DimensionProgress{Name: argument.Name})
			g.tallies = append(g.tallies, nil)
		}
		name := ""
		if i < len(j.Names) {
			name = j.Names[i]
		}
		d, key := g.dimensions[i], valueKey{argument.Name, name, sha256.Sum256(argument.Value)}
		at, seen := g.values[key]
		if !seen {
			at = len(d.Values)
			g.values[key] = at
			d.Values = append(d.Values, wire.ValueProgress{Name: name})
			g.tallies[i] = append(g.tallies[i], dispatch.Tally{})
			if n := len(argument.Value); n > 0 && n <= mostShown {
				d.Values[at].Value = argument.Value
			}
		}
		d.Values[at].Jobs = append(d.Values[at].Jobs, int64(j.ID))
		g.tallies[i][at].Add(j.Job)
	}
}

// progress returns what was counted, with the statuses as clients see them.
func (g *grouping) progress(a *api) wire.TaskDimensions {
	all := wire.TaskDimensions{Dimensions: []wire.DimensionProgress{}}
	for n, d := range g.dimensions {
		for i := range d.Values {
			v := &d.Values[i]
			t := g.tallies[n][i].CountsFor(dispatch.TaskRecord{})
			v.Status, v.Progress, v.Counts = a.Shown(t.Counts.Status()), t.Progress, a.Counts(t.Counts)
		}
		all.Dimensions = append(all.Dimensions, *d)
	}
	return all
}

func (a *api) readTaskDimensions(ctx context.Context, in *openapi.Request,
	id dispatch.TaskID) (*openapi.Status[wire.TaskDimensions], error) {
	u := call.User(ctx)
	t, err := a.freshTask(ctx, id)
	if err != nil {
		return nil, err
	}
	r := a.NewRenderer(ctx, io.Discard, live.Topic{User: u})
	defer r.Close()
	g, dimension := grouping{values: map[valueKey]int{}}, dispatch.Task{Dimension: t.Dimension}
	for j, err := range limits.InTurns(ctx, &r.Turn, a.Broker.TaskJobs(ctx, u, id, dispatch.Page{})) {
		if r.Failed(err) {
			break
		}
		r.WithValue(dimension, j, func(value json.RawMessage) {
			g.add(j, dimension.Arguments(value))
			r.Failed(r.Turn.Count(ctx, len(value)))
		})
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return openapi.StatusOf(g.progress(a)), nil
}
