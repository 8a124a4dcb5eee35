package stac

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// conformanceClasses are those that the façade implements. Clients such as pystac-client and QGIS look for them.
var conformanceClasses = []string{
	"https://api.stacspec.org/v1.0.0/core",
	"https://api.stacspec.org/v1.0.0/collections",
	"https://api.stacspec.org/v1.0.0/ogcapi-features",
	"https://api.stacspec.org/v1.0.0/item-search",
	"https://api.stacspec.org/v1.0.0/item-search#query",
	"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
	"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
	"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/oas30",
}

const (
	mediaJSON    = "application/json"
	mediaOpenAPI = "application/vnd.oai.openapi+json;version=3.0"
)

// link is a link of a STAC API.
type link struct {
	wire.Link
	Method string          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

func to(rel, href, media, title string) link {
	return link{Link: wire.Link{Rel: rel, Href: href, Type: media, Title: title}}
}

func (f *Facade) landingPage(in *request) (any, error) {
	search := to("search", in.root+"/search", wire.MediaGeoJSON, "Search")
	post := search
	search.Method, post.Method = "GET", "POST"
	return map[string]any{"type": "Catalog", "stac_version": "1.0.0", "id": "results", "title": f.Title,
		"description": "Results of your jobs. " + f.Description, "conformsTo": conformanceClasses,
		"links": []link{to("self", in.root, mediaJSON, "This document"), to("root", in.root, mediaJSON, f.Title),
			to("conformance", in.root+"/conformance", mediaJSON, "Conformance classes"),
			to("data", in.root+"/collections", mediaJSON, "Collections"), search, post,
			to("service-desc", in.root+"/api", mediaOpenAPI, "The interface as OpenAPI 3.0"),
			to("service-doc", in.server+"/docs", "text/html", "The broker's own interface")}}, nil
}

func (f *Facade) conformance(*request) (any, error) {
	return map[string]any{"conformsTo": conformanceClasses}, nil
}

//go:embed openapi.json
var openAPI []byte

// document returns the OpenAPI document with the address and the version of this server.
func (f *Facade) document(in *request) (any, error) {
	var d map[string]any
	if err := json.Unmarshal(openAPI, &d); err != nil {
		return nil, err
	}
	d["info"] = map[string]any{"title": f.Title, "version": f.Version,
		"description": "The results of your jobs as a STAC API."}
	d["servers"] = []map[string]any{{"url": in.root}}
	in.media = mediaOpenAPI
	return d, nil
}

// The ids of Collections: of all Items, and what those of services and tasks begin with.
const (
	allItems  = "results"
	ofService = "service-"
	ofTask    = "task-"

	collectionsOfPage = 20
)

// collection is a Collection of Items.
type collection struct {
	Type        string              `json:"type"`
	Version     string              `json:"stac_version"`
	ID          string              `json:"id"`
	Title       string              `json:"title,omitempty"`
	Description string              `json:"description"`
	License     string              `json:"license"`
	Extent      extent              `json:"extent"`
	Links       []link              `json:"links"`
	Summaries   map[string][]string `json:"summaries,omitempty"`
}

type extent struct {
	Spatial struct {
		Bbox [][]float64 `json:"bbox"`
	} `json:"spatial"`
	Temporal struct {
		Interval [][]*time.Time `json:"interval"`
	} `json:"temporal"`
}

// extentOf returns what Items cover. What is not known becomes the whole Earth and an open interval.
func extentOf(e dispatch.ItemExtent) (x extent) {
	if x.Spatial.Bbox = [][]float64{e.Box}; e.Box == nil {
		x.Spatial.Bbox = [][]float64{{-180, -90, 180, 90}}
	}
	if x.Temporal.Interval = [][]*time.Time{{nil, nil}}; !e.First.IsZero() {
		x.Temporal.Interval = [][]*time.Time{{&e.First, &e.Last}}
	}
	return x
}

func newCollection(in *request, id, title, description string, e dispatch.ItemExtent) collection {
	here := in.root + "/collections/" + id
	return collection{Type: "Collection", Version: "1.0.0", ID: id, Title: title, Description: description,
		License: "proprietary", Extent: extentOf(e), Links: []link{to("self", here, mediaJSON, ""),
			to("root", in.root, mediaJSON, ""), to("parent", in.root, mediaJSON, ""),
			to("items", here+"/items", wire.MediaGeoJSON, "")}}
}

func collectionOfTask(in *request, t dispatch.TaskRecord, e dispatch.ItemExtent) collection {
	c := newCollection(in, fmt.Sprintf("%s%d", ofTask, t.ID), t.Request.Title,
		fmt.Sprintf("Results of task %d. %s", t.ID, t.DescribeResults(0)), e)
	c.Links = append(c.Links, to("via", fmt.Sprintf("%s/upscale_tasks/%d/results", in.server, t.ID), mediaJSON,
		"The results as the task has them"))
	return c
}

func serviceID(h dispatch.ServiceHash) string { return ofService + strconv.FormatUint(uint64(h), 16) }

func collectionOfService(in *request, r dispatch.Record) collection {
	name := r.Request.Service.Application
	if r.Request.Service.Inline() {
		name = "Process graph " + name
	}
	return newCollection(in, serviceID(r.Service), name,
		fmt.Sprintf("Results of %s at %s.", name, r.Account.Platform()), dispatch.ItemExtent{})
}

func collectionOfAll(in *request) collection {
	return newCollection(in, allItems, "All results", "Results of all your jobs.", dispatch.ItemExtent{})
}

// listCollections returns the Collections in pages: first those of all Items and of services, then tasks, newest first.
func (f *Facade) listCollections(in *request) (any, error) {
	all, after := []collection{}, dispatch.Place{}
	if token := in.URL.Query().Get("token"); token != "" {
		created, id, _ := strings.Cut(token, "-")
		micros, bad := strconv.ParseInt(created, 10, 64)
		task, worse := strconv.ParseInt(id, 10, 64)
		if bad != nil || worse != nil {
			return nil, errToken
		}
		after = dispatch.Place{Created: time.UnixMicro(micros).UTC(), ID: task}
	} else {
		services, err := f.Broker.ServicesWithItems(in.Context(), in.user)
		if err != nil {
			return nil, err
		}
		all = append(all, collectionOfAll(in))
		for _, r := range services {
			all = append(all, collectionOfService(in, r))
		}
	}
	tasks, err := f.Broker.RecentTasks(in.Context(), in.user, after, collectionsOfPage+1)
	if err != nil {
		return nil, err
	}
	links := []link{to("self", in.root+"/collections", mediaJSON, ""), to("root", in.root, mediaJSON, "")}
	if len(tasks) > collectionsOfPage {
		tasks = tasks[:collectionsOfPage]
		last := tasks[len(tasks)-1]
		links = append(links, to("next", fmt.Sprintf("%s/collections?token=%d-%d", in.root, last.Created.UnixMicro(),
			last.ID), mediaJSON, ""))
	}
	ids := make([]dispatch.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	extents, err := f.Broker.ItemExtents(in.Context(), in.user, ids)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		all = append(all, collectionOfTask(in, t, extents[t.ID]))
	}
	return map[string]any{"collections": all, "links": links}, nil
}

func (f *Facade) readCollection(in *request) (any, error) {
	id := in.PathValue("collection")
	var q dispatch.ItemQuery
	if err := addCollection(&q, id); err != nil {
		return nil, err
	}
	switch {
	case len(q.Tasks) > 0:
		t, err := f.Broker.Task(in.Context(), in.user, q.Tasks[0])
		if dispatch.Is(err, dispatch.NotFound) {
			return nil, errNoCollection
		}
		if err != nil {
			return nil, err
		}
		extents, err := f.Broker.ItemExtents(in.Context(), in.user, q.Tasks)
		return collectionOfTask(in, t, extents[t.ID]), err
	case len(q.Services) > 0:
		services, err := f.Broker.ServicesWithItems(in.Context(), in.user)
		for _, r := range services {
			if r.Service == q.Services[0] {
				return collectionOfService(in, r), nil
			}
		}
		if err != nil {
			return nil, err
		}
		return nil, errNoCollection
	}
	return collectionOfAll(in), nil
}

// itemAt returns where an Item is: in the Collection of its task, or else of all.
func itemAt(in *request, i dispatch.Item) (collection, parent, self string) {
	collection = allItems
	if i.Task != 0 {
		collection = fmt.Sprintf("%s%d", ofTask, i.Task)
	}
	parent = in.root + "/collections/" + url.PathEscape(collection)
	return collection, parent, fmt.Sprintf("%s/items/%d", parent, i.Job)
}

func (f *Facade) write(in *request, i dispatch.Item) wire.Item {
	collection, parent, self := itemAt(in, i)
	return items.Write(i, items.Origin{Server: in.server, Self: self, Collection: collection, Parent: parent,
		Root: in.root, User: in.user, Files: f.Files})
}
