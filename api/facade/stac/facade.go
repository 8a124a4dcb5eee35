// Package stac serves the results of a user's jobs as a STAC API (1.0.0): an Item for each finished job, in a
// Collection for each task and each service, and in one of all. Searches read what the broker keeps of results, and no
// platform but for links that have expired.
package stac

import (
	"context"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// root is the path below which the façade serves.
const root = "/stac"

// Config is what the façade is made of.
type Config struct {
	Broker             *broker.Broker
	Title, Description string
	Version            string        // of the program
	Files              *files.Facade // passes on files; nil: links lead to their platforms
}

// Facade implements [facade.Facade].
type Facade struct {
	Config
	mux *http.ServeMux
}

// New returns the façade.
func New(c Config) *Facade {
	f := &Facade{Config: c, mux: http.NewServeMux()}
	for pattern, serve := range map[string]func(*request) (any, error){
		"GET " + root:                                               f.landingPage,
		"GET " + root + "/conformance":                              f.conformance,
		"GET " + root + "/api":                                      f.document,
		"GET " + root + "/collections":                              signedIn(f.listCollections),
		"GET " + root + "/collections/{collection}":                 signedIn(f.readCollection),
		"GET " + root + "/collections/{collection}/items":           signedIn(f.listItems),
		"GET " + root + "/collections/{collection}/items/{item_id}": signedIn(f.readItem),
		"GET " + root + "/search":                                   signedIn(f.search),
		"POST " + root + "/search":                                  signedIn(f.search),
	} {
		f.mux.HandleFunc(pattern, handler(serve))
	}
	return f
}

// Paths returns the path at and below which the façade serves.
func (*Facade) Paths() []string { return []string{root} }

// request is a request to the façade.
type request struct {
	*http.Request
	facade.Server
	w      http.ResponseWriter
	server string // absolute URL of the server, without a slash at its end
	root   string // of the façade
	user   dispatch.UserID
	media  string // of the response; "": application/json
}

type serverKey struct{}

// Serve answers a request.
func (f *Facade) Serve(s facade.Server, w http.ResponseWriter, r *http.Request) {
	facade.AllowOrigins(w.Header(), exposed)
	plain := r.WithContext(context.WithValue(r.Context(), serverKey{}, s))
	plain.URL = facade.PlainURL(r.URL)
	switch handler, pattern := f.mux.Handler(plain); {
	case r.Method == http.MethodOptions:
		facade.Permit(w, "GET, POST, OPTIONS", "Content-Type")
	case facade.HasDots(plain.URL.Path):
		facade.SendError(w, http.StatusNotFound, nil, errNoPath)
	case pattern == "":
		unrouted(w, plain, handler)
	default:
		defer func() { r.Pattern = plain.Pattern }() // for the log
		f.mux.ServeHTTP(w, plain)
	}
}

// unrouted answers a request that no operation serves.
func unrouted(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	if allow, text := facade.Allowed(mux, r); allow != "" {
		facade.SendError(w, http.StatusMethodNotAllowed, map[string]string{"Allow": allow + ", OPTIONS"},
			problem{Code: "MethodNotAllowed", Description: text})
		return
	}
	facade.SendError(w, http.StatusNotFound, nil, errNoPath)
}

// exposed are the headers that pages of other origins can read.
const exposed = "Link, Retry-After, WWW-Authenticate, X-Correlation-ID"

// handler serves an operation.
func handler(serve func(*request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := r.Context().Value(serverKey{}).(facade.Server)
		ctx, cancel := facade.WithDeadline(r.Context())
		defer cancel()
		in := &request{Request: r.WithContext(ctx), Server: s, w: w, server: s.BaseURL(r), root: s.BaseURL(r) + root}
		body, err := serve(in)
		if err != nil {
			p, header := problemFor(in, err)
			facade.SendError(w, p.Status, header, p)
			return
		}
		(&facade.Answer{Body: body, MediaType: in.media}).Send(w)
	}
}

// signedIn adapts what serves a user.
func signedIn(serve func(*request) (any, error)) func(*request) (any, error) {
	return func(in *request) (any, error) {
		caller, err := in.SignIn(in.Request, facade.Bearer(in.Header))
		if err != nil {
			return nil, err
		}
		in.user = caller.User
		return serve(in)
	}
}

// problem is an error as STAC API has it.
type problem struct {
	Status      int    `json:"-"`
	Code        string `json:"code"`
	Description string `json:"description"`
}

func (p problem) Error() string { return p.Description }

func badRequest(text string) error { return problem{http.StatusBadRequest, "BadRequest", text} }

var errNoPath = problem{http.StatusNotFound, "NotFound", "There is nothing at this address."}

var errNoCollection = problem{http.StatusNotFound, "NotFound", "There is no such collection."}

func problemFor(in *request, err error) (problem, map[string]string) {
	if p, ok := err.(problem); ok {
		return p, nil
	}
	p := in.Problem(in.Context(), err)
	return problemOf(p), p.Header
}

func problemOf(p facade.Problem) problem {
	status := p.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	text := p.Message
	for _, fault := range p.Faults {
		if !strings.Contains(text, fault.Msg) {
			text += " " + fault.Msg
		}
	}
	return problem{status, strings.ReplaceAll(http.StatusText(status), " ", ""), text}
}

// Refuse writes a refusal of the server itself.
func (f *Facade) Refuse(w http.ResponseWriter, _ *http.Request, p facade.Problem) {
	facade.AllowOrigins(w.Header(), exposed)
	facade.SendError(w, problemOf(p).Status, p.Header, problemOf(p))
}
