package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/grid"
)

func (a *api) listGrids(context.Context, *openapi.Request) (*openapi.Plain[[]wire.Grid], error) {
	var all []wire.Grid
	for g := range grid.All() {
		all = append(all, wire.Grid{Name: g.Name, Description: g.Description, CellWidth: g.Width, CellHeight: g.Height,
			Cells: g.Cells(), CRS: "OGC:CRS84"})
	}
	return &openapi.Plain[[]wire.Grid]{Body: all}, nil
}

// tilesWithin bounds two times of a request to /tiles: receiving the body, and writing the response.
const tilesWithin = 20 * time.Second

// createTiles splits an area. It needs no sign-in, so everything is bounded: the number of requests and responses in
// memory, and the areas that are split at once.
func (a *api) createTiles(ctx context.Context, in *openapi.Request) (*huma.StreamResponse, error) {
	waiting, cancel := context.WithTimeout(ctx, splitTurn)
	defer cancel()
	release, err := a.tiling.Acquire(waiting, limits.ClientOf(ctx), 1)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), error(tooManySplits))
	}
	c := call.In(ctx)
	c.AtEnd = append(c.AtEnd, release)
	tiles, err := a.split(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		// recorders in tests have no deadline
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(tilesWithin))
		a.Write(ctx, http.StatusCreated, nil, tiles)
	}}, nil
}

// split reads a request to /tiles and returns its tiles.
func (a *api) split(ctx context.Context, in *openapi.Request) ([]byte, error) {
	_, w := humago.Unwrap(in.HTTP)
	// recorders in tests have no deadline
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(tilesWithin, a.Limits.BodyTime)))
	body, err := a.ReadUpTo(in, min(bounds.TilesBody.Most, a.Limits.Body), " (bound "+bounds.TilesBody.Name+")")
	if err != nil {
		return nil, err
	}
	var tiles []byte
	err = a.splitInTurn(ctx, func(m *bounds.Meter) error {
		how, area, faults := a.parseTiles(m, body)
		if len(faults) > 0 {
			return call.Invalid(faults)
		}
		found, err := how.Tiles(area)
		if err == nil {
			tiles, err = writeTiles(found)
		}
		return a.splitError(err, a.Limits.Tiles)
	})
	return tiles, err
}

func (a *api) parseTiles(m *bounds.Meter, body []byte) (how grid.Split, area *grid.Area, faults []dispatch.Fault) {
	given, f, ok := openapi.ReadInto[wire.TileRequest](a.Document, body)
	if !ok {
		return how, nil, f.All
	}
	how = grid.Split{Most: a.Limits.Tiles, Whole: given.Clip != nil && !*given.Clip, Merge: given.Merge,
		MinArea: given.MinArea, Buffer: given.Buffer, Grid: gridOf(f, m, given), FromCentre: given.Order == "centre"}
	if !f.Within("aoi") {
		var err error
		if area, err = grid.ParseWithin(m, given.AOI.RawMessage); err != nil {
			f.Add("value_error", areaFaultText(err), "aoi")
		}
	}
	if len(f.All) == 0 {
		if err := how.Check(); err != nil {
			name, text, _ := strings.Cut(err.Error(), ": ")
			f.Add("value_error", text, name)
		}
	}
	return how, area, f.Sorted()
}

// gridOf returns the grid that a request names, or the user's own.
func gridOf(f *openapi.Faults, m *bounds.Meter, given wire.TileRequest) *grid.Grid {
	switch {
	case given.Cells == nil && given.Grid == "":
		f.Add("missing", "Field required", "grid")
		return nil
	case given.Cells == nil:
		g, _ := grid.Named(given.Grid)
		return g
	case given.Grid != "":
		f.Add("value_error", "Name a grid or give cells, not both", "cells")
		return nil
	case f.Within("cells"):
		return nil
	}
	g, err := grid.ParseCells(m, given.Cells.RawMessage)
	if err != nil {
		f.Add("value_error", areaFaultText(err), "cells")
	}
	return g
}

// writeTiles writes the GeometryCollection.
func writeTiles(tiles []grid.Tile) ([]byte, error) {
	out, ids := []byte(`{"type":"GeometryCollection","geometries":[`), []byte(`],"ids":[`)
	for i, tile := range tiles {
		if i > 0 {
			out, ids = append(out, ','), append(ids, ',')
		}
		id, err := json.Marshal(tile.ID)
		if err != nil {
			return nil, err
		}
		out, ids = tile.Piece.AppendJSON(out), append(ids, id...)
		if err := bounds.TilesBytes.Check(int64(len(out) + len(ids))); err != nil {
			return nil, tooCostly(err)
		}
	}
	return append(append(out, ids...), `]}`...), nil
}

// areaFaultText returns the text for a fault of an area.
func areaFaultText(err error) string {
	if over, ok := errors.AsType[*bounds.Exceeded](err); ok && over.Bound.Name == bounds.TilesSteps.Name {
		return "The area costs too much to check: " + err.Error() + ". Simplify it, or take a part of it."
	}
	return err.Error()
}

// Requests and responses of /tiles that are in memory at once, each about 33 MiB: of all clients, and of one address,
// whose bodies may take long to arrive.
const (
	tilingAtOnce = 8
	tilingOfOne  = tilingAtOnce / 2
)
