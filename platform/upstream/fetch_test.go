package upstream_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// A URL that breaks the rules causes neither a request nor a lookup.
func TestFetch_Refuses(t *testing.T) {
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s was asked", r.URL)
		return respond(r, 200, ""), nil
	})})
	for _, raw := range []string{
		"", "/x", "x", "//host/x", "https:", "https:opaque", "https://", "http://a.example/x", "ftp://a.example/x",
		"file:///etc/passwd",
		"javascript:alert(1)", "gopher://a.example/", "data:application/json,{}",
		"https://user@a.example/", "https://user:pw@a.example/", "https://a.example/#frag", "https://a.example/x#",
		"https://a.example:8443/", "https://a.example:80/", "https://a.example:0/", "https://a.example:99999/",
		"https://a.example:x/",
		"https://a.example./", "https://.a.example/", "https://a..example/", "https://-a.example/",
		"https://a_b.example/",
		"https://аpple.example/", "https://bücher.example/", "https://a%2eexample/", "https://a%C3%BC.example/",
		"https://%31%32%37.0.0.1/",
		"https://a.example\\@b.example/", "https://a.example/\\x", "https://a.exa\tmple/", "https://a.example/x\ny",
		"https://a.example/a b",
		"https://a.example@127.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://127.1/",
		"https://0177.0.0.1/", "https://1.2.3.4.5/",
		"https://127.0.0.1/", "https://0.0.0.0/", "https://10.1.2.3/", "https://172.16.0.1/",
		"https://172.31.255.255/", "https://192.168.1.1/",
		"https://169.254.169.254/latest/meta-data", "https://100.64.0.1/", "https://192.0.0.1/", "https://192.0.2.1/",
		"https://198.18.0.1/",
		"https://224.0.0.1/", "https://240.0.0.1/", "https://255.255.255.255/",
		"https://[::]/", "https://[::1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
		"https://[2606:4700::1%25eth0]/", "https://[fc00::1]/",
		"https://[fd12::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[2002:7f00:1::]/",
		"https://[64:ff9b::7f00:1]/",
		"https://[2001::1]/", "https://[2001:db8::1]/", "https://[ff02::1]/",
	} {
		e := wantKind(t, must(client.Fetch(t.Context(), upstream.Fetch{Op: "test", URL: raw})), dispatch.Invalid)
		if e.Text == "" {
			t.Errorf("%q: no reason", raw)
		}
		wantKind(t, client.Allowed("test", raw, nil), dispatch.Invalid)
	}
	for _, raw := range []string{"https://other.example/", "https://x.allowed.example/",
		"https://allowed.example.evil.example/", "https://8.8.8.8/"} {
		wantKind(t, must(client.Fetch(t.Context(), upstream.Fetch{URL: raw, AllowHosts: []string{"allowed.example"}})),
			dispatch.Invalid)
	}
}

func must(_ *upstream.Answer, err error) error { return err }

func TestFetch_Allows(t *testing.T) {
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0 {
			t.Error("credentials were sent")
		}
		return respond(r, 200, "{}"), nil
	})})
	for _, raw := range []string{"https://a.example/x.json", "https://A.Example:443/x", "https://8.8.8.8/",
		"https://[2606:4700::1111]/", "https://xn--bcher-kva.example/", "https://localhost/"} {
		if _, err := client.Fetch(t.Context(), upstream.Fetch{URL: raw}); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := client.Fetch(t.Context(), upstream.Fetch{URL: "https://ALLOWED.example/x",
		AllowHosts: []string{"allowed.Example"}}); err != nil {
		t.Error(err)
	}
}

// A host that the operator trusts is not exempt for users' URLs unless it is also allowed.
func TestFetch_OfTrustedHosts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	client := upstream.New(upstream.Config{Trust: []string{s.URL}})
	if _, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: s.URL}); err != nil {
		t.Error("a trusted origin:", err)
	}
	wantKind(t, must(client.Fetch(t.Context(), upstream.Fetch{URL: s.URL})), dispatch.Invalid)
	if _, err := client.Fetch(t.Context(), upstream.Fetch{URL: s.URL, AllowHosts: []string{host}}); err != nil {
		t.Error("trusted and allowed:", err)
	}
	wantKind(t, must(upstream.New(upstream.Config{}).Fetch(t.Context(),
		upstream.Fetch{URL: s.URL, AllowHosts: []string{host}})), dispatch.Invalid)
}

func TestFetch_Redirects(t *testing.T) {
	where := map[string]string{
		"https://a.example/ok":       "https://b.example/end",
		"https://a.example/relative": "/end",
		"https://a.example/private":  "https://127.0.0.1/",
		"https://a.example/http":     "http://a.example/end",
		"https://a.example/foreign":  "https://evil.example/",
		"https://a.example/loop":     "https://a.example/loop",
		"https://a.example/1":        "https://a.example/2",
		"https://a.example/2":        "https://a.example/3",
		"https://a.example/3":        "https://a.example/end",
		"https://a.example/0":        "https://a.example/1",
	}
	var asked atomic.Int32
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		if to := where[r.URL.String()]; to != "" {
			return respond(r, http.StatusFound, "", "Location", to), nil
		}
		return respond(r, 200, "{}"), nil
	})})
	for path, want := range map[string]struct {
		ok    bool
		asked int32
	}{
		"ok": {true, 2}, "relative": {true, 2}, "1": {true, 4}, "0": {false, 4}, "loop": {false, 4},
		"private": {false, 1}, "http": {false, 1}, "foreign": {false, 1},
	} {
		asked.Store(0)
		a, err := client.Fetch(t.Context(), upstream.Fetch{URL: "https://a.example/" + path,
			AllowHosts: []string{"a.example", "b.example", "127.0.0.1"}})
		if want.ok && (err != nil || a.URL.Path != "/end") {
			t.Errorf("%s: %v", path, err)
		}
		if !want.ok {
			wantKind(t, err, dispatch.Invalid)
		}
		if asked.Load() != want.asked {
			t.Errorf("%s: asked %d times, want %d", path, asked.Load(), want.asked)
		}
	}
}

func TestFetch_Limits(t *testing.T) {
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1000))
			}
		case "/slow":
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/cut":
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/down":
			w.WriteHeader(502)
		case "/gone":
			w.WriteHeader(404)
		}
	})
	slow := upstream.New(upstream.Config{Development: true, Timeout: 100 * time.Millisecond})
	for path, want := range map[string]dispatch.Kind{
		"/endless": dispatch.Invalid, "/slow": dispatch.Unavailable, "/cut": dispatch.Unavailable,
		"/down": dispatch.Unavailable, "/gone": dispatch.NotFound,
	} {
		by := client
		if path == "/slow" {
			by = slow
		}
		wantKind(t, must(by.Fetch(t.Context(), upstream.Fetch{URL: s.URL + path, Limit: 100000})), want)
	}
}

func TestFetch_NotModified(t *testing.T) {
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	a, err := client.Fetch(t.Context(), upstream.Fetch{URL: s.URL})
	if err != nil || a.Status != 200 {
		t.Fatal(a, err)
	}
	a, err = client.Fetch(t.Context(), upstream.Fetch{URL: s.URL, ETag: a.Header.Get("ETag")})
	if err != nil || a.Status != http.StatusNotModified {
		t.Error(a, err)
	}
}

func FuzzAllowed(f *testing.F) {
	client := upstream.New(upstream.Config{})
	for _, seed := range []string{"https://a.example/x", "https://127.0.0.1", "https://[::1]:443/", "http://a",
		"https://a@b/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if client.Allowed("fuzz", raw, nil) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" ||
			(u.Port() != "" && u.Port() != "443") || u.Hostname() == "" {
			t.Errorf("allowed %q", raw)
		}
	})
}
