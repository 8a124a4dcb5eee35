package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const (
	shortestInterval = time.Second
	longestInterval  = time.Hour
	usualInterval    = 10 * time.Second
	pingEvery        = 30 * time.Second
	pongWithin       = 10 * time.Second
	writeWithin      = 30 * time.Second // for a client to receive a piece
	heardLimit       = 4 << 10          // bytes of a client's message
	heardPerMinute   = 60               // messages of a client per minute
	fullRate         = 128 << 10        // bytes per second of whole lists, in addition to one list in each interval
	changeRate       = 32 << 10         // bytes per second of changes: what changes again within that time is sent once
	readAnew         = 4                // cycles after which a topic is read although all of it has ended
	bearerProtocol   = "bearer."
)

// streams registers the WebSockets for the list and for single tasks.
func (a *api) streams() {
	list := func(*http.Request) (topic, error) { return topic{}, nil }
	a.mux.HandleFunc("GET /job_status", func(w http.ResponseWriter, r *http.Request) { a.serveStream(w, r, list) })
	a.mux.HandleFunc("GET /ws/jobs_status", func(w http.ResponseWriter, r *http.Request) { a.serveStream(w, r, list) })
	a.mux.HandleFunc("GET /ws/upscale_tasks/{task_id}", func(w http.ResponseWriter, r *http.Request) {
		a.serveStream(w, r, func(r *http.Request) (topic, error) {
			id, err := parseTaskID(r.PathValue("task_id"))
			return topic{task: id}, err
		})
	})
}

// serveStream upgrades a request after all checks have passed. The stream outlives the request, so that the memory of
// the request is freed.
func (a *api) serveStream(w http.ResponseWriter, r *http.Request, about func(*http.Request) (topic, error)) {
	s, err := a.newStream(r, about)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	release, err := a.sockets.enter(s.topic.user, a.Limits.Sockets)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	// The origin was checked by newStream.
	s.socket, err = websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: protocols(r), InsecureSkipVerify: true})
	if err != nil {
		release()
		a.Log.DebugContext(r.Context(), "stream not opened", "error", err)
		return
	}
	s.socket.SetReadLimit(heardLimit)
	leave, ok := a.streaming.enter()
	if !ok {
		release()
		_ = s.socket.Close(websocket.StatusGoingAway, "the service is stopping")
		return
	}
	ctx := context.WithValue(a.life, callKey{}, &call{id: callIn(r.Context()).id,
		caller: identity.Caller{User: s.topic.user}})
	s.start(ctx, func() {
		release()
		leave()
	})
}

// newStream verifies the caller and the parameters. It finds all faults before the upgrade, because then the response
// can name them.
func (a *api) newStream(r *http.Request, about func(*http.Request) (topic, error)) (*stream, error) {
	caller, err := a.streamCaller(r)
	if err != nil {
		return nil, err
	}
	callIn(r.Context()).caller = caller
	if err := a.countUser(r.Context()); err != nil {
		return nil, err
	}
	if a.OnRequest != nil && caller.Token != "" { // a caller with a ticket was reported when the ticket was requested
		a.OnRequest(r.Context(), caller)
	}
	s := &stream{api: a, expires: caller.Expires}
	if session := callIn(r.Context()).session; session.Cookie != "" { // it outlives its access token
		s.session, s.expires = session.Cookie, time.Time{}
	}
	if s.topic, err = about(r); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	want, faults := filterOf(query)
	if want.sync {
		faults = append(faults, dispatch.Fault{Loc: []any{"query", "filter"}, Type: "enum",
			Msg: "Input should be 'upscaling' or 'processing'"})
	}
	s.interval, s.changes = intervalOf(query, &faults), switchOf(query, "changes", false, &faults)
	s.topic.bare = !switchOf(query, "parameters", true, &faults)
	switch {
	case len(faults) > 0:
		return nil, invalid(faults)
	case !a.originAllowed(r):
		a.noteOrigin(r)
		return nil, errForeignOrigin
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		return nil, errNoUpgrade
	case a.life.Err() != nil:
		return nil, errStopping
	}
	s.topic.user = caller.User
	if s.topic.task == 0 {
		s.topic.want = want
		return s, nil
	}
	_, err = a.Broker.Task(r.Context(), caller.User, s.topic.task) // a missing task is answered as in GET
	return s, taskError(err)
}

var (
	errQueryToken = refusal{status: http.StatusUnauthorized, code: "AUTHENTICATION_FAILED",
		header: map[string]string{"WWW-Authenticate": "Bearer"},
		message: "This service does not accept tokens in URLs. Get a ticket with POST /tickets and open the stream with " +
			"?ticket= instead of ?token=."}
	errNoUpgrade = refusal{status: http.StatusUpgradeRequired, code: "UPGRADE_REQUIRED",
		message: "This address is a WebSocket. Connect with the header Upgrade: websocket.",
		header:  map[string]string{"Upgrade": "websocket"}}
	errStopping = refusal{status: http.StatusServiceUnavailable, code: "SERVICE_UNAVAILABLE",
		message: "The service is stopping. Connect again in a few seconds.", header: retryAfter(time.Second)}
	errTooManyOpen = refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED",
		message: "You have too many open streams. Close one before you open another.", header: retryAfter(time.Minute)}
)

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
		return identity.Caller{}, errNoToken
	case len(given) == 0 && r.Header.Get("Authorization") == "" && a.hasSession(r):
		if err := a.checkStreamOrigin(r); err != nil {
			return identity.Caller{}, err
		}
		return a.openSession(r)
	case len(given) == 0:
		return a.callerOf(r)
	case len(given) > 1 || r.Header.Get("Authorization") != "":
		return identity.Caller{}, errNoToken
	}
	return a.verifyToken(r.Context(), given[0])
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

// protocols returns the offered sub-protocols to choose from. Browsers require that the server chooses one of them; one
// without the token is preferred.
func protocols(r *http.Request) []string {
	all := offered(r)
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Compare(strings.Count(a[:min(len(a), len(bearerProtocol))], bearerProtocol),
			strings.Count(b[:min(len(b), len(bearerProtocol))], bearerProtocol))
	})
	return all
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

// intervalOf reads the query parameter interval (seconds, clamped to the bounds).
func intervalOf(query url.Values, faults *[]dispatch.Fault) time.Duration {
	if !query.Has("interval") {
		return usualInterval
	}
	seconds, err := strconv.ParseFloat(query.Get("interval"), 64)
	if math.IsNaN(seconds) || err != nil && !errors.Is(err, strconv.ErrRange) {
		*faults = append(*faults, dispatch.Fault{Loc: []any{"query", "interval"}, Type: "float_parsing",
			Msg: "Input should be a valid number, unable to parse string as a number"})
		return usualInterval
	}
	seconds = min(max(seconds, shortestInterval.Seconds()), longestInterval.Seconds())
	return time.Duration(seconds * float64(time.Second))
}

func switchOf(query url.Values, name string, otherwise bool, faults *[]dispatch.Fault) bool {
	if !query.Has(name) {
		return otherwise
	}
	on, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		*faults = append(*faults, dispatch.Fault{Loc: []any{"query", name}, Type: "bool_parsing",
			Msg: "Input should be a valid boolean, unable to interpret input"})
	}
	return on
}

// sockets counts the open streams of each user.
type sockets struct {
	mu   sync.Mutex
	open map[dispatch.UserID]int
}

func (s *sockets) enter(u dispatch.UserID, most int) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[u] >= most {
		return nil, errTooManyOpen
	}
	if s.open == nil {
		s.open = map[dispatch.UserID]int{}
	}
	s.open[u]++
	return func() { s.release(u) }, nil
}

// count returns how many streams all users have open.
func (s *sockets) count() (open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.open {
		open += n
	}
	return open
}

func (s *sockets) release(u dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[u]--; s.open[u] == 0 {
		delete(s.open, u)
	}
}

// stream is one WebSocket. One goroutine receives. Another sends what is due and then ends, so that an idle stream
// needs the memory of one stack: see wake. Both end with the stream's context.
type stream struct {
	*api
	topic    topic
	socket   *websocket.Conn
	interval time.Duration
	changes  bool
	expires  time.Time       // of the token; zero: never
	session  dispatch.Secret // cookie of the session that opened the stream; "": a token or ticket did

	ctx     context.Context // until the client has disconnected or the service stops
	stop    func()          // frees what the stream holds
	timer   *time.Timer     // wakes the stream when something is due
	woken   atomic.Int64    // calls of wake since run began; 0: it is not running. After the end it stays above
	pending atomic.Bool     // a change that was not read

	next   time.Time // when the platforms are asked
	pingAt time.Time // zero: nothing was sent
	known  bool      // the client has a state
	state  state     // that the client has
	sent   time.Time // when something of it was sent last
	size   int       // bytes of that
	unread int       // cycles since the last that read the topic
}

// start begins to send and to receive. released is called at the end.
func (s *stream) start(ctx context.Context, released func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.ctx = ctx
	s.woken.Store(1) // so that wake does not run it before all is set
	s.timer = time.AfterFunc(s.interval, s.wake)
	unwatch := s.Broker.OnChange(s.topic.user, s.change)
	s.stop = func() {
		s.timer.Stop()
		unwatch()
		released()
		cancel(nil)
	}
	context.AfterFunc(ctx, s.wake)
	go s.run()
	go s.discardMessages(cancel)
}

func (s *stream) change() {
	if !s.pending.Swap(true) {
		s.wake()
	}
}

// wake has run send what is due. If run is at it, it looks again.
func (s *stream) wake() {
	if s.woken.Add(1) == 1 {
		go s.run()
	}
}

// run sends what is due. It ends when it has looked after the last call of wake, or with the stream.
func (s *stream) run() {
	for {
		woken := s.woken.Load()
		if err := s.sendDue(s.ctx); err != nil {
			s.end(s.ctx, err)
			return
		}
		if s.woken.CompareAndSwap(woken, 0) {
			return
		}
	}
}

// discardMessages receives and discards the client's messages, within limits. Reading also handles pongs and the
// client's close.
func (s *stream) discardMessages(cancel context.CancelCauseFunc) {
	defer s.closeOnPanic(context.Background())
	for since, n := time.Now(), 0; ; n++ {
		_, r, err := s.socket.Reader(context.Background())
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if time.Since(since) > time.Minute {
			since, n = time.Now(), 0
		}
		if err == nil && n >= heardPerMinute {
			s.socket.Close(websocket.StatusTryAgainLater, "too many messages")
			err = errors.New("too many messages")
		}
		if err != nil {
			cancel(errGone)
			return
		}
	}
}

var (
	errGone    = errors.New("the client has disconnected")
	errSilent  = errors.New("the client does not respond")
	errClosing = errors.New("the service is stopping")
)

// end tells the client why the stream ends, and closes it.
func (s *stream) end(ctx context.Context, err error) {
	defer s.stop()
	defer s.closeOnPanic(ctx)
	if errors.Is(err, errSilent) { // it would not receive a last message either
		s.socket.CloseNow()
		s.Log.DebugContext(ctx, "stream closed", "error", err)
		return
	}
	status, code, reason := s.closing(ctx, err)
	if !errors.Is(context.Cause(ctx), errGone) && status != websocket.StatusGoingAway {
		s.send(context.WithoutCancel(ctx), lastMessage(s.topic.task, code, reason))
	}
	s.socket.Close(status, reason)
	s.Log.DebugContext(ctx, "stream closed", "code", int(status), "error", err)
}

var errExpired = errors.New("the token has expired")

// closing returns the close code (RFC 6455, section 7.4.1), the error code and the reason for err.
func (s *stream) closing(ctx context.Context, err error) (status websocket.StatusCode, code, reason string) {
	r, refused := errors.AsType[refusal](err)
	switch {
	case errors.Is(context.Cause(ctx), errClosing):
		return websocket.StatusGoingAway, "SERVICE_UNAVAILABLE", "The service is stopping."
	case errors.Is(err, errExpired):
		return websocket.StatusPolicyViolation, errOldToken.code, "The token has expired."
	case errors.Is(err, identity.ErrSignedOut):
		return websocket.StatusPolicyViolation, errSignedOut.code, "You are signed out."
	case refused && r.status == http.StatusNotFound:
		return websocket.StatusPolicyViolation, errNoTask.code, "The task was deleted."
	}
	return websocket.StatusInternalError, kinds[dispatch.Internal].code, internalText
}

// sendDue sends what is due and sets the timer for what is due next. An error ends the stream.
func (s *stream) sendDue(ctx context.Context) (err error) {
	defer dispatch.RecoverAsError(ctx, s.Log, "api.stream", &err)
	for err = ctx.Err(); err == nil; err = cmp.Or(err, ctx.Err()) {
		now := time.Now()
		switch {
		case s.pingAt.IsZero():
			err, s.pingAt = s.send(ctx, message("init", s.topic.task, nil, "Connected. The present state follows.")),
				time.Now().Add(pingEvery)
		case !s.expires.IsZero() && !now.Before(s.expires):
			err = errExpired
		case !now.Before(s.next):
			err, s.next = s.refresh(ctx, s.pending.Swap(false)), now.Add(s.interval)
		case s.pending.Load() && !now.Before(s.nextChangeAt()):
			s.pending.Store(false)
			err = s.update(ctx)
		case !now.Before(s.pingAt):
			err, s.pingAt = s.ping(ctx), time.Now().Add(pingEvery)
		default:
			s.timer.Reset(time.Until(s.nextDue()))
			return nil
		}
	}
	return err
}

// nextDue returns when something is due unless wake is called before.
func (s *stream) nextDue() time.Time {
	due := earliest(s.next, s.pingAt, s.expires)
	if s.pending.Load() {
		due = earliest(due, s.nextChangeAt())
	}
	return due
}

// nextChangeAt returns when a change may be sent: 1 s after the last message, later after a long one.
func (s *stream) nextChangeAt() time.Time {
	rate := changeRate
	if !s.changes {
		rate = fullRate
	}
	return s.sent.Add(min(max(shortestInterval, time.Duration(s.size)*time.Second/time.Duration(rate)), s.interval))
}

func earliest(first time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// closeOnPanic ends a stream whose goroutine panics, instead of the process. Call it deferred.
func (s *stream) closeOnPanic(ctx context.Context) {
	if r := recover(); r != nil {
		s.Log.ErrorContext(ctx, "panic", "operation", "api.stream", "error", fmt.Sprint(r), "stack", string(debug.Stack()))
		s.socket.CloseNow()
	}
}

func (s *stream) send(ctx context.Context, text []byte) error {
	return withTimeout(ctx, writeWithin, func(ctx context.Context) error {
		return s.socket.Write(ctx, websocket.MessageText, text)
	})
}

// withTimeout calls ask with a time limit. It returns errSilent if the client did not respond in time.
func withTimeout(ctx context.Context, d time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// ping checks that the client responds, and that its session lasts.
func (s *stream) ping(ctx context.Context) error {
	if s.session != "" {
		if err := s.Sessions.Check(ctx, s.session); errors.Is(err, identity.ErrSignedOut) {
			return err
		}
	}
	return withTimeout(ctx, pongWithin, s.socket.Ping)
}

// Close implements [API].
func (a *api) Close() {
	a.stop(errClosing)
	a.streaming.close()
}
