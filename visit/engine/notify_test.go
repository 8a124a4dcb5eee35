package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// process receives, on a channel, what other processes send. It is listening when process returns.
func process(t *testing.T, url string) (*engine.Postgres, <-chan engine.Notification) {
	t.Helper()
	p := engine.NewPostgres(url, slog.New(slog.DiscardHandler))
	heard := make(chan engine.Notification, 10_000)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx, func(n engine.Notification) { heard <- n }) })
	t.Cleanup(func() { stop(); running.Wait() })
	if n := hear(t, heard); len(n.Woken)+len(n.Saved)+len(n.Shown) > 0 {
		t.Errorf("news before there was any: %v", n)
	}
	return p, heard
}

func hear(t *testing.T, heard <-chan engine.Notification) engine.Notification {
	t.Helper()
	select {
	case n := <-heard:
		return n
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was heard")
		return engine.Notification{}
	}
}

// collect receives until every id was saved and every account woken.
func collect(t *testing.T, heard <-chan engine.Notification, woken []dispatch.Account, saved []dispatch.JobID,
	shown []dispatch.UserID) {
	t.Helper()
	accounts, jobs, users := map[dispatch.Account]bool{}, map[dispatch.JobID]bool{}, map[dispatch.UserID]bool{}
	for len(accounts) < len(woken) || len(jobs) < len(saved) || len(users) < len(shown) {
		n := hear(t, heard)
		for _, a := range n.Woken {
			accounts[a] = true
		}
		for _, id := range n.Saved {
			jobs[id] = true
		}
		for _, u := range n.Shown {
			users[u] = true
		}
	}
	for _, u := range shown {
		if !users[u] {
			t.Errorf("%s was not heard", u)
		}
	}
	for _, a := range woken {
		if !accounts[a] {
			t.Errorf("%s was not heard", a)
		}
	}
	for _, id := range saved {
		if !jobs[id] {
			t.Errorf("%d was not heard", id)
		}
	}
}

func TestPostgres_NotifiesOtherProcesses(t *testing.T) {
	url := postgres.Database(t)
	one, mine := process(t, url)
	_, others := process(t, url)
	_, thirds := process(t, url)
	var woken []dispatch.Account
	var saved []dispatch.JobID
	var shown []dispatch.UserID
	for i := range 3000 { // much more than fits into a notification
		woken = append(woken, dispatch.Account(fmt.Sprintf("p/https://idp.example/realms/%s \"é\" %d",
			strings.Repeat("x", i%50), i)))
		saved = append(saved, dispatch.JobID(1e15+i))
		shown = append(shown, dispatch.UserID(fmt.Sprintf("https://idp.example/realms/a \"%d\"", i)))
	}
	one.Notify(engine.Notification{Woken: woken})
	one.Notify(engine.Notification{Saved: saved})
	one.Notify(engine.Notification{Shown: shown})
	collect(t, others, woken, saved, shown)
	collect(t, thirds, woken, saved, shown)
	for len(mine) > 0 {
		if n := <-mine; len(n.Woken)+len(n.Saved)+len(n.Shown) > 0 { // an empty one comes after each new connection
			t.Errorf("a process heard itself: %.200v", n)
		}
	}
}

// TestPostgres_NamesItsConnections as the store does, so that operators see in pg_stat_activity whose they are.
func TestPostgres_NamesItsConnections(t *testing.T) {
	url := postgres.Database(t)
	process(t, url)
	host, _ := os.Hostname()
	postgres.Exec(t, url, fmt.Sprintf(`DO $$ BEGIN
		ASSERT (SELECT count(*) > 0 AND bool_and(application_name = 'eodispatch %s hints') FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'),
			(SELECT string_agg(application_name, ', ') FROM pg_stat_activity WHERE datname = current_database());
	END $$`, host))
}

func TestPostgres_ReconnectsAfterACut(t *testing.T) {
	url := postgres.Database(t)
	one, _ := process(t, url)
	_, heard := process(t, url)
	postgres.Exec(t, url,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	// once it listens again: read everything, for what was missed
	if n := hear(t, heard); len(n.Woken)+len(n.Saved)+len(n.Shown) > 0 {
		t.Errorf("heard %v", n)
	}
	// the connection is gone: it is sent over the next one
	one.Notify(engine.Notification{Woken: []dispatch.Account{"p/shared"}})
	for {
		switch n := hear(t, heard); {
		case len(n.Woken) == 1 && n.Woken[0] == "p/shared":
			return
		case len(n.Woken)+len(n.Saved)+len(n.Shown) > 0:
			t.Fatalf("heard %v", n)
		}
	}
}

// TestPostgres_PollsBehindAPooler: behind a pooler in transaction mode LISTEN succeeds, and nothing arrives. That is
// logged once, and the process polls every 2 seconds.
func TestPostgres_PollsBehindAPooler(t *testing.T) {
	t.Parallel()
	proxy := postgres.NewProxy(t, postgres.Database(t))
	proxy.DropNotifications(true)
	var said lines
	p := engine.NewPostgres(proxy.URL, slog.New(slog.NewTextHandler(&said, nil)))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	const enough = 6
	looks, began := 0, time.Now()
	p.Run(ctx, func(n engine.Notification) {
		if len(n.Woken)+len(n.Saved)+len(n.Shown) == 0 {
			looks++
		}
		if looks == enough {
			stop()
		}
	})
	// one look is the first, one that after the silence, and a late one may come close to its next
	if took := time.Since(began); looks < enough || took < (enough-3)*2*time.Second {
		t.Errorf("checked %d times in %v", looks, took)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "LISTEN is silent behind a pooler; falling back to polling every 2 s") {
		t.Errorf("said %s", text)
	}
}

// TestPostgres_PreparesNothing: a pooler in transaction mode, which loses prepared statements, passes notifications on.
func TestPostgres_PreparesNothing(t *testing.T) {
	t.Parallel()
	server := postgres.NewServer(t)
	var log lines
	p := engine.NewPostgres(postgres.NewPooler(t, server), slog.New(slog.NewTextHandler(&log, nil)))
	_, heard := process(t, server.URL)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { p.Run(ctx, func(engine.Notification) {}) })
	for i := range 3 {
		p.Notify(engine.Notification{Saved: []dispatch.JobID{dispatch.JobID(i + 1)}})
		collect(t, heard, nil, []dispatch.JobID{dispatch.JobID(i + 1)}, nil)
	}
	if text := log.String(); strings.Contains(text, "lost the connection") {
		t.Errorf("logged %s", text)
	}
}

// TestPostgres_ReconnectsToASilentServer: the connections forward nothing any more, and are not closed. New ones are
// opened.
func TestPostgres_ReconnectsToASilentServer(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	proxy := postgres.NewProxy(t, url)
	_, heard := process(t, proxy.URL)
	one, _ := process(t, url)
	proxy.Silence(false)
	began := time.Now()
	for {
		one.Notify(engine.Notification{Shown: []dispatch.UserID{"ann"}})
		select {
		case n := <-heard:
			if len(n.Shown) == 1 {
				return
			}
		case <-time.After(time.Second):
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatal("nothing is heard any more")
		}
	}
}

// TestPostgres_LogsARefusingServerOnce: a standby accepts connections, and refuses each notification.
func TestPostgres_LogsARefusingServerOnce(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	postgres.Exec(t, url, `CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
		$$BEGIN RAISE EXCEPTION 'cannot execute NOTIFY during recovery' USING ERRCODE = '25006'; END$$;
		DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END$$`)
	var said lines
	p := engine.NewPostgres(url, slog.New(slog.NewTextHandler(&said, nil)))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	go func() { // ends some attempts after the first has failed
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil && strings.Count(said.String(), "\n") < 1 {
			<-again.C
		}
		<-time.After(4 * time.Second)
		stop()
	}()
	p.Notify(engine.Notification{Woken: []dispatch.Account{"p/shared"}})
	p.Run(ctx, func(engine.Notification) {})
	if text := said.String(); strings.Count(text, "\n") != 1 ||
		strings.Count(text, "lost the connection for notifications") != 1 {
		t.Errorf("said %s", text)
	}
}

// TestPostgres_IgnoresPoolSettings: they are for the store's pools, and the server would refuse them.
func TestPostgres_IgnoresPoolSettings(t *testing.T) {
	url := postgres.Database(t) + "&pool_max_conns=6&pool_max_conn_idle_time=1m&pool_ping_timeout=2s"
	one, _ := process(t, url)
	_, heard := process(t, url)
	one.Notify(engine.Notification{Woken: []dispatch.Account{"p/shared"}})
	collect(t, heard, []dispatch.Account{"p/shared"}, nil, nil)
}

// lines is the log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A wake in a process without room starts a visit in another, and one for an account that is visited there reaches the
// visit.
func TestEngine_WakesOtherProcesses(t *testing.T) {
	url := postgres.Database(t)
	hints := func() engine.Notifier { return engine.NewPostgres(url, slog.New(slog.DiscardHandler)) }
	begun, woken, saved := make(chan dispatch.Lease, 10), make(chan dispatch.Account, 200), make(chan []dispatch.JobID,
		200)
	s := open(t, url)
	release := make(chan struct{})
	visiting := engine.New(engine.Config{Store: s, Log: slog.New(slog.DiscardHandler), Notifier: hints(),
		OnWake: func(a dispatch.Account) { woken <- a }, OnBroadcast: func(ids []dispatch.JobID, _ []dispatch.UserID) {
			saved <- ids
		}, Visit: func(ctx context.Context, l dispatch.Lease) error {
			begun <- l
			<-release // before the engine is waited for
			return s.Release(context.WithoutCancel(ctx), l, 1, time.Time{})
		}})
	full := engine.New(engine.Config{Store: s, Log: slog.New(slog.DiscardHandler), Notifier: hints(), Visits: -1})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { visiting.Run(ctx) })
	running.Go(func() { full.Run(ctx) })
	defer running.Wait()
	defer stop()
	defer close(release)

	jobs := []dispatch.Draft{{Body: []byte(`{}`), Job: dispatch.Job{Identity: dispatch.Identity{Owner: "ann"},
		Target: dispatch.Target{Account: "p/shared"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}}}}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
		t.Fatal(err)
	}
	full.Wake("p/shared")
	<-begun
	until(t, func() { full.Wake("p/shared") }, woken, func(a dispatch.Account) bool { return a == "p/shared" })
	until(t, func() { full.Broadcast([]dispatch.JobID{4, 5}, nil) }, saved,
		func(ids []dispatch.JobID) bool { return len(ids) == 2 })
}

// until sends repeatedly, since what is sent before the other process listens is lost, until the expected notification
// arrived.
func until[T any](t *testing.T, tell func(), heard <-chan T, wanted func(T) bool) {
	t.Helper()
	end := time.After(2 * time.Minute)
	for {
		tell()
		select {
		case got := <-heard:
			if wanted(got) {
				return
			}
		case <-time.After(200 * time.Millisecond):
		case <-end:
			t.Fatal("it was not heard")
		}
	}
}

func TestEngine_LimitsVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conformance.NewMemStore(wall{})
		var mu sync.Mutex
		now, most, done := 0, 0, 0
		e := engine.New(engine.Config{Store: s, Log: slog.New(slog.DiscardHandler), Visits: 3,
			Visit: func(ctx context.Context, l dispatch.Lease) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				done++
				mu.Unlock()
				return s.Release(context.WithoutCancel(ctx), l, 1, time.Time{})
			}})
		for i := range 10 {
			jobs := []dispatch.Draft{{Job: dispatch.Job{
				Target: dispatch.Target{Account: dispatch.Account(fmt.Sprintf("p/%d", i))}}}}
			if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(4*time.Second+time.Millisecond, stop)
		e.Run(ctx)
		if most != 3 || done != 10 {
			t.Errorf("%d at once, %d done after %v", most, done, time.Since(began))
		}
	})
}

// flaky is a store that does not respond at first.
type flaky struct {
	conformance.Store
	failures int
}

func (s *flaky) Dequeue(ctx context.Context, r dispatch.Room, ttl time.Duration) ([]dispatch.Lease, time.Duration,
	error) {
	if s.failures--; s.failures >= 0 {
		return nil, 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Dequeue",
			Text: "The database does not answer."}
	}
	return s.Store.Dequeue(ctx, r, ttl)
}

func TestEngine_RetriesAnUnresponsiveStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{Store: conformance.NewMemStore(wall{}), failures: 3}
		ctx, stop := context.WithCancel(t.Context())
		e := engine.New(engine.Config{Store: s, Log: slog.New(slog.DiscardHandler), Visit: func(ctx context.Context,
			l dispatch.Lease) error {
			stop()
			return s.Release(context.WithoutCancel(ctx), l, 1, time.Time{})
		}})
		jobs := []dispatch.Draft{{Job: dispatch.Job{Target: dispatch.Target{Account: "p/shared"}}}}
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		e.Run(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("visited after %v", took)
		}
	})
}
