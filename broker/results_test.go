package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// The tests of this file sleep in bubbles of testing/synctest, which with makes.

// signingPlatform is a platform that finishes the job of tile n after n hours, and signs links for ten minutes.
type signingPlatform struct {
	mu    sync.Mutex
	began time.Time
	jobs  map[string]time.Time // when each has finished
	reads map[string]int
	fail  map[string]error
	query string // of links; "": signed
}

func newSigningPlatform() *signingPlatform {
	return &signingPlatform{jobs: map[string]time.Time{}, reads: map[string]int{}, fail: map[string]error{}}
}

func (*signingPlatform) TwoStep() bool                         { return false }
func (*signingPlatform) Base(dispatch.Service) (string, error) { return "", nil }

func (p *signingPlatform) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var parameters struct{ Tile int }
	_ = json.Unmarshal(s.Parameters, &parameters)
	id := fmt.Sprintf("p%d", parameters.Tile)
	for n := 2; !p.jobs[id].IsZero(); n++ { // an identifier is given once
		id = fmt.Sprintf("p%d.%d", parameters.Tile, n)
	}
	if len(p.jobs) == 0 {
		p.began = time.Now()
	}
	p.jobs[id] = p.began.Add(time.Duration(parameters.Tile) * time.Hour)
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: id}, Started: true}, nil
}

func (p *signingPlatform) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.jobs[r.ID]) {
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

func (p *signingPlatform) Results(_ context.Context, _ dispatch.Token, r dispatch.Ref) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads[r.ID]++
	if err := p.fail[r.ID]; err != nil {
		return nil, err
	}
	query := p.query
	if query == "" {
		query = fmt.Sprintf("?X-Amz-Date=%s&X-Amz-Expires=600", time.Now().UTC().Format("20060102T150405Z"))
	}
	return fmt.Appendf(nil, `{"id":%q,"assets":{"a":{"href":"https://x.example/%s.tif%s"}}}`, r.ID, r.ID, query), nil
}

// read gives how often results were read, and forgets it.
func (p *signingPlatform) read() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.reads {
		n += k
	}
	clear(p.reads)
	return n
}

func (h *testBroker) acceptTask(t *testing.T, values ...string) dispatch.TaskID {
	t.Helper()
	d := dispatch.Dimension{Name: "tile"}
	for _, v := range values {
		d.Values = append(d.Values, json.RawMessage(v))
	}
	task, err := h.AcceptTask(t.Context(), "ann", request("a"), d, dispatch.Key{})
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

// ids are those that the platform gave to the jobs of a page.
func ids(g broker.TaskResults) string {
	var all []string
	for _, p := range g.Jobs {
		all = append(all, p.Ref.ID)
	}
	return strings.Join(all, " ")
}

func (h *testBroker) page(t *testing.T, id dispatch.TaskID, after dispatch.ResultPosition, n int) broker.TaskResults {
	t.Helper()
	g, err := h.TaskResults(t.Context(), "ann", id, after, n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// outline returns all jobs of an outline.
func (h *testBroker) outline(t *testing.T, id dispatch.TaskID) (all []broker.JobResult) {
	t.Helper()
	_, finished, err := h.TaskOutline(t.Context(), "ann", id)
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range finished {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// Results that were read are not read again while their links are valid, if that is enough.
func TestRecentResults(t *testing.T) {
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.acceptTask(t, "1")
		time.Sleep(3 * time.Hour)
		job := h.page(t, id, dispatch.ResultPosition{}, 1).Jobs[0].ID
		p.read()
		for _, c := range []struct {
			after time.Duration
			reads int
		}{{0, 0}, {8 * time.Minute, 0}, {2 * time.Minute, 1}, {time.Minute, 0}} {
			time.Sleep(c.after)
			if _, err := h.RecentResults(t.Context(), "ann", job); err != nil || p.read() != c.reads {
				t.Errorf("%v later: not %d reads, %v", c.after, c.reads, err)
			}
		}
		if _, err := h.RecentResults(t.Context(), "bob", job); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("another user: %v", err)
		}
	})
}

// Who follows the pages sees each result once, also those of jobs that finish meanwhile.
func TestTaskResults_InOrderOfTheirEnd(t *testing.T) {
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.acceptTask(t, "5", "2", "4", "1", "3")
		if g := h.page(t, id, dispatch.ResultPosition{}, 2); len(g.Jobs) > 0 || g.Task.Counts[dispatch.Finished] != 0 ||
			g.More || p.read() > 0 {
			t.Errorf("too early: %+v", g)
		}
		time.Sleep(3*time.Hour + 10*time.Minute)
		first := h.page(t, id, dispatch.ResultPosition{}, 2)
		if ids(first) != "p1 p2" || first.Task.Counts[dispatch.Finished] != 3 || !first.More || p.read() != 2 {
			t.Errorf("first page: %s of %v, more: %v", ids(first), first.Task.Counts, first.More)
		}
		for _, part := range first.Jobs {
			if !strings.Contains(string(part.Collection), part.Ref.ID+".tif") || part.Err != nil ||
				string(part.Value) != part.Ref.ID[1:] {
				t.Errorf("%s: %s, %v", part.Ref.ID, part.Collection, part.Err)
			}
		}
		second := h.page(t, id, first.Jobs[1].ResultPosition(), 2)
		if ids(second) != "p3" || second.More || p.read() != 1 {
			t.Errorf("second page: %s", ids(second))
		}
		time.Sleep(2 * time.Hour)
		third := h.page(t, id, second.Jobs[0].ResultPosition(), 2)
		if ids(third) != "p4 p5" || third.More || third.Task.Counts[dispatch.Finished] != 5 ||
			third.Task.Counts.Status() != dispatch.Finished {
			t.Errorf("third page: %s", ids(third))
		}
		_, err := h.TaskResults(t.Context(), "bob", id, dispatch.ResultPosition{}, 2)
		wantKind(t, err, dispatch.NotFound)
		_, _, err = h.TaskOutline(t.Context(), "bob", id)
		wantKind(t, err, dispatch.NotFound)
		_, err = h.TaskResult(t.Context(), "bob", id, third.Jobs[0].ID)
		wantKind(t, err, dispatch.NotFound)
	})
}

// pageStore fails the test if a task's jobs are read as a whole, and counts those that are read.
type pageStore struct {
	conformance.Store
	t    *testing.T
	read int
}

func (s *pageStore) TaskJobs(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Page) ([]dispatch.Record,
	error) {
	s.t.Error("all jobs of a task were read")
	return nil, nil
}

func (s *pageStore) FinishedJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	after dispatch.ResultPosition, n int) ([]dispatch.Record, error) {
	records, err := s.Store.FinishedJobs(ctx, u, id, after, n)
	s.read += len(records)
	return records, err
}

func TestTaskResults_OnlyThePageIsRead(t *testing.T) {
	p := newSigningPlatform()
	synctest.Test(t, func(t *testing.T) {
		s := &pageStore{Store: conformance.NewMemStore(clock{}), t: t}
		h := open(s, backend("a", dispatch.AccessShared, p))
		defer h.stop()
		id := h.acceptTask(t, strings.Split(strings.Repeat("1 ", 49)+"1", " ")...)
		time.Sleep(3 * time.Hour)
		page := h.page(t, id, dispatch.ResultPosition{}, 2)
		if len(page.Jobs) != 2 || !page.More || s.read != 3 {
			t.Errorf("%d jobs were read for a page of %d", s.read, len(page.Jobs))
		}
		s.read = 0
		if one, err := h.TaskResult(t.Context(), "ann", id, page.Jobs[1].ID); err != nil || len(one.Jobs) != 1 ||
			s.read != 0 {
			t.Errorf("%d jobs were read for one of %d results, %v", s.read, len(one.Jobs), err)
		}
	})
}

// While the links hold that a platform gave, it is not asked again; then once for each job. One job's results are read
// anew whenever they are asked for.
func TestTaskResults_ValidLinksAreCached(t *testing.T) {
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.acceptTask(t, "1", "2")
		time.Sleep(3 * time.Hour)
		page := h.page(t, id, dispatch.ResultPosition{}, 10)
		if ids(page) != "p1 p2" || p.read() != 2 {
			t.Fatalf("page %s", ids(page))
		}
		time.Sleep(8 * time.Minute)
		again := h.page(t, id, dispatch.ResultPosition{}, 10)
		if n := p.read(); n != 0 || string(again.Jobs[0].Collection) != string(page.Jobs[0].Collection) {
			t.Errorf("%d reads while the links hold", n)
		}
		one, err := h.TaskResult(t.Context(), "ann", id, page.Jobs[1].ID)
		if err != nil || ids(one) != "p2" || p.read() != 0 {
			t.Errorf("%s, %v", ids(one), err)
		}
		time.Sleep(2 * time.Minute)
		fresh := h.page(t, id, dispatch.ResultPosition{}, 10)
		if n := p.read(); n != 2 || string(fresh.Jobs[0].Collection) == string(page.Jobs[0].Collection) {
			t.Errorf("%d reads of links that have ended", n)
		}
		for range 2 {
			if _, err := h.Results(t.Context(), "ann", page.Jobs[0].ID); err != nil || p.read() != 1 {
				t.Errorf("one job's results were not read anew: %v", err)
			}
		}
		_, err = h.TaskResult(t.Context(), "ann", id, 999)
		wantKind(t, err, dispatch.NotFound)
	})
}

// Results that cannot be read keep no others back: the page has them, and says for each job that lacks them why, and
// whether they may come later. The same position returns them when they can be read.
func TestTaskResults_UnavailableResults(t *testing.T) {
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.acceptTask(t, "1", "2", "3", "4", "5")
		time.Sleep(6 * time.Hour)
		fails := map[string]dispatch.Kind{"p1": dispatch.Unavailable, "p2": dispatch.BadUpstream,
			"p3": dispatch.Forbidden, "p4": dispatch.Busy}
		p.mu.Lock()
		for id, kind := range fails {
			p.fail[id] = failure(kind)
		}
		p.mu.Unlock()
		want := func(parts []broker.JobResult) {
			t.Helper()
			for _, part := range parts {
				kind, fails := fails[part.Ref.ID]
				if fails != dispatch.Is(part.Err, kind) || fails != !part.Item.Read ||
					part.MayCome() != (fails && kind != dispatch.BadUpstream) {
					t.Errorf("%s: %s, %v, may come later: %v", part.Ref.ID, part.Collection, part.Err, part.MayCome())
				}
			}
		}
		first := h.page(t, id, dispatch.ResultPosition{}, 3)
		if ids(first) != "p1 p2 p3" || !first.More {
			t.Errorf("first page: %s", ids(first))
		}
		want(first.Jobs)
		beyond := h.page(t, id, first.Jobs[2].ResultPosition(), 3)
		if ids(beyond) != "p4 p5" || beyond.More {
			t.Errorf("the page after it: %s", ids(beyond))
		}
		want(beyond.Jobs)
		if outline := h.outline(t, id); len(outline) != 5 {
			t.Errorf("outline of %d parts", len(outline))
		} else {
			want(outline)
		}
		clear(fails)
		p.mu.Lock()
		clear(p.fail)
		p.mu.Unlock()
		p.read()
		want(h.page(t, id, dispatch.ResultPosition{}, 10).Jobs)
		if n := p.read(); n != 4 {
			t.Errorf("%d reads, though one was kept", n)
		}
	})
}

// A platform that does not respond keeps back the results of its own jobs only, and the page comes while the client
// still waits.
func TestTaskResults_OfTheHealthyPlatform(t *testing.T) {
	healthy, silent := newSite(time.Minute), newSite(time.Minute)
	spread(t, healthy, silent, 3, func(t *testing.T, h *testBroker) {
		task := h.acceptSpread(t, spreadRequest(), 24)
		h.awaitTaskEnd(t, task.ID, time.Hour)
		silent.set(func() { silent.silent = true })
		begin := time.Now()
		got := h.page(t, task.ID, dispatch.ResultPosition{}, 100)
		if took := time.Since(begin); took > 40*time.Second {
			t.Errorf("the page took %v", took)
		}
		read := map[string]int{}
		for _, part := range got.Jobs {
			if (part.Account == "a/shared") != (part.Collection != nil) || part.MayCome() != !part.Item.Read {
				t.Errorf("a job at %s: %s, %v", part.Account, part.Collection, part.Err)
			}
			read[part.Account.Platform()]++
		}
		if len(got.Jobs) != 24 || read["a"] == 0 || read["b"] <= 4 {
			t.Errorf("%d jobs: %v", len(got.Jobs), read)
		}
	})
}

// An outline reads what is not known, a hundred at most, and later nothing, even when the links have ended.
func TestTaskOutline_ReadsAHundred(t *testing.T) {
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		var values []string
		for range 130 {
			values = append(values, "1")
		}
		p.mu.Lock()
		p.query = "?token=unknown"
		p.mu.Unlock()
		id := h.acceptTask(t, values...)
		time.Sleep(4 * time.Hour)
		known := func() (n int) {
			all := h.outline(t, id)
			if len(all) != 130 {
				t.Fatalf("%d parts", len(all))
			}
			for _, part := range all {
				if part.Item.Read {
					n++
				}
			}
			return n
		}
		for i, want := range []struct{ known, reads int }{{100, 100}, {130, 30}, {130, 0}} {
			if n, reads := known(), p.read(); n != want.known || reads != want.reads {
				t.Errorf("outline %d: %d known, %d reads", i, n, reads)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A job that has ended has results, also for who asks for nothing but these, and so has its task. A platform that gives
// them some seconds later is waited for; if they come later still, the answer says so.
func TestResults_AvailableWithTheEnd(t *testing.T) {
	for _, late := range []time.Duration{0, 3 * time.Second, 10 * time.Minute, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			end := time.Now().Add(10*time.Minute + 700*time.Millisecond)
			p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
				if time.Now().Before(end) {
					return dispatch.Report{Status: dispatch.Running}, nil
				}
				return dispatch.Report{Status: dispatch.Finished}, nil
			}, results: func(dispatch.Token) (json.RawMessage, error) {
				if time.Now().Before(end.Add(late)) {
					return nil, failure(dispatch.Conflict)
				}
				return json.RawMessage(`{"id":"c"}`), nil
			}}
			h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
			defer h.stop()
			job := h.accept(t)
			task := h.acceptTask(t, "1")
			time.Sleep(time.Until(end))
			time.Sleep(2500 * time.Millisecond)
			c, err := h.Results(t.Context(), "ann", job.ID)
			if late < time.Minute {
				if string(c) != `{"id":"c"}` || err != nil {
					t.Errorf("results %v late: %s, %v", late, c, err)
				}
			} else {
				wantKind(t, err, dispatch.Busy)
			}
			if r, err := h.Read(t.Context(), "ann", job.ID, broker.AsKnown); err != nil ||
				r.Status != dispatch.Finished {
				t.Fatalf("%s, %v", r.Status, err)
			}
			if _, _, err := conformance.Task(t.Context(), h.Broker, "ann", task, time.Second); err != nil {
				t.Fatal(err)
			}
			g, err := h.TaskResults(t.Context(), "ann", task, dispatch.ResultPosition{}, 10)
			if late < time.Minute && (err != nil || len(g.Jobs) != 1 || g.Jobs[0].Collection == nil) {
				t.Errorf("task's results %v late: %+v, %v", late, g.Jobs, err)
			} else if late > time.Minute && (err != nil || !dispatch.Is(g.Jobs[0].Err, dispatch.Busy)) {
				t.Errorf("task's results %v late: %+v, %v", late, g.Jobs, err)
			}
			time.Sleep(61 * time.Minute)
			g, err = h.TaskResults(t.Context(), "ann", task, dispatch.ResultPosition{}, 10)
			if err != nil || len(g.Jobs) != 1 || (g.Jobs[0].Err != nil) != (late > time.Hour) ||
				(g.Jobs[0].Collection != nil) != (late < time.Hour) {
				t.Errorf("an hour later, of results %v late: %+v, %v", late, g.Jobs, err)
			}
		})
	}
}

// TestResults_PlatformHasLostThem checks that a finished job whose platform no longer has it is not called missing
// here: the text says what is gone.
func TestResults_PlatformHasLostThem(t *testing.T) {
	detector.Skip(t)
	p := newSigningPlatform()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.acceptTask(t, "1")
		time.Sleep(3 * time.Hour)
		job := h.page(t, id, dispatch.ResultPosition{}, 1).Jobs[0].ID
		time.Sleep(30 * 24 * time.Hour) // what the broker knows of the results has expired
		p.mu.Lock()
		p.fail["p1"] = failure(dispatch.NotFound)
		p.mu.Unlock()
		_, err := h.Results(t.Context(), "ann", job)
		if wantKind(t, err, dispatch.Conflict); !strings.Contains(dispatch.TextFor(err),
			"no longer has the finished job or its results") {
			t.Errorf("%q", dispatch.TextFor(err))
		}
		_, err = h.Results(t.Context(), "bob", job)
		wantKind(t, err, dispatch.NotFound)
	})
}
