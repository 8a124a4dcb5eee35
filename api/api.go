package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/api/facade"
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
	listBroker
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

	// OnServed is called after each request, with the pattern of its route ("": it had none); a stream has the status 101.
	// Optional.
	OnServed func(route, method string, status int, took time.Duration)
	// Trace is called with each request before it is served. It returns the context to serve it with, and what is called
	// at its end. Optional.
	Trace func(*http.Request) (context.Context, func(route string, status int))
	// OnRequest is called with the caller of each authenticated request, before the request is served. Optional.
	OnRequest func(context.Context, identity.Caller)
	// SignInLink returns the page where the user of an account signs in to its platform, or links an account there; "" if
	// there is no such page. Optional.
	SignInLink func(dispatch.Account) string
	// SignIns runs the pages where users link accounts and give permissions. nil: these pages are not served.
	SignIns SignIns
	// Sessions keeps browsers signed in; nil: users of the page cannot sign in. Needs SignIns and PublicURL.
	Sessions Sessions
	Page     Page // the page at /
	// OnAccessChanged is called with the user after a sign-in, a linked account or a permission changed. Optional.
	OnAccessChanged func(context.Context, dispatch.UserID)
	PublicSignIn    *PublicSignIn // nil: programs are not told where their users sign in
	DocsSignIn      *DocsSignIn   // nil: on the documentation page users can only paste a token
	Grants          Grants        // lists and revokes permissions; nil: there are none
	Away            bool          // users can permit the broker to act for them after they have signed out
	AsUser          []string      // names of the platforms for which that permission is used
	Linked          []string      // names of the platforms at which users link an account

	Hooks Hooks // notifies users' servers when jobs end; nil: nobody is notified
	// CreateHook stores a hook and returns its secret, "" if it has none.
	CreateHook func(context.Context, dispatch.UserID, dispatch.Notify) (dispatch.Hook, dispatch.Secret, error)

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
	Limits       Limits
	Compat       Compat
}

// Limits bounds what clients may send. The comments give units and defaults.
type Limits struct {
	Body     int64         // bytes of a request body; 10 MiB
	BodyTime time.Duration // for a whole request body to arrive; 30 s
	Depth    int           // nesting levels of JSON; 64
	Members  int           // members of one JSON object; 10,000
	Title    int           // characters of a title; 1,000
	Text     int           // characters of an endpoint, namespace, application or dimension name; 4,096
	Values   int           // values of a task's dimension; 10,000
	Tiles    int           // tiles of one area; 100,000
	Sockets  int           // open streams of one user, and waiting requests of one user; 100

	Rendering int64 // bytes of memory for reading and writing large requests; 128 MiB, at least 64 MiB

	// minimum average interval between requests of one user, and of one address; 0: unlimited
	UserPace, AddressPace time.Duration
	SignInPace            time.Duration // the same for one address on the sign-in pages; 100 ms
	UserRequests          int           // requests of one user that are served at once; 16
	AddressRequests       int           // requests of one address without a known user that are served at once; 512
}

// Compat switches on behavior that existing clients rely on.
type Compat struct {
	SubmittedAsCreated bool // report the status submitted as created
	ObjectAsString     bool // in POST /params, report parameters of type object and array as string
}

func (c Config) withDefaults() Config {
	c.Log = slog.New(LogHandler(cmp.Or(c.Log, slog.Default()).Handler()))
	if c.OnServed == nil {
		c.OnServed = func(string, string, int, time.Duration) {}
	}
	if c.Trace == nil {
		c.Trace = func(r *http.Request) (context.Context, func(string, int)) { return r.Context(), func(string, int) {} }
	}
	if c.Services == nil {
		c.Services = catalogue.New(catalogue.Config{})
	}
	c.Title = cmp.Or(c.Title, "eodispatch")
	c.Version = cmp.Or(c.Version, "0.0.0")
	c.Freshness = cmp.Or(c.Freshness, 10*time.Second)
	c.Limits = Limits{
		Body:      cmp.Or(c.Limits.Body, 10<<20),
		BodyTime:  cmp.Or(c.Limits.BodyTime, 30*time.Second),
		Depth:     cmp.Or(c.Limits.Depth, 64),
		Members:   cmp.Or(c.Limits.Members, 10_000),
		Title:     cmp.Or(c.Limits.Title, 1_000),
		Text:      cmp.Or(c.Limits.Text, 4_096),
		Tiles:     cmp.Or(c.Limits.Tiles, 100_000),
		Sockets:   cmp.Or(c.Limits.Sockets, 100),
		Values:    cmp.Or(c.Limits.Values, 10_000),
		Rendering: cmp.Or(c.Limits.Rendering, renderMemory),
		UserPace:  c.Limits.UserPace, AddressPace: c.Limits.AddressPace, SignInPace: cmp.Or(c.Limits.SignInPace,
			100*time.Millisecond),
		UserRequests: cmp.Or(c.Limits.UserRequests, 16), AddressRequests: cmp.Or(c.Limits.AddressRequests, 512),
	}
	return c
}

type api struct {
	Config
	huma      huma.API
	mux       *http.ServeMux
	handler   http.Handler
	tiling    concurrency            // /tiles requests and responses that are in memory
	splitting *bounds.Places[string] // areas that are being split

	cursorKey      []byte
	ticketKey      []byte
	sockets        sockets
	waits          sockets      // requests that wait for a change
	refusals       reasonCounts // why tokens were refused
	foreignOrigins reasonCounts // origins whose pages were refused
	noSignIn       reasonCounts // why the documentation page did not offer a sign-in
	byUser         rates[dispatch.UserID]
	byTicket       rates[dispatch.UserID] // ticket requests of each user
	byAddress      rates[netip.Prefix]
	bySignIn       rates[netip.Prefix] // requests of each address to the sign-in pages
	ofUser         requestsAtOnce[dispatch.UserID]
	ofAddress      requestsAtOnce[netip.Prefix]
	// bytes of bodies that façades hold: of each user, and of all strangers together
	bodies, openBodies bounds.Shares[dispatch.UserID]
	outage             outage
	signIn             signInDocument
	shapes             func() map[reflect.Type]*jsonschema.Schema // of request bodies
	rendering          *rendering
	heavy              *heavyWork
	streaming          group
	life               context.Context
	stop               context.CancelCauseFunc
}

// group counts running functions and open streams. After close it admits no more.
type group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// enter counts one more until release is called. It reports false if the group is closed.
func (g *group) enter() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.wg.Add(1)
	return sync.OnceFunc(g.wg.Done), true
}

// close stops admitting and waits until all that entered have left.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
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
	a := &api{Config: c.withDefaults(), mux: http.NewServeMux(), tiling: make(concurrency, tilingAtOnce),
		splitting: newSplitPlaces()}
	a.Secret = cmp.Or(a.Secret, dispatch.Secret(rand.Text()))
	a.cursorKey, a.ticketKey = cursorKey(a.Secret), ticketKey(a.Secret)
	a.byTicket.pace, a.byTicket.most = ticketLasts/time.Duration(a.Limits.Sockets), a.Limits.Sockets
	a.byUser.pace, a.byAddress.pace, a.bySignIn.pace = a.Limits.UserPace, a.Limits.AddressPace, a.Limits.SignInPace
	a.bodies.Most, a.openBodies.Most = bodiesOfUser*a.Limits.Body, bodiesOfOthers*bounds.OpenBody.Most
	a.ofUser.Most, a.ofAddress.Most = int64(a.Limits.UserRequests), int64(a.Limits.AddressRequests)
	a.rendering, a.heavy = newRendering(a.Limits.Rendering), newHeavyWork(runtime.GOMAXPROCS(0))
	a.life, a.stop = context.WithCancelCause(context.Background())
	a.huma = humago.New(a.mux, a.document())
	for t, schema := range opaque {
		a.huma.OpenAPI().Components.Schemas.RegisterTypeAlias(t, schema)
	}
	a.huma.UseMiddleware(a.authenticate)
	a.routes()
	a.accessRoutes()
	a.estimateRoutes()
	a.hookRoutes()
	a.ticketRoutes()
	a.sessionRoutes()
	a.streams()
	a.servePages()
	a.servePage()
	a.serveMetadata()
	a.nameModels()
	a.shapes = sync.OnceValue(a.compileBodies)
	a.serveDocs()
	a.handler = a.track(a.serveFacades(a.allowOrigins(a.limitRate(a.countAddress(http.HandlerFunc(a.route))))))
	return a
}

func (a *api) Streams() int { return a.sockets.count() }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// register adds an operation. The errors of handle are translated by refusalFor.
func register[O any](a *api, op huma.Operation, handle func(context.Context, *request) (*O, error)) {
	huma.Register(a.huma, op, func(ctx context.Context, in *request) (*O, error) {
		limited, cancel := withDeadline[O](ctx)
		out, err := handle(limited, in)
		if err != nil && errors.Is(context.Cause(limited), facade.ErrTooSlow) {
			err = tooSlow
		}
		if err != nil {
			cancel()
			return nil, a.answerFor(ctx, err)
		}
		a.databaseAnswered(ctx, a.Health)
		return out, nil
	})
}

// requestWithin bounds the time of a request whose response is not streamed. It is shorter than the server's write
// timeout, so that the client still gets a response.
const requestWithin = facade.Within

var tooSlow = refusal{status: http.StatusServiceUnavailable, code: "SERVICE_UNAVAILABLE",
	message: "The request was stopped because it took longer than 110 seconds. Repeat it later.",
	header:  retryAfter(30 * time.Second)}

// withDeadline returns ctx with the deadline of a request. The deadline ends with the HTTP request, not when the
// handler returns, because a body may be written, and read from the database, after that.
func withDeadline[O any](ctx context.Context) (context.Context, context.CancelFunc) {
	if _, streamed := any(new(O)).(*huma.StreamResponse); streamed {
		return ctx, func() {}
	}
	limited, cancel := facade.WithDeadline(ctx)
	context.AfterFunc(ctx, cancel)
	return limited, cancel
}

// request gives operations the raw HTTP request. They read path, query and body themselves because huma reports faults
// in another form than the contract.
type request struct{ http huma.Context }

// Resolve implements [huma.Resolver].
func (r *request) Resolve(ctx huma.Context) []error {
	r.http = ctx
	return nil
}
