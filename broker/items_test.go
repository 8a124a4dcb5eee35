package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

type items = broker.Items

// countedItems counts how often the database is asked what is to be read.
type countedItems struct {
	items
	asked atomic.Int64
}

func (c *countedItems) DuePlatforms(ctx context.Context) ([]string, error) {
	c.asked.Add(1)
	return c.items.DuePlatforms(ctx)
}

func (c *countedItems) DueItems(ctx context.Context, platform string, n int) ([]dispatch.DueItem, error) {
	c.asked.Add(1)
	return c.items.DueItems(ctx, platform, n)
}

// keeping runs KeepItems beside a broker.
func (h *testBroker) keeping(test func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.KeepItems(ctx) }()
	test()
	cancel()
	<-done
	h.stop()
}

// However many platforms there are, an idle broker asks the database once for all.
func TestKeepItems_AsksOnceForAllPlatforms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := make([]*dispatch.Backend, 1000)
		for i := range backends {
			backends[i] = backend(fmt.Sprintf("p%d", i), dispatch.AccessShared, &script{})
		}
		h := open(conformance.NewMemStore(clock{}), backends...)
		counted := &countedItems{items: h.Items}
		h.Items = counted
		h.keeping(func() { time.Sleep(time.Minute) })
		if n := counted.asked.Load(); n == 0 || n > 12 {
			t.Errorf("the database was asked %d times in a minute", n)
		}
	})
}

// A platform that does not respond delays the results of no other.
func TestKeepItems_SlowPlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		finished := func(dispatch.Token) (dispatch.Report, error) {
			return dispatch.Report{Status: dispatch.Finished}, nil
		}
		slow := &script{status: finished, results: func(dispatch.Token) (json.RawMessage, error) {
			<-end
			return nil, failure(dispatch.Unavailable)
		}}
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, slow),
			backend("b", dispatch.AccessShared, &script{status: finished,
				results: func(dispatch.Token) (json.RawMessage, error) { return json.RawMessage(`{"assets":{}}`), nil }}))
		for _, name := range []string{"a", "a", "b"} {
			if _, err := h.Accept(t.Context(), "ann", request(name), dispatch.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		h.keeping(func() {
			time.Sleep(2 * time.Minute)
			page, err := h.FindItems(t.Context(), "ann", dispatch.ItemQuery{Limit: 9})
			if err != nil || len(page.Items) != 1 || page.Items[0].Account.Platform() != "b" {
				t.Errorf("%+v, %v", page, err)
			}
			close(end)
		})
	})
}
