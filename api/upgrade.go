package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/live/socket"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const bearerProtocol = "bearer."

// streams registers the WebSockets for the list and for single tasks.
func (a *api) streams() {
	list := func(*http.Request) (live.Topic, error) { return live.Topic{}, nil }
	a.mux.HandleFunc("GET /job_status", func(w http.ResponseWriter, r *http.Request) { a.serveStream(w, r, list) })
	a.mux.HandleFunc("GET /ws/jobs_status", func(w http.ResponseWriter, r *http.Request) { a.serveStream(w, r, list) })
	a.mux.HandleFunc("GET /ws/upscale_tasks/{task_id}", func(w http.ResponseWriter, r *http.Request) {
		a.serveStream(w, r, func(r *http.Request) (live.Topic, error) {
			id, err := openapi.ParseTaskID(r.PathValue("task_id"))
			return live.Topic{Task: id}, err
		})
	})
}

// serveStream upgrades a request after all checks have passed. The stream outlives the request, so that the memory of
// the request is freed.
func (a *api) serveStream(w http.ResponseWriter, r *http.Request, about func(*http.Request) (live.Topic, error)) {
	s, err := a.newStream(r, about)
	if err != nil {
		a.Refuse(w, r, err)
		return
	}
	release, err := a.EnterStream(s.Topic.User)
	if err != nil {
		a.Refuse(w, r, err)
		return
	}
	leave, ok := a.Streaming.Enter()
	if !ok {
		release()
		a.Refuse(w, r, call.ErrStopping)
		return
	}
	released := func() {
		release()
		leave()
	}
	opened := call.In(r.Context())
	s.Socket, err = socket.Accept(w, r, protocol(r))
	// the response on the connection does not set it, also to a client that is cut off then
	opened.Status = cmp.Or(opened.Status, http.StatusSwitchingProtocols)
	if err != nil {
		released()
		a.Log.DebugContext(r.Context(), "stream not opened", "error", err)
		return
	}
	s.Start(call.With(a.Life, &call.Call{ID: opened.ID, Caller: identity.Caller{User: s.Topic.User}}), released)
}

// newStream verifies the caller and the parameters. It finds all faults before the upgrade, because then the response
// can name them.
func (a *api) newStream(r *http.Request, about func(*http.Request) (live.Topic, error)) (*live.Stream, error) {
	caller, err := a.streamCaller(r)
	if err != nil {
		return nil, err
	}
	call.In(r.Context()).Caller = caller
	if err := a.CountUser(r.Context()); err != nil {
		return nil, err
	}
	if a.OnRequest != nil && caller.Token != "" { // a caller with a ticket was reported when the ticket was requested
		a.OnRequest(r.Context(), caller)
	}
	s := &live.Stream{Lists: a.Lists, Expires: caller.Expires}
	if session := call.In(r.Context()).Session; session.Cookie != "" { // it outlives its access token
		s.Session, s.Expires = session.Cookie, time.Time{}
	}
	if s.Topic, err = about(r); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	if faults := openapi.CheckQuery(openapi.StreamParams, r.URL.RawQuery); len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	s.Interval, s.Changes = live.IntervalOf(query), openapi.Switch(query, "changes", false)
	s.Topic.Bare = !openapi.Switch(query, "parameters", true)
	switch {
	case !a.originAllowed(r):
		a.noteOrigin(r)
		return nil, errForeignOrigin
	case !socket.Requested(r):
		return nil, errNoUpgrade
	case a.Life.Err() != nil:
		return nil, call.ErrStopping
	}
	s.Topic.User = caller.User
	if s.Topic.Task == 0 {
		s.Topic.Want, _ = live.FilterOf(query)
		return s, nil
	}
	_, err = a.Broker.Task(r.Context(), caller.User, s.Topic.Task) // a missing task is answered as in GET
	return s, call.TaskError(err)
}

var errQueryToken = call.Unauthorized("This service does not accept tokens in URLs. Get a ticket with POST /tickets " +
	"and open the stream with ?ticket= instead of ?token=.")

var errNoUpgrade = call.Refusal{Status: http.StatusUpgradeRequired, Code: "UPGRADE_REQUIRED",
	Message: "This address is a WebSocket (RFC 6455, version 13). A proxy in between must pass it on by HTTP/1.1, " +
		"with the headers Upgrade and Connection.",
	Header: map[string]string{"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}}

// streamCaller verifies the caller by the Authorization header, or for browsers, which cannot set it, by a
// sub-protocol, the token in the query, or the ticket in the query.
func (a *api) streamCaller(r *http.Request) (identity.Caller, error) {
	query := r.URL.Query()
	given, tickets := query["token"], query["ticket"]
	if a.NoQueryToken && len(given) > 0 {
		return identity.Caller{}, errQueryToken
	}
	for _, p := range offered(r) {
		if token, ok := strings.CutPrefix(p, bearerProtocol); ok {
			given = append(given, token)
		}
	}
	switch {
	case len(tickets) == 1 && len(given) == 0 && r.Header.Get("Authorization") == "":
		return a.redeem(r.Context(), tickets[0])
	case len(tickets) > 0:
		return identity.Caller{}, call.ErrNoToken
	case len(given) == 0 && r.Header.Get("Authorization") == "" && a.HasSession(r):
		if err := a.CheckStreamOrigin(r); err != nil {
			return identity.Caller{}, err
		}
		return a.OpenSession(r)
	case len(given) == 0:
		return a.callerOf(r)
	case len(given) > 1 || r.Header.Get("Authorization") != "":
		return identity.Caller{}, call.ErrNoToken
	}
	return a.verifyToken(r.Context(), dispatch.Secret(given[0]))
}

// offered returns the sub-protocols that the client offers.
func offered(r *http.Request) []string {
	var all []string
	for p := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		if p = strings.TrimSpace(p); p != "" {
			all = append(all, p)
		}
	}
	return all
}

// protocol returns an offered sub-protocol, because browsers require that the server chooses one: if possible, one
// without the token. "": none is offered.
func protocol(r *http.Request) string {
	all := offered(r)
	plain := slices.IndexFunc(all, func(p string) bool { return !strings.HasPrefix(p, bearerProtocol) })
	if len(all) == 0 {
		return ""
	}
	return all[max(plain, 0)]
}

// originAllowed reports whether a page of this origin may open a stream. Clients that are not browsers send no Origin.
func (a *api) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || origin == dispatch.OriginOf(a.PublicURL) || a.listsOrigin(origin) ||
		slices.Contains(a.CORSOrigins, "*") {
		return true
	}
	scheme, _, _ := strings.Cut(origin, "://")
	own := dispatch.OriginOf(scheme + "://" + r.Host) // a proxy in front may have ended TLS
	return own != "" && own == dispatch.OriginOf(origin)
}
