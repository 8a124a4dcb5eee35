package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// Results reads the job's results: a STAC Collection unchanged, or an Item as a Collection of its assets; relative
// links are made absolute. Assets are often signed URLs that expire soon, so nothing is cached.
func (p *Platform) Results(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (json.RawMessage, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.results"
	path, bearer, err := p.onJob(ctx, op, t, ref)
	if err != nil {
		return nil, err
	}
	a, err := p.call(ctx, op, http.MethodGet, path+"/results", bearer, nil)
	if e, ok := err.(*dispatch.Error); ok && a != nil && a.Status == http.StatusFailedDependency {
		e.Kind = dispatch.BadUpstream // there will be no results: the job is in error, for this reason
	}
	if err != nil {
		return nil, err
	}
	f := upstream.Follower{Client: p.Client, Call: p.request(op, http.MethodGet, "", bearer, nil),
		AllowHosts: p.AllowHosts}
	r := f.Reader(ctx)
	defer r.Close()
	return collection(op, ref.ID, a, r.Expect, itemReader(r, f, a))
}

// itemReader returns the function that reads the Items of results, for stac.AddItems.
func itemReader(r *upstream.Reader, f upstream.Follower, results *upstream.Answer) stac.ItemReader {
	size, entries := int64(len(results.Body)), int64(0)
	return func(href string) (item stac.Object, at *url.URL, err error) {
		if bounds.ResultsBytes.Check(size) != nil || bounds.ResultsEntries.Check(entries) != nil {
			return nil, nil, nil
		}
		a, err := r.Read(href)
		if err == nil {
			err = upstream.JSON(a, f.Call.Op, &item)
		}
		if e, ok := err.(*dispatch.Error); ok && a != nil && upstream.SameOrigin(href, f.Call.Origin) {
			e.Kind = cmp.Or(errorKinds[codeOf(a)], e.Kind)
		}
		switch {
		case upstream.MayPass(err):
			return nil, nil, err
		case err != nil:
			return nil, nil, nil
		}
		size, entries = size+int64(len(a.Body)), entries+bounds.Entries(item["assets"])
		return item, a.URL, nil
	}
}

// collection converts a response with results into a STAC Collection. read reads an Item that it links to, of which
// expect is called before.
func collection(op, id string, a *upstream.Answer, expect func([]string), read stac.ItemReader) (json.RawMessage,
	error) {
	var doc stac.Object
	if err := upstream.JSON(a, op, &doc); err != nil {
		return nil, err
	}
	if stac.Text(doc["openeo:status"]) == "running" {
		return nil, &dispatch.Error{Kind: dispatch.Conflict, Op: op, Text: "The job has not finished."}
	}
	if err := bounds.ResultsEntries.Check(bounds.Entries(doc["links"]) + bounds.Entries(doc["assets"])); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op,
			Text: "The platform's results have " + err.Error() + ".", Err: err}
	}
	stac.Anchor(doc, a.URL)
	var assets stac.Object
	_ = json.Unmarshal(doc["assets"], &assets)
	var extent stac.Extent
	switch kind := stac.Text(doc["type"]); {
	case kind == "Feature", kind != "Collection" && len(assets) > 0:
		extent.Feature(doc)
		doc = wrap(doc)
	case kind != "Collection":
		return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op,
			Text: "The platform's results are neither a STAC Collection nor an Item."}
	default:
		if err := stac.AddItems(doc, &extent, expect, read); err != nil {
			return nil, err
		}
	}
	stac.Complete(doc, id, extent)
	return marshal(doc)
}

// wrap returns a Collection with an Item's assets, those of its properties that apply to the whole, and its links.
func wrap(item stac.Object) stac.Object {
	c := stac.Object{}
	for _, name := range []string{"stac_version", "stac_extensions", "id", "assets", "openeo:status"} {
		if v, there := item[name]; there {
			c[name] = v
		}
	}
	var properties stac.Object
	_ = json.Unmarshal(item["properties"], &properties)
	for _, name := range []string{"title", "description", "license", "providers", "keywords", "created", "updated",
		"expires"} {
		if v, there := properties[name]; there {
			c[name] = v
		}
	}
	c["links"], _ = marshal(linksOfItem(item))
	return c
}

// linksOfItem returns an Item's links as links of its Collection: a link to the Item itself becomes one to an item, and
// links to its former parents are omitted.
func linksOfItem(item stac.Object) []stac.Object {
	all := []stac.Object{}
	for _, l := range stac.Links(item) {
		switch stac.Text(l["rel"]) {
		case "self", "canonical":
			l["rel"], l["type"] = json.RawMessage(`"item"`), json.RawMessage(`"application/geo+json"`)
		case "collection", "parent", "root":
			continue
		}
		all = append(all, l)
	}
	return all
}

// RunSync runs a request at once and streams the file that it creates.
func (p *Platform) RunSync(ctx context.Context, t dispatch.Token, s dispatch.Submission) (*dispatch.SyncResult, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "openeo.sync"
	f, bearer, err := p.factsAndBearer(ctx, t)
	if err != nil {
		return nil, err
	}
	if !f.sync {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: op,
			Text: "This platform has no synchronous runs. Submit a job instead."}
	}
	o, err := p.order(ctx, f, bearer, s)
	if err != nil {
		return nil, err
	}
	o.options = o.runOptions
	body, err := o.body("", s.PlatformOptions())
	if err != nil {
		return nil, err
	}
	call := p.request(op, http.MethodPost, f.url+"/result", bearer, body)
	call.Header.Set("Accept", "*/*")
	a, err := p.Client.Stream(ctx, call)
	if err != nil {
		return nil, tooLong(a, refine(a, err))
	}
	media := a.Header.Get("Content-Type")
	if strings.TrimSpace(media) == "" {
		media = "application/octet-stream"
	}
	return &dispatch.SyncResult{ContentType: media, Costs: costsIn(a.Header), Body: a.Stream}, nil
}

// costsIn returns what a synchronous run cost by the header of its result; nil: it does not say so.
func costsIn(h http.Header) *float64 {
	costs, err := strconv.ParseFloat(h.Get("OpenEO-Costs"), 64)
	if err != nil || math.IsNaN(costs) || math.IsInf(costs, 0) {
		return nil
	}
	return &costs
}

// tooLong adds dispatch.ErrTooLong to the error of a synchronous run which the platform, or a proxy before it, refused
// or ended because it takes too long.
func tooLong(a *upstream.Answer, err error) error {
	e, ok := err.(*dispatch.Error)
	if !ok || a == nil {
		return err
	}
	code := codeOf(a)
	if code == "ProcessGraphComplexity" || code == "RequestTimeout" || a.Status == http.StatusRequestTimeout ||
		a.Status == http.StatusGatewayTimeout {
		e.Err = errors.Join(dispatch.ErrTooLong, e.Err)
	}
	return e
}
