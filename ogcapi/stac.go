package ogcapi

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"time"
)

// stacCollection takes a STAC Collection: the first as what all else is added to, of others the assets and a link.
func (g *gathering) stacCollection(m map[string]json.RawMessage, v value) {
	at := selfOf(m, v.at)
	absolute(m, at)
	if g.base == nil {
		g.base = m
		return
	}
	for _, a := range namedValues(m["assets"]) {
		g.keep(v.name+"_"+a.id, a.value)
	}
	g.linkTo("child", selfLink(m), mediaJSON)
	if selfLink(m) == "" && len(namedValues(m["assets"])) == 0 {
		g.bytes(v.name, mediaJSON, marshal(m))
	}
}

// catalog takes what a STAC Catalog links to. One that links to nothing is itself the result.
func (g *gathering) catalog(m map[string]json.RawMessage, v value) error {
	at, found := selfOf(m, v.at), false
	for _, l := range linksOf(m) {
		if rel := text(l["rel"]); rel != "item" && rel != "child" || !isLink(l) {
			continue
		}
		found = true
		l["type"] = marshal(mediaJSON)
		next := v.with(lastSegment(text(l["href"])), nil)
		next.at = at
		if err := g.link(l, next); err != nil {
			return err
		}
	}
	if !found {
		g.bytes(v.name, mediaJSON, v.raw)
	}
	return nil
}

func features(m map[string]json.RawMessage) []map[string]json.RawMessage {
	var all []map[string]json.RawMessage
	if json.Unmarshal(m["features"], &all) != nil {
		return nil
	}
	return all
}

// isResultFeature reports whether a feature stands for data: a STAC Item, or one that links to its STAC Collection.
func isResultFeature(f map[string]json.RawMessage) bool {
	return f["stac_version"] != nil || len(namedValues(f["assets"])) > 0 || len(collectionsOf(f, nil)) > 0
}

// features takes a FeatureCollection that stands for data. Items that have assets are the results; else the Collections
// that they link to are.
func (g *gathering) features(m map[string]json.RawMessage, v value) error {
	all, seen := features(m), map[string]bool{}
	for _, f := range all {
		for _, href := range collectionsOf(f, v.at) {
			if len(namedValues(f["assets"])) > 0 || seen[href] {
				continue
			}
			seen[href] = true
			link := map[string]json.RawMessage{"href": marshal(href), "type": marshal(mediaJSON)}
			if err := g.link(link, v.with("collection", nil)); err != nil {
				return err
			}
		}
	}
	for _, f := range all {
		if len(namedValues(f["assets"])) == 0 && len(seen) > 0 && len(collectionsOf(f, v.at)) > 0 {
			g.extent.feature(f)
			continue
		}
		prefix := ""
		if id := identifier(f["id"]); len(all) > 1 && id != "" {
			prefix = id + "_"
		}
		if err := g.feature(f, v, prefix); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		g.bytes(v.name, mediaGeoJSON, v.raw)
	}
	return nil
}

// collectionsOf are the addresses that a feature links to as its collection.
func collectionsOf(f map[string]json.RawMessage, at *url.URL) []string {
	var all []string
	for _, l := range linksOf(f) {
		if href := text(l["href"]); text(l["rel"]) == "collection" && href != "" {
			all = append(all, resolve(at, href))
		}
	}
	return all
}

// feature takes a STAC Item, or a feature that is kept as it is.
func (g *gathering) feature(f map[string]json.RawMessage, v value, prefix string) error {
	g.extent.feature(f)
	at := selfOf(f, v.at)
	absolute(f, at)
	assets := namedValues(f["assets"])
	for _, a := range assets {
		g.keep(prefix+a.id, a.value)
	}
	if len(assets) == 0 {
		name := identifier(f["id"])
		if name == "" {
			name = v.name
		}
		g.bytes(name, mediaGeoJSON, marshal(f))
	}
	g.linkTo("item", selfLink(f), mediaGeoJSON)
	return nil
}

func (g *gathering) linkTo(rel, href, media string) {
	if href != "" {
		g.links = append(g.links, marshal(map[string]string{"rel": rel, "href": href, "type": media}))
	}
}

// linksOf are the links of a STAC object or a feature.
func linksOf(m map[string]json.RawMessage) []map[string]json.RawMessage {
	var all []map[string]json.RawMessage
	if json.Unmarshal(m["links"], &all) != nil {
		return nil
	}
	return all
}

// selfLink is the absolute address that a STAC object says it has; "" if it says none.
func selfLink(m map[string]json.RawMessage) string {
	for _, l := range linksOf(m) {
		if href := text(l["href"]); text(l["rel"]) == "self" && isAddress(href) {
			return href
		}
	}
	return ""
}

// selfOf is what the links of a STAC object are relative to.
func selfOf(m map[string]json.RawMessage, at *url.URL) *url.URL {
	if u, err := url.Parse(selfLink(m)); err == nil && u.Host != "" {
		return u
	}
	return at
}

// absolute makes the links and assets of a STAC object absolute, and leaves out those that are no objects with an
// address; all else in them stays.
func absolute(m map[string]json.RawMessage, at *url.URL) {
	var links []json.RawMessage
	for _, l := range linksOf(m) {
		if isLink(l) && text(l["rel"]) != "" {
			links = append(links, moved(l, at))
		}
	}
	if m["links"] != nil {
		m["links"] = marshal(slices.Concat([]json.RawMessage{}, links))
	}
	var assets map[string]map[string]json.RawMessage
	if m["assets"] == nil || json.Unmarshal(m["assets"], &assets) != nil {
		delete(m, "assets")
		return
	}
	kept := map[string]json.RawMessage{}
	for name, a := range assets {
		if isLink(a) {
			kept[name] = moved(a, at)
		}
	}
	m["assets"] = marshal(kept)
}

func moved(m map[string]json.RawMessage, at *url.URL) json.RawMessage {
	m = maps.Clone(m)
	m["href"] = marshal(resolve(at, text(m["href"])))
	return marshal(m)
}

// extent is where and when the results are, as far as that is known.
type extent struct {
	box         []float64 // west, south, east, north; nil: not known
	first, last time.Time
}

// json writes the extent of a Collection: the whole earth and an open interval where nothing is known.
func (e *extent) json() json.RawMessage {
	box := e.box
	if box == nil {
		box = []float64{-180, -90, 180, 90}
	}
	interval := []*string{nil, nil}
	for i, t := range []time.Time{e.first, e.last} {
		if !t.IsZero() {
			s := t.UTC().Format(time.RFC3339)
			interval[i] = &s
		}
	}
	return marshal(map[string]any{
		"spatial":  map[string]any{"bbox": [][]float64{box}},
		"temporal": map[string]any{"interval": [][]*string{interval}},
	})
}

// validExtent reports whether an extent has the shape that STAC requires.
func validExtent(raw json.RawMessage) bool {
	var e struct {
		Spatial  struct{ Bbox [][]float64 }
		Temporal struct{ Interval [][]*string }
	}
	if json.Unmarshal(raw, &e) != nil || len(e.Spatial.Bbox) == 0 || len(e.Temporal.Interval) == 0 {
		return false
	}
	for _, b := range e.Spatial.Bbox {
		if len(b) != 4 && len(b) != 6 {
			return false
		}
	}
	for _, i := range e.Temporal.Interval {
		if len(i) != 2 {
			return false
		}
	}
	return true
}

// feature widens the extent by a feature's bbox or geometry, and its times.
func (e *extent) feature(f map[string]json.RawMessage) {
	var box []float64
	switch _ = json.Unmarshal(f["bbox"], &box); len(box) {
	case 4:
		e.point(box[0], box[1])
		e.point(box[2], box[3])
	case 6:
		e.point(box[0], box[1])
		e.point(box[3], box[4])
	default:
		var g struct{ Coordinates any }
		if json.Unmarshal(f["geometry"], &g) == nil {
			e.coordinates(g.Coordinates)
		}
	}
	var times struct {
		Datetime string `json:"datetime"`
		Start    string `json:"start_datetime"`
		End      string `json:"end_datetime"`
	}
	if json.Unmarshal(f["properties"], &times) == nil {
		for _, s := range []string{times.Datetime, times.Start, times.End} {
			e.time(s)
		}
	}
}

// geoJSON widens the extent by any GeoJSON object.
func (e *extent) geoJSON(raw json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	e.feature(m)
	for _, f := range features(m) {
		e.feature(f)
	}
	var g struct{ Coordinates any }
	if json.Unmarshal(raw, &g) == nil {
		e.coordinates(g.Coordinates)
	}
}

// coordinates walks the nested arrays of a geometry, whose innermost are positions.
func (e *extent) coordinates(v any) {
	list, _ := v.([]any)
	if len(list) >= 2 {
		x, okX := list[0].(float64)
		y, okY := list[1].(float64)
		if okX && okY {
			e.point(x, y)
			return
		}
	}
	for _, inner := range list {
		e.coordinates(inner)
	}
}

// point ignores what is not on earth: coordinates in metres say nothing about where they are.
func (e *extent) point(x, y float64) {
	if math.Abs(x) > 180 || math.Abs(y) > 90 {
		return
	}
	if e.box == nil {
		e.box = []float64{x, y, x, y}
		return
	}
	e.box = []float64{min(e.box[0], x), min(e.box[1], y), max(e.box[2], x), max(e.box[3], y)}
}

func (e *extent) time(s string) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return
	}
	if e.first.IsZero() || t.Before(e.first) {
		e.first = t
	}
	if t.After(e.last) {
		e.last = t
	}
}
