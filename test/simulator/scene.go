package simulator

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

// scene is what a job is about: an area, and a time span.
type scene struct {
	area     box
	from, to time.Time // to does not belong to the span
}

// june is the time span of the data if a request names none.
var june = [2]time.Time{time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)}

// sceneOf returns the first area and the first time span in a JSON document.
func sceneOf(doc []byte) scene {
	var v any
	json.Unmarshal(doc, &v)
	from, to, ok := spanIn(v)
	if !ok {
		from, to = june[0], june[1]
	}
	return scene{findBox(doc), from, to}
}

// spanIn returns the first time span in a JSON value: two dates in a list, or one date alone.
func spanIn(v any) (from, to time.Time, ok bool) {
	var inner []any
	switch v := v.(type) {
	case string:
		from, ok = momentIn(v)
		return from, from, ok
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner = append(inner, v[name])
		}
	case []any:
		if len(v) == 2 {
			if from, ok = momentIn(v[0]); ok {
				if to, ok = momentIn(v[1]); !ok {
					to = from
				}
				return from, to, true
			}
		}
		inner = v
	}
	for _, w := range inner {
		if from, to, ok = spanIn(w); ok {
			return from, to, true
		}
	}
	return from, to, false
}

func momentIn(v any) (time.Time, bool) {
	text, _ := v.(string)
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// box is an area: west, south, east, north, in degrees.
type box [4]float64

var everywhere = box{5, 51, 5.1, 51.1} // if a request names no area

func (b box) polygon() object {
	return object{"type": "Polygon", "coordinates": [][][2]float64{{
		{b[0], b[1]}, {b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]}, {b[0], b[1]}}}}
}

// findBox returns the first area in a JSON document: an object with west, south, east, north, a bbox of four numbers,
// or the bounds of a GeoJSON geometry.
func findBox(doc []byte) box {
	var v any
	if json.Unmarshal(doc, &v) == nil {
		if b, ok := boxIn(v); ok {
			return b
		}
	}
	return everywhere
}

func boxIn(v any) (box, bool) {
	var inner []any
	switch v := v.(type) {
	case map[string]any:
		if b, ok := numbers(v["west"], v["south"], v["east"], v["north"]); ok {
			return b, true
		}
		if list, _ := v["bbox"].([]any); len(list) == 4 {
			if b, ok := numbers(list...); ok {
				return b, true
			}
		}
		if b := bounds(v["coordinates"]); b[0] < b[2] && b[1] < b[3] {
			return b, true
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner = append(inner, v[name])
		}
	case []any:
		inner = v
	}
	for _, w := range inner {
		if b, ok := boxIn(w); ok {
			return b, true
		}
	}
	return box{}, false
}

func numbers(list ...any) (b box, ok bool) {
	for i, v := range list {
		if b[i], ok = v.(float64); !ok {
			return b, false
		}
	}
	return b, true
}

// bounds returns the smallest box around the positions in the coordinates of a GeoJSON geometry. Without positions,
// west is above east.
func bounds(coordinates any) box {
	b := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	list, _ := coordinates.([]any)
	if len(list) >= 2 {
		if p, ok := numbers(list[0], list[1], list[0], list[1]); ok {
			return p
		}
	}
	for _, inner := range list {
		c := bounds(inner)
		b = box{min(b[0], c[0]), min(b[1], c[1]), max(b[2], c[2]), max(b[3], c[3])}
	}
	return b
}
