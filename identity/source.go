package identity

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	maxHeld     = 10_000           // tokens that one source caches
	renewBefore = 15 * time.Second // before its end, or a quarter of its life if that is less, a token is renewed
	// before its end, or half its life if that is less, a token is no longer given out: a visit uses it for 2 s more
	onTheWay     = 3 * time.Second
	spare        = time.Second     // a token that arrives with less time left counts as expired
	failurePause = 2 * time.Second // minimum time between two attempts
	// maximum time between two attempts after the provider returned a refused token again
	refusedPause  = time.Minute
	refreshAtLeft = 4 * time.Second // Keycloak issues a new token when less than 5 s are left
	obtainTimeout = 3*postTimeout + readTimeout
)

// source obtains tokens of one kind and caches one for each identity. It never obtains two at once for one identity,
// because Keycloak loses the link when two refreshes race.
type source struct {
	now      func() time.Time
	subjects *subjects // nil: obtain needs no user's token
	obtain   func(context.Context, wanted) (issued, error)
	// elsewhere returns a token that another process obtained, for which no user's token is needed; zero if there is
	// none. Only used with subjects.
	elsewhere func(context.Context, wanted) (issued, error)

	mu      sync.Mutex
	held    *lru[dispatch.UserID, *holding]
	pending map[dispatch.UserID]chan struct{} // closed when the running request has ended
}

// wanted describes the token to obtain.
type wanted struct {
	id            dispatch.UserID
	subject       dispatch.Secret // the user's own token
	held, refused dispatch.Secret // the tokens that the new one must replace
	// the user has linked their account since any other attempt, so that none shows how this one ends
	justLinked bool
}

// holding is the cached token of one identity, or the last failure.
type holding struct {
	issued
	got     time.Time
	renew   time.Time // when to obtain the next one
	last    time.Time // until when this one is given out
	refused dispatch.Secret

	failure error // of the last attempt to obtain the next one
	subject dispatch.Secret
	pause   time.Time // until when the failure is returned for subject
}

func newSource(now func() time.Time, obtain func(context.Context, wanted) (issued, error)) *source {
	return &source{now: now, obtain: obtain,
		held: newLRU[dispatch.UserID, *holding](maxHeld), pending: map[dispatch.UserID]chan struct{}{}}
}

// token returns the identity's token. A token that expires soon is renewed in the background and given out meanwhile.
func (s *source) token(ctx context.Context, id dispatch.UserID) (issued, error) {
	for waited := false; ; waited = true {
		got, done, err := s.current(ctx, id, waited)
		if done == nil {
			return got, err
		}
		if err := await(ctx, done); err != nil {
			return issued{}, err
		}
	}
}

// current returns the cached token, or a channel that is closed when the running request has ended, or why there is
// none. waited is whether the caller has waited for a request.
func (s *source) current(ctx context.Context, id dispatch.UserID, waited bool) (issued, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held.Get(id)
	if !ok {
		h = &holding{}
	}
	now := s.now()
	lasts := h.token != "" && now.Before(h.last)
	if lasts && now.Before(h.renew) {
		return h.issued, nil, nil
	}
	done, err := s.begin(ctx, id, h, now, waited)
	switch {
	case lasts:
		return h.issued, nil, nil
	case err != nil:
		return issued{}, nil, err
	}
	return issued{}, done, nil
}

// begin starts to obtain a token for an identity, or joins the running request. While the last failure is valid, it
// returns that. If no process had a token of the user, that is valid only for callers that waited for it: it took no
// request to a provider, and the user may have signed in at another process since. s.mu is held.
func (s *source) begin(ctx context.Context, id dispatch.UserID, h *holding, now time.Time,
	waited bool) (<-chan struct{}, error) {
	if done, ok := s.pending[id]; ok {
		return done, nil
	}
	var subject dispatch.Secret
	if s.subjects != nil {
		if subject = s.subjects.of(id); subject == "" && s.subjects.shared == nil && s.subjects.grants == nil {
			return nil, errSubjectEnded
		}
	}
	signedOut := subject == "" && errors.Is(h.failure, errSubjectEnded)
	if h.failure != nil && h.subject == subject && now.Before(h.pause) && (waited || !signedOut) {
		return nil, h.failure
	}
	return s.start(ctx, wanted{id: id, subject: subject, held: h.token, refused: h.refused}), nil
}

// start starts a request. s.mu is held.
func (s *source) start(ctx context.Context, w wanted) <-chan struct{} {
	done := make(chan struct{})
	s.pending[w.id] = done
	go func() {
		// The request continues if its caller goes: others wait for it, and an interrupted refresh may cost the link.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), obtainTimeout)
		defer cancel()
		got, err := s.obtainFor(ctx, w)
		s.receive(w.id, w.subject, got, err)
		close(done)
	}()
	return done
}

// linked obtains the token of a user who has just linked their account, whatever is cached and whatever became of
// earlier attempts.
func (s *source) linked(ctx context.Context, id dispatch.UserID) (issued, error) {
	for {
		done, begun := s.beginLinked(ctx, id)
		if err := await(ctx, done); err != nil {
			return issued{}, err
		}
		if begun {
			return s.token(ctx, id)
		}
	}
}

// beginLinked starts a request for a user who has just linked their account, unless one runs, which began before.
func (s *source) beginLinked(ctx context.Context, id dispatch.UserID) (done <-chan struct{}, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier, ok := s.pending[id]; ok {
		return earlier, false
	}
	w := wanted{id: id, subject: s.subjects.of(id), justLinked: true}
	if h, ok := s.held.Get(id); ok {
		w.held, w.refused = h.token, h.token
		*h = holding{refused: h.token}
	}
	return s.start(ctx, w), true
}

// recovered turns a panic into an error with the stack, for the log. Call it deferred.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// obtainFor obtains a token; for a user who is not connected, one of another process, or with their grant. If the
// user's own token expires meanwhile, it uses their grant.
func (s *source) obtainFor(ctx context.Context, w wanted) (got issued, err error) {
	defer recovered(&err) // waiting callers are answered
	if s.subjects == nil {
		return s.obtain(ctx, w)
	}
	if got, err = s.elsewhere(ctx, w); err != nil || got.token != "" {
		return got, err
	}
	for range 2 {
		if w.subject, err = s.subjects.get(ctx, w.id); err != nil {
			return issued{}, err
		}
		if got, err = s.obtain(ctx, w); !errors.Is(err, errSubjectEnded) {
			return got, err
		}
		s.subjects.drop(ctx, w.id, w.subject)
	}
	return got, err
}

func (s *source) receive(id dispatch.UserID, subject dispatch.Secret, got issued, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	h, ok := s.held.Get(id)
	if !ok {
		h = &holding{}
		s.held.Add(id, h)
	}
	h.take(s.now(), subject, got, err)
}

func (h *holding) take(now time.Time, subject dispatch.Secret, got issued, err error) {
	pause := failurePause
	switch {
	case err != nil:
		pause = max(pause, retryAfter(err))
	case !now.Before(got.expires.Add(-spare)):
		err = unavailable(errors.New("the identity provider gave a token that has expired"))
	case got.token == h.refused:
		pause = max(pause, min(got.expires.Add(-refreshAtLeft).Sub(now), refusedPause))
		err = &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", RetryAfter: pause,
			Text: "The platform refuses the token that the identity provider issues for you. The broker tries again " +
				"with the next one.",
			Err: fmt.Errorf("the same refused token again, which ends %s", got.expires.UTC().Format(time.RFC3339))}
	default:
		left := got.expires.Sub(now)
		// A provider without a newer token returns the same one with less time left; the renewals do not become
		// frequent.
		*h = holding{issued: got, got: now, renew: now.Add(left - min(renewBefore, left/4)),
			last: now.Add(left - min(onTheWay, left/2))}
		return
	}
	h.failure, h.subject, h.pause = err, subject, now.Add(pause)
}

// forget makes the next call obtain a token, even if one is cached or a failure is still valid.
func (s *source) forget(id dispatch.UserID) {
	s.ifHeld(id, func(h *holding) { *h = holding{refused: h.token} })
}

func (s *source) drop(id dispatch.UserID) { s.ifHeld(id, func(*holding) { s.held.Remove(id) }) }

// older reports whether the token was obtained longer than d ago, or there is none.
func (s *source) older(id dispatch.UserID, d time.Duration) bool {
	older := true
	s.ifHeld(id, func(h *holding) { older = s.now().Sub(h.got) >= d })
	return older
}

// refuse removes a token that the platform refused, if it is still the cached one.
func (s *source) refuse(id dispatch.UserID, token dispatch.Secret) {
	s.ifHeld(id, func(h *holding) {
		if h.token == token && token != "" {
			*h = holding{refused: token}
		}
	})
}

func (s *source) ifHeld(id dispatch.UserID, do func(*holding)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held.Get(id); ok {
		do(h)
	}
}

// lru keeps the most recently used values. It is not safe for concurrent use.
type lru[K comparable, V any] = simplelru.LRU[K, V]

func newLRU[K comparable, V any](max int) *lru[K, V] {
	l, _ := simplelru.NewLRU[K, V](max, nil) // fails for max < 1 only
	return l
}
