// Package items makes STAC Items of the results of finished jobs, one of each job: for tasks and for searches.
package items

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// head is what is kept of an Item besides the results themselves.
type head struct {
	Geometry   json.RawMessage            `json:"geometry"`
	Bbox       []float64                  `json:"bbox,omitempty"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// Describe implements Describe of [broker.Broker].
func Describe(p broker.JobResult, t dispatch.TaskRecord) dispatch.Item {
	var extent stac.Extent
	collection := object(p.Collection)
	extent.Collection(collection)
	assetTimes(&extent, collection)
	arguments := t.Arguments(p.Value)
	if t.ID == 0 {
		arguments = argumentsOf(p.Request.Parameters)
	}
	where, others := PlaceAmong(arguments)
	properties := map[string]any{"title": p.Request.Title, "created": p.Created.UTC(), "updated": p.Updated.UTC(),
		"eodispatch:status": p.Status}
	if name := p.Name(); name != "" {
		properties["name"] = name
	}
	if t.ID != 0 {
		properties["eodispatch:task"] = t.ID
		if len(others) > 0 {
			properties["dimension"] = others
		}
	}
	if len(t.Request.Placements) > 0 {
		properties["platform"] = p.Account.Platform()
	}
	if where.Geometry == nil {
		where = around(extent.Box())
	}
	first, last := extent.Times()
	if first.IsZero() {
		first, last = askedTimes(arguments, t.Request.Parameters)
	}
	setTimes(properties, first, last, p.Moved)
	processingOf(p.Record).AddTo(properties)
	text, err := dispatch.Encode(map[string]any{"geometry": wire.Geometry{RawMessage: where.Geometry},
		"bbox": where.Box, "properties": properties})
	if err != nil {
		text = []byte(`{"properties":{}}`)
	}
	if first.IsZero() {
		last = p.Moved
	}
	return dispatch.Item{Box: where.Box, First: first, Last: last, Head: text}
}

// unknownSince begins the interval of an Item of whose time nothing is known. It ends with the job.
var unknownSince = time.Unix(0, 0).UTC()

// setTimes writes the times of the data, which STAC requires.
func setTimes(properties map[string]any, first, last, ended time.Time) {
	switch {
	case first.IsZero():
		properties["datetime"], properties["start_datetime"], properties["end_datetime"] = nil, unknownSince,
			ended.UTC()
	case first.Equal(last):
		properties["datetime"] = first
	default:
		properties["datetime"], properties["start_datetime"], properties["end_datetime"] = nil, first, last
	}
}

// assetTimes widens an extent without times by those of the assets.
func assetTimes(e *stac.Extent, c stac.Object) {
	if first, _ := e.Times(); !first.IsZero() {
		return
	}
	var assets map[string]stac.Object
	_ = json.Unmarshal(c["assets"], &assets)
	for _, a := range assets {
		for _, name := range []string{"datetime", "start_datetime", "end_datetime"} {
			e.AddTime(stac.Text(a[name]))
		}
	}
}

// askedTimes returns the times that a request names: the first of its arguments, and then of the parameters that it
// shares with others of a task, that is an interval, or a time of a parameter whose name says so.
func askedTimes(arguments []dispatch.Argument, shared json.RawMessage) (first, last time.Time) {
	for _, a := range append(slices.Clone(arguments), argumentsOf(shared)...) {
		var e stac.Extent
		var interval []*string
		var text string
		switch {
		case json.Unmarshal(a.Value, &interval) == nil && len(interval) == 2:
		case json.Unmarshal(a.Value, &text) == nil && (strings.Contains(text, "/") || timeLike.MatchString(a.Name)):
			for part := range strings.SplitSeq(text, "/") {
				interval = append(interval, &part)
			}
		default:
			continue
		}
		for _, at := range interval {
			if at != nil {
				e.AddTime(*at)
			}
		}
		if first, last = e.Times(); !first.IsZero() {
			return first, last
		}
	}
	return first, last
}

var timeLike = regexp.MustCompile(`(?i)date|time|temporal|day|month`)

// argumentsOf returns the parameters of a request in the order of their names.
func argumentsOf(parameters json.RawMessage) (all []dispatch.Argument) {
	var by map[string]json.RawMessage
	_ = json.Unmarshal(parameters, &by) // pruned: there are none
	for name, value := range by {
		all = append(all, dispatch.Argument{Name: name, Value: value})
	}
	slices.SortFunc(all, func(a, b dispatch.Argument) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func object(raw json.RawMessage) (o stac.Object) {
	_ = json.Unmarshal(raw, &o) // nil: nothing is known
	return o
}

// Origin is where an Item is shown.
type Origin struct {
	Server     string // absolute URL of the server
	Self       string // of the Item
	Collection string // id
	Parent     string // URL of the Collection
	Root       string // URL of the catalog
	User       dispatch.UserID
	Files      *files.Facade // passes on files; nil: links lead to their platforms
}

// Write returns an Item.
func Write(i dispatch.Item, o Origin) wire.Item {
	var h head
	_ = json.Unmarshal(i.Head, &h)
	c := object(i.Body)
	item := wire.Item{Type: "Feature", Version: "1.0.0", ID: strconv.FormatInt(int64(i.Job), 10),
		Collection: o.Collection,
		Geometry:   wire.Geometry{RawMessage: h.Geometry}, Bbox: h.Bbox, Properties: map[string]any{},
		Extensions: extensionsOf(c), Assets: map[string]wire.Asset{}}
	if stac.Text(c["stac_version"]) == "1.1.0" {
		item.Version = "1.1.0"
	}
	for name, value := range h.Properties {
		item.Properties[name] = value
	}
	if o.Files.Pass(c, o.Server, o.User, i.Account, i.Job, time.Now().Add(files.Life)) == nil {
		_ = json.Unmarshal(c["assets"], &item.Assets)
	}
	job := fmt.Sprintf("%s/unit_jobs/%d", o.Server, i.Job)
	item.Links = append([]wire.Link{{Rel: "self", Href: o.Self, Type: wire.MediaGeoJSON},
		{Rel: "collection", Href: o.Parent, Type: "application/json"},
		{Rel: "parent", Href: o.Parent, Type: "application/json"},
		{Rel: "root", Href: o.Root, Type: "application/json"},
		{Rel: "via", Href: job + "/results", Type: "application/json",
			Title: "The results as the platform describes them"}}, ProvenanceLinks(o.Server, i.Job)...)
	return item
}

// extensionsOf returns the extensions of an Item: that of processing, and those of its assets that its platform names.
func extensionsOf(c stac.Object) []string {
	all := []string{stac.ProcessingExtension}
	var named []string
	_ = json.Unmarshal(c["stac_extensions"], &named)
	for _, e := range named {
		if inAssets.MatchString(e) && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// inAssets matches the extensions whose members stand in assets.
var inAssets = regexp.MustCompile(
	`^https://stac-extensions\.github\.io/(projection|raster|eo|file|classification)/v[\d.]+/schema\.json$`)
