package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
)

// docsPolicy allows the documentation page to load from this server only. Its script and styles are inline.
const docsPolicy = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"

// serveDocs serves the OpenAPI document, and a page to read and try the operations.
func (a *api) serveDocs() {
	document, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		panic(err) // the document is a constant of this program
	}
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		w.Write(document)
	})
	a.mux.HandleFunc("GET /{$}", a.serveRoot)
	page := v5emb.NewHandlerWithConfig(swgui.Config{Title: a.Title, SwaggerJSON: "/openapi.json", BasePath: "/docs/",
		SettingsUI: map[string]string{"defaultModelsExpandDepth": "0"}}) // lists the models at the end, collapsed
	serve := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Header().Set("Cache-Control", "no-cache")
		page.ServeHTTP(w, r)
	}
	a.mux.HandleFunc("GET /docs", serve)
	a.mux.HandleFunc("GET /docs/{$}", serve)
	files, err := static.FS.ReadDir(".")
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, f := range files {
		a.mux.HandleFunc("GET /docs/"+strings.TrimSuffix(f.Name(), ".gz"), serve)
	}
}

// serveRoot redirects browsers to the documentation and lists the service's addresses for programs.
func (a *api) serveRoot(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Cache-Control", "no-cache")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/docs", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(map[string]string{"title": a.Title, "version": a.Version,
		"documentation": "/docs", "openapi": "/openapi.json", "health": "/health"})
	if err != nil { // the client has disconnected
		a.Log.DebugContext(r.Context(), "answer not written", "error", err)
	}
}
