package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live/socket"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const (
	ShortestInterval = time.Second
	longestInterval  = time.Hour
	UsualInterval    = 10 * time.Second
	PingEvery        = 30 * time.Second
	pongWithin       = 10 * time.Second
	HeardPerMinute   = 60        // messages of a client per minute
	fullRate         = 128 << 10 // bytes per second of whole lists, in addition to one list in each interval
	ChangeRate       = 32 << 10  // bytes per second of changes: what changes again within that time is sent once
	readAnew         = 4         // cycles after which a topic is read although all of it has ended
)

// IntervalOf returns the interval of a query, clamped to the bounds.
func IntervalOf(query url.Values) time.Duration {
	return openapi.Seconds(query, "interval", UsualInterval, ShortestInterval, longestInterval)
}

// Stream is one WebSocket. A goroutine sends what is due and then ends: see wake. So an idle stream needs the memory of
// one small stack, of the goroutine that waits for the client.
type Stream struct {
	*Lists
	Topic    Topic
	Socket   *socket.Socket
	Interval time.Duration
	Changes  bool
	Expires  time.Time       // of the token; zero: never
	Session  dispatch.Secret // cookie of the session that opened the stream; "": a token or ticket did

	ctx     context.Context // until the client has disconnected or the service stops
	cancel  context.CancelCauseFunc
	stop    func()       // frees what the stream holds
	timer   *time.Timer  // wakes the stream when something is due
	woken   atomic.Int64 // calls of wake since run began; 0: it is not running. After the end it stays above
	pending atomic.Bool  // a change that was not read

	heard      int       // messages of the client
	heardSince time.Time // since when they are counted

	next   time.Time   // when the platforms are asked
	pingAt time.Time   // zero: nothing was sent
	pongBy time.Time   // when the client must have responded to a ping; zero: to none
	ponged atomic.Bool // it has
	known  bool        // the client has a state
	state  state       // that the client has
	Sent   time.Time   // when something of it was sent last
	Size   int         // bytes of that
	unread int         // cycles since the last that read the topic
}

// Start begins to send and to receive. released is called at the end.
func (s *Stream) Start(ctx context.Context, released func()) {
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.woken.Store(1) // so that wake does not run it before all is set
	s.timer = time.AfterFunc(s.Interval, s.wake)
	unwatch := s.Broker.OnChange(s.Topic.User, s.change)
	s.stop = func() {
		s.timer.Stop()
		unwatch()
		released()
		s.cancel(nil)
	}
	context.AfterFunc(s.ctx, func() {
		s.Socket.Interrupt()
		s.wake()
	})
	s.Socket.Listen(s)
	go s.run()
}

func (s *Stream) change() {
	if !s.pending.Swap(true) {
		s.wake()
	}
}

// wake has run send what is due. If run is at it, it looks again.
func (s *Stream) wake() {
	if s.woken.Add(1) == 1 {
		go s.run()
	}
}

// run sends what is due. It ends when it has looked after the last call of wake, or with the stream.
func (s *Stream) run() {
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

// Spoke implements [socket.Client].
func (s *Stream) Spoke() {
	if now := time.Now(); now.Sub(s.heardSince) > time.Minute {
		s.heardSince, s.heard = now, 0
	}
	if s.heard++; s.heard > HeardPerMinute {
		s.Socket.BeginClose(socket.TryAgainLater, "too many messages")
	}
}

// Ponged implements [socket.Client].
func (s *Stream) Ponged() { s.ponged.Store(true) }

// Gone implements [socket.Client].
func (s *Stream) Gone() { s.cancel(errGone) }

var (
	errGone    = errors.New("the client has disconnected")
	errSilent  = errors.New("the client does not respond")
	ErrClosing = errors.New("the service is stopping")
)

// end tells the client why the stream ends, and closes it.
func (s *Stream) end(ctx context.Context, err error) {
	defer s.stop()
	defer s.closeOnPanic(ctx)
	if errors.Is(err, errSilent) { // it would not receive a last message either
		s.Socket.Drop()
		s.Log.DebugContext(ctx, "stream closed", "error", err)
		return
	}
	status, code, reason := s.closing(ctx, err)
	if code != "" {
		s.send(context.WithoutCancel(ctx), lastMessage(s.Topic.Task, code, reason))
	}
	s.Socket.Close(status, reason)
	s.Log.DebugContext(ctx, "stream closed", "code", int(status), "error", err)
}

var errExpired = errors.New("the token has expired")

// closing returns the close code (RFC 6455, section 7.4.1), the error code and the reason for err; "" if the client has
// left.
func (s *Stream) closing(ctx context.Context, err error) (status socket.Status, code, reason string) {
	r, refused := errors.AsType[call.Refusal](err)
	switch {
	case errors.Is(context.Cause(ctx), errGone), errors.Is(err, errGone):
		return socket.Normal, "", ""
	case errors.Is(context.Cause(ctx), ErrClosing):
		return socket.GoingAway, "SERVICE_UNAVAILABLE", "The service is stopping."
	case errors.Is(err, errExpired):
		return socket.PolicyViolation, call.ErrOldToken.Code, "The token has expired."
	case errors.Is(err, identity.ErrSignedOut):
		return socket.PolicyViolation, call.ErrNoToken.Code, "You are signed out."
	case refused && r.Status == http.StatusNotFound:
		return socket.PolicyViolation, call.ErrNoTask.Code, "The task was deleted."
	}
	answer := s.AnswerFor(ctx, err)
	if status = socket.InternalError; answer.Status == http.StatusTooManyRequests {
		status = socket.TryAgainLater
	}
	return status, answer.Code, answer.Message
}

// sendDue sends what is due and sets the timer for what is due next. An error ends the stream.
func (s *Stream) sendDue(ctx context.Context) (err error) {
	defer dispatch.RecoverAsError(ctx, s.Log, "api.stream", &err)
	for err = ctx.Err(); err == nil; err = cmp.Or(err, ctx.Err()) {
		now := time.Now()
		switch {
		case s.pingAt.IsZero():
			err, s.pingAt = s.send(ctx, message("init", s.Topic.Task, nil, "Connected. The present state follows.")),
				time.Now().Add(PingEvery)
		case !s.Expires.IsZero() && !now.Before(s.Expires):
			err = errExpired
		case !now.Before(s.next):
			err, s.next = s.refresh(ctx, s.pending.Swap(false)), now.Add(s.Interval)
		case s.pending.Load() && !now.Before(s.NextChangeAt()):
			s.pending.Store(false)
			err = s.update(ctx)
		case !s.pongBy.IsZero() && !now.Before(s.pongBy):
			if s.pongBy = (time.Time{}); !s.ponged.Load() {
				err = errSilent
			}
		case !now.Before(s.pingAt):
			err, s.pingAt = s.ping(ctx), time.Now().Add(PingEvery)
		default:
			s.timer.Reset(time.Until(s.nextDue()))
			return nil
		}
	}
	return err
}

// nextDue returns when something is due unless wake is called before.
func (s *Stream) nextDue() time.Time {
	due := earliest(s.next, s.pingAt, s.pongBy, s.Expires)
	if s.pending.Load() {
		due = earliest(due, s.NextChangeAt())
	}
	return due
}

// NextChangeAt returns when a change may be sent: 1 s after the last message, later after a long one.
func (s *Stream) NextChangeAt() time.Time {
	rate := ChangeRate
	if !s.Changes {
		rate = fullRate
	}
	return s.Sent.Add(min(max(ShortestInterval, time.Duration(s.Size)*time.Second/time.Duration(rate)), s.Interval))
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
func (s *Stream) closeOnPanic(ctx context.Context) {
	if r := recover(); r != nil {
		s.Log.ErrorContext(ctx, "panic", "operation", "api.stream", "error", fmt.Sprint(r), "stack",
			string(debug.Stack()))
		s.Socket.Drop()
	}
}

func (s *Stream) send(ctx context.Context, text []byte) error {
	return unsent(ctx, s.Socket.Send(ctx, text))
}

// unsent returns errSilent if the client did not receive in time, and errGone if nothing can be sent to it any more.
func unsent(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// ping asks the client to respond, and checks that its session lasts.
func (s *Stream) ping(ctx context.Context) error {
	if s.Session != "" {
		if err := s.Sessions.Check(ctx, s.Session); errors.Is(err, identity.ErrSignedOut) {
			return err
		}
	}
	s.ponged.Store(false)
	s.pongBy = time.Now().Add(pongWithin)
	return unsent(ctx, s.Socket.Ping(ctx))
}
