package identity

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	maxHeld       = 10_000           // tokens of one source
	renewBefore   = 15 * time.Second // a token ends; a quarter of its life if that is less
	onTheWay      = 3 * time.Second  // a token is given out no later than this before its end, or half its life: a visit uses it for two more
	spare         = time.Second      // a token that comes with less is as good as over
	failurePause  = 2 * time.Second  // nobody is asked again sooner
	refusedPause  = time.Minute      // nor later, for a token that the platform refused
	refreshAtLeft = 4 * time.Second  // Keycloak gives another token when less than 5 s are left
	obtainTimeout = 3*postTimeout + readTimeout
)

// source gets tokens of one kind, and keeps one for each identity. It never asks twice at once for one identity:
// Keycloak loses the link when two refreshes race.
type source struct {
	now      func() time.Time
	subjects *subjects // nil: obtain needs no user's token
	obtain   func(context.Context, wanted) (issued, error)

	mu      sync.Mutex
	held    *lru[dispatch.UserID, *holding]
	pending map[dispatch.UserID]chan struct{} // closed when what is being obtained has come, or failed
}

// wanted says whose token is to be obtained.
type wanted struct {
	id            dispatch.UserID
	subject       dispatch.Secret // the user's own
	held, refused dispatch.Secret // those that another is to follow
}

// holding is what is known about one identity's token.
type holding struct {
	issued
	got     time.Time
	renew   time.Time // when to get the next one
	last    time.Time // until when this one is given out
	refused dispatch.Secret

	failure error // why there is no next one
	subject dispatch.Secret
	pause   time.Time // until when the failure holds for subject
}

func newSource(now func() time.Time, subjects *subjects,
	obtain func(context.Context, wanted) (issued, error)) *source {
	return &source{now: now, subjects: subjects, obtain: obtain,
		held: newLRU[dispatch.UserID, *holding](maxHeld), pending: map[dispatch.UserID]chan struct{}{}}
}

// token gives the identity's token. One that will end soon is renewed meanwhile, and given out while it lasts.
func (s *source) token(ctx context.Context, id dispatch.UserID) (issued, error) {
	for {
		got, done, err := s.current(ctx, id)
		if done == nil {
			return got, err
		}
		if err := await(ctx, done); err != nil {
			return issued{}, err
		}
	}
}

// current returns the token at hand, or the done that will bring one, or why there is none.
func (s *source) current(ctx context.Context, id dispatch.UserID) (issued, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held.get(id)
	if !ok {
		h = &holding{}
	}
	now := s.now()
	lasts := h.token != "" && now.Before(h.last)
	if lasts && now.Before(h.renew) {
		return h.issued, nil, nil
	}
	done, err := s.begin(ctx, id, h, now)
	switch {
	case lasts:
		return h.issued, nil, nil
	case err != nil:
		return issued{}, nil, err
	}
	return issued{}, done, nil
}

// begin joins the done for an identity or begins one, unless it is known to fail. The caller holds the lock.
func (s *source) begin(ctx context.Context, id dispatch.UserID, h *holding, now time.Time) (<-chan struct{}, error) {
	if done, ok := s.pending[id]; ok {
		return done, nil
	}
	var subject dispatch.Secret
	if s.subjects != nil {
		if subject = s.subjects.of(id); subject == "" && s.subjects.grants == nil {
			return nil, errSubjectEnded
		}
	}
	if h.failure != nil && h.subject == subject && now.Before(h.pause) {
		return nil, h.failure
	}
	done := make(chan struct{})
	s.pending[id] = done
	w := wanted{id, subject, h.token, h.refused}
	go func() {
		// What is asked for is not taken back when the one who asked is gone: others wait, and a broken refresh may
		// cost the link.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), obtainTimeout)
		defer cancel()
		got, err := s.obtainSafely(ctx, w)
		s.receive(id, subject, got, err)
		close(done)
	}()
	return done, nil
}

// obtainSafely is obtainFor, of which a panic is an error: those who wait are answered, and the process goes on.
func (s *source) obtainSafely(ctx context.Context, w wanted) (got issued, err error) {
	defer recovered(&err)
	return s.obtainFor(ctx, w)
}

// recovered makes an error of a panic, with the stack, for the log. Call it deferred.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// obtainFor obtains a token, for a user who is away by their grant. A user's own token may end on its way; then their grant is
// used.
func (s *source) obtainFor(ctx context.Context, w wanted) (got issued, err error) {
	if s.subjects == nil {
		return s.obtain(ctx, w)
	}
	for range 2 {
		if w.subject, err = s.subjects.get(ctx, w.id); err != nil {
			return issued{}, err
		}
		if got, err = s.obtain(ctx, w); !errors.Is(err, errSubjectEnded) {
			return got, err
		}
		s.subjects.drop(w.id, w.subject)
	}
	return got, err
}

// receive keeps what a done brought.
func (s *source) receive(id dispatch.UserID, subject dispatch.Secret, got issued, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	h, ok := s.held.get(id)
	if !ok {
		h = &holding{}
		s.held.put(id, h)
	}
	h.take(s.now(), subject, got, err)
}

// take notes the outcome of one attempt.
func (h *holding) take(now time.Time, subject dispatch.Secret, got issued, err error) {
	pause := failurePause
	switch {
	case err != nil:
		if e, ok := errors.AsType[*dispatch.Error](err); ok {
			pause = max(pause, e.RetryAfter)
		}
	case !now.Before(got.expires.Add(-spare)):
		err = unavailable(errors.New("the identity provider gave a token that has expired"))
	case got.token == h.refused:
		pause = max(pause, min(got.expires.Add(-refreshAtLeft).Sub(now), refusedPause))
		err = &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", RetryAfter: pause,
			Text: "The platform does not take the token that the identity provider has for you. It is tried again with the next one.",
			Err:  fmt.Errorf("the same refused token again, which ends %s", got.expires.UTC().Format(time.RFC3339))}
	default:
		left := got.expires.Sub(now)
		// A provider that has no newer token yet gives the same again, with less of its life left: so this is no storm.
		*h = holding{issued: got, got: now, renew: now.Add(left - min(renewBefore, left/4)), last: now.Add(left - min(onTheWay, left/2))}
		return
	}
	h.failure, h.subject, h.pause = err, subject, now.Add(pause)
}

// forget makes the next token be asked for, though there is one, or a failure that still holds.
func (s *source) forget(id dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held.get(id); ok {
		*h = holding{refused: h.token}
	}
}

// drop forgets all about an identity.
func (s *source) drop(id dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.drop(id)
}

// older reports whether the token was got longer than d ago, or there is none.
func (s *source) older(id dispatch.UserID, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held.get(id)
	return !ok || s.now().Sub(h.got) >= d
}

// refuse drops a token that was not taken, if it is the one that is held.
func (s *source) refuse(id dispatch.UserID, token dispatch.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held.get(id); ok && h.token == token && token != "" {
		*h = holding{refused: token}
	}
}
