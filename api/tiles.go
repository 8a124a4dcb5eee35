package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/danielgtaylor/huma/v2"

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

type (
	created struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
	grids struct{ Body []Grid }
)

func (a *api) listGrids(context.Context, *request) (*grids, error) {
	var all []Grid
	for g := range grid.All() {
		all = append(all, Grid{g.Name, g.Description, g.Width, g.Height, g.Cells(), "OGC:CRS84"})
	}
	return &grids{all}, nil
}

// createTiles splits an area. Anybody may ask, so the work is bounded: by the positions of an area, by the cells, and by
// how many areas are split at once.
func (a *api) createTiles(ctx context.Context, in *request) (*created, error) {
	body, err := a.readBody(in)
	if err != nil {
		return nil, err
	}
	leave, err := a.splitting.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	g, area, clip, faults := a.parseTiles(body)
	if len(faults) > 0 {
		return nil, invalid(faults)
	}
	if n := g.Estimate(area, a.Limits.Tiles); n > a.Limits.Tiles {
		return nil, a.tooManyTiles(fmt.Sprintf("about %d", n))
	}
	tiles, err := a.tiles(ctx, g, area, clip)
	return &created{"application/json", tiles}, err
}

func (a *api) parseTiles(body []byte) (g *grid.Grid, area *grid.Area, clip bool, faults []dispatch.Fault) {
	f, faults := a.open(body)
	if f == nil {
		return nil, nil, false, faults
	}
	clip = f.flag("clip", true)
	g, _ = grid.Named(f.choice("grid", gridNames()))
	if raw := f.required("aoi"); raw != nil {
		var err error
		if area, err = grid.ParseArea(raw); err != nil {
			f.fault("aoi", "value_error", err.Error())
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
func (a *api) tiles(ctx context.Context, g *grid.Grid, area *grid.Area, clip bool) ([]byte, error) {
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
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return append(append(out, ids...), `]}`...), nil
}

func (a *api) tooManyTiles(n string) error {
	return dispatch.InvalidBody("api.tiles", fmt.Sprintf(
		"The area has %s tiles, and at most %d are made at once. Take a smaller area or a coarser grid.", n, a.Limits.Tiles), "aoi")
}

// turnstile lets a few in at once.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, runtime.GOMAXPROCS(0)) }

const turnWithin = 5 * time.Second

func (t turnstile) enter(ctx context.Context) (leave func(), err error) {
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
