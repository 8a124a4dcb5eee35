package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
)

// inline finds the scripts and styles that stand in a page.
var inline = regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`)

// docsPolicy allows the documentation page to load from this server only, and to run the scripts and apply the styles
// that stand in it, which are known by their hashes.
func docsPolicy(page string) string {
	sources := map[string]string{"script": "'self'", "style": "'self'"}
	for _, found := range inline.FindAllStringSubmatch(page, -1) {
		sum := sha256.Sum256([]byte(found[2]))
		sources[found[1]] += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'self'; script-src " + sources["script"] + "; style-src " + sources["style"] +
		"; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
}

// rendered returns the page that a handler serves at a path. It is the same for all who ask.
func rendered(h http.Handler, path string) string {
	got := &pageBuffer{header: http.Header{}}
	h.ServeHTTP(got, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return got.String()
}

// pageBuffer is an [http.ResponseWriter] that keeps the body.
type pageBuffer struct {
	bytes.Buffer
	header http.Header
}

func (p *pageBuffer) Header() http.Header { return p.header }

func (p *pageBuffer) WriteHeader(int) {}

// serveDocs serves the OpenAPI document, and a page to read and try the operations.
func (a *Site) serveDocs() {
	// encoding takes megabytes, which few starts need
	document := sync.OnceValue(func() []byte { return encodeDocument(a.OpenAPI()) })
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		if at := a.docsEndpoints(r.Context()); at.tokenURL != "" {
			w.Write(a.signIn.encode(a.OpenAPI(), at))
			return
		}
		w.Write(document())
	})
	a.mux.HandleFunc("GET /asyncapi.json", a.serveAsyncAPI)
	page := v5emb.NewHandlerWithConfig(a.docsPage())
	policy := docsPolicy(rendered(page, "/docs"))
	serveFile := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		page.ServeHTTP(w, r)
	}
	servePage := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy+connectTo(a.docsEndpoints(r.Context())))
		serveFile(w, r)
	}
	a.mux.HandleFunc("GET /docs", servePage)
	a.mux.HandleFunc("GET /docs/{$}", servePage)
	// deployed clients ask for it
	a.mux.Handle("GET /redoc", http.RedirectHandler(a.PagePath("/docs"), http.StatusTemporaryRedirect))
	a.serveDocsFiles(serveFile)
}

// encodeDocument returns the OpenAPI document in JSON.
func encodeDocument(document *huma.OpenAPI) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // the document is made of texts and numbers
	}
	return text
}

// docsPage returns the settings of the documentation page.
func (a *Site) docsPage() swgui.Config {
	c := swgui.Config{Title: a.Title, SwaggerJSON: a.PagePath("/openapi.json"), BasePath: a.PagePath("/docs/"),
		InternalBasePath: "/docs/",
		SettingsUI:       map[string]string{"defaultModelsExpandDepth": "0"}} // lists the models at the end, collapsed
	if a.DocsSignIn != nil {
		a.DocsSignIn.addTo(&c, a.PagePath(DocsSignedInPath))
	}
	return c
}

// serveDocsFiles serves the files that the documentation page loads. The library's page for the end of a sign-in is not
// among them, because it loads a script that the library does not have, and would accept a forged state.
func (a *Site) serveDocsFiles(serve http.HandlerFunc) {
	files, err := static.FS.ReadDir(".")
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, f := range files {
		if path := "/docs/" + strings.TrimSuffix(f.Name(), ".gz"); path != DocsSignedInPath+".html" {
			a.mux.HandleFunc("GET "+path, serve)
		}
	}
	a.mux.HandleFunc("GET "+DocsSignedInPath, a.docsSignedInPage)
}

// serveAsyncAPI serves the description of the streams beside the OpenAPI document.
func (a *Site) serveAsyncAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.Write(a.AsyncAPI())
}
