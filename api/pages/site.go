package pages

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Config is what the pages are made of. The comments of api.Config say more.
type Config struct {
	Title, Version  string
	Page            Page // the page at /
	OpenCatalogue   bool
	PublicURL       string
	SignIns         SignIns
	Sessions        Sessions
	OnAccessChanged func(context.Context, dispatch.UserID)
	PublicSignIn    *PublicSignIn
	DocsSignIn      *DocsSignIn
	Away            bool
	Linked          []string
	Limits          limits.Limits
	Log             *slog.Logger
}

// Site serves what browsers show: the page, the documentation, and the pages on which users sign in.
type Site struct {
	*call.Answers
	*limits.Admission
	*openapi.Document
	Config
	mux      *http.ServeMux
	noSignIn call.ReasonCounts // why the documentation page did not offer a sign-in
	signIn   signInDocument
}

// New returns a site, which serves nothing yet.
func New(c Config, answers *call.Answers, admission *limits.Admission) *Site {
	return &Site{Answers: answers, Admission: admission, Config: c}
}

// Serve registers all pages, and the operations on sessions.
func (a *Site) Serve(mux *http.ServeMux, document *openapi.Document) {
	a.mux, a.Document = mux, document
	a.sessionRoutes()
	a.servePages()
	a.servePage()
	a.serveMetadata()
	a.serveDocs()
}
