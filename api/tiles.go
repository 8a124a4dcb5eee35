package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

type grids struct{ Body []wire.Grid }

func (a *api) listGrids(context.Context, *request) (*grids, error) {
	var all []wire.Grid
	for g := range grid.All() {
		all = append(all, wire.Grid{Name: g.Name, Description: g.Description, CellWidth: g.Width, CellHeight: g.Height,
			Cells: g.Cells(), CRS: "OGC:CRS84"})
	}
	return &grids{all}, nil
}

// tilesWithin bounds two times of a request to /tiles: receiving the body, and writing the response.
const tilesWithin = 20 * time.Second

// createTiles splits an area. It needs no sign-in, so everything is bounded: the number of requests and responses in
// memory, and the areas that are split at once.
func (a *api) createTiles(ctx context.Context, in *request) (*huma.StreamResponse, error) {
	release, err := a.tiling.acquire(ctx)
	if err != nil {
		return nil, err
	}
	tiles, err := a.split(ctx, in)
	if err != nil {
		release()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer release()
		_, w := humago.Unwrap(ctx)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(tilesWithin)) // recorders in tests have no deadline
		a.write(ctx, http.StatusCreated, nil, tiles)
	}}, nil
}

// split reads a request to /tiles and returns its tiles.
func (a *api) split(ctx context.Context, in *request) ([]byte, error) {
	_, w := humago.Unwrap(in.http)
	// recorders in tests have no deadline
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(tilesWithin, a.Limits.BodyTime)))
	body, err := a.readUpTo(in, min(budget.TilesBody.Most, a.Limits.Body), " (bound "+budget.TilesBody.Name+")")
	if err != nil {
		return nil, err
	}
	var tiles []byte
	err = a.splitInTurn(ctx, func(m *budget.Meter) error {
		how, area, faults := a.parseTiles(m, body)
		if len(faults) > 0 {
			return invalid(faults)
		}
		found, err := how.Tiles(area)
		if err == nil {
			tiles, err = writeTiles(found)
		}
		return a.splitError(err, a.Limits.Tiles)
	})
	return tiles, err
}

func (a *api) parseTiles(m *budget.Meter, body []byte) (how grid.Split, area *grid.Area, faults []dispatch.Fault) {
	f, faults := a.openObject(body)
	if f == nil {
		return how, nil, faults
	}
	how = grid.Split{Most: a.Limits.Tiles, Whole: !f.flag("clip", true), Merge: f.flag("merge", false),
		MinArea: f.number("min_area"), Buffer: f.number("buffer")}
	how.Grid = f.grid(m)
	if f.members["order"] != nil && f.members["order"][0] != 'n' {
		how.FromCentre = f.choice("order", []string{"row", "centre"}) == "centre"
	}
	if raw := f.required("aoi"); raw != nil {
		var err error
		if area, err = grid.ParseWithin(m, raw); err != nil {
			f.fault("aoi", "value_error", areaFaultText(err))
		}
	}
	if faults = append(faults, *f.faults...); len(faults) == 0 {
		if err := how.Check(); err != nil {
			name, text, _ := strings.Cut(err.Error(), ": ")
			f.fault(name, "value_error", text)
			faults = *f.faults
		}
	}
	return how, area, faults
}

// grid reads the name of a grid, or the cells of the user's own.
func (f *form) grid(m *budget.Meter) *grid.Grid {
	raw := f.members["cells"]
	if raw == nil || raw[0] == 'n' {
		g, _ := grid.Named(f.choice("grid", gridNames()))
		return g
	}
	if f.members["grid"] != nil {
		f.fault("cells", "value_error", "Name a grid or give cells, not both")
		return nil
	}
	g, err := grid.ParseCells(m, raw)
	if err != nil {
		f.fault("cells", "value_error", areaFaultText(err))
	}
	return g
}

// number reads an optional number; without it, it returns 0.
func (f *form) number(name string) (n float64) {
	if raw := f.members[name]; raw != nil && raw[0] != 'n' && json.Unmarshal(raw, &n) != nil {
		f.fault(name, "float_type", "Input should be a valid number")
	}
	return n
}

func gridNames() (names []string) {
	for g := range grid.All() {
		names = append(names, g.Name)
	}
	return names
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
		if err := budget.TilesBytes.Check(int64(len(out) + len(ids))); err != nil {
			return nil, tooCostly(err)
		}
	}
	return append(append(out, ids...), `]}`...), nil
}

// areaFaultText returns the text for a fault of an area.
func areaFaultText(err error) string {
	if over, ok := errors.AsType[*budget.Exceeded](err); ok && over.Bound.Name == budget.TilesSteps.Name {
		return "The area costs too much to check: " + err.Error() + ". Simplify it, or take a part of it."
	}
	return err.Error()
}

// concurrency bounds how many may be inside at once.
type concurrency chan struct{}

// tilingAtOnce bounds the requests and responses of /tiles that are in memory at once, each about 33 MiB.
const tilingAtOnce = 8

func (t concurrency) acquire(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(splitTurn)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-timer.C:
		return nil, tooManySplits
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
