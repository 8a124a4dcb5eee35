package stac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

const (
	itemsByDefault = 10 // of a page
	mostItems      = 100
	mostIDs        = 1000 // that a query names
)

var errToken = badRequest("The token is not one of a next link.")

// query is a search as clients send it: in the body of a POST, or in the parameters of a GET.
type query struct {
	Bbox        []float64                             `json:"bbox,omitempty"`
	Intersects  json.RawMessage                       `json:"intersects,omitempty"`
	Datetime    string                                `json:"datetime,omitempty"`
	IDs         []string                              `json:"ids,omitempty"`
	Collections []string                              `json:"collections,omitempty"`
	Limit       *int                                  `json:"limit,omitempty"`
	Token       string                                `json:"token,omitempty"`
	Query       map[string]map[string]json.RawMessage `json:"query,omitempty"`

	// what would find others, or in another order, is refused
	Filter any `json:"filter,omitempty"`
	Sortby any `json:"sortby,omitempty"`
}

// parseQuery reads the parameters of a GET.
func parseQuery(v url.Values) (q query, err error) {
	list := func(name string) (all []string) {
		for part := range strings.SplitSeq(v.Get(name), ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		return all
	}
	q.IDs, q.Collections, q.Datetime, q.Token = list("ids"), list("collections"), v.Get("datetime"), v.Get("token")
	for _, text := range list("bbox") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return q, errBox
		}
		q.Bbox = append(q.Bbox, n)
	}
	if text := v.Get("intersects"); text != "" {
		q.Intersects = json.RawMessage(text)
	}
	limit, ok := facade.Limit(v, itemsByDefault, mostItems)
	if !ok {
		return q, errLimit
	}
	q.Limit = &limit
	if text := v.Get("query"); text != "" && json.Unmarshal([]byte(text), &q.Query) != nil {
		return q, errQuery
	}
	for name, to := range map[string]*any{"filter": &q.Filter, "sortby": &q.Sortby} {
		if text := v.Get(name); text != "" {
			*to = text
		}
	}
	for name, property := range map[string]string{"task": "eodispatch:task", "status": "eodispatch:status"} {
		if text := v.Get(name); text != "" {
			q.equal(property, text)
		}
	}
	for _, label := range v["label"] {
		name, value, _ := strings.Cut(label, ":")
		q.equal(labelPrefix+name, value)
	}
	return q, nil
}

func (q *query) equal(name, text string) {
	if q.Query == nil {
		q.Query = map[string]map[string]json.RawMessage{}
	}
	value, _ := json.Marshal(text)
	q.Query[name] = map[string]json.RawMessage{"eq": value}
}

const labelPrefix = "label:"

var (
	errBox   = badRequest("bbox has four or six numbers: west, south, east, north, in degrees.")
	errLimit = badRequest("limit is a whole number of 1 or more.")
	errQuery = badRequest("query has the properties task, status and label:NAME, each with eq.")
	errTime  = badRequest("datetime is a time in RFC 3339 or two with a slash between them, of which one may be open " +
		"(..).")
	errPlace = badRequest("intersects is a GeoJSON geometry in degrees, of 10,000 positions at most, and not given " +
		"together with bbox.")
)

// parsed is a query that was checked.
type parsed struct {
	dispatch.ItemQuery

	none bool // nothing matches
}

func (q query) parse() (p parsed, err error) {
	if q.Filter != nil || q.Sortby != nil {
		return p, badRequest("filter and sortby are not supported. Use bbox, intersects, datetime, ids, " +
			"collections and query.")
	}
	p.After, p.Limit = q.Token, itemsByDefault
	if q.Limit != nil {
		if *q.Limit < 1 {
			return p, errLimit
		}
		p.Limit = min(*q.Limit, mostItems)
	}
	if len(q.IDs) > mostIDs || len(q.Collections) > mostIDs {
		return p, badRequest(fmt.Sprintf("ids and collections have %d values each at most.", mostIDs))
	}
	for _, id := range q.IDs {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil && n > 0 {
			p.Jobs = append(p.Jobs, dispatch.JobID(n))
		}
	}
	p.none = len(q.IDs) > 0 && len(p.Jobs) == 0
	return p, cmp.Or(p.setCollections(q), p.setPlace(q), p.setTime(q.Datetime), p.setProperties(q))
}

// addCollection adds a Collection to those in which Items are.
func addCollection(q *dispatch.ItemQuery, id string) error {
	if text, found := strings.CutPrefix(id, ofTask); found {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			q.Tasks = append(q.Tasks, dispatch.TaskID(n))
			return nil
		}
	}
	if text, found := strings.CutPrefix(id, ofService); found {
		if n, err := strconv.ParseUint(text, 16, 64); err == nil {
			q.Services = append(q.Services, dispatch.ServiceHash(n))
			return nil
		}
	}
	if id == allItems {
		return nil
	}
	return errNoCollection
}

// setCollections sets the Collections that are searched. Those of tasks and of services together are more than a query
// of the store can say.
func (p *parsed) setCollections(q query) error {
	if slices.Contains(q.Collections, allItems) {
		return nil
	}
	unknown := 0
	for _, id := range q.Collections {
		if addCollection(&p.ItemQuery, id) != nil {
			unknown++ // nothing is in it
		}
	}
	if len(p.Tasks) > 0 && len(p.Services) > 0 {
		return badRequest("collections are either of tasks or of services.")
	}
	p.none = p.none || unknown > 0 && unknown == len(q.Collections)
	return nil
}

func (p *parsed) setPlace(q query) error {
	if len(q.Intersects) > 0 && string(q.Intersects) != "null" {
		a, ok := parseArea(q.Intersects)
		if !ok || q.Bbox != nil {
			return errPlace
		}
		var e stac.Extent
		e.GeoJSON(q.Intersects)
		if p.Meets, p.Box = a.meets, e.Box(); p.Box == nil {
			return errPlace
		}
		return nil
	}
	n := len(q.Bbox)
	switch {
	case n == 0:
		return nil
	case n != 4 && n != 6:
		return errBox
	}
	p.Box = []float64{q.Bbox[0], q.Bbox[1], q.Bbox[n/2], q.Bbox[n/2+1]}
	for i, v := range p.Box {
		if most := []float64{180, 90}[i%2]; !(v >= -most && v <= most) {
			return errBox
		}
	}
	if p.Box[1] > p.Box[3] {
		return errBox
	}
	return nil
}

func (p *parsed) setTime(text string) error {
	if text == "" {
		return nil
	}
	var ok bool
	p.From, p.To, ok = facade.Interval(text)
	if !ok || p.From.IsZero() && p.To.IsZero() || !p.To.IsZero() && p.To.Before(p.From) {
		return errTime
	}
	return nil
}

// setProperties sets what the query extension asks for.
func (p *parsed) setProperties(q query) error {
	for name, operators := range q.Query {
		raw, equal := operators["eq"]
		if !equal || len(operators) > 1 {
			return errQuery
		}
		value := stac.Text(raw)
		if value == "" {
			value = string(raw)
		}
		label, isLabel := strings.CutPrefix(name, labelPrefix)
		switch name = strings.TrimPrefix(name, "eodispatch:"); {
		case isLabel:
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[label] = value
		case name == "status":
			p.none = p.none || value != string(dispatch.Finished)
		case name == "task":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return errQuery
			}
			id := dispatch.TaskID(n)
			p.none = p.none || len(p.Tasks) > 0 && !slices.Contains(p.Tasks, id)
			p.Tasks = []dispatch.TaskID{id}
		default:
			return errQuery
		}
	}
	p.none = p.none || dispatch.Annotations{Labels: p.Labels}.Check() != nil // nothing has such labels
	return nil
}

func (f *Facade) search(in *request) (any, error) {
	q, err := readQuery(in)
	if err != nil {
		return nil, err
	}
	p, err := q.parse()
	if err != nil {
		return nil, err
	}
	return f.page(in, p, func(token string) link {
		l := to("next", in.root+"/search", wire.MediaGeoJSON, "")
		if in.Method == http.MethodPost {
			q.Token, l.Method = token, http.MethodPost
			l.Body, _ = json.Marshal(q) // it was JSON
			return l
		}
		l.Href, l.Method = l.Href+withToken(in.URL, token), http.MethodGet
		return l
	})
}

func readQuery(in *request) (q query, err error) {
	if in.Method != http.MethodPost {
		return parseQuery(in.URL.Query())
	}
	body, err := in.ReadBody(in.w, in.Request)
	if err != nil || body == nil {
		return q, err
	}
	if json.Unmarshal(body, &q) != nil {
		return q, badRequest("The body is not a search of STAC API.")
	}
	return q, nil
}

// withToken returns the query of the page after a token.
func withToken(u *url.URL, token string) string {
	v := u.Query()
	v.Set("token", token)
	return "?" + v.Encode()
}

// listItems returns the Items of a Collection, filtered by place and time.
func (f *Facade) listItems(in *request) (any, error) {
	if _, err := f.readCollection(in); err != nil {
		return nil, err
	}
	q, err := parseQuery(in.URL.Query())
	if err != nil {
		return nil, err
	}
	q.Collections = []string{in.PathValue("collection")}
	p, err := q.parse()
	if err != nil {
		return nil, err
	}
	return f.page(in, p, func(token string) link {
		return to("next", in.root+"/collections/"+url.PathEscape(in.PathValue("collection"))+"/items"+
			withToken(in.URL, token), wire.MediaGeoJSON, "")
	})
}

func (f *Facade) readItem(in *request) (any, error) {
	p, err := query{IDs: []string{in.PathValue("item_id")}, Collections: []string{in.PathValue("collection")}}.parse()
	if err != nil {
		return nil, err
	}
	var found dispatch.ItemPage
	if !p.none {
		if found, err = f.Broker.FindItems(in.Context(), in.user, p.ItemQuery); err != nil {
			return nil, err
		}
	}
	if len(found.Items) == 0 {
		return nil, problem{http.StatusNotFound, "NotFound", "There is no such item, or its results were not read yet."}
	}
	in.media = wire.MediaGeoJSON
	return f.write(in, found.Items[0]), nil
}

// page returns a page of Items.
func (f *Facade) page(in *request, p parsed, next func(token string) link) (any, error) {
	features, links := []wire.Item{}, []link{to("self", in.root+strings.TrimPrefix(in.URL.RequestURI(), root),
		wire.MediaGeoJSON, ""), to("root", in.root, mediaJSON, "")}
	if !p.none {
		found, err := f.Broker.FindItems(in.Context(), in.user, p.ItemQuery)
		if dispatch.Is(err, dispatch.Invalid) {
			return nil, errToken
		}
		if err != nil {
			return nil, err
		}
		for _, i := range found.Items {
			features = append(features, f.write(in, i))
		}
		if found.Next != "" {
			links = append(links, next(found.Next))
		}
	}
	in.media = wire.MediaGeoJSON
	return map[string]any{"type": "FeatureCollection", "features": features, "links": links,
		"numberReturned": len(features)}, nil
}
