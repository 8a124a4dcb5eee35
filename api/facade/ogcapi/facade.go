// Package ogcapi serves the services of the catalogue and the jobs of users as an OGC API - Processes server (OGC
// 18-062r2, version 1.0, and the drafts of version 2.0 and of Part 4, job management). A service is a process, whatever
// the protocol of its platform; a job is a job, and so is a task. Each platform that speaks the protocol has a view of
// its own, which shows the processes of the platform and their jobs.
package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// root is the path below which the façade serves.
const root = "/ogcapi"

// Config is what the façade is made of.
type Config struct {
	Broker             *broker.Broker
	Services           *catalogue.Catalogue
	Backends           []*dispatch.Backend // those that describe processes have a view of their own
	Title, Description string
	Version            string // of the program
	Open               bool   // processes can be read without a token
	// id of the service that returns its inputs, for conformance tests; "": there is none
	Echo      string
	Freshness time.Duration // maximum age of a status before its platform is asked; default 10 s
	MostTiles int           // jobs of one task; default 10,000
}

// jobs reads jobs, tasks and results; [*broker.Broker] implements it.
type jobs interface {
	Read(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record, error)
	Task(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	Results(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error)
	RecentResults(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error)
}

// Facade implements [facade.Facade].
type Facade struct {
	Config
	jobs jobs
	mux  *http.ServeMux
}

// New returns the façade.
func New(c Config) *Facade {
	f := &Facade{Config: c, jobs: c.Broker, mux: http.NewServeMux()}
	f.Freshness, f.MostTiles = cmp.Or(f.Freshness, 10*time.Second), cmp.Or(f.MostTiles, 10_000)
	for _, op := range f.operations() {
		f.mux.Handle(op.method+" "+root+op.path, f.handler(op))
	}
	return f
}

// Paths returns the path at and below which the façade serves.
func (*Facade) Paths() []string { return []string{root} }

// access says who may use an operation.
type access int

const (
	open     access = iota // everybody
	optional               // everybody if Config.Open is set, else users
	signedIn               // users
)

// operation is one operation of the interface. The OpenAPI document describes it under the same path.
type operation struct {
	method, path string
	access       access
	serve        func(*request) (*answer, error)
}

func (f *Facade) operations() []operation {
	return []operation{
		{"GET", "", open, f.landingPage},
		{"GET", "/conformance", open, f.conformance},
		{"GET", "/api", open, f.document},
		{"GET", "/processes", optional, f.listProcesses},
		{"GET", "/processes/{processID}", optional, f.describeProcess},
		{"POST", "/processes/{processID}/execution", signedIn, f.execute},
		{"GET", "/jobs", signedIn, f.listJobs},
		{"POST", "/jobs", signedIn, f.createJob},
		{"GET", "/jobs/{jobID}", signedIn, onJob(f.readJob)},
		{"PATCH", "/jobs/{jobID}", signedIn, onJob(f.changeJob)},
		{"DELETE", "/jobs/{jobID}", signedIn, onJob(f.dismiss)},
		{"GET", "/jobs/{jobID}/definition", signedIn, onJob(f.readDefinition)},
		{"GET", "/jobs/{jobID}/inputs", signedIn, onJob(f.readInputs)},
		{"GET", "/jobs/{jobID}/prov", signedIn, onJob(f.readProvenance)},
		{"GET", "/jobs/{jobID}/results", signedIn, onJob(f.readResults)},
		{"POST", "/jobs/{jobID}/results", signedIn, onJob(f.startJob)},
		{"GET", "/jobs/{jobID}/results/{outputID}", signedIn, onJob(f.readOutput)},
	}
}

// onJob adapts what serves the job or task in the path.
func onJob(serve func(*request, facade.ID) (*answer, error)) func(*request) (*answer, error) {
	return func(in *request) (*answer, error) {
		id, ok := facade.ParseID(in.PathValue("jobID"))
		if !ok {
			return nil, errNoJob
		}
		return serve(in, id)
	}
}

// request is a request to the façade.
type request struct {
	*http.Request
	facade.Server
	w    http.ResponseWriter
	view view
	root string // absolute URL of the view, without a slash at its end
	user dispatch.UserID

	endless context.Context // without the deadline, for what is streamed

	message  bool // it is none of a client: a message is written
	repeated bool // one that was sent before: results that were read for it will do
}

type answer = facade.Answer

// exchange is what a request has on its way to its operation.
type exchange struct {
	server facade.Server
	view   view
}

type exchangeKey struct{}

// Serve answers a request.
func (f *Facade) Serve(s facade.Server, w http.ResponseWriter, r *http.Request) {
	facade.AllowOrigins(w.Header(), exposed)
	at := facade.PlainURL(r.URL)
	if facade.HasDots(at.Path) {
		f.refuse(w, r, errNoPath, nil)
		return
	}
	v, below := f.viewAt(at.EscapedPath())
	at.RawPath = root + below
	at.Path = unescaped(at.RawPath)
	plain := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, exchange{s, v}))
	plain.URL = at
	handler, pattern := f.mux.Handler(plain)
	if pattern == "" {
		f.unrouted(w, plain, handler)
		return
	}
	defer func() { r.Pattern = v.pattern(plain.Pattern) }() // for the log
	f.mux.ServeHTTP(w, plain)
}

func unescaped(path string) string {
	text, err := url.PathUnescape(path)
	if err != nil {
		return ""
	}
	return text
}

// exposed are the headers that pages of other origins can read.
const exposed = "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Location, Link, " +
	"Preference-Applied, Retry-After, WWW-Authenticate, X-Correlation-ID"

// unrouted answers a request that no operation serves.
func (f *Facade) unrouted(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	allow, text := facade.Allowed(mux, r)
	switch {
	case allow == "":
		f.refuse(w, r, errNoPath, nil)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow+", OPTIONS")
		facade.Permit(w, allow, "Content-Type, Idempotency-Key, If-Range, Prefer, Range")
	default:
		f.refuse(w, r, exception{Status: http.StatusMethodNotAllowed, Detail: text},
			map[string]string{"Allow": allow + ", OPTIONS"})
	}
}

// handler serves an operation.
func (f *Facade) handler(op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := r.Context().Value(exchangeKey{}).(exchange)
		ctx, cancel := facade.WithDeadline(r.Context())
		defer cancel()
		in := &request{Request: r.WithContext(ctx), Server: x.server, w: w, view: x.view, endless: r.Context(),
			root: x.server.BaseURL(r) + x.view.path}
		a, err := f.serve(op, in)
		if err != nil {
			e, header := exceptionFor(in, err)
			f.refuse(w, r, e, header)
			return
		}
		a.Send(w)
	}
}

func (f *Facade) serve(op operation, in *request) (*answer, error) {
	if op.access == signedIn || op.access == optional && (!f.Open || in.Header.Get("Authorization") != "") {
		caller, err := in.SignIn(in.Request, facade.Bearer(in.Header))
		if err != nil {
			return nil, err
		}
		in.user = caller.User
	}
	return op.serve(in)
}

const mediaJSON = "application/json"

// link is a link as the standard's schema link.yaml has it.
type link struct {
	Href  string `json:"href"`
	Rel   string `json:"rel,omitempty"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// relation returns a link relation of OGC.
func relation(word string) string { return "http://www.opengis.net/def/rel/ogc/1.0/" + word }
