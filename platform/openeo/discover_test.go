package openeo_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

func TestDiscovery(t *testing.T) {
	entry := func(b *backend, path, version, production string) string {
		return `{"url":"` + b.URL + path + `","api_version":"` + version + `"` + production + `}`
	}
	const yes, no = `,"production":true`, `,"production":false`
	cases := []struct {
		name     string
		endpoint string
		prepare  func(*backend)
		api      string // where the API is asked; "" is below the default, /openeo/1.2
		kind     dispatch.Kind
	}{
		{name: "by its host"},
		{name: "with a slash", endpoint: "/"},
		{name: "resolved already", endpoint: "/openeo/1.2"},
		{name: "resolved, with a slash", endpoint: "/openeo/1.2/"},
		{name: "below a path", endpoint: "/eo", prepare: func(b *backend) {
			b.json("GET /eo/.well-known/openeo", 200, `{"versions":[`+entry(b, "/openeo/1.2", "1.2.0", yes)+`]}`)
		}},
		{name: "none for production", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 200, `{"versions":[`+entry(b, "/old", "1.0.0", no)+","+
				entry(b, "/openeo/1.2", "1.2.0", no)+`]}`)
		}},
		{name: "production not takeCalls is none", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 200, `{"versions":[`+entry(b, "/next", "1.3.0", "")+","+
				entry(b, "/openeo/1.2", "1.2.0", yes)+`]}`)
		}},
		{name: "relative URL", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 200, `{"versions":[{"url":"/openeo/1.2/","api_version":"1.2.0"}]}`)
		}},
		{name: "an API of its own root", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 404, `{"detail":"Not Found"}`)
		}},
		{name: "no JSON at the well-known path", endpoint: "/openeo/1.2", prepare: func(b *backend) {
			b.on("GET /.well-known/openeo", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<html>"))
			})
		}},
		{name: "at another host", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 200,
				`{"versions":[{"url":"https://elsewhere.example/1.2","api_version":"1.2.0"}]}`)
			b.json("GET /", 404, `{}`)
		}, kind: dispatch.Misconfigured},
		{name: "only version 0.4", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 200, `{"versions":[`+entry(b, "/0.4", "0.4.2", yes)+`]}`)
			b.json("GET /", 404, `{}`)
		}, kind: dispatch.Unsupported},
		{name: "no openEO API", endpoint: "/nothing", kind: dispatch.Misconfigured},
		{name: "a web page", prepare: func(b *backend) {
			b.on("GET /", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
		}, kind: dispatch.Misconfigured},
		{name: "another API", prepare: func(b *backend) { b.json("GET /", 200, `{"title":"STAC"}`) },
			kind: dispatch.Misconfigured},
		{name: "down", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 502, ``)
			b.json("GET /", 502, ``)
		}, kind: dispatch.Unavailable},
		{name: "half down", prepare: func(b *backend) {
			b.json("GET /.well-known/openeo", 503, ``)
			b.json("GET /", 404, ``)
		}, kind: dispatch.Busy},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			if c.prepare != nil {
				c.prepare(b)
			}
			p := b.platform(func(o *openeo.Config) { o.Endpoint = b.URL + c.endpoint })
			err := p.Probe(t.Context(), token)
			if c.kind != dispatch.Internal {
				wantKind(t, err, c.kind)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.authorization("GET /me"); got != "Bearer oidc/CDSE/"+canary {
				t.Errorf("got Authorization %q", got)
			}
			if got := b.authorization("GET /"); got != "" {
				t.Error("capabilities are public")
			}
		})
	}
}

func TestDiscovery_IsCached(t *testing.T) {
	b, now := newBackend(t), time.Now()
	p := b.platform(func(o *openeo.Config) { o.Now = func() time.Time { return now } })
	for range 3 {
		if err := p.Probe(t.Context(), dispatch.Token{}); err != nil {
			t.Fatal(err)
		}
	}
	b.wantCalls("GET /.well-known/openeo", "GET /")
	b.json("GET /.well-known/openeo", 502, "")
	b.json("GET /", 502, "")
	now = now.Add(16 * time.Minute)
	if err := p.Probe(t.Context(), dispatch.Token{}); err != nil {
		t.Errorf("a silent platform loses what it takeCalls before: %v", err)
	}
	b.wantCalls("GET /.well-known/openeo", "GET /")
	now = now.Add(25 * time.Hour)
	wantKind(t, p.Probe(t.Context(), dispatch.Token{}), dispatch.Unavailable)
}

// TestBalance: what the user may still spend is known where the back-end charges and says it.
func TestBalance(t *testing.T) {
	for me, want := range map[string]*dispatch.Amount{
		`{"user_id":"ann","budget":12.5}`: {Value: 12.5, Unit: "credits"},
		`{"user_id":"ann","budget":-3}`:   {Value: -3, Unit: "credits"},
		`{"user_id":"ann","budget":null}`: nil,
		`{"user_id":"ann","budget":"12"}`: nil,
		`{"user_id":"ann"}`:               nil,
	} {
		b := newBackend(t)
		b.json("GET /", 200, `{"api_version":"1.2.0","endpoints":[],"billing":{"currency":"credits"}}`)
		b.json("GET /me", 200, me)
		got, err := b.platform().Balance(t.Context(), token)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", me, got, err)
		}
	}
	b := newBackend(t)
	b.json("GET /", 200, `{"api_version":"1.2.0","endpoints":[],"billing":{"currency":null}}`)
	if got, err := b.platform().Balance(t.Context(), token); got != nil || err != nil ||
		b.authorization("GET /me") != "" {
		t.Errorf("of a back-end that does not charge: %+v, %v", got, err)
	}
	b = newBackend(t)
	b.json("GET /", 200, `{"api_version":"1.2.0","endpoints":[],"billing":{"currency":"credits"}}`)
	b.json("GET /me", 501, `{"code":"FeatureUnsupported","message":"no"}`)
	if got, err := b.platform().Balance(t.Context(), token); got != nil || err != nil {
		t.Errorf("of a back-end without the resource: %+v, %v", got, err)
	}
}

func TestProbe_WithoutMe(t *testing.T) {
	b := newBackend(t)
	b.json("GET /me", 501, `{"code":"FeatureUnsupported","message":"no"}`)
	if err := b.platform().Probe(t.Context(), token); err != nil {
		t.Error(err)
	}
	b.json("GET /me", 403, `{"code":"TokenInvalid","message":"expired"}`)
	wantKind(t, b.platform().Probe(t.Context(), token), dispatch.SignInRequired)
}

func TestBearer(t *testing.T) {
	const jwt = "aaa.bbb.ccc"
	cases := []struct {
		name    string
		prefix  string
		token   dispatch.Token
		prepare func(*backend)
		want    string
		kind    dispatch.Kind
	}{
		{name: "configured", prefix: "oidc/X", token: dispatch.Token{Secret: jwt, Issuer: issuer},
			want: "Bearer oidc/X/" + jwt},
		{name: "configured with a slash", prefix: "oidc/X/", token: dispatch.Token{Secret: jwt},
			want: "Bearer oidc/X/" + jwt},
		{name: "basic", prefix: "basic/", token: dispatch.Token{Secret: "YQ=="}, want: "Bearer basic//YQ=="},
		{name: "by issuer", token: dispatch.Token{Secret: jwt, Issuer: issuer}, want: "Bearer oidc/CDSE/" + jwt},
		{name: "issuer not known", token: dispatch.Token{Secret: jwt}, want: "Bearer oidc/egi/" + jwt},
		{name: "issuer not taken", token: dispatch.Token{Secret: jwt, Issuer: "https://other.example"},
			kind: dispatch.Misconfigured},
		{name: "none", want: ""},
		{name: "no OpenID Connect", token: dispatch.Token{Secret: "t", Issuer: issuer}, want: "Bearer t",
			prepare: func(b *backend) { b.json("GET /credentials/oidc", 404, `{"detail":"Not Found"}`) }},
		{name: "no providers", token: dispatch.Token{Secret: "t", Issuer: issuer}, want: "Bearer t",
			prepare: func(b *backend) { b.json("GET /credentials/oidc", 200, `{"providers":[]}`) }},
		{name: "plain where the back-end says so", token: dispatch.Token{Secret: jwt, Issuer: issuer},
			want: "Bearer " + jwt, prepare: func(b *backend) {
				b.capabilities(`"https://api.openeo.org/1.3.0/authentication/jwt"`)
			}},
		{name: "plain, but no JWT", token: dispatch.Token{Secret: "opaque", Issuer: issuer},
			want: "Bearer oidc/CDSE/opaque", prepare: func(b *backend) {
				b.capabilities(`"https://api.openeo.org/1.4.0/authentication/jwt"`)
			}},
		{name: "providers silent", token: dispatch.Token{Secret: jwt, Issuer: issuer}, kind: dispatch.Unavailable,
			prepare: func(b *backend) { b.json("GET /credentials/oidc", 500, ``) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"queued"}`)
			if c.prepare != nil {
				c.prepare(b)
			}
			p := b.platform(func(o *openeo.Config) { o.TokenPrefix = c.prefix })
			_, err := p.Status(t.Context(), c.token, job1)
			if c.kind != dispatch.Internal {
				wantKind(t, err, c.kind)
				return
			}
			if got := b.authorization("GET /jobs/j-1"); err != nil || got != c.want {
				t.Errorf("got Authorization %q, error %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestFacts_BehindAProxyWithoutARoute: a back-end does not lack OpenID Connect because a proxy says so. Otherwise it
// would refuse all tokens, which it gets without a prefix, until it is asked again. Nor does it lack a process.
func TestFacts_BehindAProxyWithoutARoute(t *testing.T) {
	b, now := newBackend(t), time.Now()
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"queued"}`)
	p := b.platform(func(o *openeo.Config) {
		o.TokenPrefix, o.Now = "", func() time.Time { return now }
	})
	b.json("GET /process_graphs/own", 200, `{"id":"own","parameters":[{"name":"x"}]}`)
	for range 2 {
		if _, err := p.Status(t.Context(), token, job1); err != nil {
			t.Fatal(err)
		}
		if got := b.authorization("GET /jobs/j-1"); !strings.HasPrefix(got, "Bearer oidc/CDSE/") {
			t.Errorf("got Authorization %q", got)
		}
		if all, err := p.Parameters(t.Context(), token, dispatch.Service{Application: "own"}); len(all) != 1 {
			t.Errorf("the parameters %+v, %v", all, err)
		}
		now = now.Add(time.Hour)
		b.json("GET /credentials/oidc", 404, "<html>default backend</html>")
		b.json("GET /process_graphs/own", 404, "<html>default backend</html>")
	}
}

// TestFacts_DuringMaintenance: what stands in place of the facts that are known does not mean that the endpoint is
// wrong, which would hold the account until the operator acts.
func TestFacts_DuringMaintenance(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{{200, "<html>Back soon</html>"}, {302, ""}, {403, "<html>Request Rejected</html>"}} {
		b, now := newBackend(t), time.Now()
		b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"queued"}`)
		p := b.platform(func(o *openeo.Config) { o.TokenPrefix, o.Now = "", func() time.Time { return now } })
		for range 2 {
			if r, err := p.Status(t.Context(), token, job1); err != nil || r.Status != dispatch.Queued {
				t.Errorf("%d %s: %s, %v", c.status, c.body, r.Status, err)
			}
			if all, err := p.Formats(t.Context(), token, dispatch.Service{Application: "ndvi"}); len(all) != 4 {
				t.Errorf("%d %s: formats %v, %v", c.status, c.body, all, err)
			}
			now = now.Add(time.Hour)
			for _, route := range []string{"GET /", "GET /.well-known/openeo", "GET /credentials/oidc",
				"GET /file_formats"} {
				b.json(route, c.status, c.body)
			}
		}
	}
}

// A token is sent to the platform's own origin only, whatever a listing or a redirect says.
func TestToken_IsSentToThePlatformOnly(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another origin was asked: %s", r.URL)
	}))
	defer elsewhere.Close()
	b := newBackend(t)
	b.json("GET /jobs", 200, `{"jobs":[],"links":[{"rel":"next","href":"`+elsewhere.URL+`/jobs"}]}`)
	b.on("GET /jobs/j-1", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	p := b.platform()
	for _, err := range p.List(t.Context(), token, "") {
		wantKind(t, err, dispatch.BadUpstream)
	}
	_, err := p.Status(t.Context(), token, job1)
	wantKind(t, err, dispatch.BadUpstream)
}

func TestFormats(t *testing.T) {
	for asked, want := range map[string]string{
		"gtiff": "GTiff", "GTIFF": "GTiff", "geotiff": "GTiff", "netcdf": "netCDF", "geojson": "GeoJSON",
		"json": "JSON", "Zarr": "ZARR", "csv": "",
	} {
		b := newBackend(t)
		b.json("GET /file_formats", 200, `{"output":{"GTiff":{},"netCDF":{},"GeoJSON":{},"JSON":{},"ZARR":{}}}`)
		s := b.submission()
		s.Format = asked
		_, err := b.platform().Submit(t.Context(), token, s)
		if want == "" {
			e := wantKind(t, err, dispatch.Invalid)
			if !strings.Contains(e.Text, "GTiff, GeoJSON, JSON, ZARR, netCDF") || len(e.Faults) != 1 ||
				e.Faults[0].Loc[1] != "format" {
				t.Errorf("got %+v", e)
			}
		} else if err != nil || !strings.Contains(b.body("POST /jobs"), `"format":"`+want+`"`) {
			t.Errorf("%s: got %v, %s", asked, err, b.body("POST /jobs"))
		}
	}
	b := newBackend(t)
	b.json("GET /file_formats", 404, `{}`)
	if _, err := b.platform().Submit(t.Context(), token, b.submission()); err != nil ||
		!strings.Contains(b.body("POST /jobs"), `"GTiff"`) {
		t.Errorf("a back-end that does not tell its formats: %v", err)
	}
}
