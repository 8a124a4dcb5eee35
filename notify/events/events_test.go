package events_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/notify/events"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
)

// skewed is a clock that tests put forward, so that pauses pass.
type skewed struct {
	mu      sync.Mutex
	forward time.Duration
}

func (c *skewed) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.forward)
}

func (c *skewed) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forward += d
}

// receiver records what arrives and answers as instructed.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answer  http.HandlerFunc
	got     []string // ids of events, in the order in which they arrived
	arrived chan struct{}
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{arrived: make(chan struct{}, 1<<16)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(q.Body)
		var event struct{ ID string }
		if err != nil || json.Unmarshal(text, &event) != nil || event.ID != q.Header.Get("Webhook-Id") {
			t.Errorf("%s, %v", text, err)
		}
		r.mu.Lock()
		r.got = append(r.got, event.ID)
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, q)
		}
		r.arrived <- struct{}{}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(f http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// await waits until so many more messages have arrived.
func (r *receiver) await(t testing.TB, n int) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for i := range n {
		select {
		case <-r.arrived:
		case <-limit:
			t.Fatalf("%d of %d messages arrived", i, n)
		}
	}
}

// outbox is a store with jobs that have not ended, and a running sender.
type outbox struct {
	testing.TB
	kept   *store.Store
	sender *events.Sender
	clock  *skewed
	key    dispatch.Secret // of the vault
	jobs   []dispatch.Job
}

func newOutbox(t testing.TB, jobs int) *outbox {
	t.Helper()
	return newOutboxIn(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), jobs)
}

func newOutboxIn(t testing.TB, database string, jobs int) *outbox {
	t.Helper()
	o := &outbox{TB: t, clock: &skewed{}}
	var err error
	if o.kept, err = store.Open(t.Context(), database, o.clock); err != nil {
		t.Fatal(err)
	}
	o.key = identity.NewKey(time.Now())
	ring, err := identity.ParseKeyring(o.key)
	if err != nil {
		t.Fatal(err)
	}
	drafts := make([]dispatch.Draft, jobs)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: []byte(`{"parameters":{}}`), Job: dispatch.Job{
			Identity: dispatch.Identity{Number: i + 1, Owner: "ann"}, Target: dispatch.Target{Account: "p/shared"},
			Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	if jobs > 0 {
		if _, err := o.kept.Accept(t.Context(), dispatch.Key{}, nil, drafts); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range drafts {
		o.jobs = append(o.jobs, d.Job)
	}
	o.sender = events.New(events.Config{Store: o.kept, Secrets: identity.NewHookSecrets(ring),
		Client: upstream.New(upstream.Config{Development: true}),
		Source: "https://d.example.org", Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = o.kept.Close() })
	return o
}

// run runs the sender until the returned function is called.
func (o *outbox) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.sender.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	o.Cleanup(stop)
	return stop
}

func (o *outbox) hook(u dispatch.UserID, url string) dispatch.Hook {
	o.Helper()
	h, secret, err := o.sender.Create(o.Context(), u, dispatch.Notify{Kind: dispatch.Webhook, URL: url,
		Statuses: []dispatch.Status{dispatch.Finished, dispatch.Failed}})
	if err != nil || secret == "" || h.Text == "" || h.Text == secret.Reveal() {
		o.Fatal(h, err)
	}
	return h
}

// end ends jobs.
func (o *outbox) end(jobs []dispatch.Job, status dispatch.Status) {
	o.Helper()
	ended := slices.Clone(jobs)
	for i := range ended {
		ended[i].Phase, ended[i].Status, ended[i].Epoch, ended[i].Updated = dispatch.Ended, status, ended[i].Epoch+1,
			o.clock.Now()
	}
	saved, err := o.kept.Save(o.Context(), ended)
	if err != nil || len(saved) != len(jobs) {
		o.Fatal(len(saved), err)
	}
	copy(jobs, saved)
}

// awaitState waits until all deliveries of a hook that are shown have a state.
func (o *outbox) awaitState(h dispatch.Hook, want dispatch.DeliveryState) (all []dispatch.Delivery) {
	o.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		all, err := o.kept.Deliveries(o.Context(), h.Owner, h.ID, 100)
		if err != nil {
			o.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(d dispatch.Delivery) bool { return d.State != want }) {
			return all
		}
		if time.Now().After(end) {
			o.Fatalf("not all are %s: %+v", want, all)
		}
	}
}

// TestSender_ReceiverIsDown: 500 ends, and a receiver that is down. It is tried with one message at a time, another
// user's hook is served meanwhile, and all arrive once it is up again. After a crash of the process another continues.
func TestSender_ReceiverIsDown(t *testing.T) {
	const n = 500
	o, down, up := newOutbox(t, n), newReceiver(t), newReceiver(t)
	down.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	h, other := o.hook("ann", down.URL), o.hook("bob", up.URL)
	o.end(o.jobs, dispatch.Finished)
	stop := o.run()
	down.await(t, 1)
	if err := o.kept.TestHook(t.Context(), "bob", other.ID); err != nil {
		t.Fatal(err)
	}
	up.await(t, 1)
	o.awaitState(other, dispatch.DeliveryDone)
	stop()
	tried := len(down.received())
	if tried > 80 { // a first round of 64, and then one at a time
		t.Errorf("a receiver that is down got %d messages", tried)
	}
	down.answers(nil)
	o.clock.pass(10 * time.Minute)
	o.run()
	for end := time.Now().Add(3 * time.Minute); ; down.await(t, 1) {
		ids := down.received()
		slices.Sort(ids)
		if len(slices.Compact(ids)) == n && len(down.received()) >= n+tried {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d arrived", len(ids), n)
		}
	}
	o.awaitState(h, dispatch.DeliveryDone)
}

// TestSender_Gone: 410 ends the hook; sending again revives it.
func TestSender_Gone(t *testing.T) {
	o, r := newOutbox(t, 2), newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	h := o.hook("ann", r.URL)
	o.end(o.jobs[:1], dispatch.Finished)
	o.run()
	r.await(t, 1)
	failed := o.awaitState(h, dispatch.DeliveryFailed)
	if len(failed) != 1 || failed[0].Answer != http.StatusGone {
		t.Errorf("%+v", failed)
	}
	r.answers(nil)
	if err := o.kept.SendAgain(t.Context(), "ann", h.ID, failed[0].Event); err != nil {
		t.Fatal(err)
	}
	r.await(t, 1)
	o.awaitState(h, dispatch.DeliveryDone)
	if got := r.received(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("the id changed: %v", got)
	}
}

// TestSender_KeysChange: hooks go on after the key that sealed their secrets was rotated out. Without rotation nothing
// is lost.
func TestSender_KeysChange(t *testing.T) {
	o, r := newOutbox(t, 1), newReceiver(t)
	h := o.hook("ann", r.URL)
	fresh := dispatch.Secret("fresh:" + strings.SplitN(identity.NewKey(time.Now()).Reveal(), ":", 2)[1])
	only, err := identity.ParseKeyring(fresh)
	both, failed := identity.ParseKeyring(fresh + "," + o.key)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	o.sender.Secrets = identity.NewHookSecrets(only)
	o.end(o.jobs, dispatch.Finished)
	stop := o.run()
	for end := time.Now().Add(time.Minute); o.awaitState(h, dispatch.DeliveryWaiting)[0].Tries == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("no try was made")
		}
	}
	stop()
	if n, err := identity.Rotate(t.Context(), o.kept, both); !slices.Contains(n,
		identity.Rotated{What: "secrets of hooks", Rows: 1}) || err != nil {
		t.Fatal(n, err)
	}
	o.clock.pass(time.Hour)
	o.run()
	r.await(t, 1)
	o.awaitState(h, dispatch.DeliveryDone)
}

// TestSender_HostileReceivers answer without end, or redirect, or ask for a pause of years. Each is one failed or
// successful try.
func TestSender_HostileReceivers(t *testing.T) {
	within := newReceiver(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		state  dispatch.DeliveryState
	}{
		"a gigabyte": {func(w http.ResponseWriter, _ *http.Request) {
			piece := make([]byte, 1<<20)
			for range 1 << 10 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
			t.Error("all was read")
		}, dispatch.DeliveryDone},
		"a byte a second": {func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(http.StatusOK)
			for again := time.NewTicker(time.Second); ; <-again.C {
				if _, err := w.Write([]byte{' '}); err != nil || q.Context().Err() != nil {
					again.Stop()
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		}, dispatch.DeliveryDone},
		"redirect": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, within.URL, http.StatusTemporaryRedirect)
		}, dispatch.DeliveryWaiting},
		"a pause of years": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		}, dispatch.DeliveryWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			o, r := newOutbox(t, 1), newReceiver(t)
			r.answers(c.answer)
			h := o.hook("ann", r.URL)
			o.end(o.jobs, dispatch.Failed)
			stop := o.run()
			r.await(t, 1)
			stop()
			all := o.awaitState(h, c.state)
			if len(all) != 1 || all[0].Tries != 1 || (c.state == dispatch.DeliveryDone) != (all[0].Notice == "") ||
				all[0].Due.Sub(o.clock.Now()) > 2*time.Hour {
				t.Errorf("%+v", all)
			}
		})
	}
	if len(within.received()) != 0 {
		t.Error("a redirect was followed")
	}
}

// TestSender_PrivateAddresses are refused when the hook is created.
func TestSender_PrivateAddresses(t *testing.T) {
	o := newOutbox(t, 0)
	o.sender.Client = upstream.New(upstream.Config{Trust: []string{"http://10.0.0.5:8080"}})
	for _, url := range []string{"https://127.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/",
		"http://example.org/", "https://example.org:22/", "ftp://example.org/", "https://u:p@example.org/", "no url"} {
		if _, _, err := o.sender.Create(t.Context(), "ann", dispatch.Notify{Kind: dispatch.Webhook,
			URL: url}); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	o.hook("ann", "http://10.0.0.5:8080/receive")
	o.hook("ann", "https://receiver.example.org/receive")
}

// TestSender_OneJob: the hook of one job without a secret is sent an unsigned message, and one of another kind what its
// form writes. Without a vault, nothing that is to be signed is accepted.
func TestSender_OneJob(t *testing.T) {
	o, bodies := newOutbox(t, 1), make(chan string, 10)
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(q.Body)
		if err != nil || q.Header.Get("Webhook-Signature") != "" || q.Header.Get("Webhook-Id") == "" {
			t.Errorf("%v, %v", q.Header, err)
		}
		bodies <- q.URL.Path + " " + q.Header.Get("Content-Type") + " " + string(text)
	}))
	t.Cleanup(r.Close)
	o.sender.Secrets = nil
	o.sender.Forms = map[dispatch.HookKind]events.Form{dispatch.OGCSubscriber: func(_ context.Context, h dispatch.Hook,
		d dispatch.Delivery) ([]byte, string, error) {
		return []byte(string(h.Kind) + " " + string(d.Status)), "text/plain", nil
	}}
	draft := dispatch.Draft{Body: []byte(`{"parameters":{}}`), Job: o.jobs[0]}
	for _, n := range []dispatch.Notify{{Kind: dispatch.Webhook, URL: r.URL + "/event",
		Statuses: []dispatch.Status{dispatch.Finished}},
		{Kind: dispatch.OGCSubscriber, URL: r.URL + "/ogc", Statuses: []dispatch.Status{dispatch.Finished}}} {
		h, err := o.sender.Target("ann", n)
		if err != nil {
			t.Fatal(err)
		}
		draft.Hooks = append(draft.Hooks, h)
	}
	drafts := []dispatch.Draft{draft}
	if _, err := o.kept.Accept(t.Context(), dispatch.Key{}, nil, drafts); err != nil {
		t.Fatal(err)
	}
	o.end([]dispatch.Job{o.jobs[0], drafts[0].Job}, dispatch.Finished) // another one, too
	o.run()
	var got []string
	for range 2 {
		select {
		case text := <-bodies:
			got = append(got, text)
		case <-time.After(time.Minute):
			t.Fatal("no message")
		}
	}
	slices.Sort(got)
	if !strings.HasPrefix(got[0], `/event application/cloudevents+json; charset=utf-8 {"specversion":"1.0","id":"job-`+
		strconv.FormatInt(int64(drafts[0].ID), 10)+"-") || got[1] != "/ogc text/plain ogc finished" {
		t.Errorf("%q", got)
	}
	for name, n := range map[string]dispatch.Notify{
		"no vault":     {Kind: dispatch.Webhook, URL: r.URL, Secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		"unknown kind": {Kind: "pigeon", URL: r.URL},
	} {
		if _, err := o.sender.Target("ann", n); !dispatch.Is(err, dispatch.Unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := o.sender.Create(t.Context(), "ann", dispatch.Notify{Kind: dispatch.Webhook,
		URL: r.URL}); !dispatch.Is(err, dispatch.Unsupported) ||
		!strings.Contains(dispatch.TextFor(err), "vault.keys") {
		t.Errorf("a hook without a vault: %v", err)
	}
}

// TestSender_MessageNotWritten: a message that cannot be written is tried again later, its owner sees why, and its
// receiver, which was not asked, is not to blame.
func TestSender_MessageNotWritten(t *testing.T) {
	o, r := newOutbox(t, 0), newReceiver(t)
	var written atomic.Bool
	o.sender.Forms = map[dispatch.HookKind]events.Form{dispatch.OGCSubscriber: func(_ context.Context, _ dispatch.Hook,
		d dispatch.Delivery) ([]byte, string, error) {
		if !written.Load() {
			return nil, "", &dispatch.Error{Kind: dispatch.Busy, Text: "Its platform gives no results yet."}
		}
		return []byte(`{"id": "` + d.Event.String() + `"}`), "application/json", nil
	}}
	h, err := o.sender.Target("ann", dispatch.Notify{Kind: dispatch.OGCSubscriber, URL: r.URL,
		Statuses: []dispatch.Status{dispatch.Finished}})
	if err != nil {
		t.Fatal(err)
	}
	drafts := []dispatch.Draft{{Body: []byte(`{"parameters":{}}`), Job: dispatch.Job{
		Identity: dispatch.Identity{Number: 1, Owner: "ann"}, Target: dispatch.Target{Account: "p/shared"},
		Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
		Condition: dispatch.Condition{Status: dispatch.Accepted}}, Hooks: []dispatch.Hook{h}}}
	if _, err := o.kept.Accept(t.Context(), dispatch.Key{}, nil, drafts); err != nil {
		t.Fatal(err)
	}
	o.end([]dispatch.Job{drafts[0].Job}, dispatch.Finished)
	o.run()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		all, err := o.kept.Deliveries(t.Context(), "ann", h.ID, 10)
		if err != nil || len(all) != 1 || time.Now().After(end) {
			t.Fatalf("%+v, %v", all, err)
		}
		if all[0].Notice == "Its platform gives no results yet." {
			break
		}
	}
	if got, err := o.kept.Hook(t.Context(), "ann", h.ID); err != nil || got.Failures != 0 || !got.Hold.IsZero() {
		t.Errorf("the receiver is blamed: %+v, %v", got, err)
	}
	written.Store(true)
	o.clock.pass(2 * time.Hour)
	r.await(t, 1)
	o.awaitState(h, dispatch.DeliveryDone)
}
