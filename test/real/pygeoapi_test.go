package real

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
)

// TestOGC_Pygeoapi runs against two versions, which respond differently to an execution: 0.21 with null, 0.24 with the
// job.
func TestOGC_Pygeoapi(t *testing.T) {
	for _, version := range []string{"0.21.0", "0.24.0"} {
		t.Run(version, func(t *testing.T) {
			s := pygeoapi{base: startPygeoapi(t, version)}
			s.platform = ogcapi.New(ogcapi.Config{Name: "pygeoapi", Endpoint: s.base, Client: client()})
			t.Run("literals", s.literals)
			t.Run("features", s.features)
			t.Run("by link", s.byLink)
			t.Run("collection", s.collection)
			t.Run("synchronous", s.synchronous)
			t.Run("failing", s.failing)
			t.Run("failing synchronously", s.failingSynchronously)
			t.Run("dismissed", s.dismissed)
			t.Run("removed", s.removed)
			t.Run("unknown process", s.unknownProcess)
			t.Run("listed", s.listed)
			t.Run("probed", s.probed)
			t.Run("formats", s.formats)
			t.Run("versions", func(t *testing.T) { s.versions(t, version) })
			t.Run("described", s.described)
		})
	}
}

type pygeoapi struct {
	base     string
	platform *ogcapi.Platform
}

func (s pygeoapi) request(process, parameters string) dispatch.Request {
	return dispatch.Request{Title: process, Label: dispatch.OGCProcess, Format: "json",
		Parameters: json.RawMessage(parameters),
		Service:    dispatch.Service{Endpoint: s.base, Application: process}}
}

func (s pygeoapi) begin(t *testing.T, process, parameters string) dispatch.Ref {
	t.Helper()
	return begin(t, s.platform, dispatch.Token{}, "test.1.1", s.request(process, parameters))
}

func (s pygeoapi) results(t *testing.T, process, parameters string) collection {
	t.Helper()
	return finished(t, s.platform, dispatch.Token{}, s.begin(t, process, parameters))
}

func (s pygeoapi) literals(t *testing.T) {
	c := s.results(t, "literals", `{"numbers": [1, 2, 3.5]}`)
	for _, a := range c.Assets {
		if a.Href == "" {
			t.Errorf("an asset has no href: %+v", c.Assets)
		}
	}
}

func (s pygeoapi) features(t *testing.T) { s.results(t, "features", `{"bbox": [5, 50, 5.1, 50.1]}`) }

func (s pygeoapi) byLink(t *testing.T) {
	c := s.results(t, "by-link", `{}`)
	for _, a := range c.Assets {
		if a.Href == "https://files.example.org/map.tif" && strings.HasPrefix(a.Type, "image/tiff") {
			return
		}
	}
	t.Errorf("the file is not among the assets: %+v", c.Assets)
}

func (s pygeoapi) collection(t *testing.T) {
	c := s.results(t, "collection", `{}`)
	want := map[string]asset{"ndvi": {Href: "https://files.example.org/ndvi.tif",
		Type: "image/tiff; application=geotiff"}}
	if diff := cmp.Diff(want, c.Assets); c.ID != "ndvi" || diff != "" {
		t.Errorf("collection %s: %s", c.ID, diff)
	}
}

func (s pygeoapi) synchronous(t *testing.T) {
	result, err := s.platform.RunSync(t.Context(), dispatch.Token{}, dispatch.Submission{Request: s.request("literals",
		`{"numbers": [1, 2]}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Body.Close()
	text, err := io.ReadAll(result.Body)
	if err != nil {
		t.Fatal(err)
	}
	type sums struct{ Sum, Count float64 }
	var got struct{ Outputs []sums } // the document format of pygeoapi
	want := []sums{{Sum: 3, Count: 2}}
	if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got.Outputs, want) {
		t.Errorf("the response is %s (%s), %v", text, result.ContentType, err)
	}
}

const reason = "no scene without clouds was found"

func (s pygeoapi) failing(t *testing.T) {
	report := end(t, s.platform, dispatch.Token{}, s.begin(t, "failing", `{}`))
	if report.Status != dispatch.Failed || !strings.Contains(report.Message, reason) {
		t.Errorf("status: %+v", report)
	}
}

func (s pygeoapi) failingSynchronously(t *testing.T) {
	_, err := s.platform.RunSync(t.Context(), dispatch.Token{},
		dispatch.Submission{Request: s.request("failing", `{}`)})
	if err == nil || !strings.Contains(dispatch.TextFor(err), reason) {
		t.Errorf("the error is %v", err)
	}
}

func (s pygeoapi) dismissed(t *testing.T) {
	ref := s.begin(t, "slow", `{"seconds": 20}`)
	if report, err := s.platform.Status(t.Context(), dispatch.Token{}, ref); err != nil || report.Status.Final() {
		t.Fatalf("status before dismiss: %+v, %v", report, err)
	}
	if err := s.platform.Cancel(t.Context(), dispatch.Token{}, ref); err != nil {
		t.Fatalf("dismiss: %v", err)
	}
	if err := s.platform.Cancel(t.Context(), dispatch.Token{}, ref); err != nil &&
		!dispatch.Is(err, dispatch.NotFound) {
		t.Errorf("second dismiss: %v", err)
	}
	report, err := s.platform.Status(t.Context(), dispatch.Token{}, ref)
	if !dispatch.Is(err, dispatch.NotFound) && report.Status != dispatch.Canceled {
		t.Errorf("status after dismiss: %+v, %v", report, err)
	}
}

func (s pygeoapi) removed(t *testing.T) {
	ref := s.begin(t, "literals", `{"numbers": [1, 2]}`)
	end(t, s.platform, dispatch.Token{}, ref)
	remove(t, s.platform, dispatch.Token{}, ref)
}

func (s pygeoapi) unknownProcess(t *testing.T) {
	_, err := s.platform.Submit(t.Context(), dispatch.Token{}, dispatch.Submission{Request: s.request("nothing", `{}`)})
	if !dispatch.Is(err, dispatch.NotFound) || !strings.Contains(dispatch.TextFor(err), "process") {
		t.Errorf("the error is %v", err)
	}
}

func (s pygeoapi) listed(t *testing.T) {
	ref := s.begin(t, "literals", `{}`)
	for listed, err := range s.platform.List(t.Context(), dispatch.Token{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if listed.Ref == ref {
			if listed.Report.Status == "" {
				t.Errorf("listed as %+v", listed)
			}
			return
		}
	}
	t.Errorf("%v is not listed", ref)
}

// described requests the parameters of every process of the server.
func (s pygeoapi) described(t *testing.T) {
	var list struct{ Processes []struct{ ID string } }
	fetch(t, s.base+"/processes?limit=100", &list)
	got := map[string]string{}
	for _, p := range list.Processes {
		r := s.request(p.ID, `{"no such input": 1}`)
		r.Format = ""
		all, err := s.platform.Parameters(t.Context(), dispatch.Token{}, r.Service)
		if err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
		for _, q := range all {
			got[p.ID+" "+q.Name] = string(q.Type)
		}
		_, err = s.platform.Check(t.Context(), dispatch.Token{}, r, nil)
		if e, ok := errors.AsType[*dispatch.Error](err); !ok || e.Kind != dispatch.Invalid || len(e.Faults) == 0 {
			t.Errorf("%s: a request with an unknown input: %v, want an error with faults", p.ID, err)
		}
	}
	for name, want := range map[string]dispatch.ParamType{"literals numbers": dispatch.Array,
		"slow seconds": dispatch.Double} {
		if got[name] != string(want) {
			t.Errorf("%s is %q, not %s: %v", name, got[name], want, got)
		}
	}
}

// formats checks that a process's formats are found, that a request for another is refused, and that the server is
// asked for the chosen one.
func (s pygeoapi) formats(t *testing.T) {
	r := s.request("formats", `{}`)
	offered, err := s.platform.Formats(t.Context(), dispatch.Token{}, r.Service)
	if err != nil || len(offered) != 2 || offered[0].Name != "netcdf" || offered[1].Name != "gtiff" {
		t.Errorf("%+v, %v", offered, err)
	}
	r.Format = "geojson"
	if _, err := s.platform.Check(t.Context(), dispatch.Token{}, r, nil); !dispatch.Is(err, dispatch.Invalid) ||
		!strings.Contains(dispatch.TextFor(err), "application/x-netcdf") {
		t.Errorf("a format that is not offered: %v", err)
	}
	r.Format = "netcdf"
	if _, err := s.platform.Check(t.Context(), dispatch.Token{}, r, nil); err != nil {
		t.Errorf("a format that is offered: %v", err)
	}
	result, err := s.platform.RunSync(t.Context(), dispatch.Token{}, dispatch.Submission{Request: r})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Body.Close()
	if text, err := io.ReadAll(result.Body); err != nil || !strings.Contains(string(text), `"mediaType"`) ||
		!strings.Contains(string(text), `application/x-netcdf`) {
		t.Errorf("the server was asked for %s, %v", text, err)
	}
}

// versions checks what is noted of the server's software.
func (s pygeoapi) versions(t *testing.T, version string) {
	step, err := s.platform.Submit(t.Context(), dispatch.Token{}, dispatch.Submission{Request: s.request("literals",
		`{}`)})
	if want := (dispatch.Versions{Software: "pygeoapi", Version: version, Process: "1.0.0"}); err != nil ||
		step.Versions != want {
		t.Errorf("%+v, %v, want %+v", step.Versions, err, want)
	}
}

func (s pygeoapi) probed(t *testing.T) {
	if err := s.platform.Probe(t.Context(), dispatch.Token{}); err != nil {
		t.Error(err)
	}
}
