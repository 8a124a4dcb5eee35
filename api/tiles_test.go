package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/grid"
)

const brussels = `{"aoi":{"type":"Polygon","coordinates":[[[4.2,50.7],[4.6,50.7],[4.6,51],[4.2,51],[4.2,50.7]]]},"grid":"20x20km"}`

type tileAnswer struct {
	Type       string
	Geometries []struct {
		Type        string
		Coordinates json.RawMessage
	}
	IDs []string
}

func TestTiles(t *testing.T) {
	h := New(newWorld().config())
	got := decode[tileAnswer](t, ask(h, "POST", "/tiles", brussels, "Authorization", ""), 201)
	if got.Type != "GeometryCollection" || len(got.Geometries) != 8 || len(got.IDs) != 8 {
		t.Fatalf("%s with %d geometries and %d ids", got.Type, len(got.Geometries), len(got.IDs))
	}
	for i, g := range got.Geometries {
		if g.Type != "Polygon" || !strings.HasPrefix(got.IDs[i], "20x20km-r") {
			t.Errorf("%s: %s %s", got.IDs[i], g.Type, g.Coordinates)
		}
	}
}

// areaOf returns the sum of the areas of Polygons and MultiPolygons without holes, in square degrees.
func areaOf(t *testing.T, tiles tileAnswer) (sum float64) {
	t.Helper()
	for _, g := range tiles.Geometries {
		polygons, text := [][][][2]float64{nil}, any(nil)
		if text = &polygons; g.Type == "Polygon" {
			text = &polygons[0]
		}
		if err := json.Unmarshal(g.Coordinates, text); err != nil {
			t.Fatal(err)
		}
		for _, rings := range polygons {
			for i := 1; i < len(rings[0]); i++ {
				a, b := rings[0][i-1], rings[0][i]
				sum += (a[0]*b[1] - b[0]*a[1]) / 2
			}
		}
	}
	return sum
}

func TestTiles_Whole(t *testing.T) {
	h := New(newWorld().config())
	body := strings.Replace(brussels, `"grid"`, `"clip":false,"grid"`, 1)
	first := decode[tileAnswer](t, ask(h, "POST", "/tiles", body), 201)
	clipped := decode[tileAnswer](t, ask(h, "POST", "/tiles", brussels), 201)
	if strings.Join(first.IDs, " ") != strings.Join(clipped.IDs, " ") {
		t.Errorf("other cells: %v and %v", first.IDs, clipped.IDs)
	}
	if string(first.Geometries[0].Coordinates) == string(clipped.Geometries[0].Coordinates) {
		t.Error("a whole cell is as large as its piece")
	}
}

// Each option does at the interface what package grid does: the sum of the tiles' areas tells what was left out, joined
// and added.
func TestTiles_Options(t *testing.T) {
	h := New(newWorld().config())
	own := `"cells":{"type":"FeatureCollection","features":[
		{"type":"Feature","id":"west","properties":{},"geometry":{"type":"Polygon","coordinates":[[[4.2,50.7],[4.4,50.7],[4.4,51],[4.2,51],[4.2,50.7]]]}},
		{"type":"Feature","id":7,"properties":null,"geometry":{"type":"Polygon","coordinates":[[[4.4,50.7],[4.6,50.7],[4.6,51],[4.4,51],[4.4,50.7]]]}}]}`
	const whole = 0.4 * 0.3
	for name, c := range map[string]struct {
		members     string
		tiles       int
		first       string
		least, most float64 // square degrees
	}{
		"MGRS":            {`"grid":"mgrs-100km"`, 2, "31UES", whole, whole},
		"UTM":             {`"grid":"utm-50km"`, 4, "utm-50km-31n-e0550-n05600", whole, whole},
		"slivers":         {`"grid":"20x20km","min_area":1.5e8`, 3, "", 0.5 * whole, 0.95 * whole},
		"slivers, joined": {`"grid":"20x20km","min_area":3e8,"merge":true`, 2, "", whole, whole},
		"overlapping":     {`"grid":"20x20km","buffer":1000`, 8, "", 1.05 * whole, 1.5 * whole},
		"from the centre": {`"grid":"20x20km","order":"centre"`, 8, "", whole, whole},
		"own cells":       {own, 2, "west", whole, whole},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(brussels, `"grid":"20x20km"`, c.members, 1)
			got := decode[tileAnswer](t, ask(h, "POST", "/tiles", body), 201)
			if sum := areaOf(t, got); len(got.IDs) != c.tiles || c.first != "" && got.IDs[0] != c.first ||
				sum < c.least*(1-1e-9) || sum > c.most*(1+1e-9) {
				t.Errorf("%v with %v square degrees", got.IDs, sum)
			}
		})
	}
}

func TestTiles_RefusesInvalidAreas(t *testing.T) {
	h := New(newWorld().config())
	world :=
		`{"aoi":{"type":"Polygon","coordinates":[[[-180,-90],[180,-90],[180,90],[-180,90],[-180,-90]]]},"grid":"20x20km"}`
	for name, c := range map[string]struct{ body, loc, says string }{
		"no area": {`{"grid":"20x20km"}`, `["body","aoi"]`, "Field required"},
		"no grid": {strings.Replace(brussels, `"grid"`, `"grit"`, 1), `["body","grid"]`, "Field required"},
		"odd grid": {strings.Replace(brussels, "20x20km", "hexagons", 1), `["body","grid"]`,
			"'20x20km', '250x250km'"},
		"odd order": {strings.Replace(brussels, `"grid"`, `"order":"random","grid"`, 1), `["body","order"]`,
			"'row' or 'centre'"},
		"no metres": {strings.Replace(brussels, `"grid"`, `"buffer":"far","grid"`, 1), `["body","buffer"]`,
			"number"},
		"a wide buffer": {strings.Replace(brussels, `"grid"`, `"buffer":1e9,"grid"`, 1), `["body","buffer"]`,
			"100000"},
		"a negative area": {strings.Replace(brussels, `"grid"`, `"min_area":-1,"grid"`, 1), `["body","min_area"]`, "0"},
		"odd clip":        {strings.Replace(brussels, `"grid"`, `"clip":"no","grid"`, 1), `["body","clip"]`, "boolean"},
		"a point": {`{"aoi":{"type":"Point","coordinates":[1,2]},"grid":"20x20km"}`, `["body","aoi","type"]`,
			"Polygon"},
		"a bowtie": {`{"aoi":{"type":"Polygon","coordinates":[[[0,0],[2,2],[2,0],[0,2],[0,0]]]},"grid":"20x20km"}`,
			`["body","aoi"]`, "edges cross, at [1, 1]"},
		"the whole Earth": {world, `["body","aoi"]`, "about 1,2"},
		"a million " +
			"hexagons": {`{"aoi":{"type":"Polygon","coordinates":[[[2.5,49.5],[6.4,49.5],[6.4,51.5],[2.5,51.5],[2.5,49.5]]]},"grid":"h3-9"}`, `["body","aoi"]`, "about 4"},
		"hexagons of metres": {strings.Replace(world, "20x20km", "h3-15", 1), `["body","aoi"]`, "about 4"},
		"the pole in " +
			"UTM": {`{"aoi":{"type":"Polygon","coordinates":[[[-180,85],[180,85],[180,90],[-180,90],[-180,85]]]},"grid":"utm-100km"}`, `["body","aoi"]`, "84"},
		"the south in " +
			"MGRS": {`{"aoi":{"type":"Polygon","coordinates":[[[0,-85],[10,-85],[10,-79],[0,-79],[0,-85]]]},"grid":"mgrs-100km"}`, `["body","aoi"]`, "80"},
	} {
		t.Run(name, func(t *testing.T) {
			f := failed(t, ask(h, "POST", "/tiles", c.body), 422, "VALIDATION_ERROR")
			if loc, _ := json.Marshal(f.Detail[0].Loc); string(loc) != c.loc ||
				!strings.Contains(f.Detail[0].Msg, c.says) {
				t.Errorf("%s: %s", loc, f.Detail[0].Msg)
			}
		})
	}
}

func TestTiles_RefusesTooMany(t *testing.T) {
	c := newWorld().config()
	c.Limits.Tiles = 7
	f := failed(t, ask(New(c), "POST", "/tiles", brussels), 422, "VALIDATION_ERROR")
	if !strings.Contains(f.Detail[0].Msg, "at most 7 are allowed. ") {
		t.Error(f.Detail[0].Msg)
	}
	f = failed(t, ask(New(newWorld().config()), "POST", "/tiles", strings.Replace(brussels, "20x20km", "h3-12", 1)),
		422, "VALIDATION_ERROR")
	if !strings.Contains(f.Detail[0].Msg, "; at most 100,000 are allowed, and 10,000 in a task. ") {
		t.Error(f.Detail[0].Msg)
	}
}

// When all places are taken, further requests learn when to come back.
func TestTiles_BoundsConcurrentSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(newWorld().config()).(*api)
		for client := 0; ; client++ {
			if a.Cores.TryAcquire(fmt.Sprint(client), 1) == nil {
				break
			}
		}
		err := a.splitInTurn(t.Context(), nil)
		if r := call.RefusalFor(err); r.Status != 429 || r.Header["Retry-After"] == "" {
			t.Errorf("%v", err)
		}
	})
}

func TestGrids_AreDescribed(t *testing.T) {
	got := decode[[]wire.Grid](t, ask(New(newWorld().config()), "GET", "/grids", "", "Authorization", ""), 200)
	for i, g := range got {
		if known, ok := grid.Named(g.Name); !ok || known.Cells() != g.Cells || g.Description == "" {
			t.Errorf("%d: %+v", i, g)
		}
	}
	if all := len(slices.Collect(grid.All())); len(got) != all {
		t.Errorf("%d grids, want %d", len(got), all)
	}
	document := decode[struct {
		Components struct {
			Schemas map[string]struct{ Enum []string }
		}
	}](t, ask(New(newWorld().config()), "GET", "/openapi.json", "", "Authorization", ""), 200)
	var names []string
	for _, g := range got {
		names = append(names, g.Name)
	}
	if described := document.Components.Schemas["GridTypeEnum"].Enum; !slices.Equal(described, names) {
		t.Errorf("the document describes the grids %v, and there are %v", described, names)
	}
}
