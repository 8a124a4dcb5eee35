package openeo

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// syncTime is how long a synchronous run may take; the field's clients wait as long.
const syncTime = 30 * time.Minute

// Results reads the job's results: a STAC Collection as it is, or an Item as a Collection of its assets; with relative
// links made absolute. Assets are often signed URLs that end soon: nothing is kept.
func (p *Platform) Results(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (json.RawMessage, error) {
	const op = "openeo.results"
	path, err := jobPath(op, ref)
	if err != nil {
		return nil, err
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return nil, err
	}
	a, err := p.call(ctx, op, http.MethodGet, path+"/results", bearer, nil)
	if e, ok := err.(*dispatch.Error); ok && a != nil && a.Status == http.StatusFailedDependency {
		e.Kind = dispatch.BadUpstream // there will be no results: the job is in error, and this is why
	}
	if err != nil {
		return nil, err
	}
	return collection(op, ref.ID, a)
}

// collection makes a STAC Collection of an answer with results.
func collection(op, id string, a *upstream.Answer) (json.RawMessage, error) {
	var doc map[string]json.RawMessage
	if err := upstream.JSON(a, op, &doc); err != nil {
		return nil, err
	}
	if text(doc["openeo:status"]) == "running" {
		return nil, &dispatch.Error{Kind: dispatch.Conflict, Op: op, Text: "The job has not finished."}
	}
	anchor(doc, a.URL)
	switch text(doc["type"]) {
	case "Collection":
		return marshal(doc)
	case "Feature":
		return wrap(id, doc)
	}
	return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: "The platform's results are neither a STAC Collection nor an Item."}
}

func text(v json.RawMessage) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// anchor makes the relative links of a STAC object absolute. What has another shape than STAC's is left as it is.
func anchor(doc map[string]json.RawMessage, base *url.URL) {
	var links []map[string]json.RawMessage
	if json.Unmarshal(doc["links"], &links) == nil && links != nil {
		for _, l := range links {
			anchorHref(l, base)
		}
		doc["links"], _ = marshal(links)
	}
	var assets map[string]map[string]json.RawMessage
	if json.Unmarshal(doc["assets"], &assets) == nil && assets != nil {
		for _, asset := range assets {
			anchorHref(asset, base)
		}
		doc["assets"], _ = marshal(assets)
	}
}

func anchorHref(m map[string]json.RawMessage, base *url.URL) {
	if href := text(m["href"]); href != "" {
		m["href"], _ = marshal(absolute(base, href))
	}
}

// wrap makes a Collection of an Item: its assets and links, and as extent its bbox (else its geometry's) and times.
func wrap(id string, item map[string]json.RawMessage) (json.RawMessage, error) {
	var properties map[string]json.RawMessage
	_ = json.Unmarshal(item["properties"], &properties)
	c := map[string]any{
		"type": "Collection", "stac_version": or(item["stac_version"], "1.0.0"), "id": or(item["id"], id),
		"description": or(properties["description"], "Results of job "+id),
		"license":     or(properties["license"], "proprietary"),
		"extent": map[string]any{
			"spatial":  map[string]any{"bbox": []any{box(item)}},
			"temporal": map[string]any{"interval": []any{interval(properties)}},
		},
		"links": []any{},
	}
	for _, name := range []string{"stac_extensions", "links", "assets", "openeo:status"} {
		if v := item[name]; present(v) {
			c[name] = v
		}
	}
	for _, name := range []string{"title", "providers"} {
		if v := properties[name]; present(v) {
			c[name] = v
		}
	}
	return marshal(c)
}

func present(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// or is v if it is a text that is not empty, else the fallback.
func or(v json.RawMessage, fallback string) string {
	if s := text(v); s != "" {
		return s
	}
	return fallback
}

// box is an Item's bounding box: as it says, or around its geometry, or the world.
func box(item map[string]json.RawMessage) []float64 {
	var bbox []float64
	if json.Unmarshal(item["bbox"], &bbox) == nil && (len(bbox) == 4 || len(bbox) == 6) {
		return bbox
	}
	around := []float64{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	var geometry any
	_ = json.Unmarshal(item["geometry"], &geometry)
	enclose(geometry, around)
	if around[0] > around[2] {
		return []float64{-180, -90, 180, 90}
	}
	return around
}

// enclose widens the box by every position in a GeoJSON geometry.
func enclose(v any, box []float64) {
	switch v := v.(type) {
	case map[string]any:
		enclose(v["coordinates"], box)
		enclose(v["geometries"], box)
	case []any:
		if x, y, ok := position(v); ok {
			box[0], box[1], box[2], box[3] = min(box[0], x), min(box[1], y), max(box[2], x), max(box[3], y)
			return
		}
		for _, inner := range v {
			enclose(inner, box)
		}
	}
}

func position(v []any) (x, y float64, ok bool) {
	if len(v) < 2 {
		return 0, 0, false
	}
	x, isX := v[0].(float64)
	y, isY := v[1].(float64)
	return x, y, isX && isY
}

// interval is an Item's time: from start_datetime to end_datetime, or its datetime twice; null is open.
func interval(properties map[string]json.RawMessage) []any {
	at := text(properties["datetime"])
	from, to := or(properties["start_datetime"], at), or(properties["end_datetime"], at)
	return []any{orNull(from), orNull(to)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// RunSync runs a request at once and streams the file that it makes, for at most half an hour.
func (p *Platform) RunSync(ctx context.Context, t dispatch.Token, s dispatch.Submission) (*dispatch.SyncResult, error) {
	const op = "openeo.sync"
	f, err := p.known(ctx)
	if err != nil {
		return nil, err
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return nil, err
	}
	o, err := p.order(ctx, f, bearer, s.Request)
	if err != nil {
		return nil, err
	}
	body, err := o.body("", s.PlatformOptions())
	if err != nil {
		return nil, err
	}
	call := p.request(op, http.MethodPost, f.url+"/result", bearer, body)
	call.Header.Set("Accept", "*/*")
	call.Timeout = syncTime
	a, err := p.client.Stream(ctx, call)
	if err != nil {
		return nil, refine(a, err)
	}
	media := a.Header.Get("Content-Type")
	if strings.TrimSpace(media) == "" {
		media = "application/octet-stream"
	}
	return &dispatch.SyncResult{ContentType: media, Body: a.Stream}, nil
}
