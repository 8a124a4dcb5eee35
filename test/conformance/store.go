package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Database provides the stores of a test. Its clock moves only by Pass.
type Database struct {
	// Open returns one more handle, as another process would have. Where only one process may open the data, it returns the
	// existing one.
	Open func() dispatch.Store
	// Restart returns the handle of a process that starts after all others have ended.
	Restart func() dispatch.Store
	// Pass moves the clock forward or back.
	Pass func(time.Duration)
}

// TestStore runs the tests that every Store must pass. New creates an empty database that ends with the test.
func TestStore(t *testing.T, new func(*testing.T) Database) {
	for _, c := range []struct {
		name string
		test func(storeTest)
	}{
		{"every field comes back", storeTest.fields},
		{"requests come back", storeTest.requests},
		{"another's and hidden are not found", storeTest.owners},
		{"a job that cannot be kept keeps all out", storeTest.allOrNone},
		{"texts that are no texts", storeTest.texts},
		{"a key used again", storeTest.keys},
		{"a key used by many at once", storeTest.parallelKeys},
		{"each due account is given out once", storeTest.dequeue},
		{"how long until the next", storeTest.next},
		{"accounts are given out by platform", storeTest.room},
		{"a lapsed lease is given out again", storeTest.lapse},
		{"an old lease changes nothing", storeTest.fence},
		{"a wake during a visit is not lost", storeTest.wakes},
		{"one of many saves wins", storeTest.versions},
		{"many are saved at once", storeTest.saveMany},
		{"a result is kept", storeTest.results},
		{"documents are kept", storeTest.documents},
		{"a changed document is shown on what waits", storeTest.redefine},
		{"a document accepted by many at once while others are purged", storeTest.parallelDocuments},
		{"cancel", storeTest.cancel},
		{"an intent needs the owner's wish", storeTest.intend},
		{"await", storeTest.await},
		{"plans follow a clock that is set back", storeTest.clockBack},
		{"hold", storeTest.hold},
		{"give up", storeTest.giveUp},
		{"usage", storeTest.usage},
		{"synchronous runs", storeTest.syncRuns},
		{"how accounts stand", storeTest.standings},
		{"what platforms show of starts", storeTest.starts},
		{"restored from an older state", storeTest.restored},
		{"the rate is kept by many", storeTest.rate},
		{"what people wait for is not behind the readings", storeTest.kept},
		{"a slot is booked ahead", storeTest.ahead},
		{"who reads again is planned for", storeTest.planned},
		{"an account whose turn comes is not woken to be read", storeTest.turn},
		{"the rate after a jump of the clock", storeTest.rateJumps},
		{"purge", storeTest.purge},
		{"the agenda has its classes", storeTest.agenda},
		{"lines and slots", storeTest.lines},
		{"waiting jobs without their document", storeTest.unprepared},
		{"which jobs hold slots", storeTest.slots},
		{"slots for days", storeTest.slotsForDays},
		{"who was served when", storeTest.turns},
		{"turns that matter no more", storeTest.forgottenTurns},
		{"leases that ran out", storeTest.lapses},
		{"what a listing can tell about", storeTest.listable},
		{"pages", storeTest.pages},
		{"pages of tasks and of a task", storeTest.taskPages},
		{"pages of large requests", storeTest.largePages},
		{"warnings come back", storeTest.warnings},
		{"a task shows what its jobs wait for", storeTest.taskAttention},
		{"installation", storeTest.installation},
		{"tasks and their counts", storeTest.tasks},
		{"a task is deleted", storeTest.cancelTask},
		{"a task is retried", storeTest.retryTask},
		{"await a task", storeTest.awaitTask},
		{"quotas", storeTest.quotas},
		{"quotas of many at once", storeTest.parallelQuotas},
		{"keys beyond quotas", storeTest.keysBeyondQuotas},
		{"a retry within a quota", storeTest.retryWithinQuota},
		{"a quota of bytes", storeTest.quotaOfBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := new(t)
			c.test(storeTest{t, db, db.Open()})
		})
	}
}

type storeTest struct {
	*testing.T
	db Database
	s  dispatch.Store
}

const (
	ann    dispatch.UserID  = "https://idp.example/realm ann"
	bob    dispatch.UserID  = "https://idp.example/realm bob"
	shared dispatch.Account = "p/shared"
)

const stalledAfter = 6 * time.Hour

var limits = dispatch.Limits{Jobs: 2, Requests: 2, Pace: 100 * time.Millisecond, Send: 30 * time.Second, MinPoll: 2 * time.Second}

// same compares values from stores.
var same = cmp.Options{cmpopts.EquateEmpty()}

func (t storeTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t storeTest) kind(err error, k dispatch.Kind) {
	t.Helper()
	if !dispatch.Is(err, k) {
		t.Fatalf("error %v, want one of kind %v", err, k)
	}
}

func (t storeTest) equal(got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func draft(u dispatch.UserID, a dispatch.Account) dispatch.Draft {
	return dispatch.Draft{Body: body(), Job: dispatch.Job{Owner: u, Account: a, Base: "base", Desired: dispatch.WantRun, MaxDuration: time.Hour,
		Phase: dispatch.Waiting, Status: dispatch.Accepted}}
}

func request() dispatch.Request {
	namespace := "n"
	return dispatch.Request{Title: "title <é>", Label: dispatch.OpenEO, Format: "gtiff",
		Service:    dispatch.Service{Endpoint: "https://p.example", Namespace: &namespace, Application: "a"},
		Parameters: json.RawMessage(`{"big":12345678901234567890.10,"none":null,"tag":"<&>"}`), Options: json.RawMessage(`{"memory":"4g"}`)}
}

// body returns request as JSON, byte for byte.
func body() []byte {
	r := request()
	return fmt.Appendf(nil, `{"title":%q,"label":"openeo","service":{"endpoint":"https://p.example","namespace":"n","application":"a"},
		"parameters":%s,"format":"gtiff","options":%s}`, r.Title, r.Parameters, r.Options)
}

// accept stores one job of ann and returns it.
func (t storeTest) accept() dispatch.Job { t.Helper(); return t.acceptFor(ann, shared) }

func (t storeTest) acceptFor(u dispatch.UserID, a dispatch.Account) dispatch.Job {
	t.Helper()
	jobs := []dispatch.Draft{draft(u, a)}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, jobs)
	t.must(err)
	return jobs[0].Job
}

// acceptTask stores a task of n jobs.
func (t storeTest) acceptTask(u dispatch.UserID, n int) (dispatch.Task, []dispatch.Draft) {
	t.Helper()
	task := dispatch.Task{Owner: u, Account: shared, Request: request(), Dimension: "tile"}
	jobs := make([]dispatch.Draft, n)
	for i := range jobs {
		jobs[i] = draft(u, shared)
		jobs[i].Number, jobs[i].Body = i+1, fmt.Appendf(nil, `{"n":%d.0}`, i+1)
	}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	return task, jobs
}

// save writes one job that must not have changed meanwhile.
func (t storeTest) save(j dispatch.Job) dispatch.Job {
	t.Helper()
	saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
	t.must(err)
	if len(saved) != 1 {
		t.Fatalf("job %d was not saved", j.ID)
	}
	return saved[0]
}

func (t storeTest) load(id dispatch.JobID) dispatch.Job {
	t.Helper()
	j, err := t.s.Load(t.Context(), id)
	t.must(err)
	return j
}

// lease leases the shared account.
func (t storeTest) lease() dispatch.Lease {
	t.Helper()
	leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 100}, time.Minute)
	t.must(err)
	for _, l := range leases {
		if l.Account == shared {
			return l
		}
	}
	t.Fatalf("%s is not due", shared)
	return dispatch.Lease{}
}

func (t storeTest) look() dispatch.Agenda {
	t.Helper()
	g, err := t.s.Agenda(t.Context(), shared, 100, 0)
	t.must(err)
	return g
}

func (t storeTest) fields() {
	_, jobs := t.acceptTask(ann, 1)
	j := jobs[0].Job
	is := t.load(j.ID)
	t.equal(is, j)
	want := filled(j)
	saved := t.save(want)
	want.Version++
	want.Result = nil
	t.equal(saved, want)
	t.s = t.db.Restart()
	t.equal(t.load(j.ID), want)
	record, err := t.s.Record(t.Context(), ann, j.ID)
	t.must(err)
	t.equal(record.Job, want)
}

// filled sets every field that visits may write to a value other than zero and than j's. Fields that visits may not write keep
// j's values.
func filled(j dispatch.Job) dispatch.Job {
	v := reflect.ValueOf(&j).Elem()
	keep := []string{"ID", "Task", "Number", "Owner", "Account", "Base", "Desired", "Hidden", "MaxDuration", "Created", "Version"}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !slices.Contains(keep, name) {
			fill(v.Field(i), name, i+2, j.Created)
		}
	}
	return j
}

func fill(v reflect.Value, name string, n int, base time.Time) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = base.Add(time.Duration(n) * time.Microsecond)
	case *time.Duration:
		*x = time.Duration(n) * time.Microsecond
	case **float64:
		f := float64(n) + 0.1
		*x = &f
	case *[]byte:
		*x = []byte(`{"type":"Collection"}`)
	case *[]dispatch.Ref:
		*x = []dispatch.Ref{{Base: "b c", ID: "x"}, {ID: "y\"z"}}
	case *dispatch.Ref:
		*x = dispatch.Ref{Base: "base é", ID: "id"}
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(name)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		default:
			panic("a field of a kind that was not thought of: " + name)
		}
	}
}

func (t storeTest) requests() {
	single := t.accept()
	task, jobs := t.acceptTask(ann, 2)
	t.s = t.db.Restart()
	record, err := t.s.Record(t.Context(), ann, single.ID)
	t.must(err)
	t.equal(record, dispatch.Record{Job: single, Request: request(), Read: t.look().Now})
	for i, j := range jobs {
		want, err := task.For(i+1, j.Body)
		t.must(err)
		record, err := t.s.Record(t.Context(), ann, j.ID)
		t.must(err)
		t.equal(record, dispatch.Record{Job: j.Job, Request: want, Read: t.look().Now})
		got, err := t.s.Request(t.Context(), j.ID)
		t.must(err)
		t.equal(got, want)
	}
	t.db.Pass(time.Second)
	newer := t.accept()
	list, err := t.s.Records(t.Context(), ann, dispatch.Page{})
	t.must(err)
	now := t.look().Now
	t.equal(list, []dispatch.Record{{Job: newer, Request: request(), Read: now}, {Job: single, Request: request(), Read: now}})
}

func (t storeTest) owners() {
	j := t.accept()
	for _, id := range []dispatch.JobID{j.ID, j.ID + 1e6} {
		t.foreign(bob, id)
	}
	if list, err := t.s.Records(t.Context(), bob, dispatch.Page{}); err != nil || len(list) > 0 {
		t.Errorf("bob has %v, %v", list, err)
	}
	_, err := t.s.Refused(t.Context(), bob, j.ID)
	t.kind(err, dispatch.NotFound)

	hidden, err := t.s.Cancel(t.Context(), ann, j.ID, true)
	t.must(err)
	t.foreign(ann, j.ID)
	if list, err := t.s.Records(t.Context(), ann, dispatch.Page{}); err != nil || len(list) > 0 {
		t.Errorf("ann still sees %v, %v", list, err)
	}
	refused, err := t.s.Refused(t.Context(), ann, j.ID)
	t.must(err)
	t.equal(refused.Job, hidden)
	t.equal(t.load(j.ID), hidden)
}

// foreign checks that u cannot find or change the job by any method.
func (t storeTest) foreign(u dispatch.UserID, id dispatch.JobID) {
	t.Helper()
	_, err := t.s.Record(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	if text := dispatch.TextFor(err); text != "There is no such job." {
		t.Errorf("the text is %q", text)
	}
	_, err = t.s.Result(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	for _, hide := range []bool{false, true} {
		_, err = t.s.Cancel(t.Context(), u, id, hide)
		t.kind(err, dispatch.NotFound)
	}
	if as, err := t.s.Await(t.Context(), u, dispatch.Scope{Job: id}, 0, 0); err != nil || len(as) > 0 {
		t.Errorf("Await = %v, %v", as, err)
	}
}

func (t storeTest) allOrNone() {
	before := t.accept()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	jobs := make([]dispatch.Draft, 1201)
	for i := range jobs {
		jobs[i] = draft(ann, shared)
		jobs[i].Number, jobs[i].Body = i+1, []byte(`1`)
	}
	jobs[777].Body = []byte("\"\x00\"")
	_, err := t.s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, &task, jobs)
	t.kind(err, dispatch.Invalid)
	if task.ID != 0 || jobs[0].ID != 0 {
		t.Error("ids were assigned to jobs that were not stored")
	}
	g := t.look()
	if ready, err := t.s.Ready(t.Context(), shared, dispatch.Line{Owner: ann}, 9); err != nil || len(ready) != 1 || ready[0].ID != before.ID || len(g.Lines) != 1 {
		t.Errorf("ready %v, lines %v, %v", ready, g.Lines, err)
	}
	jobs[777].Body = []byte(`1`)
	repeated, err := t.s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, &task, jobs)
	t.must(err)
	if repeated != (dispatch.Repeated{}) {
		t.Errorf("the key of a failed Accept stands for %v", repeated)
	}
	ready, err := t.s.Ready(t.Context(), shared, dispatch.Line{Owner: ann, Task: task.ID}, 2000)
	t.must(err)
	for i, j := range ready {
		t.equal(j, jobs[i].Job)
	}
	if len(ready) != len(jobs) {
		t.Errorf("%d of %d were kept", len(ready), len(jobs))
	}
	_, err = t.s.Accept(t.Context(), dispatch.Key{}, nil, nil)
	t.kind(err, dispatch.Invalid)
}

// texts checks that a response with characters that a database cannot store is not lost.
func (t storeTest) texts() {
	j := t.accept()
	j.Notice, j.Failure, j.Ref, j.Status = "a\x00b", "c\xffd", dispatch.Ref{ID: "e\x00"}, dispatch.Failed
	j.Result = []byte("{\"f\":\"\xff\"}")
	saved := t.save(j)
	if saved.Status != dispatch.Failed || saved.Notice == "" || saved.Failure == "" || saved.Ref.ID == "" {
		t.Errorf("saved %+v", saved)
	}
	t.must(t.s.Hold(t.Context(), shared, time.Minute, dispatch.NotTaken, "x\x00\xff"))
}

func (t storeTest) keys() {
	ctx, k := t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}
	accept := func(u dispatch.UserID, k dispatch.Key, task *dispatch.Task) (dispatch.Repeated, dispatch.JobID, error) {
		jobs := []dispatch.Draft{draft(u, shared), draft(u, shared)}
		r, err := t.s.Accept(ctx, k, task, jobs)
		return r, jobs[0].ID, err
	}
	r, first, err := accept(ann, k, nil)
	t.must(err)
	t.equal(r, dispatch.Repeated{})
	wakes := t.look().Wakes
	r, _, err = accept(ann, k, nil)
	t.must(err)
	t.equal(r, dispatch.Repeated{Job: first})
	_, _, err = accept(ann, dispatch.Key{Text: "k", Fingerprint: "g"}, nil)
	t.kind(err, dispatch.Conflict)
	t.repeated(ann, k, dispatch.Repeated{Job: first})
	t.repeated(bob, k, dispatch.Repeated{})
	t.repeated(ann, dispatch.Key{Text: "l", Fingerprint: "f"}, dispatch.Repeated{})
	_, err = t.s.Repeated(ctx, ann, dispatch.Key{Text: "k", Fingerprint: "g"})
	t.kind(err, dispatch.Conflict)
	if g := t.look(); g.Wakes != wakes {
		t.Error("a failed Accept wakes the account")
	}
	if list, err := t.s.Records(ctx, ann, dispatch.Page{}); err != nil || len(list) != 2 {
		t.Errorf("%d jobs were kept, %v", len(list), err)
	}
	r, _, err = accept(bob, k, nil)
	t.must(err)
	t.equal(r, dispatch.Repeated{})

	task := &dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	k = dispatch.Key{Text: "task", Fingerprint: "f"}
	_, _, err = accept(ann, k, task)
	t.must(err)
	r, _, err = accept(ann, k, &dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"})
	t.must(err)
	t.equal(r, dispatch.Repeated{Task: task.ID})
	t.repeated(ann, k, dispatch.Repeated{Task: task.ID})

	t.db.Pass(dispatch.KeyLife + time.Second)
	t.repeated(ann, k, dispatch.Repeated{})
	r, _, err = accept(ann, dispatch.Key{Text: "k", Fingerprint: "g"}, nil)
	t.must(err)
	t.equal(r, dispatch.Repeated{})
}

func (t storeTest) repeated(u dispatch.UserID, k dispatch.Key, want dispatch.Repeated) {
	t.Helper()
	r, err := t.s.Repeated(t.Context(), u, k)
	t.must(err)
	t.equal(r, want)
}

func (t storeTest) parallelKeys() {
	handles := t.handles(8)
	ids := make(chan dispatch.JobID, 32)
	var kept sync.Map
	var all sync.WaitGroup
	for i := range cap(ids) {
		all.Go(func() {
			jobs := []dispatch.Draft{draft(ann, shared)}
			r, err := handles[i%len(handles)].Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, nil, jobs)
			if err != nil {
				t.Error(err)
			}
			if r.Job == 0 {
				kept.Store(jobs[0].ID, true)
				r.Job = jobs[0].ID
			}
			ids <- r.Job
		})
	}
	all.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first {
			t.Errorf("the key stands for %d and for %d", first, id)
		}
	}
	n := 0
	kept.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d were the first", n)
	}
	if list, err := t.s.Records(t.Context(), ann, dispatch.Page{}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs were kept, %v", len(list), err)
	}
}

func (t storeTest) handles(n int) []dispatch.Store {
	handles := make([]dispatch.Store, n)
	for i := range handles {
		handles[i] = t.db.Open()
	}
	return handles
}

func (t storeTest) dequeue() {
	const accounts = 200
	for i := range accounts {
		t.acceptFor(ann, dispatch.Account(fmt.Sprintf("p/%d", i)))
	}
	var mu sync.Mutex
	times := map[dispatch.Account]int{}
	var all sync.WaitGroup
	for _, h := range t.handles(16) {
		all.Go(func() {
			for {
				leases, _, err := h.Dequeue(t.Context(), dispatch.Room{Others: 1 + rand.IntN(9)}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				if len(leases) == 0 {
					return
				}
				mu.Lock()
				for _, l := range leases {
					times[l.Account]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: accounts}, time.Minute) // accounts that another Dequeue skipped because it was being leased
	t.must(err)
	for _, l := range leases {
		times[l.Account]++
	}
	for a, n := range times {
		if n != 1 {
			t.Errorf("%s was given out %d times", a, n)
		}
	}
	if len(times) != accounts {
		t.Errorf("%d of %d were given out", len(times), accounts)
	}
}

// room checks that a process is given as many accounts of each platform as it has room for, and accounts of an unknown platform
// only if no process has served that platform for a while.
func (t storeTest) room() {
	for i := range 4 {
		for _, platform := range []string{"p", "pp", "full", "new", "gone"} {
			t.acceptFor(ann, dispatch.Account(fmt.Sprintf("%s/%d", platform, i)))
		}
	}
	t.must(t.s.Serve(t.Context(), []string{"new", "gone"}))
	t.db.Pass(5 * time.Minute)
	t.must(t.s.Serve(t.Context(), []string{"new"}))
	given := func(r dispatch.Room) (map[string]int, time.Duration) {
		leases, wait, err := t.s.Dequeue(t.Context(), r, time.Hour)
		t.must(err)
		n := map[string]int{}
		for _, l := range leases {
			n[l.Account.Platform()]++
		}
		return n, wait
	}
	r := dispatch.Room{Platforms: map[string]int{"p": 3, "pp": 9, "full": 0}, Others: 2, Unserved: 2 * time.Minute}
	got, wait := given(r)
	t.equal(got, map[string]int{"p": 3, "pp": 4, "gone": 2})
	t.equal(wait, time.Duration(0))
	r.Platforms["p"], r.Others = 0, 0
	got, wait = given(r)
	t.equal(got, map[string]int{})
	t.equal(wait, time.Hour)
	t.db.Pass(2 * time.Minute)
	got, _ = given(dispatch.Room{Others: 20, Unserved: 2 * time.Minute})
	t.equal(got, map[string]int{"p": 1, "full": 4, "new": 4, "gone": 2})
}

func (t storeTest) next() {
	ctx := t.Context()
	wait := func(n, given int, want time.Duration) {
		t.Helper()
		leases, got, err := t.s.Dequeue(ctx, dispatch.Room{Others: n}, time.Minute)
		t.must(err)
		if got != want || len(leases) != given {
			t.Errorf("%d given, %v until the next; want %d, %v", len(leases), got, given, want)
		}
	}
	wait(9, 0, time.Hour)
	t.accept()
	t.db.Pass(time.Millisecond)
	t.acceptFor(ann, "q/shared")
	first, got, err := t.s.Dequeue(ctx, dispatch.Room{Others: 1}, 30*time.Second)
	t.must(err)
	if len(first) != 1 || first[0].Account != shared || got != 0 {
		t.Errorf("given %v, %v until the next, which is due", first, got)
	}
	wait(9, 1, 30*time.Second) // the first lease may expire
	t.must(t.s.Release(ctx, first[0], t.look().Wakes, t.look().Now.Add(20*time.Second)))
	wait(9, 0, 20*time.Second)
	t.db.Pass(20 * time.Second)
	wait(9, 1, 40*time.Second)
}

func (t storeTest) lapse() {
	t.accept()
	l := t.lease()
	t.db.Pass(59 * time.Second)
	t.must(t.s.Renew(t.Context(), l, time.Minute))
	t.db.Pass(59 * time.Second)
	if leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil || len(leases) > 0 {
		t.Errorf("given out while it was held: %v, %v", leases, err)
	}
	t.db.Pass(2 * time.Second)
	t.must(t.s.Renew(t.Context(), l, time.Second)) // nobody else took it
	t.db.Pass(2 * time.Second)
	if again := t.lease(); again.Generation == l.Generation {
		t.Error("the generation did not move")
	}
	t.kind(t.s.Renew(t.Context(), l, time.Minute), dispatch.Conflict)
}

func (t storeTest) fence() {
	j := t.accept()
	old := t.lease()
	t.db.Pass(2 * time.Minute)
	l := t.lease()
	stale := func(old dispatch.Lease) {
		t.Helper()
		t.kind(t.s.Renew(t.Context(), old, time.Minute), dispatch.Conflict)
		t.kind(t.s.Release(t.Context(), old, 0, time.Time{}), dispatch.Conflict)
		_, err := t.s.Intend(t.Context(), old, limits, []dispatch.Job{j})
		t.kind(err, dispatch.Conflict)
		t.equal(t.load(j.ID), j)
	}
	stale(old)
	t.must(t.s.Release(t.Context(), l, 0, time.Time{}))
	stale(l)
	if leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil || len(leases) != 1 {
		t.Errorf("released with an unseen wake, it is not due: %v, %v", leases, err)
	}
}

func (t storeTest) wakes() {
	j := t.accept()
	l := t.lease()
	seen := t.look().Wakes
	t.accept()
	t.must(t.s.Release(t.Context(), l, seen, time.Time{}))
	l = t.lease()
	seen = t.look().Wakes
	_, err := t.s.Cancel(t.Context(), ann, j.ID, false)
	t.must(err)
	t.must(t.s.Release(t.Context(), l, seen, t.look().Now.Add(time.Hour)))
	l = t.lease()
	t.must(t.s.Release(t.Context(), l, t.look().Wakes, time.Time{}))
	if leases, wait, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil || len(leases) > 0 || wait != time.Hour {
		t.Errorf("given out without a wake: %v, %v, %v", leases, wait, err)
	}
}

func (t storeTest) versions() {
	j := t.accept()
	handles := t.handles(20)
	var mu sync.Mutex
	var won []dispatch.Job
	var all sync.WaitGroup
	for i, h := range handles {
		all.Go(func() {
			mine := j
			mine.Notice = fmt.Sprint(i)
			saved, err := h.Save(t.Context(), []dispatch.Job{mine})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			won = append(won, saved...)
			mu.Unlock()
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d won", len(won))
	}
	t.equal(t.load(j.ID), won[0])

	other, none := t.accept(), dispatch.Job{ID: j.ID + 1e6}
	other.Notice = "kept"
	saved, err := t.s.Save(t.Context(), []dispatch.Job{j, none, other})
	t.must(err)
	if len(saved) != 1 || saved[0].ID != other.ID || t.load(other.ID).Notice != "kept" {
		t.Errorf("saved %+v", saved)
	}
	t.saveAndWake(saved[0])
}

// saveAndWake checks that Save wakes the named accounts in the same commit, and none if it stored nothing.
func (t storeTest) saveAndWake(j dispatch.Job) {
	for _, c := range []struct {
		of    string
		wake  []dispatch.Account
		stale int64 // by how many versions the saved job is behind
		woken int64
	}{{"with a lease", nil, 0, 0}, {"without a lease", []dispatch.Account{shared}, 0, 1}, {"what has changed", []dispatch.Account{shared}, 1, 0}} {
		is, before := t.load(j.ID), t.look().Wakes
		is.Version -= c.stale
		saved, err := t.s.Save(t.Context(), []dispatch.Job{is}, c.wake...)
		t.must(err)
		if woken := t.look().Wakes - before; woken != c.woken || len(saved) != 1-int(c.stale) {
			t.Errorf("%s: kept %d jobs and woke %d times", c.of, len(saved), woken)
		}
	}
}

// saveMany saves more jobs than fit into a statement; some have changed meanwhile, and one does not exist.
func (t storeTest) saveMany() {
	_, drafts := t.acceptTask(ann, 123)
	want := map[dispatch.JobID]dispatch.Job{}
	jobs := []dispatch.Job{{ID: drafts[0].ID + 1e6}}
	for i, d := range drafts {
		j := filled(d.Job)
		j.Failure = fmt.Sprint("of ", i)
		jobs = append(jobs, j)
		if i%7 == 0 {
			want[j.ID] = t.save(d.Job)
			continue
		}
		j.Version, j.Result = j.Version+1, nil
		want[j.ID] = j
	}
	saved, err := t.s.Save(t.Context(), jobs)
	t.must(err)
	if len(saved) != 123-18 {
		t.Errorf("%d saved", len(saved))
	}
	for _, j := range saved {
		t.equal(j, want[j.ID])
	}
	for id, j := range want {
		t.equal(t.load(id), j)
	}
}

func (t storeTest) results() {
	j := t.accept()
	if body, err := t.s.Result(t.Context(), ann, j.ID); err != nil || body != nil {
		t.Errorf("a result before there is one: %s, %v", body, err)
	}
	want := []byte("{\"type\": \"Collection\",\n\"é\": 1e400}")
	j.Result = want
	j = t.save(j)
	if j.Result != nil || t.load(j.ID).Result != nil {
		t.Error("the result came with the job")
	}
	j = t.save(j) // saving without a result keeps it
	t.s = t.db.Restart()
	body, err := t.s.Result(t.Context(), ann, j.ID)
	t.must(err)
	if !bytes.Equal(body, want) {
		t.Errorf("the result is %s", body)
	}
}

func (t storeTest) acceptWith(d *dispatch.Document) dispatch.Job {
	t.Helper()
	jobs := []dispatch.Draft{draft(ann, shared)}
	jobs[0].Document = d
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, jobs)
	t.must(err)
	return jobs[0].Job
}

// acceptTaskWith returns the task's id and its jobs.
func (t storeTest) acceptTaskWith(d *dispatch.Document) (dispatch.TaskID, []dispatch.Draft) {
	t.Helper()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "d", Document: d}
	jobs := []dispatch.Draft{draft(ann, shared), draft(ann, shared)}
	for i := range jobs {
		jobs[i].Number, jobs[i].Body = i+1, []byte("1")
	}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	return task.ID, jobs
}

func (t storeTest) documents() {
	ctx := t.Context()
	one, large := text("one", `{"id":"é","none":null}`), text("large", strings.Repeat("x", 2<<20))
	binary := text("binary", "\xff\x00")
	a, b, c := t.acceptWith(one), t.acceptWith(large), t.acceptWith(large)
	none, odd := t.acceptWith(nil), t.acceptWith(binary)
	_, jobs := t.acceptTaskWith(one)
	is := func(id dispatch.JobID, want string) {
		t.Helper()
		if got, err := t.s.Document(ctx, ann, id); err != nil || string(got) != want {
			t.Errorf("the document of job %d is %.99q, %v", id, got, err)
		}
	}
	for _, s := range []func(){func() {}, func() { t.must(t.s.Purge(ctx, time.Hour)) }, func() { t.s = t.db.Restart() }} {
		s()
		is(a.ID, string(one.Body))
		is(b.ID, string(large.Body))
		is(c.ID, string(large.Body))
		is(jobs[1].ID, string(one.Body))
		is(none.ID, "")
	}
	if _, err := t.s.Document(ctx, ann, odd.ID); err != nil {
		t.Errorf("of what is no text: %v", err)
	}
	_, err := t.s.Document(ctx, bob, a.ID)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Cancel(ctx, ann, b.ID, true)
	t.must(err)
	_, err = t.s.Document(ctx, ann, b.ID)
	t.kind(err, dispatch.NotFound)
	t.db.Pass(2 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	is(c.ID, string(large.Body))
	is(a.ID, string(one.Body))
}

func (t storeTest) redefine() {
	ctx := t.Context()
	was, is := text("moving", "1"), text("moving", "2")
	other := text("other", "1")
	single, alone := t.acceptWith(was), t.acceptWith(other)
	id, jobs := t.acceptTaskWith(was)
	running := jobs[0].Job
	running.Phase, running.Status = dispatch.Started, dispatch.Running
	t.save(running)
	over := t.acceptWith(text("over", "1"))
	_, err := t.s.Cancel(ctx, ann, over.ID, true)
	t.must(err)

	all, err := origins(ctx, t.s)
	t.must(err)
	t.equal(all, []dispatch.Origin{was.Origin, other.Origin})
	tell := func(d *dispatch.Document, want int) {
		t.Helper()
		owners, err := t.s.Redefine(ctx, d.Origin, d.Hash())
		t.must(err)
		t.equal(owners, slices.Repeat([]dispatch.UserID{ann}, want))
	}
	shown := func(want dispatch.Attention) {
		t.Helper()
		task, err := t.s.Task(ctx, ann, id)
		t.must(err)
		tasks, err := t.s.Tasks(ctx, ann, dispatch.Page{})
		t.must(err)
		its, err := t.s.TaskJobs(ctx, ann, id, dispatch.Page{})
		t.must(err)
		mine, err := t.s.Records(ctx, ann, dispatch.Page{})
		t.must(err)
		record, err := t.s.Record(ctx, ann, single.ID)
		t.must(err)
		second, err := t.s.Record(ctx, ann, jobs[1].ID)
		t.must(err)
		first, err := t.s.Record(ctx, ann, running.ID)
		t.must(err)
		got := []dispatch.Attention{task.Attention, tasks[0].Attention, its[1].Attention, second.Attention, record.Attention,
			mine[1].Attention, first.Attention, its[0].Attention, mine[0].Attention}
		t.equal(got, []dispatch.Attention{want, want, want, want, want, want, dispatch.None, dispatch.None, dispatch.None})
		if mine[0].ID != alone.ID {
			t.Fatalf("the first is %d", mine[0].ID)
		}
	}
	tell(was, 0)
	shown(dispatch.None)
	tell(is, 2)
	tell(is, 0) // once
	shown(dispatch.ServiceChanged)
	tell(text("moving", "3"), 2)
	shown(dispatch.ServiceChanged)
	tell(was, 2) // back again
	shown(dispatch.None)
	tell(is, 2)

	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NotTaken, "why"))
	record, err := t.s.Record(ctx, ann, single.ID)
	t.must(err)
	if record.Attention != dispatch.NotTaken || record.Notice != "why" {
		t.Errorf("while the account is held: %s", record.Attention)
	}
	job := t.load(single.ID) // a visit does not see the attention
	if job.Attention != dispatch.None || job.Version != single.Version {
		t.Errorf("kept with the job: %+v", job)
	}
	for _, j := range []dispatch.Job{job, t.load(jobs[1].ID), t.load(alone.ID)} {
		j.Phase, j.Status = dispatch.Started, dispatch.Submitted
		t.save(j)
	}
	all, err = t.s.Origins(ctx)
	t.must(err)
	t.equal(all, []dispatch.Origin{})
	tell(text("moving", "4"), 0) // no job waits
	task, err := t.s.Task(ctx, ann, id)
	t.must(err)
	if record, err := t.s.Record(ctx, ann, single.ID); err != nil || record.Attention != dispatch.None || task.Attention != dispatch.ServiceChanged {
		t.Errorf("when it was submitted: %s, %v, and the task: %s", record.Attention, err, task.Attention)
	}
}

// parallelDocuments accepts and deletes jobs with the same document concurrently.
func (t storeTest) parallelDocuments() {
	d := text("shared", "body")
	var all sync.WaitGroup
	for _, s := range t.handles(4) {
		all.Go(func() {
			for range 10 {
				jobs := []dispatch.Draft{draft(ann, shared)}
				jobs[0].Document = d
				if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Document(t.Context(), ann, jobs[0].ID); err != nil || string(got) != "body" {
					t.Errorf("the document is %q, %v", got, err)
				}
				if _, err := s.Cancel(t.Context(), ann, jobs[0].ID, true); err != nil {
					t.Error(err)
				}
				if err := s.Purge(t.Context(), -time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func (t storeTest) cancel() {
	ctx := t.Context()
	j := t.accept()
	j.Attention, j.Notice = dispatch.ApplicationUnreachable, "silent" // why it waits: it does no more
	j = t.save(j)
	t.db.Pass(time.Second)
	now := t.look().Now
	want := j
	want.Desired, want.Phase, want.Status, want.Turn, want.Version = dispatch.WantCancel, dispatch.Ended, dispatch.Canceled, 1, 3
	want.Attention, want.Notice = dispatch.None, ""
	want.Due, want.Moved, want.Updated = now, now, now
	got, err := t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, want)
	wakes := t.look().Wakes
	t.db.Pass(time.Second)
	got, err = t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, want)
	if t.look().Wakes != wakes {
		t.Error("a cancel without effect wakes the account")
	}

	const soon = 30 * time.Second
	for _, c := range []struct {
		phase     dispatch.Phase
		sendBy    time.Duration // from now
		due, want time.Duration // from now
	}{
		{dispatch.Created, soon, time.Hour, 0},
		{dispatch.Started, soon, time.Hour, 0},
		{dispatch.Creating, soon, time.Hour, soon + dispatch.SettleMargin},
		{dispatch.Starting, soon, time.Hour, soon + dispatch.SettleMargin},
		{dispatch.Starting, soon, time.Second, time.Second},
		{dispatch.Creating, -dispatch.SettleMargin, time.Hour, 0},
		{dispatch.Starting, -soon, time.Hour, 0},
	} {
		j, phase, now := t.accept(), c.phase, t.look().Now
		j.Phase, j.SendBy, j.Due = phase, now.Add(c.sendBy), now.Add(c.due)
		j = t.save(j)
		wakes := t.look().Wakes
		got, err := t.s.Cancel(ctx, ann, j.ID, true)
		t.must(err)
		want := j
		want.Desired, want.Hidden, want.Version, want.Due = dispatch.WantCancel, true, j.Version+1, now.Add(c.want)
		t.equal(got, want)
		if t.look().Wakes == wakes {
			t.Errorf("a cancel of what is %s does not wake", phase)
		}
		if kept, err := t.s.Save(ctx, []dispatch.Job{j}); err != nil || len(kept) > 0 {
			t.Errorf("saved over a cancel: %v, %v", kept, err)
		}
		j = got
		j.Desired, j.Hidden = dispatch.WantRun, false
		if saved := t.save(j); saved.Desired != dispatch.WantCancel || !saved.Hidden {
			t.Errorf("Save wrote what is the owner's: %+v", saved)
		}
	}

	j = t.accept()
	j.Phase, j.Status = dispatch.Ended, dispatch.Finished
	j = t.save(j)
	got, err = t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, j)
	got, err = t.s.Cancel(ctx, ann, j.ID, true)
	t.must(err)
	if !got.Hidden || got.Status != dispatch.Finished || got.Desired != dispatch.WantRun {
		t.Errorf("hidden after it ended: %+v", got)
	}
}

func (t storeTest) intend() {
	ctx := t.Context()
	jobs := []dispatch.Job{t.accept(), t.accept(), t.accept(), t.accept()}
	l := t.lease()
	_, err := t.s.Cancel(ctx, ann, jobs[0].ID, false)
	t.must(err)
	jobs[1].Phase = dispatch.Created
	created := t.save(jobs[1])
	wish, err := t.s.Cancel(ctx, ann, created.ID, false) // of a created job
	t.must(err)
	t.save(jobs[2]) // so that its version changes
	t.db.Pass(30 * time.Second)
	kept, err := t.s.Intend(ctx, l, limits, []dispatch.Job{jobs[0], wish, jobs[2], jobs[3]})
	t.must(err)
	want := jobs[3].Intend(t.look().Now.Add(limits.Send))
	want.Version++
	t.equal(kept, []dispatch.Job{want})
	t.equal(t.load(want.ID), want)
	t.equal(t.load(created.ID), wish)
	t.db.Pass(40 * time.Second) // longer than the first lease
	if leases, _, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, time.Minute); err != nil || len(leases) > 0 {
		t.Errorf("an intent did not renew the lease: %v, %v", leases, err)
	}
}

func (t storeTest) await() {
	ctx := t.Context()
	const fresh, gap = 10 * time.Second, 4 * time.Second
	start := t.look0()
	job := func(u dispatch.UserID, a dispatch.Account, phase dispatch.Phase, checked, due time.Duration) dispatch.Job {
		j := t.acceptFor(u, a)
		j.Phase, j.Checked, j.Due = phase, start.Add(checked), start.Add(due)
		return t.save(j)
	}
	t.db.Pass(time.Hour)
	start = start.Add(time.Hour)
	stale := job(ann, shared, dispatch.Started, -20*time.Second, time.Minute)
	told := job(ann, shared, dispatch.Started, -10*time.Second, time.Minute)
	fair := job(ann, "d/shared", dispatch.Started, -8*time.Second, time.Minute)
	soonDue := job(ann, shared, dispatch.Started, -8*time.Second, time.Second)
	other := job(ann, "a/shared", dispatch.Started, -11*time.Second, -time.Minute)
	ahead := job(ann, "e/shared", dispatch.Started, time.Hour, 61*time.Minute) // the clock was set back
	waits := job(ann, "b/shared", dispatch.Waiting, -20*time.Second, time.Minute)
	hers := job(bob, "c/shared", dispatch.Started, -20*time.Second, time.Minute)

	as, err := t.s.Await(ctx, ann, dispatch.Scope{Job: told.ID}, fresh, gap)
	t.must(err)
	t.equal(as, []dispatch.Account{})
	wakes := t.look().Wakes
	as, err = t.s.Await(ctx, ann, dispatch.Scope{Alone: true}, fresh, gap)
	t.must(err)
	t.equal(as, []dispatch.Account{"a/shared", "e/shared", shared})
	if t.look().Wakes == wakes {
		t.Error("awaiting a status does not wake the account")
	}
	for _, c := range []struct {
		job     dispatch.Job
		due     time.Duration
		awaited bool
	}{{stale, 0, true}, {told, 0, false}, {fair, 2 * time.Second, false}, {soonDue, time.Second, false}, {other, -time.Minute, true}, {ahead, 0, true}, {waits, time.Minute, false}, {hers, time.Minute, false}} {
		want := c.job
		want.Due, want.Awaited = start.Add(c.due), c.awaited
		t.equal(t.load(want.ID), want)
	}

	soon := job(ann, shared, dispatch.Started, -time.Second, time.Minute)
	_, err = t.s.Await(ctx, ann, dispatch.Scope{Job: soon.ID}, 0, gap)
	t.must(err)
	if j := t.load(soon.ID); !j.Due.Equal(start.Add(3*time.Second)) || !j.Awaited {
		t.Errorf("due %v after now, want the gap kept: 3s", j.Due.Sub(start))
	}
	near := job(ann, shared, dispatch.Started, -time.Second, time.Second)
	_, err = t.s.Await(ctx, ann, dispatch.Scope{Job: near.ID}, 0, gap)
	t.must(err)
	if j := t.load(near.ID); !j.Due.Equal(near.Due) {
		t.Errorf("due %v after now: it was put off", j.Due.Sub(start))
	}
}

// look0 returns the store's time when there is no account yet.
func (t storeTest) look0() time.Time { return t.accept().Created }

// giveUp checks that jobs that need their user fail after a while, but only if they were not started.
func (t storeTest) giveUp() {
	ctx := t.Context()
	waits, created, unwanted, started := t.accept(), t.accept(), t.accept(), t.accept()
	created.Phase, created.Ref = dispatch.Created, dispatch.Ref{ID: "p"}
	created = t.save(created)
	unwanted.Phase, unwanted.Ref = dispatch.Created, dispatch.Ref{ID: "q"}
	t.save(unwanted)
	unwanted, err := t.s.Cancel(ctx, ann, unwanted.ID, false)
	t.must(err)
	started.Phase = dispatch.Started
	started = t.save(started)
	hold := func(d time.Duration, why dispatch.Attention) { t.must(t.s.Hold(ctx, shared, d, why, "n")) }
	gives := func(n int) {
		t.Helper()
		given, err := t.s.GiveUp(ctx, shared, time.Minute, "Nobody signed in.")
		t.must(err)
		if len(given) != n {
			t.Errorf("%d given up, not %d", len(given), n)
		}
	}
	gives(0)
	hold(time.Hour, dispatch.NotTaken)
	t.db.Pass(2 * time.Minute)
	gives(0)
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	gives(0)
	hold(0, dispatch.None) // the user came
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	hold(time.Hour, dispatch.Unreachable) // another reason
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	gives(0)
	hold(time.Hour, dispatch.NeedsSignIn) // the same reason as before
	t.db.Pass(40 * time.Second)
	for _, j := range []dispatch.Job{waits, created, started} {
		r, err := t.s.Record(ctx, ann, j.ID)
		t.must(err)
		if shown := r.Attention == dispatch.NeedsSignIn && r.Notice == "n"; shown != j.Phase.Inert() {
			t.Errorf("%s, it shows %q %q", j.Phase, r.Attention, r.Notice)
		}
	}
	gives(2)
	gives(0)
	r, err := t.s.Record(ctx, ann, waits.ID)
	t.must(err)
	if r.Phase != dispatch.Ended || r.Status != dispatch.Failed || r.Attention != dispatch.NeedsSignIn || r.Failure != "Nobody signed in." ||
		r.Turn != waits.Turn+1 || r.Version != waits.Version+1 || !r.Moved.After(waits.Moved) || !r.Updated.Equal(r.Moved) {
		t.Errorf("given up as %+v", r.Job)
	}
	if j := t.load(created.ID); j.Phase != dispatch.Ended || j.Status != dispatch.Failed || j.Ref != created.Ref || j.Failure != "Nobody signed in." {
		t.Errorf("created, it is given up as %+v", j)
	}
	t.equal(t.load(unwanted.ID), unwanted)
	t.equal(t.load(started.ID), started)
}

func (t storeTest) standings() {
	ctx := t.Context()
	start := t.accept().Created
	_, jobs := t.acceptTask(bob, 3)
	started := jobs[0].Job
	started.Phase = dispatch.Started
	t.save(started)
	stalled := t.accept()
	stalled.Phase = dispatch.Started
	t.save(stalled)
	t.end(t.accept().ID, dispatch.Finished, nil)
	t.acceptFor(ann, "p/"+dispatch.Account(bob))
	t.acceptFor(ann, "q/shared")
	look := func(u dispatch.UserID, stalled time.Duration) []dispatch.Standing {
		t.Helper()
		all, err := t.s.Standings(ctx, u, []dispatch.Account{"", shared, "r/shared"}, map[dispatch.Account]time.Duration{shared: stalled})
		t.must(err)
		return all
	}
	t.equal(look(ann, time.Hour), []dispatch.Standing{
		{Live: 4, Lately: 5, Bytes: 4 * int64(len(body()))},
		{Account: shared, Held: 2, Waiting: 1, Active: 1, Live: 2, Lately: 3, Queue: 4},
		{Account: "r/shared"}})
	t.must(t.s.Answered(ctx, "p", ""))
	t.must(t.s.Answered(ctx, "r", "It is \x00 away."))
	t.must(t.s.Hold(ctx, shared, 48*time.Hour, dispatch.NotTaken, "Later."))
	t.db.Pass(25 * time.Hour)
	t.must(t.s.Answered(ctx, "p", "No connection."))
	t.equal(look(bob, 24*time.Hour)[1:], []dispatch.Standing{
		{Account: shared, Hold: start.Add(48 * time.Hour), Why: dispatch.NotTaken, Notice: "Later.", Waiting: 2, Active: 1, Live: 3, Queue: 4,
			Answered: start, Failed: start.Add(25 * time.Hour), Failure: "No connection."},
		{Account: "r/shared", Failed: start, Failure: "It is \uFFFD away."}})
	t.must(t.s.Answered(ctx, "p", ""))
	t.db.Pass(24 * time.Hour)
	if is := look(bob, 24*time.Hour)[1]; !is.Hold.IsZero() || is.Why != dispatch.None || !is.Answered.After(is.Failed.Add(-1)) || is.State() != dispatch.Well {
		t.Errorf("when it answers again: %+v", is)
	}
}

func (t storeTest) usage() {
	ctx := t.Context()
	first := t.accept()
	costs := 2.5
	first.Phase, first.Status, first.Costs = dispatch.Ended, dispatch.Finished, &costs
	t.save(first)
	t.db.Pass(time.Minute)
	second := t.accept()
	if _, err := t.s.Cancel(ctx, ann, second.ID, true); err != nil {
		t.Fatal(err)
	}
	t.accept()
	got, err := t.s.Usage(ctx, ann, 30*time.Second)
	t.must(err)
	if len(got) != 1 || got[0].Account != shared || got[0].Live != 1 || got[0].Lately != 2 || got[0].Jobs != 3 || got[0].Costs == nil || *got[0].Costs != 2.5 {
		t.Errorf("usage %+v", got)
	}
	if none, err := t.s.Usage(ctx, "nobody", time.Hour); err != nil || len(none) != 0 {
		t.Errorf("another's usage: %+v %v", none, err)
	}
}

func (t storeTest) hold() {
	ctx := t.Context()
	waits, started := t.accept(), t.accept()
	started.Phase, started.Attention = dispatch.Started, dispatch.InDoubt
	started = t.save(started)
	attention := func(id dispatch.JobID, a dispatch.Attention, notice string) {
		t.Helper()
		r, err := t.s.Record(ctx, ann, id)
		t.must(err)
		list, err := t.s.Records(ctx, ann, dispatch.Page{})
		t.must(err)
		i := slices.IndexFunc(list, func(r dispatch.Record) bool { return r.ID == id })
		if r.Attention != a || r.Notice != notice || list[i].Attention != a || list[i].Notice != notice {
			t.Errorf("attention %q %q, and %q %q in the list; want %q %q", r.Attention, r.Notice, list[i].Attention, list[i].Notice, a, notice)
		}
	}
	attention(waits.ID, dispatch.None, "")
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NeedsSignIn, "Sign in."))
	attention(waits.ID, dispatch.NeedsSignIn, "Sign in.")
	attention(started.ID, dispatch.InDoubt, "")
	if g := t.look(); !g.Hold.Equal(g.Now.Add(time.Minute)) || g.Why != dispatch.NeedsSignIn {
		t.Errorf("held for %v, %s", g.Hold.Sub(g.Now), g.Why)
	}
	t.equal(t.load(waits.ID), waits) // visits see the row unchanged
	wakes := t.look().Wakes
	t.must(t.s.Hold(ctx, shared, 0, dispatch.None, ""))
	attention(waits.ID, dispatch.None, "")
	if g := t.look(); g.Wakes == wakes || g.Hold.After(g.Now) {
		t.Errorf("the end of a hold does not wake, or it has not ended: %v", g)
	}
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NotTaken, ""))
	t.db.Pass(time.Minute)
	attention(waits.ID, dispatch.None, "")
}

// take requests a slot as visits and calls do.
func (t storeTest) take(a dispatch.Account, p dispatch.Purpose) dispatch.Served {
	t.Helper()
	ahead := time.Second
	if p == dispatch.Calling {
		ahead = 10 * time.Second
	}
	served, err := t.s.Take(t.Context(), dispatch.Ask{Account: a, Pace: limits.Pace, Purpose: p, Ahead: ahead})
	t.must(err)
	return served
}

// rate checks that each slot is given or booked once, however many request slots concurrently, and that bookings are served in
// order.
func (t storeTest) rate() {
	const accounts = 48
	name := func(i int) dispatch.Account { return dispatch.Account(fmt.Sprintf("p/%d", i)) }
	for i := range accounts {
		t.acceptFor(ann, name(i))
	}
	slots := make([]time.Duration, accounts)
	var all sync.WaitGroup
	for n, h := range t.handles(16) {
		all.Go(func() {
			for i := n; i < accounts; i += 16 {
				served, err := h.Take(t.Context(), dispatch.Ask{Account: name(i), Pace: limits.Pace, Ahead: time.Second})
				if err != nil {
					t.Error(err)
				}
				if slots[i] = served.Wait; !served.Given {
					slots[i] += time.Second // a visit begins this long before its slot
				}
			}
		})
	}
	all.Wait()
	var want []time.Duration
	for slot := 0; len(want) < accounts; slot++ {
		if slot%10 != 9 {
			want = append(want, time.Duration(slot)*limits.Pace)
		}
	}
	t.equal(slices.Sorted(slices.Values(slots)), want)

	booked := slices.IndexFunc(slots, func(d time.Duration) bool { return d > 3*time.Second })
	again := func(want dispatch.Served) {
		t.Helper()
		t.equal(t.take(name(booked), dispatch.Reading), want)
	}
	again(dispatch.Served{Wait: slots[booked] - time.Second})
	t.db.Pass(slots[booked] - time.Second)
	again(dispatch.Served{Given: true, Wait: time.Second})
	again(dispatch.Served{Wait: max(0, want[accounts-1]+limits.Pace-slots[booked])}) // the next turn comes after all others
	t.equal(t.take("q/shared", dispatch.Reading), dispatch.Served{Given: true})      // another platform
}

// kept checks that calls that people wait for do not queue behind status reads.
func (t storeTest) kept() {
	for i := range 200 {
		a := dispatch.Account(fmt.Sprintf("p/%d", i))
		t.acceptFor(ann, a)
		t.take(a, dispatch.Reading)
	}
	given := func(wait time.Duration) dispatch.Served { return dispatch.Served{Given: true, Wait: wait} }
	t.equal(t.take("p/0", dispatch.Acting), given(9*limits.Pace))
	t.equal(t.take("p/1", dispatch.Acting), dispatch.Served{Wait: 19*limits.Pace - time.Second})
	t.equal(t.take("p/1", dispatch.Acting), dispatch.Served{Wait: 19*limits.Pace - time.Second}) // it has booked
	t.equal(t.take("nobody's", dispatch.Calling), given(0))
	t.equal(t.take("p/nobody's", dispatch.Calling), given(29*limits.Pace))
}

// ahead checks that a read that is not due yet books no earlier slot.
func (t storeTest) ahead() {
	t.accept()
	now := t.look().Now
	ask := func(due time.Duration) dispatch.Served {
		t.Helper()
		served, err := t.s.Take(t.Context(), dispatch.Ask{Account: shared, Pace: time.Second, Ahead: time.Second, Due: now.Add(due)})
		t.must(err)
		return served
	}
	for range 3 {
		if served, err := t.s.Take(t.Context(), dispatch.Ask{Account: "p/other", Pace: time.Second, Purpose: dispatch.Calling, Ahead: 10 * time.Second}); err != nil || !served.Given {
			t.Errorf("%v, %v", served, err)
		}
	}
	t.equal(ask(4*time.Second), dispatch.Served{Wait: 4 * time.Second})
	t.equal(ask(2500*time.Millisecond), dispatch.Served{Wait: 2 * time.Second})
	t.equal(ask(9*time.Second), dispatch.Served{Wait: 2 * time.Second}) // it is booked
	t.db.Pass(2 * time.Second)
	t.equal(ask(0), dispatch.Served{Given: true, Wait: time.Second})
}

// planned checks that a status that is polled repeatedly becomes due when it is no longer fresh.
func (t storeTest) planned() {
	ctx := t.Context()
	j := t.accept()
	l := t.lease()
	t.db.Pass(time.Minute)
	g := t.look()
	j.Phase, j.Checked, j.Due = dispatch.Started, g.Now.Add(-8*time.Second), g.Now.Add(time.Minute)
	t.save(j)
	t.must(t.s.Release(ctx, l, g.Wakes, j.Due))
	for range 2 {
		as, err := t.s.Await(ctx, ann, dispatch.Scope{Alone: true}, 10*time.Second, 4*time.Second)
		t.must(err)
		leases, wait, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, time.Minute)
		t.must(err)
		if len(as)+len(leases) > 0 || wait != 2*time.Second {
			t.Errorf("woken %v, visited %v, the next in %v", as, leases, wait)
		}
	}
}

// turn checks that no account is woken for a booked read.
func (t storeTest) turn() {
	ctx := t.Context()
	j := t.accept()
	j.Phase = dispatch.Started
	t.save(j)
	await := func(n int) {
		t.Helper()
		t.db.Pass(time.Second)
		as, err := t.s.Await(ctx, ann, dispatch.Scope{Alone: true}, 0, 0)
		t.must(err)
		if len(as) != n {
			t.Errorf("woken: %v", as)
		}
		j = t.load(j.ID)
		j.Awaited, j.Due, j.Checked = false, j.Due.Add(time.Minute), t.look().Now
		t.save(j)
	}
	for range 200 {
		t.take("p/other", dispatch.Calling)
	}
	l := t.lease()
	for range 100 {
		t.take(shared, dispatch.Acting)
	}
	served := t.take(shared, dispatch.Reading)
	if served.Given {
		t.Fatalf("given in %v", served.Wait)
	}
	await(1) // it is visited now
	g := t.look()
	t.must(t.s.Release(ctx, l, g.Wakes, g.Now.Add(served.Wait-time.Second)))
	await(0)
	t.db.Pass(served.Wait + time.Second)
	await(1) // its slot has passed
}

func (t storeTest) rateJumps() {
	t.accept()
	for _, jump := range []time.Duration{-5 * time.Hour, 5 * time.Hour, -time.Minute} {
		for range 30 {
			t.take(shared, dispatch.Acting)
			t.take(shared, dispatch.Reading)
			t.take("p/nobody's", dispatch.Calling)
		}
		t.db.Pass(jump)
		for i, p := range []dispatch.Purpose{dispatch.Calling, dispatch.Acting, dispatch.Reading} {
			t.equal(t.take(shared, p), dispatch.Served{Given: true, Wait: time.Duration(i) * limits.Pace})
		}
	}
}

func (t storeTest) purge() {
	ctx := t.Context()
	end := func(hide bool, change func(*dispatch.Job)) dispatch.JobID {
		j := t.accept()
		j.Phase, j.Moved, j.Result = dispatch.Ended, j.Created, []byte(`{}`)
		if change != nil {
			change(&j)
		}
		j = t.save(j)
		if hide {
			_, err := t.s.Cancel(ctx, ann, j.ID, true)
			t.must(err)
		}
		return j.ID
	}
	gone := end(true, nil)
	kept := []dispatch.JobID{end(false, nil),
		end(true, func(j *dispatch.Job) { j.Strays = []dispatch.Ref{{ID: "x"}} }),
		end(true, func(j *dispatch.Job) { j.Phase = dispatch.Started })}
	_, err := t.s.Accept(ctx, dispatch.Key{Text: "k", Fingerprint: "f"}, nil, []dispatch.Draft{draft(ann, shared)})
	t.must(err)
	t.db.Pass(2 * time.Hour)
	kept = append(kept, end(true, func(j *dispatch.Job) { j.Moved = t.look().Now }))
	t.must(t.s.Purge(ctx, time.Hour))
	_, err = t.s.Load(ctx, gone)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Request(ctx, gone)
	t.kind(err, dispatch.NotFound)
	for _, id := range kept {
		t.load(id)
	}
	r, err := t.s.Accept(ctx, dispatch.Key{Text: "k", Fingerprint: "f"}, nil, []dispatch.Draft{draft(ann, shared)})
	if err != nil || r.Job == 0 {
		t.Errorf("a young key was forgotten: %v, %v", r, err)
	}
}

func (t storeTest) agenda() {
	ctx := t.Context()
	now := t.accept().Created
	t.db.Pass(time.Hour)
	now = now.Add(time.Hour)
	n := 0
	job := func(p dispatch.Phase, due time.Duration, cancel, stray bool) dispatch.Job {
		n++
		j := t.accept()
		j.Phase, j.Due, j.Moved = p, now.Add(due), now
		if stray {
			j.Strays = []dispatch.Ref{{ID: "x"}}
		}
		j = t.save(j)
		if cancel {
			_, err := t.s.Cancel(ctx, ann, j.ID, false)
			t.must(err)
			j = t.load(j.ID)
			j.Due = now.Add(due)
			j = t.save(j)
		}
		return j
	}
	const past, future = -time.Minute, time.Minute
	want := dispatch.Agenda{Now: now}
	want.Cancel = []dispatch.Job{
		job(dispatch.Created, past-9, true, false),
		job(dispatch.Starting, past-8*time.Second, true, false),
		job(dispatch.Started, past-7*time.Second, true, false),
		job(dispatch.Ended, past-6*time.Second, false, true),
		job(dispatch.Started, past-5*time.Second, false, true),
		job(dispatch.Creating, past-4*time.Second, false, true),
	}
	want.Cancel = append(want.Cancel[1:], want.Cancel[0]) // by due time, since nanoseconds are not stored
	want.Settle = []dispatch.Job{
		job(dispatch.Creating, past-3*time.Second, true, false),
		job(dispatch.Creating, past-2*time.Second, false, false),
		job(dispatch.Starting, past, false, false),
	}
	want.Start = []dispatch.Job{job(dispatch.Created, past, false, false), job(dispatch.Created, past, false, false)}
	want.Learn = []dispatch.Job{job(dispatch.Started, past-time.Second, false, false), job(dispatch.Started, past, false, false)}
	for _, p := range []dispatch.Phase{dispatch.Creating, dispatch.Created, dispatch.Starting, dispatch.Started} {
		job(p, future, false, false)
	}
	job(dispatch.Ended, past, false, false)
	want.NextWaiting = now.Add(-time.Hour)
	want.NextStart = now.Add(past)
	want.Next = now.Add(past - 8*time.Second)
	want.NextLearn = now.Add(past - time.Second)
	g := t.look()
	for _, list := range []*[]dispatch.Job{&want.Cancel, &want.Settle, &want.Start, &want.Learn} {
		slices.SortFunc(*list, func(a, b dispatch.Job) int { return a.Due.Compare(b.Due) })
	}
	want.Wakes, want.Held, want.Active, want.Lines = g.Wakes, g.Held, 5, g.Lines
	t.equal(g, want)
	few, err := t.s.Agenda(ctx, shared, 1, stalledAfter)
	t.must(err)
	t.equal([]int{len(few.Cancel), len(few.Settle), len(few.Start), len(few.Learn)}, []int{1, 1, 1, 1})
	t.equal(few.Learn[0], want.Learn[0])
}

func (t storeTest) lines() {
	ctx := t.Context()
	slash := dispatch.UserID("https://idp.example/ d/9/")
	first, jobs := t.acceptTask(slash, 5)
	second, annsJobs := t.acceptTask(ann, 2)
	single := t.accept()
	hers := t.acceptFor(bob, shared)
	l := t.lease()
	stalled := jobs[0].Job
	stalled.Phase = dispatch.Started
	t.save(stalled)
	t.db.Pass(stalledAfter)
	g := t.look()
	t.must(t.s.Renew(ctx, l, time.Minute))
	held, err := t.s.Intend(ctx, l, limits, []dispatch.Job{jobs[1].Job, jobs[2].Job, single})
	t.must(err)
	for i := range held {
		held[i].Moved = g.Now
	}
	_, err = t.s.Save(ctx, held)
	t.must(err)
	hers.Due = g.Now.Add(time.Minute)
	t.save(hers)
	g = t.look()
	if g.Held != 4 {
		t.Errorf("%d slots are held, want 4", g.Held)
	}
	want := []dispatch.Line{{Owner: slash, Task: first.ID, Held: 3, OwnerHeld: 3, Served: 2, OwnerServed: 2, First: jobs[3].ID, Due: jobs[3].Due},
		{Owner: ann, Task: second.ID, Held: 0, OwnerHeld: 1, OwnerServed: 3, First: annsJobs[0].ID, Due: annsJobs[0].Due}}
	t.equal(g.Lines, want)
	ready, err := t.s.Ready(ctx, shared, g.Lines[0], 9)
	t.must(err)
	t.equal(ready, []dispatch.Job{jobs[3].Job, jobs[4].Job})
	ready, err = t.s.Ready(ctx, shared, g.Lines[0], 1)
	t.must(err)
	t.equal(ready, []dispatch.Job{jobs[3].Job})
	ready, err = t.s.Ready(ctx, shared, dispatch.Line{Owner: bob}, 9)
	t.must(err)
	t.equal(ready, []dispatch.Job{})

	lines, err := t.s.Lines(ctx, shared)
	t.must(err)
	ids, err := t.s.Waiting(ctx, shared, g.Lines[0])
	t.must(err)
	t.equal(ids, []dispatch.JobID{jobs[3].ID, jobs[4].ID})
	want[0].Waiting, want[1].Waiting = 2, 2
	t.equal(lines, append(want, dispatch.Line{Owner: bob, Waiting: 1, First: hers.ID, Due: hers.Due}))
	lines, err = t.s.Lines(ctx, "q/shared")
	t.must(err)
	ids, err = t.s.Waiting(ctx, "q/shared", dispatch.Line{Owner: ann})
	t.must(err)
	t.equal(len(lines)+len(ids), 0)
}

// end gives a task's job a status, as a visit does.
func (t storeTest) end(id dispatch.JobID, s dispatch.Status, change func(*dispatch.Job)) dispatch.Job {
	t.Helper()
	j := t.load(id)
	j.Status = s
	if s.Final() {
		j.Phase = dispatch.Ended
	}
	if change != nil {
		change(&j)
	}
	return t.save(j)
}

func (t storeTest) tasks() {
	ctx := t.Context()
	t.accept()
	first, jobs := t.acceptTask(ann, 5)
	t.db.Pass(time.Second)
	second, _ := t.acceptTask(ann, 3)
	hers, _ := t.acceptTask(bob, 1)
	half := 50.0
	t.end(jobs[0].ID, dispatch.Finished, func(j *dispatch.Job) { j.Progress = &half }) // its progress no longer counts
	t.end(jobs[1].ID, dispatch.Failed, nil)
	t.end(jobs[2].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase, j.Progress = dispatch.Started, &half })
	_, err := t.s.Cancel(ctx, ann, jobs[4].ID, true)
	t.must(err)
	t.s = t.db.Restart()

	record := func(of dispatch.Task, progress float64, c dispatch.Counts) dispatch.TaskRecord {
		return dispatch.TaskRecord{Task: of, Counts: c, Progress: progress}
	}
	want := []dispatch.TaskRecord{record(second, 0, dispatch.Counts{dispatch.Accepted: 3}),
		record(first, 62.5, dispatch.Counts{dispatch.Finished: 1, dispatch.Failed: 1, dispatch.Running: 1, dispatch.Accepted: 1})}
	got, err := t.s.Tasks(ctx, ann, dispatch.Page{})
	t.must(err)
	t.equal(got, want)
	one, err := t.s.Task(ctx, ann, first.ID)
	t.must(err)
	t.equal(one, want[1])
	records, err := t.s.TaskJobs(ctx, ann, first.ID, dispatch.Page{})
	t.must(err)
	if len(records) != 4 {
		t.Fatalf("%d jobs, want 4", len(records))
	}
	for i, r := range records {
		want, err := t.s.Record(ctx, ann, jobs[i].ID)
		t.must(err)
		t.equal(r, want)
	}
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NeedsSignIn, "Sign in."))
	records, err = t.s.TaskJobs(ctx, ann, first.ID, dispatch.Page{})
	t.must(err)
	if records[3].Attention != dispatch.NeedsSignIn || records[2].Attention != dispatch.None {
		t.Errorf("attentions %q, %q", records[3].Attention, records[2].Attention)
	}
	t.noTask(ann, hers.ID)
	t.noTask(ann, hers.ID+1e6)
}

// noTask checks that u cannot find or change the task by any method.
func (t storeTest) noTask(u dispatch.UserID, id dispatch.TaskID) {
	t.Helper()
	_, err := t.s.Task(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.TaskJobs(t.Context(), u, id, dispatch.Page{})
	t.kind(err, dispatch.NotFound)
	_, err = t.s.CancelTask(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	_, _, err = t.s.RetryTask(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	tasks, err := t.s.Tasks(t.Context(), u, dispatch.Page{})
	t.must(err)
	if slices.ContainsFunc(tasks, func(r dispatch.TaskRecord) bool { return r.ID == id }) {
		t.Errorf("task %d is listed", id)
	}
}

func (t storeTest) cancelTask() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	other, _ := t.acceptTask(ann, 2)
	phases := []dispatch.Phase{dispatch.Waiting, dispatch.Creating, dispatch.Created, dispatch.Started, dispatch.Ended, dispatch.Waiting}
	before := make([]dispatch.Job, len(jobs))
	for i, p := range phases {
		before[i] = t.load(jobs[i].ID)
		if p != dispatch.Waiting {
			before[i].Phase, before[i].Status, before[i].Due = p, dispatch.Submitted, t.look().Now.Add(time.Hour)
			before[i].SendBy = t.look().Now.Add(30 * time.Second)
			before[i] = t.save(before[i])
		}
	}
	alone, err := t.s.Cancel(ctx, ann, jobs[5].ID, false)
	t.must(err)
	before[5] = alone
	wakes := t.look().Wakes
	t.db.Pass(time.Second)
	a, err := t.s.CancelTask(ctx, ann, task.ID)
	t.must(err)
	if a != shared || t.look().Wakes == wakes {
		t.Errorf("account %q, woken: %v", a, t.look().Wakes != wakes)
	}
	now := t.look().Now
	for i, p := range phases {
		want := before[i]
		want.Hidden = true
		if i < 4 {
			want.Desired, want.Version = dispatch.WantCancel, want.Version+1
		}
		switch {
		case i == 0:
			want.Phase, want.Status, want.Turn, want.Due, want.Moved, want.Updated = dispatch.Ended, dispatch.Canceled, 1, now, now, now
		case p.InDoubt():
			want.Due = want.SendBy.Add(dispatch.SettleMargin)
		case p == dispatch.Created, p == dispatch.Started:
			want.Due = now
		}
		t.equal(t.load(want.ID), want)
		t.foreign(ann, want.ID)
	}
	t.noTask(ann, task.ID)
	rest, err := t.s.Task(ctx, ann, other.ID)
	t.must(err)
	t.equal(rest.Counts, dispatch.Counts{dispatch.Accepted: 2})

	for _, j := range jobs {
		t.end(j.ID, dispatch.Canceled, nil)
	}
	t.db.Pass(2 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	_, err = t.s.Load(ctx, jobs[0].ID)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Task(ctx, ann, other.ID)
	t.must(err)
}

func (t storeTest) retryTask() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	failed := t.end(jobs[0].ID, dispatch.Failed, func(j *dispatch.Job) { j.Ref, j.Failure = dispatch.Ref{Base: "b", ID: "x"}, "no data" })
	twice := t.end(jobs[1].ID, dispatch.Failed, func(j *dispatch.Job) { j.Past = []dispatch.Ref{{ID: "y"}} })
	finished := t.end(jobs[2].ID, dispatch.Finished, nil)
	deleted := t.end(jobs[3].ID, dispatch.Failed, nil)
	_, err := t.s.Cancel(ctx, ann, deleted.ID, true)
	t.must(err)
	unwanted, err := t.s.Cancel(ctx, ann, jobs[4].ID, false)
	t.must(err)
	unwanted = t.end(unwanted.ID, dispatch.Failed, nil)
	t.db.Pass(time.Minute)
	wakes := t.look().Wakes
	a, n, err := t.s.RetryTask(ctx, ann, task.ID)
	t.must(err)
	if a != shared || n != 2 || t.look().Wakes == wakes {
		t.Errorf("account %q, %d jobs, woken: %v", a, n, t.look().Wakes != wakes)
	}
	for _, j := range []dispatch.Job{failed, twice} {
		want := j.Retry(t.look().Now)
		want.Version++
		t.equal(t.load(j.ID), want)
	}
	for _, j := range []dispatch.Job{finished, unwanted, jobs[5].Job} {
		t.equal(t.load(j.ID), j)
	}
	if j := t.load(deleted.ID); j.Phase != dispatch.Ended {
		t.Errorf("a deleted job is %s", j.Phase)
	}
	wakes = t.look().Wakes
	if _, n, err := t.s.RetryTask(ctx, ann, task.ID); err != nil || n != 0 || t.look().Wakes != wakes {
		t.Errorf("nothing failed, and %d are retried, %v", n, err)
	}
	if kept, err := t.s.Save(ctx, []dispatch.Job{failed}); err != nil || len(kept) > 0 {
		t.Errorf("saved over a retry: %v, %v", kept, err)
	}
}

func (t storeTest) awaitTask() {
	ctx := t.Context()
	alone := t.accept()
	task, jobs := t.acceptTask(ann, 2)
	other, more := t.acceptTask(ann, 1)
	all := []dispatch.JobID{alone.ID, jobs[0].ID, more[0].ID}
	for _, c := range []struct {
		scope dispatch.Scope
		want  []dispatch.JobID
	}{
		{dispatch.Scope{Task: task.ID}, []dispatch.JobID{jobs[0].ID}},
		{dispatch.Scope{Task: other.ID}, []dispatch.JobID{more[0].ID}},
		{dispatch.Scope{Alone: true}, []dispatch.JobID{alone.ID}},
		{dispatch.Scope{Tasks: true}, []dispatch.JobID{jobs[0].ID, more[0].ID}},
		{dispatch.Scope{Alone: true, Tasks: true}, all},
		{dispatch.Scope{Job: jobs[0].ID}, []dispatch.JobID{jobs[0].ID}},
		{dispatch.Scope{Job: jobs[1].ID}, nil}, // it waits
		{dispatch.Scope{}, nil},
	} {
		for _, id := range all {
			j := t.load(id)
			j.Phase, j.Awaited = dispatch.Started, false
			t.save(j)
		}
		as, err := t.s.Await(ctx, ann, c.scope, time.Second, 0)
		t.must(err)
		awaited, err := t.s.Awaited(ctx, ann, c.scope)
		t.must(err)
		if len(as) > 0 != (len(c.want) > 0) || awaited != (len(c.want) > 0) {
			t.Errorf("%+v: accounts %v, awaited %v", c.scope, as, awaited)
		}
		for _, id := range all {
			if is := t.load(id).Awaited; is != slices.Contains(c.want, id) {
				t.Errorf("%+v: job %d awaited: %v", c.scope, id, is)
			}
		}
		if hers, err := t.s.Awaited(ctx, bob, c.scope); err != nil || hers {
			t.Errorf("%+v: awaited by another: %v, %v", c.scope, hers, err)
		}
	}
}

// quotas checks that quotas count stored jobs, per account or in total, and deleted jobs for a day.
func (t storeTest) quotas() {
	ctx := t.Context()
	ask := func(u dispatch.UserID, a dispatch.Account, n int, within ...dispatch.Quota) error {
		jobs := make([]dispatch.Draft, n)
		for i := range jobs {
			jobs[i] = draft(u, a)
		}
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, jobs, within...)
		return err
	}
	refused := func(err error, text string) {
		t.Helper()
		t.kind(err, dispatch.LimitReached)
		if got := dispatch.TextFor(err); got != text {
			t.Errorf("refused with %q, want %q", got, text)
		}
	}
	all, here := dispatch.Quota{Live: 5}, dispatch.Quota{Account: shared, Live: 3, Daily: 6}
	t.must(ask(ann, shared, 2, all, here))
	wakes := t.look().Wakes
	refused(ask(ann, shared, 2, all, here), "A user may have 3 jobs at p that have not ended. You have 2, and ask for 2.")
	t.must(ask(ann, "q/shared", 2, all, dispatch.Quota{Account: "q/shared", Live: 2}))
	refused(ask(ann, "q/shared", 2, all), "A user may have 5 jobs that have not ended. You have 4, and ask for 2.")
	t.must(ask(bob, shared, 3, all, here))
	if g := t.look(); g.Wakes != wakes+1 {
		t.Errorf("%d wakes: what was refused wakes", g.Wakes-wakes)
	}
	list, err := t.s.Records(ctx, ann, dispatch.Page{})
	t.must(err)
	if len(list) != 4 {
		t.Fatalf("%d jobs were kept", len(list))
	}
	for _, r := range list {
		_, err := t.s.Cancel(ctx, ann, r.ID, true)
		t.must(err)
	}
	t.must(ask(ann, shared, 3, all, here))
	_, err = t.s.Cancel(ctx, ann, list[0].ID+5, false)
	t.kind(err, dispatch.NotFound) // another user's
	mine, err := t.s.Records(ctx, ann, dispatch.Page{})
	t.must(err)
	_, err = t.s.Cancel(ctx, ann, mine[0].ID, false)
	t.must(err)
	refused(ask(ann, shared, 2, dispatch.Quota{Account: shared, Daily: 6}), "A user may submit 6 jobs at p in 24 hours. You submitted 5, and ask for 2.")
	t.must(ask(ann, shared, 1, all, here))
	t.db.Pass(dispatch.Day)
	t.must(ask(ann, "q/shared", 1, dispatch.Quota{Daily: 1}))
}

// parallelQuotas checks that concurrent submits, in any process, use up the quota exactly.
func (t storeTest) parallelQuotas() {
	const most = 7
	handles := t.handles(4)
	var all sync.WaitGroup
	var kept, turned atomic.Int64
	for i := range 24 {
		all.Go(func() {
			jobs := []dispatch.Draft{draft(ann, shared)}
			k := dispatch.Key{Text: fmt.Sprint(i), Fingerprint: "f"}
			_, err := handles[i%len(handles)].Accept(t.Context(), k, nil, jobs, dispatch.Quota{Live: 100}, dispatch.Quota{Account: shared, Live: most})
			switch {
			case err == nil:
				kept.Add(1)
			case dispatch.Is(err, dispatch.LimitReached):
				turned.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := t.s.Records(t.Context(), ann, dispatch.Page{})
	t.must(err)
	if len(list) != most || kept.Load() != most || turned.Load() != 24-most {
		t.Errorf("%d kept, %d said to be, %d turned away", len(list), kept.Load(), turned.Load())
	}
}

// keysBeyondQuotas checks that a key returns what it stands for regardless of the quota, and stands for nothing that a quota
// refused.
func (t storeTest) keysBeyondQuotas() {
	ctx, one := t.Context(), dispatch.Quota{Live: 1}
	accept := func(k dispatch.Key) (dispatch.Repeated, dispatch.JobID, error) {
		jobs := []dispatch.Draft{draft(ann, shared)}
		r, err := t.s.Accept(ctx, k, nil, jobs, one)
		return r, jobs[0].ID, err
	}
	first, second := dispatch.Key{Text: "k", Fingerprint: "f"}, dispatch.Key{Text: "l", Fingerprint: "f"}
	_, id, err := accept(first)
	t.must(err)
	r, _, err := accept(first)
	t.must(err)
	t.equal(r, dispatch.Repeated{Job: id})
	_, _, err = accept(dispatch.Key{Text: "k", Fingerprint: "g"})
	t.kind(err, dispatch.Conflict)
	_, _, err = accept(second)
	t.kind(err, dispatch.LimitReached)
	_, err = t.s.Cancel(ctx, ann, id, false)
	t.must(err)
	r, _, err = accept(second)
	t.must(err)
	t.equal(r, dispatch.Repeated{})
}

// retryWithinQuota checks that a retried task counts as live again.
func (t storeTest) retryWithinQuota() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 3)
	for _, j := range jobs[:2] {
		t.end(j.ID, dispatch.Failed, nil)
	}
	_, _, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Quota{Live: 2})
	t.kind(err, dispatch.LimitReached)
	if j := t.load(jobs[0].ID); j.Phase != dispatch.Ended {
		t.Errorf("after a refused retry, a job is %s", j.Phase)
	}
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Quota{Live: 3})
	t.must(err)
	if n != 2 {
		t.Errorf("%d jobs are retried", n)
	}
}

func (t storeTest) listable() {
	want := []dispatch.JobID{}
	for _, c := range []struct {
		base  string
		phase dispatch.Phase
	}{
		{"", dispatch.Waiting}, {"", dispatch.Creating}, {"", dispatch.Created}, {"", dispatch.Starting}, {"", dispatch.Started},
		{"", dispatch.Ended}, {"n", dispatch.Started},
	} {
		d := draft(ann, shared)
		d.Base = c.base
		drafts := []dispatch.Draft{d}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, drafts)
		t.must(err)
		j := drafts[0].Job
		j.Phase = c.phase
		j.Due = j.Due.Add(time.Hour)
		t.save(j)
		if c.base == "" && (c.phase == dispatch.Creating || c.phase == dispatch.Started) {
			want = append(want, j.ID)
		}
	}
	bases, err := t.s.Bases(t.Context(), shared)
	t.must(err)
	t.equal(bases, []string{"", "n"})
	jobs, err := t.s.Listable(t.Context(), shared, "")
	t.must(err)
	got := []dispatch.JobID{}
	for _, j := range jobs {
		got = append(got, j.ID)
	}
	t.equal(got, want)
}

func (t storeTest) pages() {
	ctx := t.Context()
	all := []dispatch.JobID{}
	for i := range 7 {
		j := t.acceptFor(ann, []dispatch.Account{shared, "q/shared"}[i%2])
		if i%3 == 0 {
			j.Status, j.Updated = dispatch.Running, j.Updated.Add(time.Hour)
			j = t.save(j)
		}
		all = append([]dispatch.JobID{j.ID}, all...)
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	t.acceptFor(bob, shared)
	t.acceptTask(ann, 2)
	page := func(p dispatch.Page) (ids []dispatch.JobID, last dispatch.Place) {
		t.Helper()
		records, err := t.s.Records(ctx, ann, p)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), dispatch.Place{Created: r.Created, ID: int64(r.ID)}
		}
		return ids, last
	}
	t.equal(inParts(3, page, func(first dispatch.JobID) { // a new one comes first, and a deleted one shifts nothing
		t.acceptFor(ann, shared)
		_, err := t.s.Cancel(ctx, ann, first, true)
		t.must(err)
	}), all)
	ids, _ := page(dispatch.Page{Limit: 9, Statuses: []dispatch.Status{dispatch.Running, dispatch.Queued}})
	t.equal(ids, []dispatch.JobID{all[3], all[6]})
	ids, _ = page(dispatch.Page{Limit: 9, Accounts: []dispatch.Account{"q/shared", "r/shared"}})
	t.equal(ids, []dispatch.JobID{all[1], all[3], all[5]})
	ids, _ = page(dispatch.Page{Limit: 9, Since: t.load(all[3]).Updated.Add(-time.Minute)})
	t.equal(ids, []dispatch.JobID{all[3], all[6]}[:len(ids)])
}

// inParts reads a list completely, some entries at a time. After the first part it calls change with the first entry.
func inParts[ID any](some int, page func(dispatch.Page) ([]ID, dispatch.Place), change func(first ID)) (read []ID) {
	for after := (dispatch.Place{}); ; {
		ids, last := page(dispatch.Page{After: after, Limit: some})
		if len(ids) == 0 {
			return read
		}
		read, after = append(read, ids...), last
		if len(read) == some {
			change(read[0])
		}
	}
}

// taskPages reads tasks, and the jobs of one, in parts while they change.
func (t storeTest) taskPages() {
	ctx := t.Context()
	var all []dispatch.TaskID
	var jobs []dispatch.Draft
	for i := range 6 {
		task, its := t.acceptTask(ann, 3)
		all, jobs = append([]dispatch.TaskID{task.ID}, all...), its
		if i%2 == 0 {
			for _, j := range its {
				t.end(j.ID, dispatch.Failed, nil)
			}
		}
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	t.acceptTask(bob, 1)
	tasks := func(p dispatch.Page) (ids []dispatch.TaskID, last dispatch.Place) {
		t.Helper()
		records, err := t.s.Tasks(ctx, ann, p)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), dispatch.Place{Created: r.Created, ID: int64(r.ID)}
		}
		return ids, last
	}
	t.equal(inParts(2, tasks, func(first dispatch.TaskID) { // as in pages
		t.acceptTask(ann, 1)
		_, err := t.s.CancelTask(ctx, ann, first)
		t.must(err)
	}), all)
	all = all[1:]
	failed := []dispatch.TaskID{all[0], all[2], all[4]}
	for limit := range 4 {
		ids, _ := tasks(dispatch.Page{Limit: limit, Statuses: []dispatch.Status{dispatch.Failed, dispatch.Unknown}})
		want := failed
		if limit > 0 {
			want = failed[:limit]
		}
		t.equal(ids, want)
	}
	ids, _ := tasks(dispatch.Page{Limit: 9, Accounts: []dispatch.Account{"q/shared"}})
	t.equal(ids, []dispatch.TaskID{})

	id := jobs[0].Task
	is, err := t.s.Task(ctx, ann, all[0])
	t.must(err)
	j := t.load(t.numbers(all[0], dispatch.Page{})[1])
	j.Updated = is.Updated.Add(time.Second)
	t.save(j)
	ids, _ = tasks(dispatch.Page{Since: is.Updated})
	t.equal(ids[len(ids)-1:], all[:1])
	now, err := t.s.Task(ctx, ann, all[0])
	t.must(err)
	t.equal(now.Updated, j.Updated)
	t.equal(t.numbers(all[0], dispatch.Page{Since: is.Updated}), []dispatch.JobID{j.ID})
	t.noTask(ann, id)

	task, its := t.acceptTask(ann, 5)
	t.end(its[1].ID, dispatch.Running, nil)
	t.end(its[3].ID, dispatch.Running, nil)
	_, err = t.s.Cancel(ctx, ann, its[2].ID, true)
	t.must(err)
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 2}), []dispatch.JobID{its[0].ID, its[1].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 2, After: dispatch.Place{ID: 2}}), []dispatch.JobID{its[3].ID, its[4].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{After: dispatch.Place{ID: 5}}), []dispatch.JobID{})
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 1, After: dispatch.Place{ID: 2}, Statuses: []dispatch.Status{dispatch.Running}}), []dispatch.JobID{its[3].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{Accounts: []dispatch.Account{"q/shared"}}), []dispatch.JobID{})
}

// taskAttention checks the attention of a task whose jobs wait for different things.
func (t storeTest) taskAttention() {
	task, jobs := t.acceptTask(ann, 3)
	shows := func(want dispatch.Attention) {
		t.Helper()
		is, err := t.s.Task(t.Context(), ann, task.ID)
		t.must(err)
		list, err := t.s.Tasks(t.Context(), ann, dispatch.Page{})
		t.must(err)
		t.equal([]dispatch.Attention{is.Attention, list[0].Attention}, []dispatch.Attention{want, want})
	}
	shows(dispatch.None)
	for i, step := range []struct{ is, want dispatch.Attention }{
		{dispatch.NotTaken, dispatch.NotTaken}, {dispatch.NeedsSignIn, dispatch.NeedsSignIn}, {dispatch.Stalled, dispatch.NeedsSignIn},
	} {
		j := t.load(jobs[i].ID)
		j.Attention = step.is
		t.save(j)
		shows(step.want)
	}
	_, err := t.s.Cancel(t.Context(), ann, jobs[1].ID, true)
	t.must(err)
	shows(dispatch.Stalled)
}

// largePages reads lists of requests that are too large to be read at once.
func (t storeTest) largePages() {
	ctx := t.Context()
	large := dispatch.Request{Title: "é \"quoted\"", Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: "https://p.example", Application: "a"},
		Parameters: json.RawMessage(`{"x":"` + strings.Repeat("é", 4000) + `"}`), Format: "json"}
	small := large
	small.Parameters = json.RawMessage(`{"x":1}`)
	for _, r := range []dispatch.Request{large, small} {
		d := draft(ann, shared)
		d.Body = must(json.Marshal(r))
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{d})
		t.must(err)
		t.db.Pass(time.Millisecond)
	}
	head := large
	head.Parameters, head.Format = nil, ""
	records, err := t.s.Records(ctx, ann, dispatch.Page{Most: 1000})
	t.must(err)
	t.equal([]dispatch.Request{records[0].Request, records[1].Request}, []dispatch.Request{small, head})
	t.equal([]bool{records[0].Cut, records[1].Cut}, []bool{false, true})
	if is := len(must(json.Marshal(large))); records[1].Size != is {
		t.Errorf("the large request has %d bytes, not %d", records[1].Size, is)
	}
	records, err = t.s.Records(ctx, ann, dispatch.Page{Most: -1})
	t.must(err)
	t.equal([]dispatch.Request{records[0].Request, records[1].Request}, []dispatch.Request{{}, {}})

	value := json.RawMessage(`"` + strings.Repeat("v", 2000) + `"`)
	task := &dispatch.Task{Owner: ann, Account: shared, Request: large, Dimension: "d"}
	drafts := []dispatch.Draft{draft(ann, shared), draft(ann, shared)}
	for i, v := range []json.RawMessage{json.RawMessage("7"), value} {
		drafts[i].Number, drafts[i].Body = i+1, v
	}
	_, err = t.s.Accept(ctx, dispatch.Key{}, task, drafts)
	t.must(err)
	jobs, err := t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{Most: 1000})
	t.must(err)
	head.Title = "é \"quoted\" - Processing Job 2"
	t.equal(jobs[1].Request, head)
	t.equal([]json.RawMessage{jobs[0].Value, jobs[1].Value}, []json.RawMessage{json.RawMessage("7"), nil})
	t.equal([]bool{jobs[0].Cut, jobs[1].Cut}, []bool{false, true})
	tasks, err := t.s.Tasks(ctx, ann, dispatch.Page{Most: 1000})
	t.must(err)
	head.Title = large.Title
	t.equal(tasks[0].Request, head)
	whole, err := t.s.Request(ctx, jobs[1].ID)
	t.must(err)
	want, err := task.For(2, value)
	t.must(err)
	t.equal(whole, want)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// numbers returns the ids of a page of a task's jobs.
func (t storeTest) numbers(id dispatch.TaskID, p dispatch.Page) (ids []dispatch.JobID) {
	t.Helper()
	records, err := t.s.TaskJobs(t.Context(), ann, id, p)
	t.must(err)
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

func (t storeTest) installation() {
	name, err := t.s.Installation(t.Context())
	t.must(err)
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		t.Errorf("%q is not a text of letters and digits", name)
	}
	if other, err := t.db.Open().Installation(t.Context()); err != nil || other != name {
		t.Errorf("another handle says %q, %v", other, err)
	}
	t.s = t.db.Restart()
	if other, err := t.s.Installation(t.Context()); err != nil || other != name {
		t.Errorf("after a restart %q, %v", other, err)
	}
	t.must(t.s.Ping(t.Context()))
}
