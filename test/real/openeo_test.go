package real

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

// TestOpenEO_Driver runs against openeo_driver, the framework that CDSE and Terrascope use.
func TestOpenEO_Driver(t *testing.T) {
	base := startOpenEO(t)
	udps := httptest.NewServer(http.FileServer(http.Dir("udp")))
	t.Cleanup(udps.Close)
	s := driver{base: base, application: udps.URL + "/mean_ndvi.json",
		platform: openeo.New(openeo.Config{Name: "driver", Endpoint: base, Client: client()}),
		alice:    dispatch.Token{Secret: "user.alice", Issuer: base + "/oidc"}}
	t.Run("batch job", s.batchJob)
	t.Run("job in error", s.jobInError)
	t.Run("canceled", s.canceled)
	t.Run("removed", s.removed)
	t.Run("listed with its tag", s.listed)
	t.Run("synchronous", s.synchronous)
	t.Run("expired token", s.expiredToken)
	t.Run("unknown process", s.unknownProcess)
	t.Run("unknown format", s.unknownFormat)
	t.Run("probed", s.probed)
	t.Run("described", s.described)
}

type driver struct {
	base, application string
	platform          *openeo.Platform
	alice             dispatch.Token
}

const area = `"spatial_extent": {"west": 5, "south": 50, "east": 5.1, "north": 50.1}`

// whole holds all parameters that mean_ndvi.json requires; requests add the closing brace.
const whole = `{` + area + `, "temporal_extent": ["2024-06-01", "2024-07-01"]`

func (s driver) request(parameters string) dispatch.Request {
	return dispatch.Request{Title: "NDVI", Label: dispatch.OpenEO, Format: "json",
		Parameters: json.RawMessage(parameters),
		Service:    dispatch.Service{Endpoint: s.base, Application: s.application}}
}

func (s driver) begin(t *testing.T, tag, parameters string) dispatch.Ref {
	t.Helper()
	return begin(t, s.platform, s.alice, tag, s.request(parameters))
}

func (s driver) batchJob(t *testing.T) {
	ref := s.begin(t, "test.1.1", whole+`}`)
	c := finished(t, s.platform, s.alice, ref)
	a := c.Assets["result.json"]
	if a.Type != "application/json" {
		t.Fatalf("assets: %+v", c.Assets)
	}
	response, err := http.Get(a.Href) // a signed URL, which needs no token
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); string(text) != `{"ndvi": 0.5}` {
		t.Errorf("the file contains %s", text)
	}
	report, err := s.platform.Status(t.Context(), s.alice, ref)
	if err != nil || report.Costs == nil || *report.Costs != 1.5 {
		t.Errorf("status: %+v, %v", report, err)
	}
}

func (s driver) jobInError(t *testing.T) {
	r := s.request(`{` + area + `}`)
	// otherwise the adapter rejects the request before the platform does
	r.Options = json.RawMessage(`{"validate": false}`)
	ref := begin(t, s.platform, s.alice, "test.2.1", r)
	if report := end(t, s.platform, s.alice, ref); report.Status != dispatch.Failed {
		t.Fatalf("the job ended as %+v", report)
	}
	logs, err := s.platform.Logs(t.Context(), s.alice, ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range logs {
		if entry.Level == "error" && strings.Contains(entry.Message, "temporal_extent") {
			return
		}
	}
	t.Errorf("no error in the logs names temporal_extent: %+v", logs)
}

func (s driver) canceled(t *testing.T) {
	ref := s.begin(t, "test.3.1", whole+`, "seconds": 60}`)
	follow(t, s.platform, s.alice, ref, func(r dispatch.Report) bool { return r.Status == dispatch.Running })
	for range 2 { // cancel is idempotent
		if err := s.platform.Cancel(t.Context(), s.alice, ref); err != nil {
			t.Fatalf("cancel: %v", err)
		}
	}
	report, err := s.platform.Status(t.Context(), s.alice, ref)
	if !dispatch.Is(err, dispatch.NotFound) && report.Status != dispatch.Canceled {
		t.Errorf("status after cancel: %+v, %v", report, err)
	}
}

func (s driver) removed(t *testing.T) {
	ref := s.begin(t, "test.5.1", whole+`}`)
	finished(t, s.platform, s.alice, ref)
	remove(t, s.platform, s.alice, ref)
}

func (s driver) listed(t *testing.T) {
	begun := time.Now().Add(-time.Minute)
	ref := s.begin(t, "test.4.1", whole+`}`)
	for listed, err := range s.platform.List(t.Context(), s.alice, "") {
		if err != nil {
			t.Fatal(err)
		}
		if listed.Ref == ref {
			if listed.Tag != "test.4.1" || listed.Created.Before(begun) {
				t.Errorf("listed as %+v", listed)
			}
			return
		}
	}
	t.Errorf("%v is not listed", ref)
}

func (s driver) synchronous(t *testing.T) {
	result, err := s.platform.RunSync(t.Context(), s.alice, dispatch.Submission{Request: s.request(whole + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Body.Close()
	var got struct{ NDVI float64 }
	if err := json.NewDecoder(result.Body).Decode(&got); err != nil || got.NDVI != 0.5 {
		t.Errorf("the response is %+v (%s), %v", got, result.ContentType, err)
	}
}

func (s driver) expiredToken(t *testing.T) {
	expired := dispatch.Token{Secret: "expired", Issuer: s.alice.Issuer}
	ref := s.begin(t, "test.5.1", whole+`}`)
	_, err := s.platform.Status(t.Context(), expired, ref)
	if !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("status: %v", err)
	}
	_, err = s.platform.Submit(t.Context(), expired,
		dispatch.Submission{Tag: "test.5.2", Request: s.request(whole + `}`)})
	if !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("submit: %v", err)
	}
}

func (s driver) unknownProcess(t *testing.T) {
	r := s.request(whole + `}`)
	r.Service.Application = "no_such_process"
	// a batch job would only fail once it runs
	_, err := s.platform.RunSync(t.Context(), s.alice, dispatch.Submission{Request: r})
	if !dispatch.Is(err, dispatch.Invalid) || !strings.Contains(dispatch.TextFor(err), "no_such_process") {
		t.Errorf("the error is %v", err)
	}
}

func (s driver) unknownFormat(t *testing.T) {
	r := s.request(whole + `}`)
	r.Format = "papyrus"
	_, err := s.platform.Submit(t.Context(), s.alice, dispatch.Submission{Tag: "test.7.1", Request: r})
	if !dispatch.Is(err, dispatch.Invalid) || !strings.Contains(dispatch.TextFor(err), "netCDF") {
		t.Errorf("the error is %v", err)
	}
}

// described requests the parameters of the process definition at a URL and of every process of the back-end.
func (s driver) described(t *testing.T) {
	r := s.request(whole + `}`)
	all, err := s.platform.Parameters(t.Context(), dispatch.Token{}, r.Service)
	if err != nil || len(all) != 3 || all[0].Type != dispatch.BoundingBox || all[1].Type != dispatch.DateInterval ||
		all[2].Type != dispatch.Double || string(all[2].Default) != "0.2" {
		t.Errorf("by URL: %+v, %v", all, err)
	}
	if _, err := s.platform.Check(t.Context(), dispatch.Token{}, r, nil); err != nil {
		t.Errorf("a valid request is rejected: %v", err)
	}
	r.Parameters = json.RawMessage(`{"seconds":"long","spatial_extent":{"type":"Point","coordinates":[5,50]}}`)
	_, err = s.platform.Check(t.Context(), dispatch.Token{}, r, nil)
	if e, ok := errors.AsType[*dispatch.Error](err); !ok || e.Kind != dispatch.Invalid || len(e.Faults) != 2 {
		t.Errorf("an invalid request: %v, want an error with 2 faults", err)
	}
	var list struct {
		Processes []struct {
			ID         string
			Parameters []struct{ Name string }
		}
	}
	fetch(t, s.base+"/openeo/1.2/processes", &list)
	for _, p := range list.Processes {
		r.Service.Application = p.ID
		all, err := s.platform.Parameters(t.Context(), dispatch.Token{}, r.Service)
		if err != nil || len(all) != len(p.Parameters) {
			t.Errorf("%s: %d of %d parameters, %v", p.ID, len(all), len(p.Parameters), err)
		}
	}
	if len(list.Processes) < 50 {
		t.Errorf("the back-end has only %d processes", len(list.Processes))
	}
}

func (s driver) probed(t *testing.T) {
	if err := s.platform.Probe(t.Context(), s.alice); err != nil {
		t.Error(err)
	}
}

// TestOpenEO_Titiler runs a synchronous job on real pixels: titiler-openeo reads the two bands of one scene, whose
// values are 1000 and 3000.
func TestOpenEO_Titiler(t *testing.T) {
	base := startTitiler(t)
	p := openeo.New(openeo.Config{Name: "titiler", Endpoint: base, TokenPrefix: "basic", Client: client()})
	r := dispatch.Request{Title: "bands", Label: dispatch.OpenEO, Format: "gtiff",
		Service: dispatch.Service{Endpoint: base, Application: "load_collection"},
		Parameters: json.RawMessage(
			`{"id": "scenes", "bands": ["B04", "B08"], "temporal_extent": ["2024-05-01", "2024-07-01"],
			"spatial_extent": {"west": 5.0, "south": 50.0, "east": 5.1, "north": 50.1}}`)}
	result, err := p.RunSync(t.Context(), dispatch.Token{Secret: "dGVzdDp0ZXN0"}, dispatch.Submission{Request: r})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Body.Close()
	text, err := io.ReadAll(result.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "II*\x00") || !strings.HasPrefix(result.ContentType, "image/tiff") {
		t.Fatalf("not a GeoTIFF: %s, %q", result.ContentType, text[:min(len(text), 40)])
	}
	seen := map[int]int{}
	for i := 0; i+1 < len(text); i += 2 { // 16 bits per value, uncompressed
		seen[int(text[i])|int(text[i+1])<<8]++
	}
	if pixels := len(text) / 4; seen[1000] < pixels*9/10 || seen[3000] < pixels*9/10 {
		t.Errorf("of %d pixels %d are 1000 and %d are 3000", pixels, seen[1000], seen[3000])
	}
	_, err = p.RunSync(t.Context(), dispatch.Token{Secret: "d3Jvbmc6d3Jvbmc="}, dispatch.Submission{Request: r})
	if !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("with a wrong password: %v", err)
	}
}
