package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// Area is an area on the Earth in GeoJSON.
type Area struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Area) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
		Description: "A GeoJSON Polygon, MultiPolygon or Feature, or a FeatureCollection of those",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString,
			Enum: []any{"Polygon", "MultiPolygon", "Feature", "FeatureCollection"}}},
		Required: []string{"type"},
		Examples: []any{map[string]any{"type": "Polygon", "coordinates": [][][]float64{{{4.2, 50.7}, {4.6, 50.7}, {4.6, 51}, {4.2, 50.7}}}}}}
}

// TileRequest is an area to split into tiles.
type TileRequest struct {
	AOI  Area     `json:"aoi"`
	Grid GridName `json:"grid" doc:"Name of a grid of GET /grids"`
	Clip *bool    `json:"clip,omitempty" nullable:"true" default:"true" doc:"true: cut the tiles at the border of the area; false: return whole cells"`
}

// GridName is the name of one of [grid.All].
type GridName string

// Schema implements [huma.SchemaProvider].
func (GridName) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, name := range gridNames() {
		s.Enum = append(s.Enum, name)
	}
	return s
}

// GeometryCollection is the tiles of an area (RFC 7946, section 3.1.8).
type GeometryCollection struct {
	Type       string            `json:"type" enum:"GeometryCollection"`
	Geometries []json.RawMessage `json:"geometries" nullable:"false" doc:"A Polygon or a MultiPolygon for each tile"`
	IDs        []string          `json:"ids" nullable:"false" doc:"The id of each tile's cell, which is the same for every area"`
}

// Grid is a division of the Earth into cells.
type Grid struct {
	Name        string  `json:"name" example:"20x20km"`
	Description string  `json:"description"`
	CellWidth   float64 `json:"cell_width" doc:"Metres, at the middle of a cell"`
	CellHeight  float64 `json:"cell_height" doc:"Metres"`
	Cells       int     `json:"cells" doc:"Number of cells of the whole grid"`
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
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if _, err := w.Write(tiles); err != nil {
			a.Log.DebugContext(ctx.Context(), "answer not written", "error", err)
		}
	}}, nil
}

// split reads a request to /tiles and returns its tiles.
func (a *api) split(ctx context.Context, in *request) ([]byte, error) {
	_, w := humago.Unwrap(in.http)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(tilesWithin, a.Limits.BodyTime))) // recorders in tests have no deadline
	body, err := a.readUpTo(in, min(budget.TilesBody.Most, a.Limits.Body), " (bound "+budget.TilesBody.Name+")")
	if err != nil {
		return nil, err
	}
	var tiles []byte
	err = a.splitInTurn(ctx, func(m *budget.Meter) error {
		g, area, clip, faults := a.parseTiles(m, body)
		if len(faults) > 0 {
			return invalid(faults)
		}
		if n := g.Estimate(area, a.Limits.Tiles); n > a.Limits.Tiles {
			return tooManyTiles(fmt.Sprintf("about %d", n), a.Limits.Tiles)
		}
		tiles, err = a.tiles(g, area, clip)
		return err
	})
	return tiles, err
}

func (a *api) parseTiles(m *budget.Meter, body []byte) (g *grid.Grid, area *grid.Area, clip bool, faults []dispatch.Fault) {
	f, faults := a.openObject(body)
	if f == nil {
		return nil, nil, false, faults
	}
	clip = f.flag("clip", true)
	g, _ = grid.Named(f.choice("grid", gridNames()))
	if raw := f.required("aoi"); raw != nil {
		var err error
		if area, err = grid.ParseWithin(m, raw); err != nil {
			f.fault("aoi", "value_error", areaFaultText(err))
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
func (a *api) tiles(g *grid.Grid, area *grid.Area, clip bool) ([]byte, error) {
	out, ids, n := []byte(`{"type":"GeometryCollection","geometries":[`), []byte(`],"ids":[`), 0
	for cell, piece := range g.Tiles(area) {
		if n++; n > a.Limits.Tiles {
			return nil, tooManyTiles(fmt.Sprintf("more than %d", a.Limits.Tiles), a.Limits.Tiles)
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
