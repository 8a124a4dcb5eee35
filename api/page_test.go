package api

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/eodispatch/eodispatch/api/pages"
)

var builtPage = fstest.MapFS{
	"index.html":             {Data: []byte("<!doctype html><title>page</title>" + strings.Repeat(" ", 500))},
	"placeholder.txt":        {Data: []byte("placeholder")},
	"page/index-Ab12_-Cd.js": {Data: []byte(strings.Repeat("script();", 1000))},
	"page/small-12345678.js": {Data: []byte("x")},
	"page/notices.txt":       {Data: []byte("notices")},
	"page/odd-12345678.bin":  {Data: []byte{0}},
}

func withPage() API {
	c := newWorld().config()
	c.Page = pages.Page{Files: builtPage, BaseMap: &pages.BaseMap{
		URL: "https://tiles.example.org/{z}/{x}/{y}.png", Attribution: "Somebody"}}
	return New(c)
}

func TestPage_IsServed(t *testing.T) {
	h := withPage()
	a := ask(h, "GET", "/", "", "Authorization", "", "Accept", "text/html,*/*;q=0.8")
	if a.Code != 200 || a.Body.String() != string(builtPage["index.html"].Data) ||
		a.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
		a.Header().Get("Cache-Control") != "no-cache" || !strings.Contains(strings.Join(a.Header().Values("Vary"), " "),
		"Accept ") {
		t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
	}
	policy := a.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';",
		"connect-src 'self' https:;", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("%q is not in %q", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http:") || strings.Contains(policy, "*") {
		t.Errorf("policy %q", policy)
	}
	if again := ask(h, "GET", "/", "", "Accept", "text/html", "If-None-Match",
		a.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
		t.Errorf("known: %d", again.Code)
	}
	if links := decode[map[string]string](t, ask(h, "GET", "/", "", "Authorization", "", "Accept", "application/json"),
		200); links["page"] != "/" || links["documentation"] != "/docs" {
		t.Errorf("for programs: %v", links)
	}
}

func TestPage_Files(t *testing.T) {
	h := withPage()
	for path, want := range map[string]struct{ media, cache string }{
		"/page/index-Ab12_-Cd.js": {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		"/page/small-12345678.js": {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		"/page/notices.txt":       {"text/plain; charset=utf-8", "no-cache"},
		"/page/odd-12345678.bin":  {"application/octet-stream", "public, max-age=31536000, immutable"},
	} {
		content := string(builtPage[path[1:]].Data)
		a := ask(h, "GET", path, "", "Authorization", "")
		if a.Code != 200 || a.Header().Get("Content-Type") != want.media ||
			a.Header().Get("Cache-Control") != want.cache || a.Body.String() != content ||
			a.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %d %v", path, a.Code, a.Header())
		}
	}
	for _, path := range []string{"/page/", "/page/none-12345678.js", "/index.html", "/placeholder.txt",
		"/page/placeholder.txt", "/page/../index.html"} {
		if a := ask(h, "GET", path, "", "Authorization", ""); a.Code != 404 {
			t.Errorf("%s: %d", path, a.Code)
		}
	}
}

func TestPage_IsCompressed(t *testing.T) {
	h := withPage()
	const path = "/page/index-Ab12_-Cd.js"
	plain := ask(h, "GET", path, "", "Accept-Encoding", "")
	for accepts, packed := range map[string]bool{"gzip": true, "br, gzip;q=0.8": true, "": false, "identity": false,
		"gzip;q=0, br": false, "gzip; q=0.0": false} {
		a := ask(h, "GET", path, "", "Accept-Encoding", accepts)
		if got := a.Header().Get("Content-Encoding") == "gzip"; got != packed ||
			!strings.Contains(strings.Join(a.Header().Values("Vary"), " "), "Accept-Encoding") {
			t.Errorf("%q: %v", accepts, a.Header())
		}
		if !packed {
			continue
		}
		z, err := gzip.NewReader(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != plain.Body.String() ||
			a.Header().Get("ETag") == plain.Header().Get("ETag") {
			t.Errorf("%q: %v %v", accepts, err, a.Header())
		}
	}
	if a := ask(h, "GET", "/page/small-12345678.js", "", "Accept-Encoding",
		"gzip"); a.Header().Get("Content-Encoding") != "" || a.Body.String() != "x" {
		t.Errorf("a small file: %v", a.Header())
	}
}

func TestPage_Settings(t *testing.T) {
	_, _, _, h := signedIn(ourOrigin+"/broker", func(c *Config) {
		c.Page, c.OpenCatalogue = pages.Page{BaseMap: &pages.BaseMap{URL: "u", Attribution: "a"}, Mail: true,
			Account: "https://idp.example.org/account"}, true
	})
	got := decode[pages.PageSettings](t, ask(h, "GET", "/page/settings.json", "", "Authorization", ""), 200)
	if got.Title != "Dispatch test" || got.Version != "1.2.3" || !got.SignIn || got.SignedInNeeded || !got.Mail ||
		got.Account != "https://idp.example.org/account" ||
		*got.BaseMap != (pages.BaseMap{URL: "u", Attribution: "a"}) ||
		got.Limits != (pages.PageLimits{Values: 10_000, Tiles: 100_000, Body: 10 << 20}) || len(got.Links) != 1 ||
		got.Links[0].Href != "/broker/docs" {
		t.Errorf("%+v", got)
	}
	if got := decode[pages.PageSettings](t, ask(New(newWorld().config()), "GET", "/page/settings.json", ""),
		200); got.SignIn || !got.SignedInNeeded || got.Mail || got.BaseMap != nil {
		t.Errorf("%+v", got)
	}
}

func TestPage_InDevelopmentReadsResultsByHTTP(t *testing.T) {
	c := newWorld().config()
	c.Page = pages.Page{Files: builtPage, Development: true}
	if policy := ask(New(c), "GET", "/", "", "Accept",
		"text/html").Header().Get("Content-Security-Policy"); !strings.Contains(policy,
		"connect-src 'self' https: http:;") {
		t.Errorf("policy %q", policy)
	}
}

// A program that was built by Go alone says what is missing.
func TestPage_Missing(t *testing.T) {
	h := New(newWorld().config())
	a := navigate(h, http.MethodGet, "/", "", map[string]string{"Accept": "text/html"})
	if a.Code != 200 || !strings.Contains(a.Body.String(), "make build") ||
		!strings.Contains(a.Body.String(), `href="/docs"`) {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	for api, page := range map[API]bool{h: false, withPage(): true} {
		if got := decode[pages.HealthDetails](t, ask(api, "GET", "/health/details", "", "Authorization", ""),
			200); got != (pages.HealthDetails{Version: "1.2.3", Page: page}) {
			t.Errorf("%+v", got)
		}
	}
}
