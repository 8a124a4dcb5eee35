package ogcapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/echo"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestAccepts: a type that a client does not name, or refuses, is not accepted.
func TestAccepts(t *testing.T) {
	for accept, want := range map[string]bool{"": true, "*/*": true, "image/*": true, "image/tiff": true,
		"Image/TIFF;q=0.1": true, "text/html, */*;q=0.1": true, "text/html": false, "image/tiff;q=0": false,
		"image/tiff;q=0.000, text/html": false, "image": false, ";;;": false} {
		h := http.Header{}
		if accept != "" {
			h.Set("Accept", accept)
		}
		if got := accepts(h, "image/tiff; application=geotiff"); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// TestWritten_HostileNames: names and links of a platform end neither a header nor a part.
func TestWritten_HostileNames(t *testing.T) {
	in := &request{Request: &http.Request{Header: http.Header{}}, root: "https://broker/ogcapi"}
	hostile := "a\r\nSet-Cookie: x=\"1\"\r\n\r\n"
	all := []outcome{
		{OutputValue: dispatch.OutputValue{Name: hostile, Media: hostile, Link: "https://x/>a"}},
		{OutputValue: dispatch.OutputValue{Name: hostile, Media: "text/javascript", Data: []byte("alert(1)")}},
	}
	a, err := written(in, 1, raw, all)
	if err != nil || strings.Contains(string(a.Data), "\nSet-Cookie") ||
		strings.Contains(string(a.Data), "javascript") {
		t.Errorf("%v: %s", err, a.Data)
	}
	if a, err = written(in, 1, raw, all[:1]); err != nil || strings.ContainsAny(a.Header["Link"][0], "\r\n") ||
		strings.Count(a.Header["Link"][0], ">") != 1 {
		t.Errorf("%v: %q", err, a.Header["Link"])
	}
	if a, err = written(in, 1, raw, all[1:]); err != nil || a.MediaType != "application/octet-stream" {
		t.Errorf("%v: %q", err, a.MediaType)
	}
}

// TestKept: the view and the process of a job that was not started are read from the beginning of its body, too.
func TestKept(t *testing.T) {
	for _, size := range []int{0, 10_000} {
		text, err := unstarted{View: "/ogcapi/x", Process: "a/b \"c\"", Request: members{
			"inputs": []byte(`{"a": "` + strings.Repeat("x", size) + `"}`)}}.encode()
		if err != nil {
			t.Fatal(err)
		}
		u, own := keptIn(text[:min(len(text), dispatch.UnstartedBeginning)])
		if !own || u.View != "/ogcapi/x" || u.Process != "a/b \"c\"" {
			t.Errorf("%d: %+v", size, u)
		}
		if u, own = keptIn(text); !own || len(u.Request["inputs"]) < size {
			t.Errorf("%d: whole: %+v", size, u)
		}
	}
	for _, foreign := range []string{``, `{"process": {}}`, `{"a":{"ogcapi":1}}`} {
		if _, own := keptIn([]byte(foreign)); own {
			t.Error(foreign)
		}
	}
	if u, own := keptIn([]byte(`{"ogcapi":1}`)); !own || u.Process != "" {
		t.Errorf("%+v", u)
	}
}

// TestRequestOf_PlatformIsGone: a job that was not started does not become one of another service with the same id when
// its platform is no longer configured.
func TestRequestOf_PlatformIsGone(t *testing.T) {
	named := catalogue.Service{ID: "x", Title: "X", Label: dispatch.OGCProcess, Service: echo.Service()}
	b := conformance.NewBroker(conformance.NewMemStore(conformance.WallClock{}), nil,
		echo.Backend(conformance.WallClock{}))
	f := New(Config{Services: catalogue.New(catalogue.Config{Services: []catalogue.Service{named}, Platforms: b})})
	if _, listed := f.Services.Find("x"); !listed {
		t.Fatal("the catalogue is empty")
	}
	in := &request{Request: (&http.Request{Header: http.Header{}}).WithContext(t.Context()), view: view{path: root},
		root: "https://broker/ogcapi"}
	_, _, err := f.requestOf(in, unstarted{View: root + "/gone", Process: "x"}, false)
	if e, ok := err.(exception); !ok || e.Status != http.StatusServiceUnavailable {
		t.Error(err)
	}
}
