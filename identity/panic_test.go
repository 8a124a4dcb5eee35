package identity

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// exploding panics at every request.
type exploding struct{}

func (exploding) RoundTrip(*http.Request) (*http.Response, error) { panic("exploding") }

// What several callers wait for is fetched in a goroutine of its own. Its panic must not end the process or leave the
// callers without an answer.
func TestExchangeAndKeys_SurvivePanics(t *testing.T) {
	s := newFixture(t)
	client := upstream.New(upstream.Config{Transport: exploding{}, Development: true})
	tokens := s.tokens(func(c *TokensConfig) { c.Client = client })
	if _, err := tokens.Token(t.Context(), of(s.comes(tokens, "alice"))); err == nil {
		t.Error("a token from a client that panics")
	}
	v, err := NewVerifier(Config{Issuer: s.idp.Issuer(simulator.BrokerRealm), Audience: []string{"a"}, Client: client,
		Development: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), dispatch.Secret(s.idp.Mint(simulator.BrokerRealm, "alice", "portal",
		simulator.TokenFaults{}))); err == nil {
		t.Error("a token is verified without keys")
	}
}

// TestGate_OpensAfterAPanic: a panic while one exchange is let through to find out whether exchanges work again, or
// while the platform's provider is asked, counts as a failure. Later exchanges are let through.
func TestGate_OpensAfterAPanic(t *testing.T) {
	explode := func() (issued, error) { panic("exploding") }
	for name, alive := range map[string]func(context.Context) error{
		"the exchange":            nil,
		"the platform's provider": func(context.Context) error { panic("exploding") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gate{now: time.Now, log: slog.New(slog.DiscardHandler), alive: alive}
				fails := func() (issued, error) { return issued{}, unavailable(errors.New("down")) }
				if _, err := g.run(t.Context(), fails); !dispatch.Is(err, dispatch.Unavailable) {
					t.Fatal(err)
				}
				time.Sleep(lastPause)
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					_, _ = g.run(t.Context(), explode)
				}()
				g.alive = nil
				if _, err := g.run(t.Context(), explode); !dispatch.Is(err, dispatch.Unavailable) {
					t.Errorf("the next exchange did not wait: %v", err)
				}
				time.Sleep(lastPause)
				if got, err := g.run(t.Context(), func() (issued, error) {
					return issued{token: "t"}, nil
				}); err != nil || got.token != "t" {
					t.Errorf("the gate stays closed: %v", err)
				}
			})
		})
	}
}

// panics is a Locker whose first lock panics.
type panics struct{ done bool }

func (p *panics) Lock(context.Context, string) (func(), error) {
	if !p.done {
		p.done = true
		panic("exploding")
	}
	return func() {}, nil
}

// TestKeyed_IsFreeAfterAPanic of the lock that processes share.
func TestKeyed_IsFreeAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keyed
		locker := &panics{}
		func() {
			defer func() { _ = recover() }()
			_, _ = k.lock(t.Context(), locker, "a")
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		unlock, err := k.lock(ctx, locker, "a")
		if err != nil {
			t.Fatalf("the key stays locked: %v", err)
		}
		unlock()
	})
}
