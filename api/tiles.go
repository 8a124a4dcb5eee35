package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// Area is a part of the Earth in GeoJSON.
type Area struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Area) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
		Description: "GeoJSON: a Polygon, a MultiPolygon, a Feature, or a FeatureCollection of those",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString,
			Enum: []any{"Polygon", "MultiPolygon", "Feature", "FeatureCollection"}}},
		Required: []string{"type"},
		Examples: []any{map[string]any{"type": "Polygon", "coordinates": [][][]float64{{{4.2, 50.7}, {4.6, 50.7}, {4.6, 51}, {4.2, 50.7}}}}}}
}

// TileRequest is an area to be split.
type TileRequest struct {
	AOI  Area   `json:"aoi"`
	Grid string `json:"grid" enum:"20x20km,250x250km" doc:"Name of a grid, see /grids"`
	Clip *bool  `json:"clip,omitempty" nullable:"true" default:"true" doc:"Whether the tiles are cut at the border of the area; false: whole cells"`
}

// GeometryCollection is the tiles of an area (RFC 7946, 3.1.8).
type GeometryCollection struct {
	Type       string            `json:"type" enum:"GeometryCollection"`
	Geometries []json.RawMessage `json:"geometries" nullable:"false" doc:"A Polygon or a MultiPolygon for each tile"`
	IDs        []string          `json:"ids" nullable:"false" doc:"The name of each tile's cell: the same for every area"`
}

// Grid is one way to split the Earth.
type Grid struct {
	Name        string  `json:"name" example:"20x20km"`
	Description string  `json:"description"`
	CellWidth   float64 `json:"cell_width" doc:"Metres, along the middle of a cell"`
	CellHeight  float64 `json:"cell_height" doc:"Metres"`
	Cells       int     `json:"cells" doc:"On the globe"`
	CRS         string  `json:"crs" example:"OGC:CRS84"`
}

type grids struct{ Body []Grid }

func (a *api) listGrids(context.Context, *request) (*grids, error) {
	var all []Grid
	for g := range grid.All() {
		all = append(all, Grid{g.Name, g.Description, g.Width, g.Height, g.Cells(), "OGC:CRS84"})
	}
	return &grids{all}, nil
}

// tilesWithin is how long the body of a request to /tiles, the work on it, and writing the answer may take, each.
const tilesWithin = 20 * time.Second

// createTiles splits an area. Anybody may ask, so all of it is bounded: how many requests and answers are in memory at
// once, and how many areas are split at once, which is less than there are cores.
func (a *api) createTiles(ctx context.Context, in *request) (*huma.StreamResponse, error) {
	release, err := a.tiling.enter(ctx)
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
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(tilesWithin)) // a recorder in a test has none
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if _, err := w.Write(tiles); err != nil {
			a.Log.DebugContext(ctx.Context(), "answer not written", "error", err)
		}
	}}, nil
}

// split reads a request and gives its answer.
func (a *api) split(ctx context.Context, in *request) ([]byte, error) {
	_, w := humago.Unwrap(in.http)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(tilesWithin, a.Limits.BodyTime))) // likewise
	body, err := a.readUpTo(in, min(budget.TilesBody.Most, a.Limits.Body), " (bound "+budget.TilesBody.Name+")")
	if err != nil {
		return nil, err
	}
	release, err := a.splitting.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, tilesWithin)
	defer cancel()
	m := budget.TilesSteps.Meter(ctx)
	g, area, clip, faults := a.parseTiles(m, body)
	switch {
	case ctx.Err() != nil:
		return nil, gaveUp(ctx.Err())
	case len(faults) > 0:
		return nil, invalid(faults)
	}
	if n := g.Estimate(area, a.Limits.Tiles); n > a.Limits.Tiles {
		return nil, a.tooManyTiles(fmt.Sprintf("about %d", n))
	}
	return a.tiles(m, g, area, clip)
}

func gaveUp(err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "api.tiles", Text: "The area was not split in time.", Err: err}
}

func (a *api) parseTiles(m *budget.Meter, body []byte) (g *grid.Grid, area *grid.Area, clip bool, faults []dispatch.Fault) {
	f, faults := a.open(body)
	if f == nil {
		return nil, nil, false, faults
	}
	clip = f.flag("clip", true)
	g, _ = grid.Named(f.choice("grid", gridNames()))
	if raw := f.required("aoi"); raw != nil {
		var err error
		if area, err = grid.ParseWithin(m, raw); err != nil {
			f.fault("aoi", "value_error", sayArea(err))
		}
	}
	return g, area, clip, append(faults, *f.faults...)
}

func gridNames() (names []string) {
	for g := range grid.All() {
		names = append(names, g.Name)
	}
	return names
}

// tiles writes the GeometryCollection.
func (a *api) tiles(m *budget.Meter, g *grid.Grid, area *grid.Area, clip bool) ([]byte, error) {
	out, ids, n := []byte(`{"type":"GeometryCollection","geometries":[`), []byte(`],"ids":[`), 0
	for cell, piece := range g.Tiles(area) {
		if n++; n > a.Limits.Tiles {
			return nil, a.tooManyTiles(fmt.Sprintf("more than %d", a.Limits.Tiles))
		}
		if n > 1 {
			out, ids = append(out, ','), append(ids, ',')
		}
		if !clip {
			piece = grid.MultiPolygon{cell.Polygon()}
		}
		out, ids = piece.AppendJSON(out), fmt.Appendf(ids, "%q", cell.ID)
		if err := budget.TilesBytes.Check(int64(len(out) + len(ids))); err != nil {
			return nil, tooCostly(err)
		}
	}
	if err := m.Err(); err != nil {
		return nil, tooCostly(err)
	}
	return append(append(out, ids...), `]}`...), nil
}

// sayArea says what is wrong with an area.
func sayArea(err error) string {
	if over, ok := errors.AsType[*budget.Exceeded](err); ok && over.Bound.Name == budget.TilesSteps.Name {
		return "The area costs too much to check: " + err.Error() + ". Simplify it, or take a part of it."
	}
	return err.Error()
}

// tooCostly is the error for an area beyond a bound, or for one whose time is over.
func tooCostly(err error) error {
	if _, over := errors.AsType[*budget.Exceeded](err); !over {
		return gaveUp(err)
	}
	return dispatch.InvalidBody("api.tiles", "The tiles of the area cost too much: "+err.Error()+
		". Simplify it, take a smaller area, or a coarser grid.", "aoi")
}

func (a *api) tooManyTiles(n string) error {
	return dispatch.InvalidBody("api.tiles", fmt.Sprintf(
		"The area has %s tiles, and at most %d are made at once. Take a smaller area or a coarser grid.", n, a.Limits.Tiles), "aoi")
}

// turnstile lets a few in at once.
type turnstile chan struct{}

// tilingAtOnce is how many requests and answers of /tiles are in memory at once: some 33 MiB each.
const tilingAtOnce = 8

// newTurnstile is for areas that are split at the same time: a core is left for others.
func newTurnstile() turnstile { return make(turnstile, max(1, runtime.GOMAXPROCS(0)-1)) }

const turnWithin = 5 * time.Second

func (t turnstile) enter(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(turnWithin)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-timer.C:
		return nil, refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", header: retryAfter(turnWithin),
			message: "Too many areas are being split at the moment. Ask again in a few seconds."}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
