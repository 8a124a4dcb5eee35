package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Broker is what the API asks of the domain. Errors are [*dispatch.Error]; what belongs to another user is NotFound.
type Broker interface {
	// Accept keeps a job and returns when its platform has decided, or after a bounded wait.
	Accept(context.Context, dispatch.UserID, dispatch.Request, dispatch.Key) (dispatch.Record, error)
	// Read gives a job whose status is no older than fresh, or the last known one where the platform does not answer.
	Read(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record, error)
	// AcceptTask keeps a task with a job for each value of the dimension, all or none.
	AcceptTask(context.Context, dispatch.UserID, dispatch.Request, dispatch.Dimension, dispatch.Key) (dispatch.TaskRecord, error)
	// Task gives a task as it is known.
	Task(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// Tasks reads the user's tasks that fit a page, newest first, as they are known.
	Tasks(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.TaskRecord, error]
	// Jobs reads the user's jobs that belong to no task and fit a page, newest first, as they are known.
	Jobs(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.Record, error]
	// TaskJobs reads the jobs of a task that fit a page, by their numbers, as they are known.
	TaskJobs(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Page) iter.Seq2[dispatch.Record, error]
	// Request gives the whole request of a record that was read with a part of it.
	Request(context.Context, dispatch.Record) (dispatch.Request, error)
	// TaskOutline gives all finished jobs of a task, and what is known of their results.
	TaskOutline(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.Gathered, error)
	// TaskResults gives the results of finished jobs of a task behind a mark, n at most, in the order in which they finished.
	TaskResults(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.Mark, n int) (dispatch.Gathered, error)
	// TaskResult gives those of one.
	TaskResult(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.JobID) (dispatch.Gathered, error)
	// DeleteTask cancels what has not ended of a task, and hides it with its jobs.
	DeleteTask(context.Context, dispatch.UserID, dispatch.TaskID) error
	// RetryTask has the failed jobs of a task carried out anew.
	RetryTask(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// Cancel has a job canceled that stays visible.
	Cancel(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error)
	// Freshen waits a moment until these statuses are no older than fresh.
	Freshen(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh time.Duration) error
	// Watch tells when something looks different to the user.
	Watch(dispatch.UserID) (changed <-chan struct{}, stop func())
	// WatchJob tells when one of the user's jobs may look different.
	WatchJob(dispatch.UserID, dispatch.JobID) (changed <-chan struct{}, stop func())
	// Answers tells when anything about the user's jobs was saved; before Watch does.
	Answers(dispatch.UserID) (saved <-chan struct{}, stop func())
	// Results gives the STAC Collection of a finished job; nil, nil while there is none.
	Results(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error)
	// Document gives the document that defined a job's service when it was accepted; nil if none was kept.
	Document(context.Context, dispatch.UserID, dispatch.JobID) (*dispatch.Document, error)
	// Delete cancels a job that has not ended, and hides it.
	Delete(context.Context, dispatch.UserID, dispatch.JobID) error
	// Usage counts the user's jobs at each account.
	Usage(context.Context, dispatch.UserID) ([]dispatch.Usage, error)
	// Platforms gives all platforms as they stand for the user, and the user's jobs at all of them with their limits.
	Platforms(context.Context, dispatch.UserID) ([]dispatch.Prospect, dispatch.Standing, dispatch.Quota, error)
	// SyncRuns returns the user's synchronous runs, newest first.
	SyncRuns(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.Record, error)
	// RunSync runs a request while the client waits. The caller closes the result's Body.
	RunSync(context.Context, dispatch.UserID, dispatch.Request) (*dispatch.SyncResult, error)
	// Parameters tells what a service takes, in the order of its document.
	Parameters(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.Parameter, error)
	// Logs gives what the platform logged about a job, oldest first.
	Logs(context.Context, dispatch.UserID, dispatch.JobID) ([]dispatch.LogEntry, error)
}

// Config is what an API is made of. Zero limits and times mean their defaults.
type Config struct {
	Broker   Broker
	Verifier Verifier
	Health   func(context.Context) error // nil when the database answers
	Log      *slog.Logger

	// SignedIn is told who made each authenticated request, before it is served; may be nil.
	SignedIn func(context.Context, identity.Caller)
	// SignInLink is where a user mends their account at a platform, "" where there is no such page; may be nil.
	SignInLink func(platform string) string
	// SignIns serve the pages where users link accounts and give leave; nil: there are no such pages.
	SignIns SignIns
	// Mended is told who did one of that; may be nil.
	Mended func(context.Context, dispatch.UserID)
	Grants Grants   // nil: there are none
	Away   bool     // users may give leave to act while they are away
	AsUser []string // the platforms where that counts

	Title, Description, Version string
	// Endpoints are addresses of platforms for the examples of the document, one of each protocol. A protocol without one has a
	// made-up address in them.
	Endpoints   map[dispatch.Label]string
	PublicURL   string         // the address clients use; "" leaves it out of the document
	Proxies     []netip.Prefix // whose X-Forwarded-For is believed
	CORSOrigins []string       // exact origins; none: no browser page of another origin may call

	Secret dispatch.Secret // signs cursors and seals tickets, the same in all processes that share a database; "": one of this process alone
	// UseOnce reports whether a name is used for the first time in all processes, and remembers it until then. nil: there are
	// no tickets for streams.
	UseOnce func(ctx context.Context, name string, until time.Time) (first bool, err error)
	// NoQueryToken refuses tokens in the addresses of streams.
	NoQueryToken bool
	Freshness    time.Duration // how old a status may be; 10 s
	Limits       Limits
	Compat       Compat
}

// Limits bound what a client may send.
type Limits struct {
	Body     int64         // bytes; 10 MiB
	BodyTime time.Duration // for the whole body to arrive; 30 s
	Depth    int           // levels of nested JSON; 64
	Members  int           // of one JSON object; 10,000
	Title    int           // characters; 1,000
	Text     int           // characters of an endpoint, namespace, application or name of a dimension; 4,096
	Values   int           // of a task's dimension; 10,000
	Tiles    int           // of one area; 100,000
	Sockets  int           // open streams of one user; 100

	Rendering int64 // bytes that large requests may take while they are read and written; 128 MiB, at least 64 MiB

	UserPace, AddressPace time.Duration // between the requests of one user, and of one address; 0: as many as come
	SignInPace            time.Duration // likewise of one address, to the pages where users sign in; 100 ms
	UserRequests          int           // of one user that are worked on at once; 16
	AddressRequests       int           // of one address whose user is not known; 512
}

// Compat is what existing clients need.
type Compat struct {
	SubmittedAsCreated bool // show the status submitted as created
}

func (c Config) withDefaults() Config {
	c.Log = slog.New(LogHandler(cmp.Or(c.Log, slog.Default()).Handler()))
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
		UserPace:  c.Limits.UserPace, AddressPace: c.Limits.AddressPace, SignInPace: cmp.Or(c.Limits.SignInPace, 100*time.Millisecond),
		UserRequests: cmp.Or(c.Limits.UserRequests, 16), AddressRequests: cmp.Or(c.Limits.AddressRequests, 512),
	}
	return c
}

type api struct {
	Config
	huma      huma.API
	mux       *http.ServeMux
	handler   http.Handler
	tiling    turnstile // requests and answers of /tiles that are in memory
	splitting turnstile // areas that are being split

	cursorKey []byte
	ticketKey []byte
	snapshots snapshotReads
	readers   *readers
	sockets   sockets
	waits     sockets // requests that wait for a change
	refusals  tokenRefusals
	byUser    rates[dispatch.UserID]
	byTicket  rates[dispatch.UserID] // of tickets
	byAddress rates[netip.Prefix]
	bySignIn  rates[netip.Prefix] // of pages where users sign in
	ofUser    underWay[dispatch.UserID]
	ofAddress underWay[netip.Prefix]
	outage    outage
	rendering *rendering
	heavy     *heavyWork
	heldNow   *atomic.Int64 // bytes of snapshots, see heldTogether
	streaming gathering
	life      context.Context
	stop      context.CancelCauseFunc
}

// gathering counts goroutines until it is closed: those that come then do not run.
type gathering struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f, and reports false when it is too late for that.
func (g *gathering) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f)
	return true
}

// enter counts one more until it leaves, and reports false when it is too late for that.
func (g *gathering) enter() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.wg.Add(1)
	return sync.OnceFunc(g.wg.Done), true
}

// close waits for all that was started.
func (g *gathering) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// API serves everything. Its streams outlast the server that they came by: Close ends them, has all requests answered that
// wait for a change, and returns once synchronous runs have ended too.
type API interface {
	http.Handler
	Close()
}

// New gives an API.
func New(c Config) API {
	a := &api{Config: c.withDefaults(), mux: http.NewServeMux(), tiling: make(turnstile, tilingAtOnce), splitting: newTurnstile(), readers: newReaders(),
		heldNow: new(atomic.Int64)}
	a.Secret = cmp.Or(a.Secret, dispatch.Secret(rand.Text()))
	a.cursorKey, a.ticketKey = cursorKey(a.Secret), ticketKey(a.Secret)
	a.byTicket.pace, a.byTicket.most = ticketLasts/time.Duration(a.Limits.Sockets), a.Limits.Sockets
	a.byUser.pace, a.byAddress.pace, a.bySignIn.pace = a.Limits.UserPace, a.Limits.AddressPace, a.Limits.SignInPace
	a.ofUser.most, a.ofAddress.most = int64(a.Limits.UserRequests), int64(a.Limits.AddressRequests)
	a.rendering, a.heavy = newRendering(a.Limits.Rendering), newHeavyWork(runtime.GOMAXPROCS(0))
	a.life, a.stop = context.WithCancelCause(context.Background())
	a.huma = humago.New(a.mux, a.document())
	a.huma.UseMiddleware(a.authenticate)
	a.routes()
	a.accessRoutes()
	a.ticketRoutes()
	a.streams()
	a.servePages()
	nameModels(a.huma.OpenAPI())
	a.serveDocs()
	a.handler = a.track(a.allowOrigins(a.rated(a.countAddress(http.HandlerFunc(a.route)))))
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// register adds an operation whose errors are answered by the one table.
func register[O any](a *api, op huma.Operation, handle func(context.Context, *request) (*O, error)) {
	huma.Register(a.huma, op, func(ctx context.Context, in *request) (*O, error) {
		limited, cancel := withDeadline[O](ctx)
		out, err := handle(limited, in)
		if err != nil && errors.Is(context.Cause(limited), errTooSlow) {
			err = tooSlow
		}
		if err != nil {
			cancel()
			return nil, a.answerTo(ctx, err)
		}
		a.found(ctx, a.Health)
		return out, nil
	})
}

// requestWithin is how long a request may take, but one whose answer is streamed: those have deadlines of their own. It is
// less than the server's time for writing the answer.
const requestWithin = 110 * time.Second

var (
	errTooSlow = errors.New("the request took too long")
	tooSlow    = refusal{status: http.StatusServiceUnavailable, code: "SERVICE_UNAVAILABLE",
		message: "The request took longer than 110 seconds and was given up.", header: retryAfter(30 * time.Second)}
)

// withDeadline gives a request's deadline, which its work heeds. It ends with the request, not with its handler: what is written
// later may still read.
func withDeadline[O any](ctx context.Context) (context.Context, context.CancelFunc) {
	if _, streamed := any(new(O)).(*huma.StreamResponse); streamed {
		return ctx, func() {}
	}
	limited, cancel := context.WithTimeoutCause(ctx, requestWithin, errTooSlow)
	context.AfterFunc(ctx, cancel)
	return limited, cancel
}

// request is the HTTP request of an operation. It reads path, query and body itself: huma's own readers report faults in
// another form than the contract's.
type request struct{ http huma.Context }

// Resolve implements [huma.Resolver].
func (r *request) Resolve(ctx huma.Context) []error {
	r.http = ctx
	return nil
}
