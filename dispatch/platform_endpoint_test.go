package dispatch

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func platforms() *Setup {
	backend := func(name string, l Label, endpoint string, aliases ...string) *Backend {
		return &Backend{Name: name, Label: l, Endpoint: endpoint, Aliases: aliases}
	}
	return &Setup{Backends: []*Backend{
		backend("cdse", OpenEO, "https://openeo.dataspace.example", "https://openeofed.dataspace.example/"),
		backend("vito", OpenEO, "https://openeo.vito.example/openeo/1.2"),
		backend("old", OpenEO, "https://both.example/openeo/1.1"),
		backend("new", OpenEO, "https://both.example/openeo/1.2/"),
		backend("local", OpenEO, "http://127.0.0.1:8081"),
		backend("zoo", OGCProcess, "https://ogc.example/ogc-api"),
		backend("deep", OGCProcess, "https://ogc.example/ogc-api/deep"),
		backend("gateway", OGCProcess, "https://dataspace.example:8443/"),
	}}
}

// endpoints are the cases of TestBackend.
var endpoints = []struct {
	label    Label
	endpoint string
	want     string // "": none
}{
	{OpenEO, "https://openeo.dataspace.example", "cdse"},
	{OpenEO, "https://openeo.dataspace.example/", "cdse"},
	{OpenEO, " https://openeo.dataspace.example ", "cdse"},
	{OpenEO, "HTTPS://OpenEO.Dataspace.example:443//", "cdse"},
	{OpenEO, "openeo.dataspace.example", "cdse"},
	{OpenEO, "openeo.dataspace.example:443", "cdse"},
	{OpenEO, "openeo.dataspace.example.", ""},
	{OpenEO, "openeo.dataspace.example/openeo", "cdse"},
	{OpenEO, "https://openeo.dataspace.example/openeo/1.2.0", "cdse"},
	{OpenEO, "https://openeo.dataspace.example/openeo/1.2.0/", "cdse"},
	{OpenEO, "https://openeo.dataspace.example/v1.2", "cdse"},
	{OpenEO, "https://openeo.dataspace.example/.well-known/openeo", "cdse"},
	{OpenEO, "openeofed.dataspace.example/openeo/1.2", "cdse"},
	{OpenEO, "https://openeo.vito.example", "vito"},
	{OpenEO, "https://openeo.vito.example/openeo/1.1.0", "vito"},
	{OpenEO, "https://both.example/openeo/1.1", "old"},
	{OpenEO, "https://both.example/openeo/1.2", "new"},
	{OpenEO, "both.example", "old"},
	{OpenEO, "http://127.0.0.1:8081/openeo/1.2.0", "local"},
	{OpenEO, "127.0.0.1:8081", "local"},
	{OpenEO, "127.0.0.1", ""},
	{OpenEO, "http://openeo.dataspace.example", ""},
	{OpenEO, "https://openeo.dataspace.example:8443", ""},
	{OpenEO, "https://openeo.dataspace.example/jobs", ""},
	{OpenEO, "https://openeo.dataspace.example@evil.example", ""},
	{OpenEO, "https://evil.example/openeo.dataspace.example", ""},
	{OpenEO, "https://openeo.dataspace.example.evil.example", ""},
	{OpenEO, "https://user:word@openeo.dataspace.example", ""},
	{OpenEO, "https://openeo.dataspace.example?x=1", ""},
	{OpenEO, "https://openeo.dataspace.example/#x", ""},
	{OpenEO, "ftp://openeo.dataspace.example", ""},
	{OpenEO, "file:///etc/passwd", ""},
	{OpenEO, "https://openeo.dataspace.example/" + strings.Repeat("a", longestEndpoint), ""},
	{OpenEO, "", ""},
	{OpenEO, "https://", ""},
	{OpenEO, "://", ""},
	{OpenEO, "https://ogc.example/ogc-api", ""},
	{OGCProcess, "https://ogc.example/ogc-api", "zoo"},
	{OGCProcess, "https://ogc.example/ogc-api/ns/processes/ndvi", "zoo"},
	{OGCProcess, "https://ogc.example/ogc-api/deep/processes/ndvi", "deep"},
	{OGCProcess, "ogc.example/ogc-api/deep/", "deep"},
	{OGCProcess, "https://ogc.example/ogc-api/deeper", "zoo"},
	{OGCProcess, "https://ogc.example/ogc-api-2", ""},
	{OGCProcess, "https://ogc.example", ""},
	{OGCProcess, "https://ogc.example/ogc-api/../admin", ""},
	{OGCProcess, "https://ogc.example/ogc-api/%2e%2e/admin", ""},
	{OGCProcess, "https://ogc.example/ogc-api/x%2f..%2fadmin", ""},
	{OGCProcess, "https://ogc.example/ogc-api/deep;x/processes/ndvi", ""},
	{OGCProcess, "dataspace.example:8443/ns/processes/x", "gateway"},
	{OGCProcess, "dataspace.example", ""},
	{"neither", "https://ogc.example/ogc-api", ""},
}

func TestBackend(t *testing.T) {
	for _, c := range endpoints {
		found, err := platforms().Backend(Service{Endpoint: c.endpoint}, c.label)
		switch {
		case c.want == "" && !Is(err, Invalid):
			t.Errorf("%s %q: %v, %v", c.label, c.endpoint, found, err)
		case c.want != "" && (err != nil || found.Name != c.want):
			t.Errorf("%s %q: %v, %v, want %s", c.label, c.endpoint, found, err, c.want)
		}
	}
}

func TestBackend_ErrorNamesTheConfiguredOnes(t *testing.T) {
	_, err := platforms().Backend(Service{Endpoint: "https://nowhere.example"}, OGCProcess)
	e, ok := err.(*Error)
	if !ok || len(e.Faults) != 1 || e.Faults[0].Msg != e.Text {
		t.Fatalf("error %#v", err)
	}
	if loc := e.Faults[0].Loc; len(loc) != 3 || loc[0] != "body" || loc[1] != "service" || loc[2] != "endpoint" {
		t.Errorf("at %v", loc)
	}
	for _, endpoint := range []string{"https://ogc.example/ogc-api", "https://dataspace.example:8443/"} {
		if !strings.Contains(e.Text, endpoint) {
			t.Errorf("%q does not name %s", e.Text, endpoint)
		}
	}
	if strings.Contains(e.Text, "openeo.vito") {
		t.Errorf("%q names a platform of another protocol", e.Text)
	}
	if _, err := new(Setup).Backend(Service{Endpoint: "x"}, OpenEO); !strings.Contains(TextFor(err), "No platform") {
		t.Errorf("without platforms: %v", err)
	}
}

// However an endpoint is spelled, it is the same platform.
func TestBackend_Spellings(t *testing.T) {
	b := platforms()
	rapid.Check(t, func(t *rapid.T) {
		backend := rapid.SampledFrom(b.Backends).Draw(t, "backend")
		s := strings.TrimRight(backend.Endpoint, "/")
		scheme, rest, _ := strings.Cut(s, "://")
		host, path, _ := strings.Cut(rest, "/")
		if rapid.Bool().Draw(t, "upper") {
			host, scheme = strings.ToUpper(host), strings.ToUpper(scheme)
		}
		if !strings.Contains(host, ":") && rapid.Bool().Draw(t, "port") {
			host += ":443"
		}
		s = host
		if path != "" {
			s += "/" + path
		}
		if rapid.Bool().Draw(t, "scheme") {
			s = scheme + "://" + s
		}
		if backend.Label == OGCProcess && rapid.Bool().Draw(t, "process") {
			s += "/" + rapid.StringMatching(`[a-z0-9-]{1,8}`).Draw(t, "namespace") + "/processes/" +
				rapid.StringMatching(`[A-Za-z0-9_.~-]{3,9}x`).Draw(t, "id")
		}
		s += rapid.SampledFrom([]string{"", "/"}).Draw(t, "slash")
		found, err := b.Backend(Service{Endpoint: s}, backend.Label)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if found != backend && !(backend.Name == "zoo" && found.Name == "deep" && strings.Contains(s, "/deep/")) {
			t.Fatalf("%q is %s, not %s", s, found.Name, backend.Name)
		}
	})
}

// Whatever is given, what is found is on the same server.
func FuzzBackend(f *testing.F) {
	for _, s := range []string{"https://openeo.dataspace.example/openeo/1.2.0", "ogc.example/ogc-api/deep/processes/x",
		"https://[::1]:8443/%2f", "http://127.0.0.1:8081", "a@b", "\x00", "https://ogc.example\\@evil.example"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	b := platforms()
	f.Fuzz(func(t *testing.T, s string, openeo bool) {
		label := OGCProcess
		if openeo {
			label = OpenEO
		}
		found, err := b.Backend(Service{Endpoint: s}, label)
		if err != nil {
			if !Is(err, Invalid) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if s = strings.TrimSpace(s); !strings.Contains(s, "://") {
			s = "//" + s
		}
		u, err := url.Parse(s)
		for _, own := range append([]string{found.Endpoint}, found.Aliases...) {
			if o, _ := url.Parse(own); err == nil && found.Label == label &&
				strings.EqualFold(u.Hostname(), o.Hostname()) {
				return
			}
		}
		t.Fatalf("%q is %s", s, found.Name)
	})
}
