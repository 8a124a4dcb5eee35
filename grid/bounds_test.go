package grid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/test/detector"
)

// smaller divides the sizes of costly areas and the bound on their work, because the race detector slows these tests
// ten times.
var smaller = 1

// fewerSteps lets an area that is smaller meet its bound as the whole one does.
func fewerSteps(t *testing.T) {
	most := bounds.TilesSteps.Most
	t.Cleanup(func() { bounds.TilesSteps.Most = most })
	bounds.TilesSteps.Most /= int64(smaller)
}

// ring returns a polygon with one ring through these points.
func ring(points ...Point) string {
	var b strings.Builder
	b.WriteString(`{"type":"Polygon","coordinates":[[`)
	for _, p := range points {
		fmt.Fprintf(&b, "[%v,%v],", p[0], p[1])
	}
	fmt.Fprintf(&b, "[%v,%v]]]}", points[0][0], points[0][1])
	return b.String()
}

// comb has teeth from south to north, each of which crosses every row.
func comb(teeth int, west, south, east, north float64) string {
	points := []Point{{west, south - 1}, {east, south - 1}}
	step := (east - west) / float64(2*teeth)
	for i := range teeth {
		x := east - float64(2*i)*step
		points = append(points, Point{x, north}, Point{x - step, north}, Point{x - step, south},
			Point{x - 2*step, south})
	}
	return ring(points[:len(points)-1]...)
}

// rungs has teeth from west to east, which are all under the sweep line at once.
func rungs(teeth int) string {
	points := []Point{{-81, 60}, {-81, -60}}
	step := 120 / float64(2*teeth)
	for i := range teeth {
		y := -60 + float64(2*i)*step
		points = append(points, Point{80, y}, Point{80, y + step}, Point{-80, y + step}, Point{-80, y + 2*step})
	}
	return ring(points[:len(points)-1]...)
}

// holes returns a shell with many small holes.
func holes(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,4],[0,0]]`)
	for i := range n {
		x, y := float64(i%100)*0.039+0.01, float64(i/100)*0.02+0.01
		fmt.Fprintf(&b, ",[[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f]]", x, y, x, y+0.01, x+0.01, y, x, y)
	}
	return b.String() + "]}"
}

// islands returns many small polygons in one cell, each with a hole.
func islands(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"MultiPolygon","coordinates":[`)
	for i := range n {
		x, y := float64(i%100)*0.02+0.001, float64(i/100)*0.02+0.001
		fmt.Fprintf(&b,
			"[[[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f]],[[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f]]],",
			x, y, x+0.015, y, x, y+0.015, x, y, x+0.003, y+0.003, x+0.003, y+0.006, x+0.006, y+0.003, x+0.003, y+0.003)
	}
	return strings.TrimSuffix(b.String(), ",") + "]}"
}

// diagonal has its vertices on one line, where floating point does not decide sides.
func diagonal(n int) string {
	points := []Point{{-60, 60}}
	for i := range n {
		x := -60 + 120*float64(i)/float64(n)
		points = append(points, Point{x, x})
	}
	return ring(points...)
}

// No area of 1 MiB costs more than its steps, about a second of CPU; a more expensive area is refused.
func TestTiles_CostOfAreas(t *testing.T) {
	detector.Skip(t)
	fewerSteps(t)
	refused := 0
	for name, area := range map[string]string{
		"comb":     comb(6_000/smaller, -20, -60, 20, 60),
		"rungs":    rungs(8_000 / smaller),
		"holes":    holes(10_000 / smaller),
		"islands":  islands(5_000 / smaller),
		"diagonal": diagonal(20_000 / smaller),
		"world":    ring(Point{-89, -89}, Point{89, -89}, Point{89, 89}, Point{-89, 89}),
	} {
		for g := range All() {
			if g.tree != nil && g.Name != "utm-20km" && (g.Name != "h3-6" || name != "islands") {
				continue // the others have larger cells, or many more than may be asked for, or cost the same
			}
			t.Run(name+" "+g.Name, func(t *testing.T) {
				m := bounds.TilesSteps.Meter(t.Context())
				a, err := ParseWithin(m, []byte(area))
				n, positions := 0, 0
				if err == nil {
					for _, piece := range g.Tiles(a) {
						n++
						positions += piece.positions()
					}
					err = m.Err()
				}
				t.Logf("%d bytes: %d steps, %d tiles, %d positions, %v", len(area), m.Spent(), n, positions, err)
				if _, over := errors.AsType[*bounds.Exceeded](err); over {
					refused++
				} else if err != nil {
					t.Error(err)
				}
				if m.Spent() > bounds.TilesSteps.Most+int64(1_000_000/smaller) {
					t.Errorf("%d steps", m.Spent())
				}
			})
		}
	}
	if refused == 0 {
		t.Error("no area meets the bound: this tests nothing")
	}
}

// A client that disconnects stops the work.
func TestTiles_EndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := bounds.TilesSteps.Meter(ctx)
	a, err := ParseWithin(m, []byte(ring(Point{-89, -89}, Point{89, -89}, Point{89, 89}, Point{-89, 89})))
	if err != nil {
		t.Fatal(err)
	}
	g, _ := Named("20x20km")
	n := 0
	for range g.Tiles(a) {
		if n++; n == 10 {
			cancel()
		}
	}
	if !errors.Is(m.Err(), context.Canceled) || n > 5_000 {
		t.Errorf("%d tiles, %v", n, m.Err())
	}
}

// FuzzArea: whatever the bytes are, the work on them is bounded and the result is valid.
func FuzzArea(f *testing.F) {
	f.Add([]byte(comb(5, -1, -1, 1, 1)))
	f.Add([]byte(rungs(5)))
	f.Add([]byte(holes(3)))
	f.Add([]byte(islands(3)))
	f.Add([]byte(diagonal(8)))
	f.Add([]byte(
		`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[170,0],[-170,0],[-170,5],[170,0]]]}}]}`))
	g, _ := Named("250x250km")
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := bounds.Bound{Name: "fuzz", Most: 200_000, Unit: "steps"}.Meter(t.Context())
		a, err := ParseWithin(m, raw)
		if err != nil {
			return
		}
		for _, piece := range g.Tiles(a) {
			if len(piece) == 0 {
				t.Error("an empty piece")
			}
		}
		if m.Spent() > 200_000+int64(100*len(raw)+1_000) {
			t.Errorf("%d steps for %d bytes", m.Spent(), len(raw))
		}
	})
}

// TestSplit_KeepsNoMoreThanAnAnswerHolds: with a buffer each tile holds the positions of its neighbours, so that tiles
// would take many times the area's memory.
func TestSplit_KeepsNoMoreThanAnAnswerHolds(t *testing.T) {
	a, err := ParseWithin(nil, []byte(comb(15, 4, 50, 6, 52)))
	if err != nil {
		t.Fatal(err)
	}
	most := bounds.TilesBytes.Most
	defer func() { bounds.TilesBytes.Most = most }()
	bounds.TilesBytes.Most = 20_000
	s := Split{Grid: named(t, "20x20km"), Most: 10_000, Buffer: 30_000}
	kept := 0
	for _, s.Whole = range []bool{false, true} {
		tiles, err := s.Tiles(a)
		if over, is := errors.AsType[*bounds.Exceeded](err); !s.Whole &&
			(!is || over.Bound.Name != bounds.TilesBytes.Name) || s.Whole && err != nil {
			t.Errorf("whole cells: %v: %v", s.Whole, err)
		}
		kept += len(tiles)
	}
	if kept < 100 {
		t.Errorf("%d whole cells", kept)
	}
}
