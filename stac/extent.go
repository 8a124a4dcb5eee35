package stac

import (
	"encoding/json"
	"math"
	"time"
)

// Extent is the spatial and temporal extent of results, as far as it is known. In the zero Extent nothing is known.
type Extent struct {
	box         []float64 // west, south, east, north in degrees; nil: not known; west > east crosses the antimeridian
	first, last time.Time
}

var world = []float64{-180, -90, 180, 90}

// Box returns west, south, east and north in degrees; nil if that is not known.
func (e Extent) Box() []float64 { return e.box }

// Times returns begin and end, each zero if it is not known.
func (e Extent) Times() (first, last time.Time) { return e.first, e.last }

// MarshalJSON writes the extent of a Collection. What is not known becomes the whole Earth and an open interval.
func (e Extent) MarshalJSON() ([]byte, error) {
	box := e.box
	if box == nil {
		box = world
	}
	return json.Marshal(map[string]any{
		"spatial":  map[string]any{"bbox": [][]float64{box}},
		"temporal": map[string]any{"interval": [][]any{{moment(e.first), moment(e.last)}}},
	})
}

// moment writes a time; null if it is not known.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Feature widens e by a feature's bbox, else its geometry, and by its times.
func (e *Extent) Feature(f Object) {
	var box []float64
	var g any
	if json.Unmarshal(f["bbox"], &box) == nil && (len(box) == 4 || len(box) == 6) {
		e.AddBox(box)
	} else if json.Unmarshal(f["geometry"], &g) == nil {
		e.positions(g)
	}
	var times Object
	_ = json.Unmarshal(f["properties"], &times)
	for _, name := range []string{"datetime", "start_datetime", "end_datetime"} {
		e.AddTime(Text(times[name]))
	}
}

// GeoJSON widens e by any GeoJSON object.
func (e *Extent) GeoJSON(raw json.RawMessage) {
	var o Object
	if json.Unmarshal(raw, &o) != nil {
		return
	}
	e.Feature(o)
	var all []Object
	_ = json.Unmarshal(o["features"], &all)
	for _, f := range all {
		e.Feature(f)
	}
	var g any
	if json.Unmarshal(raw, &g) == nil {
		e.positions(g)
	}
}

// Collection widens e by the extent of a Collection. It ignores the whole Earth and open intervals.
func (e *Extent) Collection(c Object) {
	var x struct {
		Spatial  struct{ Bbox [][]float64 }
		Temporal struct{ Interval [][]*string }
	}
	if json.Unmarshal(c["extent"], &x) != nil {
		return
	}
	for i, b := range x.Spatial.Bbox {
		if i == 0 && (len(b) == 4 || len(b) == 6) && !isWholeEarth(b) { // the first box contains all others
			e.AddBox(b)
		}
	}
	for i, interval := range x.Temporal.Interval {
		for _, at := range interval {
			if i == 0 && at != nil {
				e.AddTime(*at)
			}
		}
	}
}

func isWholeEarth(b []float64) bool {
	n := len(b) / 2
	return b[0] <= -180 && b[1] <= -90 && b[n] >= 180 && b[n+1] >= 90
}

// positions widens e by each position of a geometry of any type.
func (e *Extent) positions(v any) {
	switch v := v.(type) {
	case map[string]any:
		e.positions(v["coordinates"])
		e.positions(v["geometries"])
	case []any:
		if len(v) >= 2 {
			x, isX := v[0].(float64)
			y, isY := v[1].(float64)
			if isX && isY {
				e.AddBox([]float64{x, y, x, y})
				return
			}
		}
		for _, inner := range v {
			e.positions(inner)
		}
	}
}

// AddBox widens e by a bounding box of four or six numbers. It ignores boxes outside the Earth, such as coordinates in
// metres.
func (e *Extent) AddBox(b []float64) {
	n := len(b) / 2
	west, south, east, north := b[0], b[1], b[n], b[n+1]
	if !(math.Abs(west) <= 180 && math.Abs(east) <= 180 && math.Abs(south) <= 90 && math.Abs(north) <= 90) {
		return
	}
	if e.box == nil {
		e.box = []float64{west, south, east, north}
		return
	}
	e.box[1], e.box[3] = min(e.box[1], south), max(e.box[3], north)
	e.box[0], e.box[2] = union(e.box[0], e.box[2], west, east)
}

// union returns the range of longitudes that contains both ranges; the narrower one if there are two.
func union(west, east, w, e float64) (float64, float64) {
	if west <= east && w <= e {
		return min(west, w), max(east, e)
	}
	best := [2]float64{-180, 180}
	for _, c := range [][2]float64{{west, east}, {w, e}, {west, e}, {w, east}} {
		if contains(c, west, east) && contains(c, w, e) && width(c[0], c[1]) < width(best[0], best[1]) {
			best = c
		}
	}
	return best[0], best[1]
}

func contains(c [2]float64, west, east float64) bool {
	return width(c[0], west)+width(west, east) <= width(c[0], c[1])
}

// width returns the eastward distance in degrees.
func width(west, east float64) float64 {
	if west > east {
		return east - west + 360
	}
	return east - west
}

// AddTime widens e by a time in RFC 3339 or a date. It ignores other texts.
func (e *Extent) AddTime(s string) {
	if t, ok := parseTime(s); ok {
		e.AddTimes(t, t)
	}
}

// AddTimes widens e by a time range. It ignores zero times.
func (e *Extent) AddTimes(first, last time.Time) {
	for _, t := range []time.Time{first, last} {
		if !t.IsZero() {
			e.addTime(t)
		}
	}
}

func (e *Extent) addTime(t time.Time) {
	if e.first.IsZero() || t.Before(e.first) {
		e.first = t
	}
	if t.After(e.last) {
		e.last = t
	}
}

func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// merge returns an extent in which everything that is not valid in STAC is corrected or replaced by what e knows.
func merge(raw json.RawMessage, e Extent) Object {
	var x Object
	if json.Unmarshal(raw, &x) != nil || x == nil {
		x = Object{}
	}
	known, _ := e.MarshalJSON()
	var fallback Object
	_ = json.Unmarshal(known, &fallback)
	x["spatial"] = spatial(x["spatial"], fallback["spatial"])
	x["temporal"] = temporal(x["temporal"], fallback["temporal"])
	return x
}

// spatial returns bounding boxes as 1.1.0 requires them: one, or one around at least two others.
func spatial(raw, fallback json.RawMessage) json.RawMessage {
	var s Object
	var boxes [][]float64
	numbers := each(each(is[float64]))
	if json.Unmarshal(raw, &s) != nil || !numbers(s["bbox"]) || json.Unmarshal(s["bbox"], &boxes) != nil || len(boxes) == 0 {
		return fallback
	}
	var all Extent
	for _, b := range boxes {
		if len(b) != 4 && len(b) != 6 {
			return fallback
		}
		all.AddBox(b)
	}
	if len(boxes) == 2 && all.box != nil {
		s["bbox"] = marshal(append([][]float64{all.box}, boxes...))
		return marshal(s)
	}
	return raw
}

// temporal returns intervals in UTC, as STAC requires. A malformed time becomes open.
func temporal(raw, fallback json.RawMessage) json.RawMessage {
	var t Object
	var intervals [][]*string
	if json.Unmarshal(raw, &t) != nil || json.Unmarshal(t["interval"], &intervals) != nil || len(intervals) == 0 {
		return fallback
	}
	valid := true
	for _, interval := range intervals {
		if len(interval) != 2 {
			return fallback
		}
		for i, at := range interval {
			if at == nil || isTime(marshal(*at)) {
				continue
			}
			valid, interval[i] = false, nil
			if moment, ok := parseTime(*at); ok {
				s := moment.Format(time.RFC3339Nano)
				interval[i] = &s
			}
		}
	}
	if !valid {
		t["interval"] = marshal(intervals)
		return marshal(t)
	}
	return raw
}
