package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/grid"
)

const (
	splitTurn   = 5 * time.Second  // how long a request waits for its turn to split an area
	splitWithin = 20 * time.Second // for splitting an area
)

// splitInTurn calls split when it is the turn of the request's user or address, with a meter that ends in time. It
// returns an error if split returns one, or cost too much.
func (a *api) splitInTurn(ctx context.Context, split func(*bounds.Meter) error) error {
	waiting, cancel := context.WithTimeout(ctx, splitTurn)
	defer cancel()
	leave, err := a.Cores.Acquire(waiting, limits.ClientOf(ctx), 1)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return tooManySplits
	}
	defer leave()
	limited, cancel := context.WithTimeout(ctx, splitWithin)
	defer cancel()
	m := bounds.TilesSteps.Meter(limited)
	err = split(m)
	switch {
	case limited.Err() != nil:
		return tooCostly(limited.Err())
	case err != nil:
		return err
	case m.Err() != nil:
		return tooCostly(m.Err())
	}
	return nil
}

var tooManySplits = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Header:  call.RetryAfter(splitTurn),
	Message: "Too many areas are being split at the moment. Repeat the request in a few seconds."}

// tooCostly returns the error for an area that exceeds a bound or the time limit.
func tooCostly(err error) error {
	if over, ok := errors.AsType[*bounds.Exceeded](err); ok {
		return dispatch.InvalidBody("api.split", "Splitting the area costs too much: "+over.Error()+
			". Simplify it, take a smaller area, or a coarser grid.", "aoi")
	}
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "api.split",
		Text: "Splitting the area took too long. Simplify it, or take a part of it.", Err: err}
}

// tooManyTiles returns the error for too many tiles. It also names the limit of a task if that is lower.
func (a *api) tooManyTiles(n string, most int) error {
	inTask := ""
	if a.Limits.Values < most {
		inTask = ", and " + bounds.Thousands(int64(a.Limits.Values)) + " in a task"
	}
	return dispatch.InvalidBody("api.split", fmt.Sprintf("The area has %s tiles; at most %s are allowed%s. "+
		"Take a smaller area or a coarser grid.", n, bounds.Thousands(int64(most)), inTask), "aoi")
}

// Split implements [facade.Server].
func (s facadeServer) Split(ctx context.Context, g *grid.Grid, area json.RawMessage, most int) (tiles []grid.Tile,
	isBox bool, err error) {
	err = s.api.splitInTurn(ctx, func(m *bounds.Meter) error {
		var whole *grid.Area
		if whole, isBox, err = grid.ParseAnyWithin(m, area); err != nil {
			return dispatch.InvalidBody("api.split", "This area cannot be split: "+areaFaultText(err)+".", "aoi")
		}
		tiles, err = grid.Split{Grid: g, Most: most}.Tiles(whole)
		return s.api.splitError(err, most)
	})
	return tiles, isBox, err
}

// splitError returns the error of a split for its user. Those of the meter stay as they are.
func (a *api) splitError(err error, most int) error {
	if many, ok := errors.AsType[grid.TooMany](err); ok {
		return a.tooManyTiles(many.Text, most)
	}
	if fault, ok := errors.AsType[grid.Fault](err); ok {
		return dispatch.InvalidBody("api.split", "The area cannot be split by this grid: "+fault.Error()+".", "aoi")
	}
	if over, ok := errors.AsType[*bounds.Exceeded](err); ok {
		return tooCostly(over)
	}
	return err
}
