package ogcapi

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestPlainURL: what clients make of a base URL with a slash at its end reaches the operation.
func TestPlainURL(t *testing.T) {
	for given, want := range map[string]string{"/ogcapi/": "/ogcapi", "//ogcapi//processes/": "/ogcapi/processes",
		"/ogcapi/processes/a%2Fb/": "/ogcapi/processes/a%2Fb", "/ogcapi": "/ogcapi"} {
		u, err := url.Parse("http://host" + given)
		if err != nil {
			t.Fatal(err)
		}
		if got := facade.PlainURL(u).EscapedPath(); got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
}

// An execution that names no format asks for none: which outputs the process has decides about its default.
func TestFormatOf(t *testing.T) {
	ogc, openEO := catalogue.Service{Label: dispatch.OGCProcess, Formats: []string{"GeoTIFF"}},
		catalogue.Service{Label: dispatch.OpenEO}
	for _, c := range []struct {
		service           catalogue.Service
		name, media, want string
		refused           bool
	}{
		{ogc, "", "", "", false},
		{openEO, "", "", "", false},
		{ogc, "PNG", "", "PNG", false},
		{ogc, "", "image/tiff; application=geotiff", "gtiff", false},
		{ogc, "", "application/x-gold", "application/x-gold", false},
		{openEO, "", "application/x-gold", "", true},
		{openEO, "png", "image/png", "", true},
	} {
		if got, err := formatOf(c.service, c.name, c.media); got != c.want || (err != nil) != c.refused {
			t.Errorf("%q %q: %q, %v", c.name, c.media, got, err)
		}
	}
}

func TestPlainValue(t *testing.T) {
	for given, want := range map[string]string{
		`1`: `1`, `"a"`: `"a"`, `[1,2]`: `[1,2]`, `{"value":{"a":1}}`: `{"a":1}`,
		`{"value":[1],"mediaType":"application/json"}`:                            `[1]`,
		`{"href":"https://example.org/a","type":"image/tiff"}`:                    `"https://example.org/a"`,
		`[{"value":1},{"href":"b"}]`:                                              `[1,"b"]`,
		`{"bbox":[1,2,3,4],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}`: `{"bbox":[1,2,3,4]}`,
		`{"west":1,"value":2}`:                                                    `{"west":1,"value":2}`,
		`{"type":"Polygon","bbox":[1,2,3,4]}`:                                     `{"type":"Polygon","bbox":[1,2,3,4]}`,
		`null`:                                                                    `null`,
	} {
		got, err := plainValue("a", json.RawMessage(given))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	if _, err := plainValue("a",
		json.RawMessage(`{"bbox":[1,2,3,4],"crs":"http://www.opengis.net/def/crs/EPSG/0/4326"}`)); err == nil {
		t.Error("a box in another order of coordinates is accepted")
	}
}

// TestFaultText: it names the place as the standard does, and does not grow with the request.
func TestFaultText(t *testing.T) {
	if got := faultText(dispatch.Fault{Loc: []any{"body", "parameters", "bbox", 2},
		Msg: "It is no number."}); got != "inputs.bbox.2: It is no number." {
		t.Error(got)
	}
	if got := faultText(dispatch.Fault{Loc: []any{"body", "parameters", strings.Repeat("x", 1<<20)},
		Msg: "It is unknown"}); len(got) > 400 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestStatusOf: every status of the broker has a word of the standard.
func TestStatusOf(t *testing.T) {
	for given, want := range map[dispatch.Status]string{dispatch.Accepted: accepted, dispatch.Submitted: accepted,
		dispatch.Queued: accepted, dispatch.Running: running,
		dispatch.Finished: successful, dispatch.Failed: failed, dispatch.Canceled: dismissed} {
		if got := statusOf(given, ""); got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
	if statusOf(dispatch.Unknown, dispatch.Running) != running ||
		statusOf(dispatch.Unknown, dispatch.Queued) != accepted {
		t.Error("an unknown status is not the last known one")
	}
}

// sealer seals by writing the user before the text.
type sealer struct{ facade.Server }

func (sealer) Seal(u dispatch.UserID, purpose string, text []byte) string {
	return string(u) + purpose + string(text)
}
func (sealer) Unseal(u dispatch.UserID, purpose, sealed string) ([]byte, bool) {
	prefix := string(u) + purpose
	if len(sealed) < len(prefix) || sealed[:len(prefix)] != prefix {
		return nil, false
	}
	return []byte(sealed[len(prefix):]), true
}

func TestCursor_IsItsUsers(t *testing.T) {
	f := New(Config{})
	at := broker.Position{Job: dispatch.Place{Created: time.Unix(1, 0).UTC(), ID: 7}, Task: dispatch.Place{ID: 3}}
	alice, bob := &request{Server: sealer{}, user: "alice"}, &request{Server: sealer{}, user: "bob"}
	cursor := f.cursor(alice, at)
	if got, ok := f.positionOf(alice, cursor); !ok || got != at {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := f.positionOf(bob, cursor); ok {
		t.Error("another user's cursor is accepted")
	}
}

// FuzzExecution reads what clients send as execute requests.
func FuzzExecution(f *testing.F) {
	for _, seed := range []string{
		`{"inputs":{"a":{"value":[1]}},"outputs":{"stac":{"transmissionMode":"reference"}},"response":"raw"}`,
		`{"inputs":{"a":{"bbox":[1,2,3,4]}}}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var e execution
		if json.Unmarshal(body, &e) != nil {
			return
		}
		for name, value := range e.Inputs {
			plain, err := plainValue(name, value)
			if err == nil && !json.Valid(plain) {
				t.Errorf("%s: %s", value, plain)
			}
		}
	})
}

// TestPlacements: a task runs at all platforms of its service, unless their inputs have other forms or a rule gives it
// a budget.
func TestPlacements(t *testing.T) {
	at := func(label dispatch.Label, endpoint string) catalogue.Placement {
		return catalogue.Placement{Label: label, Service: dispatch.Service{Application: "x",
			Endpoint: "https://" + endpoint + ".example.org"}}
	}
	first := at(dispatch.OGCProcess, "a")
	var backends []*dispatch.Backend
	for _, name := range []string{"a", "b", "c", "dear"} {
		backends = append(backends, &dispatch.Backend{Name: name, Label: dispatch.OGCProcess,
			Endpoint: "https://" + name + ".example.org"})
	}
	b := conformance.NewBroker(conformance.NewMemStore(conformance.WallClock{}), nil, backends...)
	b.Policies = []dispatch.Policy{{Applies: func(at string, _ dispatch.Service) bool { return at == "dear" },
		Budget: dispatch.Budget{Amount: 9}}}
	f := &Facade{Config: Config{Broker: b}}
	for want, also := range map[int][]catalogue.Placement{0: nil, 2: {at(dispatch.OGCProcess, "b")},
		3: {at(dispatch.OGCProcess, "b"), at(dispatch.OGCProcess, "c")}} {
		if got := f.placements(catalogue.Service{Label: first.Label, Service: first.Service, Also: also}); len(
			got) != want || want > 0 && got[1].Service != also[0].Service {
			t.Errorf("%d platforms: %+v", 1+len(also), got)
		}
	}
	for _, other := range []catalogue.Placement{at(dispatch.OpenEO, "b"), at(dispatch.OGCProcess, "dear")} {
		if got := f.placements(catalogue.Service{Label: first.Label, Service: first.Service,
			Also: []catalogue.Placement{other}}); got != nil {
			t.Errorf("with %+v: %+v", other, got)
		}
	}
}

// TestTaskInfo_FinishedIsWhenTheLastJobEnded: costs that a platform reports late change a job, and so its task, but not
// when the task was done. A filter by duration reads the same time.
func TestTaskInfo_FinishedIsWhenTheLastJobEnded(t *testing.T) {
	f := New(Config{Services: catalogue.New(catalogue.Config{})})
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		jobs     []dispatch.Job
		finished *time.Time
	}{
		"costs came late": {[]dispatch.Job{{Condition: dispatch.Condition{Status: dispatch.Finished, Moved: after(5),
			Updated: after(90)}}, {Condition: dispatch.Condition{Status: dispatch.Finished, Moved: after(7),
			Updated: after(7)}}}, new(after(7))},
		"the last one fails": {[]dispatch.Job{{Condition: dispatch.Condition{Status: dispatch.Finished, Moved: after(5),
			Updated: after(90)}}, {Condition: dispatch.Condition{Status: dispatch.Failed, Moved: after(8),
			Updated: after(8)}}}, new(after(8))},
		"one runs": {[]dispatch.Job{{Condition: dispatch.Condition{Status: dispatch.Finished, Moved: after(5),
			Updated: after(5)}},
			{Condition: dispatch.Condition{Status: dispatch.Running, Moved: after(6), Updated: after(9)}}}, nil},
		"without jobs": {nil, new(began)},
	} {
		var tally dispatch.Tally
		for _, j := range c.jobs {
			tally.Add(j)
		}
		info := f.taskInfo(&request{}, tally.CountsFor(dispatch.TaskRecord{Task: dispatch.Task{ID: 3, Created: began}}))
		if !reflect.DeepEqual(info.Finished, c.finished) {
			t.Errorf("%s: finished %v, want %v", name, info.Finished, c.finished)
		}
		if short := (jobFilter{maxDuration: new(600.0)}); c.finished != nil && !short.selects(info) {
			t.Errorf("%s: it took more than ten minutes", name)
		}
	}
}
