package broker_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// defined is a platform whose services are defined by documents at their application's URL. It keeps count of what is
// fetched at once.
type defined struct {
	script
	documents *upstream.Cache[string]
	ends      atomic.Bool // its jobs are finished when they are read

	mu      sync.Mutex
	bad     map[string]func(context.Context) error // by URL; others are there at once
	fetched map[string]int
	now     map[string]int // under way, in all and by host
	most    map[string]int
}

func newDefined() *defined {
	return &defined{documents: upstream.NewCache(upstream.CacheConfig[string]{Fresh: time.Minute,
		MaxPause: 10 * time.Minute}),
		bad: map[string]func(context.Context) error{}, fetched: map[string]int{}, now: map[string]int{},
		most: map[string]int{}}
}

// hangs is a document that does not come.
func hangs(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	return failure(dispatch.DocumentUnreachable)
}

func fails(k dispatch.Kind) func(context.Context) error {
	return func(context.Context) error { return failure(k) }
}

func (d *defined) set(url string, bad func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad[url] = bad
}

func (d *defined) count(keys []string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		d.now[k] += n
		d.most[k] = max(d.most[k], d.now[k])
	}
}

// counted is a copy of counts, which change while documents are fetched.
func (d *defined) counted(counts map[string]int) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(counts)
}

func (d *defined) fetch(url string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, _ string) (string, error) {
		keys := []string{"", strings.Split(url, "/")[2]}
		if strings.HasPrefix(url, "https://good.example/") {
			keys = nil
		}
		d.count(keys, 1)
		defer d.count(keys, -1)
		d.mu.Lock()
		bad := d.bad[url]
		d.fetched[url]++
		d.mu.Unlock()
		if bad != nil {
			return "", bad(ctx)
		}
		return "document", nil
	}
}

func (d *defined) Needs(s dispatch.Service) (string, error) {
	e := d.documents.Peek(s.Application)
	switch left := time.Until(e.Until); {
	case left <= 0:
		return s.Application, nil
	case dispatch.Is(e.Err, dispatch.DocumentUnreachable):
		return "", &dispatch.Error{Kind: dispatch.DocumentUnreachable, Text: "because of " + s.Application,
			RetryAfter: left}
	default:
		return "", e.Err
	}
}

func (d *defined) Prepare(ctx context.Context, s dispatch.Service) error {
	_, err := d.documents.Refresh(ctx, s.Application, d.fetch(s.Application))
	return err
}

// Submit fetches what is not at hand, as an adapter does.
func (d *defined) Submit(ctx context.Context, t dispatch.Token, sub dispatch.Submission) (dispatch.SubmitResult,
	error) {
	if _, err := d.documents.Get(ctx, sub.Service.Application, d.fetch(sub.Service.Application)); err != nil {
		return dispatch.SubmitResult{}, err
	}
	time.Sleep(100 * time.Millisecond)
	return d.script.Submit(ctx, t, sub)
}

func (d *defined) Status(ctx context.Context, t dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	if d.ends.Load() {
		return dispatch.Report{Status: dispatch.Finished}, nil
	}
	return d.script.Status(ctx, t, r)
}

// withDefined runs a test in its own time with a broker at a platform that all users share.
func withDefined(t *testing.T, change func(*broker.Broker), test func(*testing.T, *testBroker, *defined)) {
	synctest.Test(t, func(t *testing.T) {
		p := newDefined()
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
		if change != nil {
			change(h.Broker)
		}
		defer func() {
			h.stop()
			time.Sleep(3 * time.Minute) // what was begun ends
		}()
		test(t, h, p)
	})
}

func (h *testBroker) submits(t *testing.T, u dispatch.UserID, url string) (dispatch.Record, error) {
	t.Helper()
	r := request("a")
	r.Service.Application = url
	return h.Accept(t.Context(), u, r, dispatch.Key{})
}

func (h *testBroker) one(t *testing.T, u dispatch.UserID, url string) dispatch.Record {
	t.Helper()
	r, err := h.submits(t, u, url)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (h *testBroker) of(t *testing.T, u dispatch.UserID, id dispatch.JobID) dispatch.Record {
	t.Helper()
	r, err := h.Read(t.Context(), u, id, broker.AsKnown)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// well fails if the platform, or the account, is said to have any trouble.
func (h *testBroker) well(t *testing.T, u dispatch.UserID) {
	t.Helper()
	all, _, _, err := h.Platforms(t.Context(), u)
	if err != nil || all[0].State != dispatch.StateOK && all[0].State != dispatch.StateUnknown ||
		all[0].Why != dispatch.None || !all[0].Failed.IsZero() {
		t.Errorf("the platform is said to be %s, %q, failed at %v: %v", all[0].State, all[0].Why, all[0].Failed, err)
	}
}

// together runs n at once and waits for all.
func together(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}

// TestPrepare_HangingDocumentDelaysNobody: twelve documents of one user never come. Another's jobs, and the same user's
// with other documents, are submitted at once; the platform is well; each job says what it waits for, and goes on when
// it comes.
func TestPrepare_HangingDocumentDelaysNobody(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		url := func(i int) string { return fmt.Sprintf("https://hangs.example/%d", i) }
		stuck := make([]dispatch.Record, 12)
		for i := range stuck {
			p.set(url(i), hangs)
		}
		together(len(stuck), func(i int) {
			begin := time.Now()
			stuck[i] = h.one(t, "ann", url(i))
			if took := time.Since(begin); took > 6*time.Second {
				t.Errorf("submitting took %v", took)
			}
		})
		for range 60 {
			begin := time.Now()
			for _, u := range []dispatch.UserID{"bob", "ann"} {
				if r := h.one(t, u, "https://good.example/"+string(u)); r.Status != dispatch.Submitted {
					t.Fatalf("%s's other job is %s %q", u, r.Status, r.Attention)
				}
			}
			if took := time.Since(begin); took > 400*time.Millisecond {
				t.Errorf("others were submitted after %v", took)
			}
			h.finish(t, p)
			time.Sleep(time.Second)
		}
		h.well(t, "bob")
		for _, r := range stuck {
			r = h.of(t, "ann", r.ID)
			if r.Status != dispatch.Accepted || r.Attention != dispatch.ApplicationUnreachable || r.Notice == "" ||
				r.Ahead != nil {
				t.Errorf("%s %q %q, %v ahead", r.Status, r.Attention, r.Notice, r.Ahead)
			}
		}
		for i := range stuck {
			p.set(url(i), nil)
		}
		time.Sleep(11 * time.Minute)
		h.finish(t, p)
		time.Sleep(11 * time.Minute)
		for _, r := range stuck {
			if r = h.of(t, "ann", r.ID); r.Status != dispatch.Finished || r.Attention != dispatch.None {
				t.Errorf("when the documents came: %s %q", r.Status, r.Attention)
			}
		}
		if p.counted(p.most)["hangs.example"] > 4 || p.counted(p.most)[""] > 8 {
			t.Errorf("fetched at once: %v", p.counted(p.most))
		}
	})
}

// finish lets all jobs that run end.
func (h *testBroker) finish(t *testing.T, p *defined) {
	t.Helper()
	p.ends.Store(true)
	time.Sleep(6 * time.Second)
}

// TestPrepare_TwoHundredBadDocuments of one user hold up nobody, however they are bad, and each is fetched with growing
// pauses.
func TestPrepare_TwoHundredBadDocuments(t *testing.T) {
	withDefined(t, func(b *broker.Broker) { b.Backends[0].Limits.Jobs = 1 }, func(t *testing.T, h *testBroker,
		p *defined) {
		h.finish(t, p)
		alone := h.lasts(t)
		bad := []func(context.Context) error{hangs, fails(dispatch.DocumentUnreachable),
			fails(dispatch.DocumentInvalid)}
		ids := make([]dispatch.JobID, 200)
		var submitting sync.WaitGroup
		submitting.Go(func() {
			together(len(ids), func(i int) {
				url := fmt.Sprintf("https://%d.example/%d", i%20, i)
				p.set(url, bad[i%3])
				r, err := h.submits(t, "ann", url)
				if err != nil && !dispatch.Is(err, dispatch.DocumentInvalid) {
					t.Error(err)
				}
				ids[i] = r.ID
			})
		})
		for range 30 {
			if took := h.lasts(t); took > alone+300*time.Millisecond {
				t.Errorf("another's job took %v, alone %v", took, alone)
			}
		}
		submitting.Wait()
		h.well(t, "bob")
		time.Sleep(time.Hour)
		for i, id := range ids {
			if id == 0 {
				continue
			}
			r := h.of(t, "ann", id)
			if invalid := i%3 == 2; invalid && r.Attention != dispatch.ApplicationInvalid || !invalid &&
				r.Attention != dispatch.ApplicationUnreachable {
				t.Errorf("job %d is %s %q", i, r.Status, r.Attention)
			}
		}
		for url, n := range p.counted(p.fetched) {
			// one in each ten minutes, and those of the first
			if n > 20 && !strings.HasPrefix(url, "https://good.example/") {
				t.Errorf("%s was fetched %d times in about an hour", url, n)
			}
		}
		if p.counted(p.most)[""] > 8 {
			t.Errorf("%d were fetched at once for one user", p.counted(p.most)[""])
		}
	})
}

// lasts is how long a job of bob takes from its submission to its end, which is 5 s after its start.
func (h *testBroker) lasts(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	r := h.one(t, "bob", "https://good.example/x")
	for r.Status != dispatch.Finished {
		time.Sleep(100 * time.Millisecond)
		r = h.of(t, "bob", r.ID)
	}
	return time.Since(begin)
}

// TestPrepare_DocumentStaysUnreachable: the job fails after as long as a job is tried for, and says so.
func TestPrepare_DocumentStaysUnreachable(t *testing.T) {
	withDefined(t, func(b *broker.Broker) { b.Timing.GiveUpAfter = time.Hour }, func(t *testing.T, h *testBroker,
		p *defined) {
		p.set("https://x.example/a", fails(dispatch.DocumentUnreachable))
		r := h.one(t, "ann", "https://x.example/a")
		time.Sleep(59 * time.Minute)
		if r = h.of(t, "ann", r.ID); r.Status != dispatch.Accepted || r.Attention != dispatch.ApplicationUnreachable {
			t.Errorf("before: %s %q", r.Status, r.Attention)
		}
		time.Sleep(12 * time.Minute)
		r = h.of(t, "ann", r.ID)
		if r.Status != dispatch.Failed || r.Attention != dispatch.ApplicationUnreachable ||
			r.Failure != "The broker gave up after 1h0m0s. because of https://x.example/a" {
			t.Errorf("afterwards: %s %q %q", r.Status, r.Attention, r.Failure)
		}
		if n := p.submits.Load(); n > 0 {
			t.Errorf("the platform was asked %d times", n)
		}
	})
}

// TestPrepare_InvalidDocument: what is known at once is refused with its own kind, and nothing is kept; what turns out
// later fails the job at once.
func TestPrepare_InvalidDocument(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		p.set("https://x.example/a", fails(dispatch.DocumentInvalid))
		_, err := h.submits(t, "ann", "https://x.example/a")
		wantKind(t, err, dispatch.DocumentInvalid)
		h.keptNothing(t)
		p.set("https://x.example/b", fails(dispatch.DocumentUnreachable))
		r := h.one(t, "ann", "https://x.example/b")
		p.set("https://x.example/b", fails(dispatch.DocumentInvalid))
		time.Sleep(time.Minute)
		if r = h.of(t, "ann", r.ID); r.Status != dispatch.Failed || r.Attention != dispatch.ApplicationInvalid ||
			r.Failure != "because" {
			t.Errorf("%s %q %q", r.Status, r.Attention, r.Failure)
		}
		h.well(t, "ann")
	})
}

// TestPrepare_JobBehindManyOthers: a user's own job goes on behind 150 others of theirs whose document does not come.
func TestPrepare_JobBehindManyOthers(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		p.set("https://x.example/a", hangs)
		var others sync.WaitGroup
		others.Go(func() { together(150, func(int) { h.one(t, "ann", "https://x.example/a") }) })
		for range 12 { // before the others are accepted, and after
			begin := time.Now()
			if r := h.one(t, "ann", "https://x.example/good"); r.Status != dispatch.Submitted ||
				time.Since(begin) > 1200*time.Millisecond {
				t.Errorf("%s after %v", r.Status, time.Since(begin))
			}
			h.finish(t, p)
			time.Sleep(time.Second)
		}
		others.Wait()
		if n := p.counted(p.fetched)["https://x.example/a"]; n > 6 {
			t.Errorf("one document was fetched %d times", n)
		}
	})
}

// TestPrepare_OlderDocumentIsUsed while its source hangs.
func TestPrepare_OlderDocumentIsUsed(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		h.one(t, "ann", "https://x.example/a")
		p.set("https://x.example/a", hangs)
		time.Sleep(2 * time.Minute)
		begin := time.Now()
		r := h.one(t, "ann", "https://x.example/a")
		if took := time.Since(begin); r.Status != dispatch.Submitted || took > 2*time.Second {
			t.Errorf("%s %q after %v", r.Status, r.Attention, took)
		}
	})
}

// TestPrepare_FetchesAreBounded in all, whoever asks.
func TestPrepare_FetchesAreBounded(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		together(400, func(i int) {
			url := fmt.Sprintf("https://%d.example/x", i)
			p.set(url, hangs)
			h.one(t, dispatch.UserID(fmt.Sprint("user", i)), url)
		})
		if p.counted(p.most)[""] > 64 {
			t.Errorf("%d at once", p.counted(p.most)[""])
		}
	})
}

// TestPrepare_FetchDelaysNoStatus: a status is read when it is due, also while a visit waits for a document.
func TestPrepare_FetchDelaysNoStatus(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		h.finish(t, p)
		alone := h.lasts(t)
		p.set("https://x.example/a", hangs)
		begin := time.Now()
		h.one(t, "ann", "https://x.example/a") // fetched anew 15 s after this, for a second in silence
		for at := 10100 * time.Millisecond; at < 11*time.Second; at += 300 * time.Millisecond {
			time.Sleep(at - time.Since(begin))
			go func() {
				if took := h.lasts(t); took > alone+150*time.Millisecond {
					t.Errorf("it took %v, alone %v", took, alone)
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}

// A key goes on to stand for what it was used for when the document has changed so that nothing new is accepted.
func TestAccept_KeyOutlivesItsDocument(t *testing.T) {
	withDefined(t, nil, func(t *testing.T, h *testBroker, p *defined) {
		const address = "https://x.example/a"
		r := request("a")
		r.Service.Application = address
		one, many := dispatch.Key{Text: "k", Fingerprint: "f"}, dispatch.Key{Text: "l", Fingerprint: "f"}
		job, err := h.Accept(t.Context(), "ann", r, one)
		if err != nil {
			t.Fatal(err)
		}
		d := dispatch.Dimension{Name: "tile", Values: values(2)}
		task, err := h.AcceptTask(t.Context(), "ann", r, d, many)
		if err != nil {
			t.Fatal(err)
		}
		p.set(address, fails(dispatch.DocumentInvalid))
		time.Sleep(2 * time.Minute)
		if again, err := h.Accept(t.Context(), "ann", r, one); err != nil || again.ID != job.ID {
			t.Errorf("the key of job %d stands for job %d: %v", job.ID, again.ID, err)
		}
		if again, err := h.AcceptTask(t.Context(), "ann", r, d, many); err != nil || again.ID != task.ID {
			t.Errorf("the key of task %d stands for task %d: %v", task.ID, again.ID, err)
		}
		for u, k := range map[dispatch.UserID]dispatch.Key{"ann": {Text: "new", Fingerprint: "f"}, "bob": one} {
			_, err := h.Accept(t.Context(), u, r, k)
			wantKind(t, err, dispatch.DocumentInvalid)
		}
		_, err = h.Accept(t.Context(), "ann", r, many)
		wantKind(t, err, dispatch.DocumentInvalid)
	})
}

// A document that can be fetched again clears its jobs' attention and gives them their places in the queue, also while
// all slots of the platform are taken. Documents of other waiting jobs are not fetched meanwhile.
func TestPrepareAgain_DocumentIsBackWhileNoSlotIsFree(t *testing.T) {
	withDefined(t, func(b *broker.Broker) { b.Backends[0].Limits.Jobs = 1 }, func(t *testing.T, h *testBroker,
		p *defined) {
		const bad, good = "https://x.example/a", "https://y.example/b"
		p.set(bad, fails(dispatch.DocumentUnreachable))
		waits := []dispatch.Record{h.one(t, "ann", bad), h.one(t, "bob", bad)}
		if r := h.one(t, "cem", good); r.Status != dispatch.Submitted {
			t.Fatalf("the job that takes the slot is %s %q", r.Status, r.Attention)
		}
		later := h.one(t, "cem", good)
		time.Sleep(20 * time.Minute)
		fetched := p.counted(p.fetched)
		if n := fetched[bad]; n < 4 || n > 10 {
			t.Errorf("the document was tried %d times in 20 minutes", n)
		}
		if n := fetched[good]; n > 2 {
			t.Errorf("the document of a job without attention was fetched %d times", n)
		}
		for _, r := range waits {
			if r = h.of(t, r.Owner, r.ID); r.Attention != dispatch.ApplicationUnreachable || r.Ahead != nil {
				t.Errorf("before: %s %q, %v ahead", r.Status, r.Attention, r.Ahead)
			}
		}
		p.set(bad, nil)
		time.Sleep(11 * time.Minute) // the longest pause of an address
		for _, r := range append(waits, later) {
			r = h.of(t, r.Owner, r.ID)
			if r.Phase != dispatch.Waiting || r.Attention != dispatch.None || r.Notice != "" || r.Tries != 0 ||
				!r.Refused.IsZero() || r.Ahead == nil {
				t.Errorf("job %d: %s %q %q, %d tries, refused %v, ahead %v", r.ID, r.Phase, r.Attention, r.Notice,
					r.Tries, r.Refused, r.Ahead)
			}
		}
		if n := p.submits.Load(); n != 1 {
			t.Errorf("%d jobs were submitted for one slot", n)
		}
	})
}

// A document that stays away while no slot is free fails its jobs after give_up_after, and one that turns out to define
// nothing fails them at once.
func TestPrepareAgain_DocumentStaysUnreachable(t *testing.T) {
	withDefined(t, func(b *broker.Broker) { b.Backends[0].Limits.Jobs, b.Timing.GiveUpAfter = 1, time.Hour },
		func(t *testing.T, h *testBroker, p *defined) {
			for i, k := range []dispatch.Kind{dispatch.DocumentUnreachable, dispatch.DocumentUnreachable} {
				p.set(fmt.Sprintf("https://x%d.example/a", i), fails(k))
			}
			away, none := h.one(t, "ann", "https://x0.example/a"), h.one(t, "ann", "https://x1.example/a")
			h.one(t, "bob", "https://y.example/b")
			p.set("https://x1.example/a", fails(dispatch.DocumentInvalid))
			time.Sleep(80 * time.Minute)
			if r := h.of(t, "ann", away.ID); r.Status != dispatch.Failed ||
				r.Attention != dispatch.ApplicationUnreachable {
				t.Errorf("the document stays away: %s %q", r.Status, r.Attention)
			}
			if r := h.of(t, "ann", none.ID); r.Status != dispatch.Failed || r.Attention != dispatch.ApplicationInvalid {
				t.Errorf("the document defines nothing: %s %q", r.Status, r.Attention)
			}
		})
}
