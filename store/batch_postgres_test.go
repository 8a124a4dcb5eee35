package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// acceptances are calls of Accept on PostgreSQL for jobs of ann.
type acceptances struct {
	*store.Store
	other *store.Store // of another process
	dsn   string
	all   sync.WaitGroup
}

// whileOneWaits calls add while an acceptance waits for the lock of ann's jobs, and then until the n acceptances that
// add began wait for that one. It returns when all have ended.
func (c *acceptances) whileOneWaits(t *testing.T, n int, add func()) {
	t.Helper()
	unlock, err := c.other.Lock(t.Context(), "jobs of ann")
	if err != nil {
		t.Fatal(err)
	}
	c.accept(t, t.Context(), dispatch.Key{}, nil)
	awaitWaiter(t, c.dsn)
	add()
	store.AwaitJoining(c.Store, "ann", n)
	unlock()
	c.all.Wait()
}

// accept begins to accept a job within a quota of 12, and passes on what comes of it.
func (c *acceptances) accept(t *testing.T, ctx context.Context, k dispatch.Key, ended func(dispatch.Draft,
	dispatch.KeyTarget, error)) {
	c.all.Go(func() {
		job := drafts(1)
		first, err := c.Accept(ctx, k, nil, job, dispatch.Quota{Live: 12})
		if ended != nil {
			ended(job[0], first, err)
		} else if err != nil {
			t.Error(err)
		}
	})
}

// TestBatch_AcceptancesOfAUser: jobs of one user that are submitted while one is being accepted are accepted in one
// transaction. Each of them within the quota, with its own key, and unless its caller gives up before.
func TestBatch_AcceptancesOfAUser(t *testing.T) {
	dsn := postgres.Database(t)
	c := &acceptances{Store: open(t, dsn, nil), other: open(t, dsn, nil), dsn: dsn}
	_, transactions := store.Count(c.Store)
	var mu sync.Mutex
	ids, key := map[dispatch.JobID]bool{}, dispatch.Key{Text: "k", Fingerprint: "f"}
	var keyed dispatch.JobID
	c.whileOneWaits(t, 8, func() {
		for i := range 8 {
			k := dispatch.Key{}
			if i == 5 {
				k = key
			}
			c.accept(t, t.Context(), k, func(d dispatch.Draft, first dispatch.KeyTarget, err error) {
				mu.Lock()
				defer mu.Unlock()
				if ids[d.ID] = true; err != nil || d.Created.IsZero() || first != (dispatch.KeyTarget{}) {
					t.Error(d.ID, d.Created, first, err)
				}
				if k == key {
					keyed = d.ID
				}
			})
		}
	})
	if n := transactions.Load(); len(ids) != 8 || ids[0] || n > 2 {
		t.Errorf("jobs %v in %d transactions", ids, n)
	}

	// 9 jobs are stored, and one is being accepted. Of three more two are within the quota; the others are given up, or
	// repeat a key.
	ctx, cancel := context.WithCancel(t.Context())
	var stored, refused int
	c.whileOneWaits(t, 4, func() {
		c.accept(t, ctx, dispatch.Key{}, func(_ dispatch.Draft, _ dispatch.KeyTarget, err error) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
		})
		for i := range 3 {
			var k dispatch.Key // or a new one, which stands before the one that is repeated
			if i == 0 {
				k = dispatch.Key{Text: "new", Fingerprint: "f"}
			}
			c.accept(t, t.Context(), k, func(_ dispatch.Draft, first dispatch.KeyTarget, err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case first != (dispatch.KeyTarget{}):
					t.Errorf("key %q stands for %d, which was not stored", k.Text, first.Job)
				case err == nil:
					stored++
				case dispatch.Is(err, dispatch.LimitReached):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		store.AwaitJoining(c.Store, "ann", 4)
		c.accept(t, t.Context(), key, func(_ dispatch.Draft, first dispatch.KeyTarget, err error) {
			if err != nil || first.Job != keyed {
				t.Errorf("the key stands for %d, not %d: %v", first.Job, keyed, err)
			}
		})
		store.AwaitJoining(c.Store, "ann", 5)
		cancel()
	})
	if stored != 2 || refused != 1 {
		t.Errorf("%d jobs were accepted and %d refused", stored, refused)
	}
}
