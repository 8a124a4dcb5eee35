package pages

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/openapi"
)

// Page is the page that people use this service with.
type Page struct {
	Files       fs.FS    // index.html, and the files that it loads below page/; nil: the program was built without them
	BaseMap     *BaseMap // nil: the map that is among the files
	Development bool     // results may lie at addresses with http
	Mail        bool     // this service sends mail
	// URL at which users manage their account at the identity provider and its links to platforms; "": not known
	Account string
}

// BaseMap is a map of tiles that the page shows below its own.
type BaseMap struct {
	URL         string `json:"url"` // with {z}, {x} and {y}
	Attribution string `json:"attribution"`
}

// PageSettings are what the page must know of this service.
type PageSettings struct {
	Title          string     `json:"title"`
	Version        string     `json:"version"`
	SignIn         bool       `json:"sign_in"`          // users can sign in
	SignedInNeeded bool       `json:"signed_in_needed"` // to list services
	Account        string     `json:"account"`
	Mail           bool       `json:"mail"` // users can be notified by mail
	BaseMap        *BaseMap   `json:"base_map"`
	Limits         PageLimits `json:"limits"`
	Links          []helpLink `json:"links"`
}

type PageLimits struct {
	Values int   `json:"values"`
	Tiles  int   `json:"tiles"`
	Body   int64 `json:"body_bytes"`
}

type helpLink struct {
	Href  string `json:"href"`
	Title string `json:"title"`
}

// HealthDetails describe the program that serves.
type HealthDetails struct {
	Version string `json:"version"`
	Page    bool   `json:"page" doc:"Whether the program contains the page at /"`
}

// hashedName matches the names that the build makes from the content of files.
var hashedName = regexp.MustCompile(`-[A-Za-z0-9_-]{8}\.[a-z0-9]+$`)

// mediaTypes are those of the page's files. The system's table differs between machines.
var mediaTypes = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".json": "application/json", ".txt": "text/plain; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".ico": "image/x-icon", ".woff2": "font/woff2", ".wasm": "application/wasm", ".map": "application/json"}

// servePage serves the page at /, its files and its settings.
func (a *Site) servePage() {
	openapi.Register(a.Document,
		huma.Operation{OperationID: "health_details", Method: http.MethodGet, Path: "/health/details",
			Tags:    []string{"service"},
			Summary: "Describe the program", Security: []map[string][]string{}, Responses: a.Errors()},
		func(context.Context, *openapi.Request) (*openapi.Plain[HealthDetails], error) {
			return &openapi.Plain[HealthDetails]{Body: HealthDetails{a.Version, a.Page.Files != nil}}, nil
		})
	a.mux.HandleFunc("GET /page/settings.json", a.servePageSettings)
	show := a.showMissingPage
	if a.Page.Files != nil {
		show = a.servePageFiles()
	}
	a.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Cache-Control", "no-cache")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			show(w, r)
			return
		}
		a.serveAddresses(w, r)
	})
}

// servePageFiles registers the files of the page and returns the handler of the page itself.
func (a *Site) servePageFiles() (index http.HandlerFunc) {
	policy := a.builtPagePolicy()
	err := fs.WalkDir(a.Page.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(a.Page.Files, name)
		if err != nil {
			return err
		}
		file := newPageFile(name, content)
		switch {
		case name == "index.html":
			index = func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("Content-Security-Policy", policy)
				h.Set("Referrer-Policy", "no-referrer")
				h.Set("Cross-Origin-Opener-Policy", "same-origin")
				file.ServeHTTP(w, r)
			}
		case strings.HasPrefix(name, "page/"):
			a.mux.Handle("GET /"+name, file)
		}
		return nil
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return index
}

// builtPagePolicy lets the page run and load its own files only, and read the files of results, which lie at addresses
// that platforms choose. geotiff.js starts its workers from blobs.
func (a *Site) builtPagePolicy() string {
	results := "https:"
	if a.Page.Development {
		results += " http:"
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; worker-src 'self' blob:; " +
		"img-src 'self' data: blob: " + results +
		"; connect-src 'self' " + results + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// pageFile serves one file, compressed for clients that accept it.
type pageFile struct {
	media, cache, etag string
	content            []byte
	compressed         func() []byte
}

func newPageFile(name string, content []byte) *pageFile {
	sum := sha256.Sum256(content)
	f := &pageFile{media: mediaTypes[path.Ext(name)], content: content, cache: "no-cache",
		etag: base64.RawURLEncoding.EncodeToString(sum[:16])}
	if f.media == "" {
		f.media = "application/octet-stream"
	}
	if hashedName.MatchString(name) {
		f.cache = "public, max-age=31536000, immutable"
	}
	f.compressed = sync.OnceValue(func() []byte { return compress(content) })
	return f
}

// compress returns content in gzip.
func compress(content []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a buffer accepts everything
	}
	return b.Bytes()
}

// ServeHTTP implements [http.Handler].
func (f *pageFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", f.cache)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	content, etag := f.content, f.etag
	if acceptsGzip(r) && len(f.compressed()) < len(f.content) {
		content, etag = f.compressed(), etag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// gzipRefused matches what excludes gzip from Accept-Encoding.
var gzipRefused = regexp.MustCompile(`gzip\s*;\s*q=0(\.0*)?\s*(,|$)`)

func acceptsGzip(r *http.Request) bool {
	accepted := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	return strings.Contains(accepted, "gzip") && !gzipRefused.MatchString(accepted)
}

// servePageSettings serves the settings that the page needs.
func (a *Site) servePageSettings(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	a.writeJSON(w, r, PageSettings{Title: a.Title, Version: a.Version, SignIn: a.Sessions != nil,
		SignedInNeeded: !a.OpenCatalogue, Account: a.Page.Account, Mail: a.Page.Mail, BaseMap: a.Page.BaseMap,
		Limits: PageLimits{a.Limits.Values, a.Limits.Tiles, a.Limits.Body},
		Links:  []helpLink{{a.PagePath("/docs"), "Documentation of the interface"}}})
}

// serveAddresses lists the addresses of this service for programs.
func (a *Site) serveAddresses(w http.ResponseWriter, r *http.Request) {
	addresses := map[string]string{"title": a.Title, "version": a.Version, "documentation": a.PagePath("/docs"),
		"openapi": a.PagePath("/openapi.json"), "asyncapi": a.PagePath("/asyncapi.json"),
		"health": a.PagePath("/health")}
	if a.Page.Files != nil {
		addresses["page"] = a.PagePath("/")
	}
	a.writeJSON(w, r, addresses)
}

func (a *Site) writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil { // the client has disconnected
		a.Log.DebugContext(r.Context(), "answer not written", "error", err)
	}
}

// showMissingPage says how to build the program with the page.
func (a *Site) showMissingPage(w http.ResponseWriter, r *http.Request) {
	a.show(w, r, http.StatusOK, Dialog{Title: "This program was built without the page",
		Text: []string{"The page for browsers is built by Node 20 or newer, before the program. Run make build in " +
			"the source folder, then start bin/eodispatch; or make demo to try it.",
			"Everything else works: programs use the interface that the documentation describes."},
		Link: &pageLink{a.PagePath("/docs"), "Documentation of the interface"}})
}
