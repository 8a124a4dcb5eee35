package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/api/pages"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/identity"
)

// Broker is the part of the domain that the API uses; [*broker.Broker] implements it. Each file declares the methods
// that it needs. Errors are [*dispatch.Error]. The jobs and tasks of other users are NotFound.
type Broker interface {
	jobBroker
	taskBroker
	taskResultBroker
	live.Broker
	syncBroker
	serviceBroker
	platformBroker
	logBroker
	usageBroker
	estimateBroker
}

// Config is what an API is made of. Limits and durations that are zero get the defaults named in their comments.
type Config struct {
	Broker   Broker
	Verifier Verifier
	Health   func(context.Context) error // returns nil if the database answers
	Log      *slog.Logger

	// OnServed is called after each request, with the pattern of its route ("": it had none); a stream has the status
	// 101. Optional.
	OnServed func(route, method string, status int, took time.Duration)
	// Trace is called with each request before it is served. It returns the context to serve it with, and what is
	// called at its end. Optional.
	Trace func(*http.Request) (context.Context, func(route string, status int))
	// OnRequest is called with the caller of each authenticated request, before the request is served. Optional.
	OnRequest func(context.Context, identity.Caller)
	// SignInLink returns the page where the user of an account signs in to its platform, or links an account there; ""
	// if there is no such page. Optional.
	SignInLink func(dispatch.Account) string
	// SignIns runs the pages where users link accounts and give permissions. nil: these pages are not served.
	SignIns pages.SignIns
	// Sessions keeps browsers signed in; nil: users of the page cannot sign in. Needs SignIns and PublicURL.
	Sessions pages.Sessions
	Page     pages.Page // the page at /
	// OnAccessChanged is called with the user after a sign-in, a linked account or a permission changed. Optional.
	OnAccessChanged func(context.Context, dispatch.UserID)
	PublicSignIn    *pages.PublicSignIn // nil: programs do not learn where their users sign in
	DocsSignIn      *pages.DocsSignIn   // nil: on the documentation page users can only paste a token
	Grants          Grants              // lists and revokes permissions; nil: there are none
	Away            bool                // users can permit the broker to act for them after they have signed out
	AsUser          []string            // names of the platforms for which that permission is used
	Linked          []string            // names of the platforms at which users link an account

	Hooks Hooks
	// CreateHook stores a hook and returns its secret, "" if it has none.
	CreateHook func(context.Context, dispatch.UserID, dispatch.Notify) (dispatch.Hook, dispatch.Secret, error)

	Files   *files.Facade   // passes on the files of results; nil: links lead to their platforms
	Facades []facade.Facade // further interfaces, each below its own path

	Services      Services // the catalogue; nil: it is empty
	OpenCatalogue bool     // the catalogue can be read without a token

	Title, Description, Version string

	DocumentVersion string // of the OpenAPI document; "": Version
	// Endpoints holds an address for each protocol, used in the examples of the OpenAPI document. A protocol without an
	// entry gets an address under example.org.
	Endpoints map[dispatch.Label]string
	// base URL that clients use, without a slash at its end; "": the OpenAPI document names no server
	PublicURL   string
	Proxies     []netip.Prefix // networks whose X-Forwarded-For is trusted
	CORSOrigins []string       // origins whose pages may call the API, matched exactly; empty: none

	// Secret signs cursors and seals tickets. Processes that share a database need the same one. "": a random secret of
	// this process.
	Secret dispatch.Secret
	// UseOnce records the name until the given time and reports whether no process had recorded it before. nil: the API
	// issues no stream tickets.
	UseOnce func(ctx context.Context, name string, until time.Time) (first bool, err error)
	// NoQueryToken refuses access tokens in the query of stream URLs, which proxies may log.
	NoQueryToken bool
	Freshness    time.Duration // maximum age of a status before its platform is asked; default 10 s
	Limits       limits.Limits
	Compat       openapi.Compat
}

func (c Config) withDefaults() Config {
	c.Log = slog.New(call.LogHandler(cmp.Or(c.Log, slog.Default()).Handler()))
	if c.OnServed == nil {
		c.OnServed = func(string, string, int, time.Duration) {}
	}
	if c.Trace == nil {
		c.Trace = func(r *http.Request) (context.Context, func(string, int)) {
			return r.Context(), func(string, int) {}
		}
	}
	if c.Services == nil {
		c.Services = catalogue.New(catalogue.Config{})
	}
	c.Title = cmp.Or(c.Title, "eodispatch")
	c.Version = cmp.Or(c.Version, "0.0.0")
	c.Freshness = cmp.Or(c.Freshness, 10*time.Second)
	c.Limits = c.Limits.WithDefaults()
	return c
}

type api struct {
	Config
	*call.Answers
	*limits.Admission
	*openapi.Document
	*live.Lists
	*pages.Site
	mux     *http.ServeMux
	handler http.Handler
	tiling  *bounds.Places[string] // /tiles requests and responses that are in memory

	refusals       call.ReasonCounts // why tokens were refused
	foreignOrigins call.ReasonCounts // origins whose pages were refused
	stop           context.CancelCauseFunc
}

// API is the HTTP handler of the service. Streams outlive the server that accepted them, so the owner must call Close:
// it ends the streams, answers the requests that wait for a change, and returns when the running synchronous jobs have
// ended.
type API interface {
	http.Handler
	Close()
	Streams() int // open streams
}

// New returns the API. It panics if the OpenAPI document cannot be built, which is a programming error.
func New(c Config) API {
	a := &api{Config: c.withDefaults(), mux: http.NewServeMux(),
		tiling: bounds.NewPlaces[string](tilingAtOnce, tilingOfOne)}
	a.Answers = call.NewAnswers(a.Log)
	a.Secret = cmp.Or(a.Secret, dispatch.Secret(rand.Text()))
	a.Admission = limits.NewAdmission(a.Limits, a.Answers)
	life, stop := context.WithCancelCause(context.Background())
	a.stop = stop
	a.Lists = live.New(life,
		live.Config{Broker: a.Broker, Services: a.Services, Secret: a.Secret, PublicURL: a.PublicURL,
			Freshness: a.Freshness, Compat: a.Compat, SignInLink: a.SignInLink, Linked: a.Linked, Sessions: a.Sessions,
			Log: a.Log}, a.Answers, a.Admission)
	a.Site = pages.New(pages.Config{Title: a.Title, Version: a.Version, Page: a.Page, OpenCatalogue: a.OpenCatalogue,
		PublicURL: a.PublicURL, SignIns: a.SignIns, Sessions: a.Sessions, OnAccessChanged: a.OnAccessChanged,
		PublicSignIn: a.PublicSignIn, DocsSignIn: a.DocsSignIn, Away: a.Away, Linked: a.Linked, Limits: a.Limits,
		Log: a.Log}, a.Answers, a.Admission)
	a.Document = openapi.New(a.mux, openapi.Config{Title: a.Title, Description: a.Description,
		Version: cmp.Or(a.DocumentVersion, a.Version), PublicURL: a.PublicURL,
		SessionCookie: a.Site.SessionCookieName(),
		Endpoints:     a.Endpoints, Limits: a.Limits, Compat: a.Compat, Health: a.Health, Log: a.Log}, a.Answers)
	a.UseMiddleware(a.authenticate)
	a.routes()
	a.accessRoutes()
	a.estimateRoutes()
	a.hookRoutes()
	a.ticketRoutes()
	a.streams()
	a.Site.Serve(a.mux, a.Document)
	a.NameModels()
	a.handler = a.track(a.serveFacades(a.allowOrigins(a.LimitRate(a.CountAddress(http.HandlerFunc(a.route))))))
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Close implements [API].
func (a *api) Close() {
	a.stop(live.ErrClosing)
	a.Streaming.Close()
}
