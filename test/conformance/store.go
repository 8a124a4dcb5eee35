package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Database provides the stores of a test. Its clock moves only by Pass.
type Database struct {
	// Open returns one more handle, as another process would have. Where only one process may open the data, it returns
	// the existing one.
	Open func() Store
	// Restart returns the handle of a process that starts after all others have ended.
	Restart func() Store
	// Pass moves the clock forward or back.
	Pass func(time.Duration)
}

// storeTests are the tests of TestStore.
var storeTests = []struct {
	name string
	test func(storeTest)
}{
	{"every field comes back", storeTest.fields},
	{"requests come back", storeTest.requests},
	{"another's and hidden are not found", storeTest.owners},
	{"a job that cannot be kept keeps all out", storeTest.allOrNone},
	{"one draft with a dimension is all jobs of a task", storeTest.dimension},
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
	{"what is read of results", storeTest.items},
	{"searches of results", storeTest.itemSearches},
	{"documents are kept", storeTest.documents},
	{"a changed document is shown on what waits", storeTest.redefine},
	{"lists by the placements of a task", storeTest.placementsInLists},
	{"a changed document at a placement of a task", storeTest.redefinePlacements},
	{"a changed document of many jobs", storeTest.redefineMany},
	{"a document accepted by many at once while others are purged", storeTest.parallelDocuments},
	{"cancel", storeTest.cancel},
	{"an intent needs the owner's wish", storeTest.intend},
	{"await", storeTest.await},
	{"plans follow a clock that is set back", storeTest.clockBack},
	{"a lease of a clock that is set back", storeTest.leaseBack},
	{"hold", storeTest.hold},
	{"give up", storeTest.giveUp},
	{"usage", storeTest.usage},
	{"costs stay booked", storeTest.ledger},
	{"costs of a job that is retried by itself", storeTest.retriedCosts},
	{"costs are booked by label", storeTest.labelCosts},
	{"a budget is kept", storeTest.budgets},
	{"a budget that cannot be kept", storeTest.oddBudgets},
	{"a budget and a pause", storeTest.ownBudgets},
	{"a budget of a large task", storeTest.largeBudgets},
	{"a budget by earlier runs", storeTest.guessedBudgets},
	{"a task runs on trial", storeTest.trials},
	{"a budget under parallel changes", storeTest.parallelBudgets},
	{"finished runs of a service", storeTest.finishedRuns},
	{"a quota on costs", storeTest.costQuota},
	{"costs that are still to be read", storeTest.unmetered},
	{"jobs that are to be removed from their platform", storeTest.removals},
	{"synchronous runs", storeTest.syncRuns},
	{"unstarted jobs", storeTest.unstarted},
	{"unstarted jobs are started", storeTest.start},
	{"an unstarted job started by many at once", storeTest.parallelStarts},
	{"unstarted jobs count in quotas", storeTest.unstartedInQuotas},
	{"requests with a process", storeTest.processes},
	{"how accounts stand", storeTest.standings},
	{"what platforms show of starts", storeTest.starts},
	{"what runs", storeTest.running},
	{"restored from an older state", storeTest.restored},
	{"the rate is kept by many", storeTest.rate},
	{"calls of people do not queue behind status reads", storeTest.kept},
	{"a send time is booked ahead", storeTest.ahead},
	{"who reads again is planned for", storeTest.planned},
	{"an account whose turn comes is not woken to be read", storeTest.turn},
	{"the rate after a jump of the clock", storeTest.rateJumps},
	{"purge", storeTest.purge},
	{"the agenda has its classes", storeTest.agenda},
	{"queues and slots", storeTest.queues},
	{"waiting jobs without their document", storeTest.unprepared},
	{"which jobs hold slots", storeTest.slots},
	{"slots for days", storeTest.slotsForDays},
	{"who was served when", storeTest.turns},
	{"turns that matter no more", storeTest.forgottenTurns},
	{"leases that ran out", storeTest.lapses},
	{"what a listing can tell about", storeTest.listable},
	{"pages", storeTest.pages},
	{"pages of tasks and of a task", storeTest.taskPages},
	{"pages that begin with the oldest", storeTest.oldestFirst},
	{"pages of large requests", storeTest.largePages},
	{"pages of finished jobs", storeTest.finishedPages},
	{"annotations", storeTest.annotations},
	{"lists by label", storeTest.labelFilters},
	{"annotations changed by many at once", storeTest.parallelAnnotations},
	{"warnings come back", storeTest.warnings},
	{"a task shows what its jobs wait for", storeTest.taskAttention},
	{"installation", storeTest.installation},
	{"tasks and their counts", storeTest.tasks},
	{"several dimensions of a task", storeTest.dimensions},
	{"numbers of changes", storeTest.takenNumbers},
	{"numbers of changes and holds", storeTest.numbersOfAccounts},
	{"numbers of changes that are not known any more", storeTest.numbersAnew},
	{"numbers of changes and changed documents", storeTest.numbersOfDocuments},
	{"pages of changes", storeTest.numberedPages},
	{"changes by many at once", storeTest.parallelNumbers},
	{"a task is deleted", storeTest.cancelTask},
	{"a task is canceled and kept", storeTest.cancelAndKeep},
	{"a task is paused and resumed", storeTest.pauses},
	{"a paused task and other changes", storeTest.pausesAndOthers},
	{"a task shows that it is paused only while it is", storeTest.pausedJobsAlone},
	{"orphans of paused jobs are canceled", storeTest.pausedOrphan},
	{"an ended task is not paused", storeTest.pauseAfterEnd},
	{"a task changed by many at once", storeTest.parallelPauses},
	{"chosen jobs of a task", storeTest.choices},
	{"a task is retried", storeTest.retryTask},
	{"await a task", storeTest.awaitTask},
	{"jobs of a task move", storeTest.placements},
	{"costs of a job that moves stay where they were", storeTest.placementsCosts},
	{"jobs of a task move within limits", storeTest.placementsHeld},
	{"placements of a task at which jobs fail", storeTest.placementsFailing},
	{"placements of a task and a restore", storeTest.placementsRestored},
	{"the holder of an identifier at a platform", storeTest.refHolder},
	{"jobs are moved and submitted at once", storeTest.parallelMoves},
	{"quotas", storeTest.quotas},
	{"quotas of many at once", storeTest.parallelQuotas},
	{"keys beyond quotas", storeTest.keysBeyondQuotas},
	{"a retry within a quota", storeTest.retryWithinQuota},
	{"a quota of bytes", storeTest.quotaOfBytes},
	{"a progress between two numbers", storeTest.roundedProgress},
	{"counts changed by many at once", storeTest.parallelCounts},
}

// TestStore runs the tests that every Store must pass, and compares kept counts with the jobs after each. New creates
// an empty database that ends with the test.
func TestStore(t *testing.T, new func(*testing.T) Database) {
	for _, c := range storeTests {
		t.Run(c.name, func(t *testing.T) {
			db := new(t)
			c.test(storeTest{t, db, db.Open()})
			CheckCounts(t, db.Open())
		})
	}
}

type storeTest struct {
	*testing.T
	db Database
	s  Store
}

const (
	ann    dispatch.UserID  = "https://idp.example/realm ann"
	bob    dispatch.UserID  = "https://idp.example/realm bob"
	shared dispatch.Account = "p/shared"
)

const stalledAfter = 6 * time.Hour

var limits = dispatch.Limits{Jobs: 2, Requests: 2, Pace: 100 * time.Millisecond, Send: 30 * time.Second,
	MinPoll: 2 * time.Second}

// same compares values from stores.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(dispatch.Job{}, "Loaded")}

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
	return dispatch.Draft{Body: body(), Job: dispatch.Job{Identity: dispatch.Identity{Owner: u, MaxDuration: time.Hour,
		Retries: 3, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		Target: dispatch.Target{Account: a, Base: "base", Service: -7}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}, Condition: dispatch.Condition{Status: dispatch.Accepted}}}
}

func request() dispatch.Request {
	namespace := "n"
	return dispatch.Request{Title: "title <é>", Label: dispatch.OpenEO, Format: "gtiff",
		Service:    dispatch.Service{Endpoint: "https://p.example", Namespace: &namespace, Application: "a"},
		Parameters: json.RawMessage(`{"big":12345678901234567890.10,"none":null,"tag":"<&>"}`),
		Options:    json.RawMessage(`{"memory":"4g"}`)}
}

// body returns request as JSON, byte for byte.
func body() []byte {
	r := request()
	return fmt.Appendf(nil,
		`{"title":%q,"label":"openeo","service":{"endpoint":"https://p.example","namespace":"n","application":"a"},
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

func (t storeTest) readAgenda() dispatch.Agenda {
	t.Helper()
	g, err := t.s.Agenda(t.Context(), shared, 100, 0)
	t.must(err)
	return g
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
