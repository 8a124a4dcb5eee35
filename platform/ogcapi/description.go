package ogcapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	params "github.com/eodispatch/eodispatch/platform/parameters"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// description holds what is used of a process description. A member whose type differs from the standard's counts as
// absent.
type description struct {
	modes   []string // jobControlOptions
	passing []string // outputTransmission
	inputs  map[string]parameter
	outputs map[string]parameter

	document  json.RawMessage
	described []namedValue // the outputs, in the order of the document

	etag        string
	size        int    // size of the document in bytes
	fingerprint string // see fingerprintOf

	versions dispatch.Versions

	parameters []dispatch.Parameter // the inputs, in the order of the document
	set        *params.Set          // nil: the document does not list inputs
}

type parameter struct {
	media    []string // media types that its schema offers
	array    bool     // a single value is an array
	repeated bool     // it may have several values, given as an array
}

// onlySync reports whether the process can only be executed synchronously.
func (d *description) onlySync() bool {
	return slices.Contains(d.modes, "sync-execute") && !slices.Contains(d.modes, "async-execute")
}

func parseDescription(raw []byte) (*description, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if err := bounds.ServiceParameters.Check(max(bounds.Entries(m["inputs"]),
		bounds.Entries(m["outputs"]))); err != nil {
		return nil, err
	}
	d := &description{fingerprint: fingerprintOf(m), inputs: parameters(m["inputs"]), outputs: parameters(m["outputs"]),
		document: bytes.Clone(raw)} // the body's memory may be larger than the body
	_ = json.Unmarshal(d.document, &m) // as above
	d.described = namedValues(m["outputs"])
	d.parameters, d.set = describeInputs(m["inputs"])
	if json.Unmarshal(m["jobControlOptions"], &d.modes) != nil {
		d.modes = nil
	}
	if json.Unmarshal(m["outputTransmission"], &d.passing) != nil {
		d.passing = nil
	}
	return d, nil
}

// parameters reads inputs or outputs: an object by identifier or, as in old drafts, a list.
func parameters(raw json.RawMessage) map[string]parameter {
	all := map[string]parameter{}
	for _, named := range namedValues(raw) {
		all[named.id] = parseParameter(named.value)
	}
	return all
}

func parseParameter(raw json.RawMessage) parameter {
	var o occurrence
	if bounds.SchemaNodes.Check(bounds.Values(raw)) != nil || json.Unmarshal(raw, &o) != nil {
		return parameter{}
	}
	var s schema
	one, repeated, _ := o.values()
	if json.Unmarshal(one, &s) != nil {
		s = schema{}
	}
	return parameter{media: s.media(0), array: s.Type == "array", repeated: repeated}
}

// occurrence is how often an input may occur, with the schema of its value.
type occurrence struct {
	MinOccurs any             `json:"minOccurs"` // a number
	MaxOccurs any             `json:"maxOccurs"` // a number, or "unbounded"
	Schema    json.RawMessage `json:"schema"`
}

func (o occurrence) optional() bool { return o.MinOccurs == 0.0 || o.MinOccurs == "0" }

// values returns the schema of one value, whether an array of values may be given in its place, and of how many; 0: not
// known.
//
// Weaver describes an optional input as an array of at most one value, and takes the value itself, too.
func (o occurrence) values() (one json.RawMessage, repeated bool, most int) {
	number, counted := o.MaxOccurs.(float64)
	if word, _ := o.MaxOccurs.(string); counted && number > 1 || word != "" && word != "1" {
		return o.Schema, true, 0
	}
	var members map[string]json.RawMessage
	if o.optional() && json.Unmarshal(o.Schema, &members) == nil && isAtMostOne(members) {
		return members["items"], true, 1
	}
	return o.Schema, false, 0
}

// isAtMostOne reports whether a schema is that of an array of at most one value, and of nothing else.
func isAtMostOne(members map[string]json.RawMessage) bool {
	least := members["minItems"]
	return stac.Text(members["type"]) == "array" && kindOf(members["items"]) == '{' &&
		string(members["maxItems"]) == "1" && (least == nil || string(least) == "0") &&
		only(members, "type", "items", "minItems", "maxItems")
}

// schema is the part of an OpenAPI 3.0 schema that determines the form of a value.
type schema struct {
	Type             any    `json:"type"`
	ContentMediaType string `json:"contentMediaType"`
	OneOf            []schema
	AnyOf            []schema
	AllOf            []schema
}

const maxSchemaDepth = 5

func (s schema) media(depth int) []string {
	var all []string
	if s.ContentMediaType != "" {
		all = append(all, s.ContentMediaType)
	}
	if depth < maxSchemaDepth {
		for _, part := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			all = append(all, part.media(depth+1)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// describe returns where a service's process is, and its description.
//
// A description that was read without a token is cached for everybody.
// One that was read with a token is cached only for that token, because the server may show it to nobody else. After an
// error nothing was executed.
func (p *Platform) describe(ctx context.Context, t dispatch.Token, s dispatch.Service) (place, *description, error) {
	at, err := p.locate(s)
	if err != nil {
		return place{}, nil, err
	}
	url := p.at(p.base(at), "processes", at.process)
	if public := p.descriptions.Peek(url); public.Value != nil && public.Err == nil &&
		time.Now().Before(public.Until) {
		t = dispatch.Token{} // which renews it in time
	}
	d, err := p.descriptions.Get(ctx, upstream.KeyFor(t.Secret, url),
		func(ctx context.Context, last *description) (*description, error) {
			return p.readDescription(ctx, t, url, last)
		})
	return at, d, err
}

const opDescribe = "ogcapi.describe"

func (p *Platform) readDescription(ctx context.Context, t dispatch.Token, url string, last *description) (*description,
	error) {
	call := p.call(opDescribe, http.MethodGet, url, t)
	if last != nil && last.etag != "" {
		call.Header.Set("If-None-Match", last.etag)
	}
	a, err := p.Client.Do(ctx, call)
	if a != nil && a.Status == http.StatusNotModified && last != nil {
		return last, nil
	}
	if err == nil {
		err = upstream.JSON(a, opDescribe, &map[string]json.RawMessage{})
	}
	if last != nil && (dispatch.Is(err, dispatch.BadUpstream) || a != nil && upstream.OfProxy(a)) {
		return last, nil // such as a proxy's page, which says nothing about the process
	}
	if err != nil {
		return nil, descriptionError(err)
	}
	d, err := parseDescription(a.Body)
	if err != nil {
		return nil, unknownProcess(err, "The platform's description of the process has "+err.Error()+".")
	}
	d.etag, d.size = a.Header.Get("ETag"), len(a.Body)
	d.versions = versionsIn(a)
	return d, nil
}

// poweredBy is the form in which servers such as pygeoapi name their software: a name and a version.
var poweredBy = regexp.MustCompile(`^([^/]+?)[ /]+v?(\d\S*)$`)

// versionsIn returns the version of the process that a response describes, and of the server that sent it. The standard
// has no member for the latter; the header Server is mostly that of a proxy.
func versionsIn(a *upstream.Answer) (v dispatch.Versions) {
	var m struct {
		Version json.RawMessage `json:"version"`
	}
	_ = json.Unmarshal(a.Body, &m) // unreadable: not known
	v.Process = upstream.Version(stac.Text(m.Version))
	if named := poweredBy.FindStringSubmatch(upstream.Version(a.Header.Get("X-Powered-By"))); named != nil {
		v.Software, v.Version = named[1], named[2]
	}
	return v
}

// descriptionError returns the error for a process without a description. A server that responds can be reached, so
// whatever its response says about one process is a fault of the requests that name this process, and of no other. Only
// what concerns the token or the whole server keeps its kind.
func descriptionError(err error) error {
	switch dispatch.KindOf(err) {
	case dispatch.NotFound:
		return unknownProcess(err, "The platform does not know this process.")
	case dispatch.Invalid, dispatch.Conflict, dispatch.Unsupported, dispatch.BadUpstream:
		return unknownProcess(err, "The platform does not describe this process. "+
			"Check the namespace and the application of the service. "+dispatch.TextFor(err))
	}
	return err
}

// unknownProcess returns a NotFound error that names the faulty member of the request.
func unknownProcess(err error, text string) error {
	e := dispatch.InvalidBody(opDescribe, text, "service", "application")
	e.Kind, e.Err = dispatch.NotFound, err
	return e
}

const (
	describeFor   = 5 * time.Minute
	describePause = time.Minute // longest pause after failures; the account itself pauses for longer
)
