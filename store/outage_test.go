package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestDeadlines_SilentServer: existing connections forward nothing any more, while new ones work. Every call returns
// within the limit of a statement, even if its context has none, and soon all calls work again.
func TestDeadlines_SilentServer(t *testing.T) {
	proxy := postgres.NewProxy(t, postgres.Database(t))
	s := open(t, proxy.URL, nil)
	lease := leased(t, s)
	useAll(t, s)
	proxy.Silence(false)
	began := time.Now()
	calls := map[string]func(context.Context) error{
		"Renew": func(ctx context.Context) error { return s.Renew(ctx, lease, time.Minute) },
		"Agenda": func(ctx context.Context) error {
			_, err := s.Agenda(ctx, "p/shared", 10, time.Hour)
			return err
		},
		"Records": func(ctx context.Context) error {
			_, err := s.Usage(ctx, "ann", time.Hour)
			return err
		},
		"Accept": func(ctx context.Context) error {
			_, err := s.Accept(ctx, dispatch.Key{}, nil, drafts(1))
			return err
		},
		"Ping": s.Ping,
	}
	var all sync.WaitGroup
	for name, call := range calls {
		for range 6 {
			all.Go(func() {
				err := call(context.Background())
				// 10 s, and 3 s for Ping, on a quiet machine
				if took := time.Since(began); took > 40*time.Second || name == "Ping" && took > 9*time.Second {
					t.Errorf("%s returned after %v", name, took)
				}
				if err != nil && !dispatch.Is(err, dispatch.Unavailable) && !dispatch.Is(err, dispatch.Uncertain) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	all.Wait()
	for name, call := range calls {
		for {
			err := call(context.Background())
			if err == nil {
				break
			}
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("%s after %v: %v", name, time.Since(began), err)
			}
		}
	}
	t.Logf("all work after %v", time.Since(began).Round(time.Millisecond))
}

// TestDeadlines_TransactionOfALostProcessEnds: a process is frozen, or disconnected without a reset, between two
// statements of a transaction that has locked an account. Another process leases the account within 20 s.
func TestDeadlines_TransactionOfALostProcessEnds(t *testing.T) {
	t.Parallel()
	dsn := postgres.Database(t)
	proxy := postgres.NewProxy(t, dsn)
	gone, s := open(t, proxy.URL, nil), open(t, dsn, nil)
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1)); err != nil {
		t.Fatal(err)
	}
	err := store.InVisit(t.Context(), gone, "p/shared", func() {
		proxy.Silence(true)
		began := time.Now()
		for time.Since(began) < time.Minute {
			leases, _, err := s.Dequeue(t.Context(), dispatch.Room{Platforms: map[string]int{"p": 1}}, time.Minute)
			if err != nil {
				t.Error(err)
			}
			if len(leases) == 1 {
				t.Logf("taken after %v", time.Since(began).Round(time.Millisecond))
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Error("nobody can take the account")
	})
	if !dispatch.Is(err, dispatch.Unavailable) {
		t.Errorf("the transaction ended with %v", err)
	}
}

// TestDeadlines_ResumedProcessSeesItsTransactionEnded: the server ends the transaction of a frozen process within a
// minute. On each connection it would do so after 15 s.
func TestDeadlines_ResumedProcessSeesItsTransactionEnded(t *testing.T) {
	t.Parallel()
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	err := store.InVisit(t.Context(), s, "p/shared", func() {
		postgres.Exec(t, dsn, `DO $$ BEGIN FOR tries IN 1..300 LOOP
			EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%');
			PERFORM pg_sleep(0.2); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
	})
	if !dispatch.Is(err, dispatch.Unavailable) {
		t.Errorf("the transaction ended with %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for pool, limit := range store.TransactionLimits(t, s) {
		if limit != "15s" {
			t.Errorf("the server ends a transaction of %s after %s without a statement", pool, limit)
		}
	}
}

// leased returns the lease of an account with a job.
func leased(t *testing.T, s *store.Store) dispatch.Lease {
	t.Helper()
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1)); err != nil {
		t.Fatal(err)
	}
	leases, _, err := s.Dequeue(t.Context(), dispatch.Room{Platforms: map[string]int{"p": 1}}, time.Minute)
	if err != nil || len(leases) != 1 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	return leases[0]
}

// useAll opens the connections that a store keeps.
func useAll(t *testing.T, s *store.Store) {
	t.Helper()
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			_, written := s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1))
			_, read := s.Usage(t.Context(), "ann", time.Hour)
			_, looked := s.Agenda(t.Context(), "p/shared", 10, time.Hour)
			for _, err := range []error{written, read, looked, s.Ping(t.Context())} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestDeadlines_ServerAcceptsButNeverAnswers: also when a store is opened, the connection is given up within
// connect_timeout.
func TestDeadlines_ServerAcceptsButNeverAnswers(t *testing.T) {
	proxy := postgres.NewProxy(t, postgres.Database(t))
	proxy.Silence(true)
	began := time.Now()
	_, err := store.Open(context.Background(), proxy.URL+"&connect_timeout=1", nil)
	if !dispatch.Is(err, dispatch.Unavailable) || time.Since(began) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestDeadlines_ForeignLockBlocksOnlyItsWaiters: somebody holds the lock of one user's quota. That user's submits wait;
// reads, visits, other users' submits and Ping do not.
func TestDeadlines_ForeignLockBlocksOnlyItsWaiters(t *testing.T) {
	dsn := postgres.Database(t)
	s, other := open(t, dsn, nil), open(t, dsn, nil)
	lease := leased(t, s)
	unlock, err := other.Lock(t.Context(), "jobs of ann")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() { _, _ = s.Accept(ctx, dispatch.Key{}, nil, drafts(1), dispatch.Quota{Live: 1000}) })
	}
	defer waiting.Wait()
	defer stop()
	awaitWaiter(t, dsn)
	bob := drafts(1)
	bob[0].Owner = "bob"
	began := time.Now()
	_, submitted := s.Accept(t.Context(), dispatch.Key{}, nil, bob, dispatch.Quota{Live: 1000})
	_, read := s.Records(t.Context(), "ann", dispatch.Page{})
	for what, err := range map[string]error{"submit": submitted, "read": read, "renew": s.Renew(t.Context(), lease,
		time.Minute), "ping": s.Ping(t.Context())} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if took := time.Since(began); took > 8*time.Second { // less than the 10 s for which the waiters wait
		t.Errorf("the others took %v", took)
	}
	unlock()
}

// TestPools_VisitsDoNotQueueBehindClients: four clients submit tasks of 1,000 jobs on one connection, while agendas are
// read.
func TestPools_VisitsDoNotQueueBehindClients(t *testing.T) {
	s := open(t, postgres.Database(t)+"&pool_max_conns=1", nil)
	leased(t, s)
	var clients sync.WaitGroup
	var tasks atomic.Int64
	done := make(chan struct{})
	stop := sync.OnceFunc(func() { close(done); clients.Wait() })
	defer stop()
	for range 4 {
		clients.Go(func() {
			for acceptTask(t, s) {
				tasks.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for tasks.Load() == 0 && !t.Failed() {
		<-time.After(time.Millisecond)
	}
	const agendas = 60
	before, began := tasks.Load(), time.Now()
	for range agendas {
		if _, err := s.Agenda(t.Context(), "p/shared", 10, time.Hour); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
	meanwhile, took := tasks.Load()-before, time.Since(began)
	stop()
	t.Logf("%d agendas were read while %d tasks were accepted, in %v", agendas, meanwhile, took)
	// behind clients at most one agenda would be read for each task, otherwise it is about ten
	if meanwhile > agendas*5/6 {
		t.Errorf("only %d agendas were read while %d tasks were accepted", agendas, meanwhile)
	}
}

// acceptTask accepts a task of 1,000 jobs of other accounts than p/shared.
func acceptTask(t *testing.T, s *store.Store) bool {
	jobs := drafts(1_000)
	for k := range jobs {
		jobs[k].Account = "q/shared"
	}
	task := &dispatch.Task{Owner: jobs[0].Owner, Account: jobs[0].Account,
		Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}
	_, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs)
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestPools_LeaveAReadOnlyServer: its connections are dropped, and new ones are opened.
func TestPools_LeaveAReadOnlyServer(t *testing.T) {
	dsn := postgres.Database(t)
	proxy := postgres.NewProxy(t, dsn)
	s := open(t, proxy.URL, nil)
	useAll(t, s)
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	postgres.Exec(t, dsn, `ALTER DATABASE `+name+` SET default_transaction_read_only = on`)
	proxy.Cut() // the next connections lead to a server that cannot write
	deadline := time.Now().Add(2 * time.Minute)
	var err error
	for !strings.Contains(fmt.Sprint(err), "25006") && time.Now().Before(deadline) {
		_, err = s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1))
	}
	if !dispatch.Is(err, dispatch.Unavailable) || dispatch.DatabaseError(err) == nil ||
		dispatch.TextFor(err) != "The database cannot be written." {
		t.Fatal(err)
	}
	postgres.Exec(t, strings.Replace(dsn, name, "postgres", 1), `ALTER DATABASE `+name+
		` SET default_transaction_read_only = off`)
	for range 20 { // each connection that was in use meanwhile may fail once
		if _, err = s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1)); err == nil {
			return
		}
	}
	t.Errorf("it stays with the server that cannot write: %v", err)
}
