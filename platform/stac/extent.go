package stac

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Extent is the spatial and temporal extent of results, as far as it is known. In the zero Extent nothing is known.
type Extent struct {
	// disjoint ranges of longitudes, from west to east; none: not known. One across the antimeridian is two that end
	// there
	spans        [][2]float64
	south, north float64
	first, last  time.Time
}

var world = []float64{-180, -90, 180, 90}

// Box returns west, south, east and north in degrees; nil if that is not known. West is greater than east if places on
// both sides of the antimeridian reach it (RFC 7946, section 5.2): then the box leaves out the widest gap between them.
func (e Extent) Box() []float64 {
	if len(e.spans) == 0 {
		return nil
	}
	west, east := e.spans[0][0], e.spans[len(e.spans)-1][1]
	if west == -180 && east == 180 {
		widest := 0.0
		for i, s := range e.spans[1:] {
			if gap := e.gapBefore(i + 1); gap > widest {
				widest, west, east = gap, s[0], e.spans[i][1]
			}
		}
	}
	return []float64{west, e.south, east, e.north}
}

// Times returns begin and end, each zero if it is not known.
func (e Extent) Times() (first, last time.Time) { return e.first, e.last }

// MarshalJSON writes the extent of a Collection. What is not known becomes the whole Earth and an open interval.
func (e Extent) MarshalJSON() ([]byte, error) {
	box := e.Box()
	if box == nil {
		box = world
	}
	return json.Marshal(map[string]any{
		"spatial":  map[string]any{"bbox": [][]float64{box}},
		"temporal": map[string]any{"interval": [][]any{{moment(e.first), moment(e.last)}}},
	})
}

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

// positions widens e by the coordinates of a geometry of any type: by the box around each line and each border, and by
// each other position.
func (e *Extent) positions(v any) {
	switch v := v.(type) {
	case map[string]any:
		e.positions(v["coordinates"])
		e.positions(v["geometries"])
	case []any:
		if at, ok := positionOf(v); ok {
			e.AddBox([]float64{at[0], at[1], at[0], at[1]})
			return
		}
		var around []float64
		for _, inner := range v {
			at, ok := positionOf(inner)
			switch {
			case !ok:
				e.positions(inner)
			case !onEarth(at[0]/2, at[1]): // longitudes may be beyond the antimeridian, see AddBox
			case around == nil:
				around = []float64{at[0], at[1], at[0], at[1]}
			default:
				around[0], around[1] = min(around[0], at[0]), min(around[1], at[1])
				around[2], around[3] = max(around[2], at[0]), max(around[3], at[1])
			}
		}
		if around != nil {
			e.AddBox(around)
		}
	}
}

func positionOf(v any) (at [2]float64, ok bool) {
	list, _ := v.([]any)
	if len(list) < 2 {
		return at, false
	}
	x, isX := list[0].(float64)
	y, isY := list[1].(float64)
	return [2]float64{x, y}, isX && isY
}

func onEarth(x, y float64) bool { return math.Abs(x) <= 180 && math.Abs(y) <= 90 }

// AddBox widens e by a bounding box of four or six numbers. Longitudes up to 360 degrees are wrapped, as boxes across
// the antimeridian have them at some platforms. It ignores boxes outside the Earth, such as coordinates in metres.
func (e *Extent) AddBox(b []float64) {
	n := len(b) / 2
	west, south, east, north := b[0], b[1], b[n], b[n+1]
	if math.Abs(west) <= 360 && math.Abs(east) <= 360 && west <= east {
		west, east = wrapped(west, east)
	}
	if !onEarth(west, south) || !onEarth(east, north) {
		return
	}
	if len(e.spans) == 0 {
		e.south, e.north = south, north
	}
	e.south, e.north = min(e.south, south), max(e.north, north)
	if west <= east {
		e.addSpan(west, east)
		return
	}
	e.addSpan(west, 180)
	e.addSpan(-180, east)
}

// wrapped returns a range of longitudes within 180 degrees of Greenwich. West is greater than east if the range crosses
// the antimeridian.
func wrapped(west, east float64) (float64, float64) {
	switch {
	case west >= -180 && east <= 180:
	case east-west >= 360:
		west, east = -180, 180
	default:
		west, east = math.Mod(west+540, 360)-180, math.Mod(east+540, 360)-180
	}
	return west, east
}

const mostSpans = 100

// addSpan adds a range of longitudes. Of too many, the two with the narrowest gap become one.
func (e *Extent) addSpan(west, east float64) {
	from, _ := slices.BinarySearchFunc(e.spans, west,
		func(s [2]float64, at float64) int { return cmp.Compare(s[1], at) })
	to := from
	for ; to < len(e.spans) && e.spans[to][0] <= east; to++ {
		west, east = min(west, e.spans[to][0]), max(east, e.spans[to][1])
	}
	// a copy: an Extent may have been copied
	e.spans = slices.Concat(e.spans[:from], [][2]float64{{west, east}}, e.spans[to:])
	if len(e.spans) <= mostSpans {
		return
	}
	narrowest := 1
	for i := range e.spans[1:] {
		if e.gapBefore(i+1) < e.gapBefore(narrowest) {
			narrowest = i + 1
		}
	}
	e.spans[narrowest-1][1] = e.spans[narrowest][1]
	e.spans = slices.Delete(e.spans, narrowest, narrowest+1)
}

func (e Extent) gapBefore(i int) float64 { return e.spans[i][0] - e.spans[i-1][1] }

// AddTime widens e by a time in RFC 3339 or a date. It ignores other texts.
func (e *Extent) AddTime(s string) {
	if t, ok := parseTime(s); ok {
		e.AddTimes(t, t)
	}
}

// AddTimes widens e by a time range. It ignores zero times.
func (e *Extent) AddTimes(first, last time.Time) {
	for _, t := range []time.Time{first, last} {
		if !t.IsZero() && (e.first.IsZero() || t.Before(e.first)) {
			e.first = t
		}
		if t.After(e.last) {
			e.last = t
		}
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
	if json.Unmarshal(raw, &s) != nil || !numbers(s["bbox"]) || json.Unmarshal(s["bbox"], &boxes) != nil ||
		len(boxes) == 0 {
		return fallback
	}
	var all Extent
	for _, b := range boxes {
		if len(b) != 4 && len(b) != 6 {
			return fallback
		}
		all.AddBox(b)
	}
	if box := all.Box(); len(boxes) == 2 && box != nil {
		s["bbox"] = marshal(append([][]float64{box}, boxes...))
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
