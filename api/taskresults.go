package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// taskResultBroker reads the results of tasks.
type taskResultBroker interface {
	// TaskOutline returns a task, and all its finished jobs with what is known of their results.
	TaskOutline(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, iter.Seq2[broker.JobResult,
		error], error)
	// TaskResults returns the results of up to n finished jobs of a task after a position, in the order in which they
	// finished.
	TaskResults(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
		n int) (broker.TaskResults, error)
	// TaskResult returns the results of one finished job of a task.
	TaskResult(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.JobID) (broker.TaskResults, error)
}

const (
	manyItems = 10 // items of a page by default, as in STAC API
	mostItems = 100
)

// geoJSON is a response of the media type application/geo+json, which huma does not write by itself.
type geoJSON struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Body         func(huma.Context)
}

func (a *api) writeGeoJSON(v any) (*geoJSON, error) {
	text, err := dispatch.Encode(v)
	return &geoJSON{wire.MediaGeoJSON, openapi.Revalidate, a.Body(func(_ context.Context, w io.Writer) error {
		_, err := w.Write(text)
		return err
	})}, err
}

func (a *api) readTaskResults(ctx context.Context, in *openapi.Request,
	id dispatch.TaskID) (*openapi.Status[wire.TaskCollection], error) {
	t, finished, err := a.Broker.TaskOutline(ctx, call.User(ctx), id)
	if err != nil {
		return nil, err
	}
	var extent stac.Extent
	at, missing := map[dispatch.Account]bool{}, []wire.MissingResults{}
	for p, err := range finished {
		if err != nil {
			return nil, err
		}
		widen(&extent, t, p)
		if p.Err != nil {
			missing = append(missing, missingResults(p))
		}
		at[p.Account] = true
	}
	written, err := json.Marshal(extent)
	if err != nil {
		return nil, err
	}
	here := a.resultsAt(in, id)
	return openapi.StatusOf(wire.TaskCollection{
		Type: "Collection", Version: "1.0.0", ID: collectionID(id), Title: t.Request.Title,
		Description: t.DescribeResults(len(missing)), Missing: missing,
		License: "proprietary", Extent: wire.Object(written), Providers: items.TaskProcessors(t, at),
		Extensions: []string{stac.ProcessingExtension},
		Links: []wire.Link{{Rel: "self", Href: here, Type: "application/json"}, {Rel: "root", Href: here,
			Type: "application/json"}, {Rel: "items", Href: here + "/items", Type: wire.MediaGeoJSON,
			Title: "An Item for each job that has finished"},
			{Rel: "related", Href: strings.TrimSuffix(here, "results") + "tiles", Type: wire.MediaGeoJSON,
				Title: "All jobs on a map"},
			{Rel: stac.RelProvenance, Href: strings.TrimSuffix(here, "results") + "provenance",
				Type:  "application/json",
				Title: "How the results came about, as PROV-JSON"}},
	}), nil
}

// widen adds a job's tile and what is known of its results to e.
func widen(e *stac.Extent, t dispatch.TaskRecord, p broker.JobResult) {
	if at, _ := items.PlaceAmong(t.Arguments(p.Value)); at.Box != nil {
		e.AddBox(at.Box)
	} else if p.Item.Box != nil {
		e.AddBox(p.Item.Box)
	}
	if !p.Item.First.IsZero() {
		e.AddTimes(p.Item.First, p.Item.Last)
	}
}

func (a *api) listItems(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*geoJSON, error) {
	// a larger number is reduced, as STAC API permits
	limit := min(openapi.Integer(in.Query(), "limit", manyItems), mostItems)
	after, err := position(in)
	if err != nil {
		return nil, err
	}
	f, err := a.Broker.TaskResults(ctx, call.User(ctx), id, after, limit)
	if err != nil {
		return nil, err
	}
	at := a.resultsAt(in, id)
	page := wire.ItemPage{Type: "FeatureCollection", Features: []wire.Item{}, Missing: []wire.MissingResults{},
		Matched: f.Task.Counts[dispatch.Finished], Links: []wire.Link{
			{Rel: "self", Href: at + "/items" + query(limit, after), Type: wire.MediaGeoJSON},
			{Rel: "root", Href: at, Type: "application/json"}, {Rel: "collection", Href: at, Type: "application/json"}}}
	for _, p := range f.Jobs {
		if p.Err != nil {
			page.Missing = append(page.Missing, missingResults(p))
		} else {
			page.Features = append(page.Features, a.itemOf(p, at))
		}
	}
	page.Returned = len(page.Features)
	if f.More {
		page.Links = append(page.Links, wire.Link{Rel: "next", Href: at + "/items" + query(limit,
			f.Jobs[len(f.Jobs)-1].ResultPosition()), Type: wire.MediaGeoJSON})
	}
	return a.writeGeoJSON(page)
}

func (a *api) readItem(ctx context.Context, in *openapi.Request) (*geoJSON, error) {
	id, err := in.TaskID()
	if err != nil {
		return nil, err
	}
	job, err := in.JobID()
	if err != nil {
		return nil, err
	}
	f, err := a.Broker.TaskResult(ctx, call.User(ctx), id, job)
	switch {
	case err != nil && f.Task.ID == 0:
		return nil, call.TaskError(err)
	case err != nil:
		return nil, err
	case f.Jobs[0].Err != nil:
		refusal := noResults(f.Jobs[0].Err)
		refusal.Details = map[string]any{"missing": missingResults(f.Jobs[0]), "link": refusal.Details["link"]}
		return nil, refusal
	}
	return a.writeGeoJSON(a.itemOf(f.Jobs[0], a.resultsAt(in, id)))
}

func missingResults(p broker.JobResult) wire.MissingResults {
	why := noResults(p.Err)
	return wire.MissingResults{ID: int64(p.ID), Name: p.Name(), Code: why.Code, Message: why.Message,
		Temporary: p.MayCome()}
}

// noResults returns the response for a finished job whose results cannot be read.
func noResults(err error) call.Refusal {
	if dispatch.Is(err, dispatch.NotFound) {
		return call.Refusal{Status: http.StatusNotFound, Code: "RESULTS_NOT_FOUND", Message: dispatch.TextFor(err)}
	}
	return call.RefusalFor(err)
}

// itemOf returns the STAC Item of a finished job, at the address of the results of its task.
func (a *api) itemOf(p broker.JobResult, at string) wire.Item {
	p.Item.Body = p.Collection
	return items.Write(p.Item, items.Origin{Server: at[:strings.LastIndex(at, "/upscale_tasks/")],
		Self: fmt.Sprintf("%s/items/%d", at, p.ID), Collection: collectionID(p.Task), Parent: at, Root: at,
		User: p.Owner, Files: a.Files})
}

func (a *api) readTaskTiles(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*geoJSON, error) {
	u := call.User(ctx)
	t, err := a.freshTask(ctx, id)
	if err != nil {
		return nil, err
	}
	dimension := dispatch.Task{Dimension: t.Dimension}
	return &geoJSON{wire.MediaGeoJSON, openapi.Revalidate, a.Body(func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, live.Topic{User: u})
		defer r.Close()
		r.Text(`{"type":"FeatureCollection","features":[`)
		for j, err := range limits.InTurns(ctx, &r.Turn, a.Broker.TaskJobs(ctx, u, id, dispatch.Page{})) {
			if r.Failed(err) {
				break
			}
			writeTile(r, dimension, j)
		}
		r.Text("]}\n")
		return r.Err()
	})}, nil
}

// writeTile writes a job with its tile. It writes nothing for a job that was purged after the list was read.
func writeTile(r *live.Renderer, t dispatch.Task, j dispatch.Record) {
	r.WithValue(t, j, func(value json.RawMessage) {
		at, _ := items.PlaceAmong(t.Arguments(value))
		r.Element(wire.Tile{Type: "Feature", ID: int64(j.ID), Geometry: wire.Geometry{RawMessage: at.Geometry},
			Bbox: at.Box,
			Properties: wire.TileProperties{Title: j.Request.Title, Name: j.Name(), Status: r.Shown(j.Status),
				Progress: j.Progress, Failure: j.Failure}})
	})
}

func collectionID(id dispatch.TaskID) string { return fmt.Sprintf("task-%d", id) }

// resultsAt returns the address of a task's results: below the configured public URL, or else below the address that
// the client used.
func (a *api) resultsAt(in *openapi.Request, id dispatch.TaskID) string {
	return fmt.Sprintf("%s/upscale_tasks/%d/results", a.BaseURL(in.HTTP.Host(), in.HTTP.TLS() != nil), id)
}

// query returns the query of the page after a position.
func query(limit int, after dispatch.ResultPosition) string {
	if after == (dispatch.ResultPosition{}) {
		return fmt.Sprintf("?limit=%d", limit)
	}
	return fmt.Sprintf("?limit=%d&token=%d-%d", limit, after.At.UnixNano(), after.Job)
}

// position reads the position of a page from the query parameter token.
func position(r *openapi.Request) (m dispatch.ResultPosition, err error) {
	text := r.Query().Get("token")
	if text == "" {
		return m, nil
	}
	at, job, _ := strings.Cut(text, "-")
	nanos, err := strconv.ParseInt(at, 10, 64)
	id, bad := strconv.ParseInt(job, 10, 64)
	if err != nil || bad != nil {
		return m, call.InvalidQuery("token", "Input should be a token of a next link")
	}
	return dispatch.ResultPosition{At: time.Unix(0, nanos), Job: dispatch.JobID(id)}, nil
}

// taskResultRoutes registers the operations on the results of tasks.
func (a *api) taskResultRoutes() {
	failures := []int{401, 403, 404, 409, 422, 429, 501, 502, 503, 504}
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_results",
		Method: "GET", Path: "/upscale_tasks/{task_id}/results", Tags: openapi.TaskTags,
		Summary: "Get the results of a task",
		Description: "Returns a STAC Collection of the results of the finished jobs, also while other jobs run. The " +
			"link items leads to an Item for each finished job. " +
			"The extent covers their tiles and the known extents of their results; up to 100 results that were not " +
			"read yet are read for it.",
		Parameters: []*huma.Param{openapi.TaskParam}, Responses: a.Errors(401, 404, 422, 503)},
		openapi.OnTask(a.readTaskResults))
	openapi.Register(a.Document, huma.Operation{OperationID: "list_upscale_task_items",
		Method: "GET", Path: "/upscale_tasks/{task_id}/results/items", Tags: openapi.TaskTags,
		Summary: "List the results of a task's finished jobs",
		Description: "Returns STAC Items in pages, in the order in which the jobs finished. A client that follows " +
			"the next links gets each Item once, also while the task runs. " +
			"Finished jobs whose results cannot be read are in eodispatch:missing, with the reason; those that are " +
			"temporary have an Item when the same page is read again later. " +
			"The assets are those of the jobs' results. The broker asks the platform once for each job of a page, " +
			"and not again while the links that the platform gave are valid.",
		Parameters: []*huma.Param{openapi.TaskParam, itemsParam, tokenParam},
		Responses:  openapi.WithGeoJSON[wire.ItemPage](a.Document, a.Errors(failures...))}, openapi.OnTask(a.listItems))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_item",
		Method: "GET", Path: "/upscale_tasks/{task_id}/results/items/{job_id}", Tags: openapi.TaskTags,
		Summary:     "Get the results of one finished job of a task",
		Description: "Returns a STAC Item, or an error with the reason if the results of the job cannot be read.",
		Parameters:  []*huma.Param{openapi.TaskParam, openapi.IdParam},
		Responses:   openapi.WithGeoJSON[wire.Item](a.Document, a.Errors(failures...))}, a.readItem)
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_tiles",
		Method: "GET", Path: "/upscale_tasks/{task_id}/tiles", Tags: openapi.TaskTags,
		Summary: "Get a map of a task's jobs",
		Description: "Returns GeoJSON with the tile and the status of each job. The geometry is the value of the " +
			"first dimension that is a bounding box or GeoJSON, or null if none is.",
		Parameters: []*huma.Param{openapi.TaskParam},
		Responses:  openapi.WithGeoJSON[wire.TaskTiles](a.Document, a.Errors(401, 404, 422, 503))},
		openapi.OnTask(a.readTaskTiles))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_dimensions",
		Method: "GET", Path: "/upscale_tasks/{task_id}/dimensions", Tags: openapi.TaskTags,
		Summary: "Get the progress of a task by each dimension",
		Description: "Returns the status, the counts and the ids of the jobs for each value of each dimension of the " +
			"task, such as each month and each tile.",
		Parameters: []*huma.Param{openapi.TaskParam}, Responses: a.Errors(401, 404, 422, 503)},
		openapi.OnTask(a.readTaskDimensions))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_platforms",
		Method: "GET", Path: "/upscale_tasks/{task_id}/platforms", Tags: openapi.TaskTags,
		Summary: "Get the progress of a task by platform",
		Description: "Returns for each platform of the task how many of its jobs are there, by status, and how many " +
			"finish in an hour.",
		Parameters: []*huma.Param{openapi.TaskParam}, Responses: a.Errors(401, 404, 422, 503)},
		openapi.OnTask(a.readTaskPlatforms))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_provenance",
		Method: "GET", Path: "/upscale_tasks/{task_id}/provenance", Tags: openapi.TaskTags,
		Summary: "Get the provenance of a task",
		Description: "Returns PROV-JSON (W3C): the service, the parameters that the jobs share, the platform, each " +
			"job with its times, costs and software, and the results of those that finished. " +
			"schema:url of a job is the address of its own document, with its parameters and its earlier attempts. " +
			"It does not name you.",
		Parameters: []*huma.Param{openapi.TaskParam},
		Responses:  openapi.WithBody[Provenance](a.Document, a.Errors(401, 404, 422, 503))},
		openapi.OnTask(a.readTaskProvenance))
}

var (
	itemsParam = &huma.Param{Name: "limit", In: "query", Description: "Maximum number of Items, 100 at most",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(10_000.0), Default: manyItems}}
	tokenParam = &huma.Param{Name: "token", In: "query", Description: "The token in a next link",
		Schema: &huma.Schema{Type: huma.TypeString}}
)
