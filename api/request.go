package api

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// parse reads a BaseJobRequest and returns all its faults.
func (a *api) parse(ctx context.Context, body []byte) (dispatch.Request, []dispatch.Fault) {
	given, f, ok := openapi.ReadInto[wire.BaseJobRequest](a.Document, body)
	if !ok {
		return dispatch.Request{}, f.All
	}
	r := a.atOnePlacement(ctx, a.jobIn(f, given, given.Service, "service"), a.placementsOf(given))
	return r, f.Sorted()
}

// jobIn returns the request of a job, or what jobs and tasks share, for a service at a place in the body.
func (a *api) jobIn(f *openapi.Faults, given wire.BaseJobRequest, s wire.ServiceChoice, at ...any) dispatch.Request {
	r := dispatch.Request{Title: given.Title, Parameters: json.RawMessage(given.Parameters), Format: given.Format,
		Annotations: annotations(f, given.Annotations)}
	r.Options, r.Notify = options(f, given.Options)
	r.Service, r.Label = a.service(f, s, label(f, given.Label, s), at...)
	return r
}

// label returns the protocol of a service; "" if it is absent and the catalogue knows it.
func label(f *openapi.Faults, given string, s wire.ServiceChoice) dispatch.Label {
	switch {
	case given == "" && s != (wire.ServiceChoice{}) && !isReference(s):
		f.Add("missing", "Field required", "label")
	case given == openapi.ProtocolOf[dispatch.OGCProcess]: // what GET /services calls protocol
		return dispatch.OGCProcess
	}
	return dispatch.Label(given)
}

// isReference reports whether a service is named by its id in the catalogue.
func isReference(s wire.ServiceChoice) bool {
	return s.ID != "" && s.Endpoint == "" && s.Application == ""
}

// service returns the service that a request with a label names, by its endpoint and application, or by the id that it
// has in the catalogue, where its label is known too.
func (a *api) service(f *openapi.Faults, s wire.ServiceChoice, l dispatch.Label, at ...any) (dispatch.Service,
	dispatch.Label) {
	if f.Within(at...) {
		return dispatch.Service{}, l
	}
	if isReference(s) {
		placements := a.listedPlacements(f, s, l, at...)
		if len(placements) == 0 {
			return dispatch.Service{}, l
		}
		return placements[0].Service, placements[0].Label
	}
	for name, text := range map[string]string{"endpoint": s.Endpoint, "application": s.Application} {
		if s.ID != "" && text == "" { // the schema takes it for a reference
			f.Add("missing", "Field required", append(slices.Clone(at), name)...)
		}
	}
	return dispatch.Service{Endpoint: s.Endpoint, Namespace: s.Namespace, Application: s.Application}, l
}

// options returns the options unchanged, except for notify, which is not kept with the request.
func options(f *openapi.Faults, raw wire.Object) (json.RawMessage, []dispatch.Notify) {
	var members map[string]json.RawMessage
	if f.Within("options") || json.Unmarshal(raw, &members) != nil || members["notify"] == nil {
		return json.RawMessage(raw), nil
	}
	var given *wire.Notify
	(&openapi.Decoding{Faults: &openapi.Faults{}}).Value(members["notify"], reflect.ValueOf(&given).Elem())
	var notify []dispatch.Notify
	if given != nil {
		one := noticeTo(given.URL, eventsOf(f, given.HookRequest, "options", "notify"))
		one.Secret = dispatch.Secret(given.Secret)
		notify = []dispatch.Notify{one}
	}
	if delete(members, "notify"); len(members) == 0 {
		return nil, notify
	}
	rest, _ := json.Marshal(members) // its members were JSON
	return rest, notify
}

// budgetIn returns a budget at a place in the body; zero if there is none.
func budgetIn(f *openapi.Faults, given wire.Budget, at ...any) (b dispatch.Budget) {
	if len(given.RawMessage) == 0 || openapi.IsNull(given.RawMessage) || f.Within(at...) {
		return b
	}
	b, ok := dispatch.ParseBudget(given.RawMessage)
	if !ok {
		f.Add("value_error", fmt.Sprintf("Input should be a number above 0 and at most %g, or an object with such an "+
			"amount and a unit", dispatch.HighestCosts), at...)
	} else if strings.ContainsFunc(b.Unit, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		f.Add("value_error", "The unit should have no control characters", append(slices.Clone(at), "unit")...)
	}
	return b
}
