package broker

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	callsAtOnce = 8 // concurrent calls outside visits, for each platform
	// of these for each user, so that calls of one user that get no response do not block others
	callsOfUser  = 4
	callWithin   = time.Minute // for a call; a synchronous run has runWithin
	comeBackSoon = 30 * time.Second
)

// Logs returns the platform's log entries about a job, oldest first.
func (b *Broker) Logs(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]dispatch.LogEntry, error) {
	r, err := b.Records.Record(ctx, u, id)
	if err != nil || r.Ref == (dispatch.Ref{}) {
		return nil, err
	}
	entries, err := call(ctx, b, u, r.Account, func(ctx context.Context, p dispatch.Platform,
		t dispatch.Token) ([]dispatch.LogEntry, error) {
		l, can := p.(dispatch.Logger)
		if !can {
			return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Logs",
				Text: "This platform gives no logs."}
		}
		return l.Logs(ctx, t, r.Ref)
	})
	for i, e := range entries {
		entries[i].Message = string(b.untagged([]byte(e.Message)))
	}
	return entries, err
}

// Formats returns the output formats of a service; none if its platform does not list them. User "", who has not signed
// in, gets those that are public.
func (b *Broker) Formats(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) ([]dispatch.OutputFormat, error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return nil, err
	}
	f, can := backend.Platform.(dispatch.Formatter)
	if !can {
		return nil, nil
	}
	open, err := f.Formats(ctx, dispatch.Token{}, s)
	if u == "" || !dispatch.Is(err, dispatch.SignInRequired) && !dispatch.Is(err, dispatch.Forbidden) {
		return open, err
	}
	if err := backend.CheckEntitled(ctx); err != nil {
		return nil, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ dispatch.Platform,
		t dispatch.Token) ([]dispatch.OutputFormat, error) {
		return f.Formats(ctx, t, s)
	})
}

// Parameters returns the parameters of a service, in the order of its document. If the document is public at the
// platform, the user need not be signed in there. User "", who has not signed in, gets no others.
func (b *Broker) Parameters(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) ([]dispatch.Parameter, error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return nil, err
	}
	if _, err := backend.Platform.Base(s); err != nil {
		return nil, err
	}
	describer, can := backend.Platform.(dispatch.Describer)
	if !can {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Parameters",
			Text: "This platform does not describe its services."}
	}
	defer idleIfSlow(ctx)()
	if err := b.AwaitDocument(ctx, backend, u, s); err != nil {
		return nil, err
	}
	open, err := describer.Parameters(ctx, dispatch.Token{}, s)
	if u == "" || !dispatch.Is(err, dispatch.SignInRequired) && !dispatch.Is(err, dispatch.Forbidden) {
		return open, err
	}
	if err := backend.CheckEntitled(ctx); err != nil {
		return nil, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ dispatch.Platform,
		t dispatch.Token) ([]dispatch.Parameter, error) {
		return describer.Parameters(ctx, t, s)
	})
}

// notChecked is the warning for a request whose parameters could not be checked within CheckWithin.
const notChecked = "The parameters were not checked when the request was accepted, because the description of the " +
	"service could not be read in time. " +
	"They are checked when the job is submitted to the platform; parts that the broker cannot check are then not reported."

// check returns an error if a request is wrong, and a warning if it could not be checked completely within CheckWithin.
// The error is Invalid or DocumentInvalid, or Unsupported if the service has only synchronous runs.
func (b *Broker) check(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend, r dispatch.Request,
	d *dispatch.Dimension) (warning string,
	err error) {
	checker := backend.Checker(r)
	if checker == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	warning, err = checker.Check(ctx, dispatch.Token{}, r, d)
	if dispatch.Is(err, dispatch.SignInRequired) || dispatch.Is(err, dispatch.Forbidden) ||
		dispatch.Is(err, dispatch.NotFound) { // some platforms hide services from strangers
		warning, err = withToken(ctx, b, backend, backend.Account(u),
			func(ctx context.Context, t dispatch.Token) (string, error) {
				return checker.Check(ctx, t, r, d)
			})
	}
	switch dispatch.KindOf(err) {
	case dispatch.Invalid, dispatch.DocumentInvalid, dispatch.Unsupported:
		return warning, err
	case dispatch.NotFound:
		// no job is concerned
		e := dispatch.InvalidBody("dispatch.check", dispatch.TextFor(err), "service", "application")
		e.Err = err
		return "", e
	}
	if err != nil {
		return notChecked, nil
	}
	return warning, nil
}

// call sends a user's request to an account's platform outside its visits.
func call[T any](ctx context.Context, b *Broker, u dispatch.UserID, a dispatch.Account,
	ask func(context.Context, dispatch.Platform, dispatch.Token) (T,
		error)) (none T, err error) {
	backend := b.BackendNamed(a.Platform())
	if backend == nil {
		return none, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "dispatch.call", Text: dispatch.NoPlatformText}
	}
	defer idle(ctx)()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	releaseOwn, err := b.ownCalls.acquire(ctx, backend.Name+"/"+string(u), callsOfUser)
	if err != nil {
		return none, err
	}
	defer releaseOwn()
	release, err := b.calls.acquire(ctx, backend.Name, callsAtOnce)
	if err != nil {
		return none, err
	}
	defer release()
	return withToken(ctx, b, backend, a, func(ctx context.Context, t dispatch.Token) (T, error) {
		return ask(ctx, backend.Platform,
			t)
	})
}

// withToken calls ask with the account's token, and once more with another token if the platform refuses the first.
func withToken[T any](ctx context.Context, b *Broker, backend *dispatch.Backend, a dispatch.Account,
	ask func(context.Context, dispatch.Token) (T,
		error)) (none T, err error) {
	for again := false; ; again = true {
		t, err := b.Token(ctx, a)
		if err != nil {
			return none, backend.TokenError(err)
		}
		if err := b.AwaitSendTime(ctx, backend, a); err != nil {
			return none, err
		}
		begun := time.Now()
		got, err := ask(ctx, t)
		b.Observing().RequestEnded(backend.Name, "call", time.Since(begun), err)
		if again || !dispatch.Is(err, dispatch.SignInRequired) {
			return got, backend.TokenError(err)
		}
		b.Tokens.Invalidate(a, t)
	}
}

// callLimits bounds how many calls with the same name are under way at once. The zero value is ready to use.
type callLimits struct {
	mu     sync.Mutex
	byName map[string]*callLimit
}

// callLimit counts the calls with one name while any is under way or waits.
type callLimit struct {
	taken chan struct{} // holds one entry for each call under way
	uses  int           // calls that are under way or wait; at zero the callLimit is removed
}

// acquire waits until fewer than n calls with the name are under way and counts one more, until release is called,
// which may be called repeatedly. Busy if it waited for EnterWithin.
func (s *callLimits) acquire(ctx context.Context, name string, n int) (release func(), err error) {
	p := s.use(name, n)
	ctx, cancel := context.WithTimeout(ctx, dispatch.EnterWithin)
	defer cancel()
	select {
	case p.taken <- struct{}{}:
		return sync.OnceFunc(func() { <-p.taken; s.drop(name) }), nil
	case <-ctx.Done():
		s.drop(name)
		return nil, &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.enter",
			Text:       "Too many requests to this platform are under way.",
			RetryAfter: comeBackSoon}
	}
}

// awaited reports whether more than one call with the name is under way or waits.
func (s *callLimits) awaited(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name] != nil && s.byName[name].uses > 1
}

func (s *callLimits) use(name string, n int) *callLimit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name] == nil {
		dispatch.SetInMap(&s.byName, name, &callLimit{taken: make(chan struct{}, n)})
	}
	s.byName[name].uses++
	return s.byName[name]
}

func (s *callLimits) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name].uses--; s.byName[name].uses == 0 {
		delete(s.byName, name)
	}
}
