package dispatch

import (
	"context"
	"log/slog"
	"time"
)

// Setup is what the parts of a broker share. Set its fields before first use.
type Setup struct {
	Engine       Engine
	Tokens       Tokens
	Backends     []*Backend
	Installation string // see Store.Installation
	Log          *slog.Logger
	Observer     Observer // nil: nobody observes
	Tracer       Tracer   // nil: nothing is traced
	Timing       Timing

	// Nonce returns the random part of the tag of a job's next attempt; nil: eight random letters and digits.
	Nonce func(Job) string

	Wall func() time.Time // the wall clock, which continues while the machine is suspended; nil: time.Now
}

// FreesAfter returns how long a job of a backend must be stalled until its slot counts as free; 0: it never does.
func (s *Setup) FreesAfter(backend *Backend) time.Duration {
	if !backend.Limits.FreeStalled {
		return 0
	}
	return s.Timing.Complete().StalledAfter
}

// BackendNamed returns the backend with that name, nil if there is none.
func (s *Setup) BackendNamed(platform string) *Backend {
	for _, backend := range s.Backends {
		if backend.Name == platform {
			return backend
		}
	}
	return nil
}

// Token gets the account's token within tokenWithin.
func (s *Setup) Token(ctx context.Context, a Account) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	t, err := s.Tokens.Token(ctx, a)
	if err != nil && ctx.Err() != nil && KindOf(err) == Internal {
		err = &Error{Kind: Unavailable, Op: "dispatch.token", Text: "The identity provider does not respond.", Err: err}
	}
	return t, err
}
