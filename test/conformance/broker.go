package conformance

import (
	"context"
	"log/slog"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// WallClock is the real time or, inside a bubble of testing/synctest, the time of the bubble.
type WallClock struct{}

// Now implements [dispatch.Clock].
func (WallClock) Now() time.Time { return time.Now() }

// NewBroker returns a broker for one process, with an engine that does not run yet, see [RunBroker]. It logs nothing.
// Callers may set further fields before they use it.
func NewBroker(s Store, tokens dispatch.Tokens, backends ...*dispatch.Backend) *broker.Broker {
	b := broker.New(s, dispatch.Setup{Tokens: tokens, Backends: backends, Installation: "test",
		Log: slog.New(slog.DiscardHandler)})
	b.Engine = engine.New(engine.Config{Store: s, Visit: b.Visit, Log: b.Log})
	return b
}

// RunBroker runs the engine of a broker of [NewBroker]. stop waits until its visits have ended.
func RunBroker(b *broker.Broker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Engine.(*engine.Engine).Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}
