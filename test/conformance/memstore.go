package conformance

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// MemStore is a [conformance.Store] in memory: fast, and the model against which the SQL stores are compared. Its
// methods implement those of [conformance.Store], which documents them.
type MemStore struct {
	clock dispatch.Clock

	mu        sync.Mutex
	lastJob   dispatch.JobID
	lastTask  dispatch.TaskID
	jobs      []*row // by id
	tasks     map[dispatch.TaskID]dispatch.Task
	keys      map[ownKey]*usedKey
	accounts  map[dispatch.Account]*account
	tables    map[string]*dispatch.Schedule // by platform
	defined   map[owned]*definition
	runs      []*syncRun // synchronous, by id
	unstarted []dispatch.Unstarted
	heard     map[string]dispatch.AccountInfo // of platforms
	found     map[found]dispatch.Unrecognized
	served    map[string]time.Time // when a process last noted that it serves a platform
	sources   map[string]*source
	processes map[dispatch.UserID]map[string]dispatch.StoredProcess
	operators map[string]string // notices of operators' holds, by scope
	ledger    map[charged]dispatch.Charge
	labeled   map[costLabel]dispatch.Charge
	spent     map[taskUnit]dispatch.Charge // of tasks
	spread    map[dispatch.TaskID]int64    // see dispatch.SpreadTask.Seen
	numbers   map[dispatch.UserID]*numbers
}

// charged identifies an entry of the ledger.
type charged struct {
	owner       dispatch.UserID
	account     dispatch.Account
	month, unit string
}

// costLabel identifies what runs cost by a label.
type costLabel struct {
	charged
	name, value string
}

type taskUnit struct {
	task dispatch.TaskID
	unit string
}

// owned identifies a task, a further placement of a task, or a job without a task.
type owned struct {
	task      dispatch.TaskID
	job       dispatch.JobID
	placement dispatch.Account
}

type row struct {
	dispatch.Job
	body  []byte
	item  *memItem // nil: it has none
	bytes int64    // of the request, see dispatch.Draft
}

type ownKey struct {
	owner dispatch.UserID
	text  string
}

type usedKey struct {
	fingerprint string
	first       dispatch.KeyTarget
	at          time.Time
}

type account struct {
	generation       int64
	until, due, hold time.Time
	since            time.Time // when it began to wait for its user
	wakes            int64
	why              dispatch.Attention
	notice           string
	booked           [2]time.Time // per purpose
	restored         dispatch.Restored
	served           int64 // number of slots given to its jobs
	lapses           int   // number of expired leases
	lapsed           time.Time
	turns            map[dispatch.Queue]int64
	owners           map[dispatch.UserID]int64
}

var _ Store = (*MemStore)(nil)

// NewMemStore returns an empty store that uses the time of c.
func NewMemStore(c dispatch.Clock) *MemStore {
	return &MemStore{
		clock: c, tasks: map[dispatch.TaskID]dispatch.Task{}, keys: map[ownKey]*usedKey{},
		accounts: map[dispatch.Account]*account{}, tables: map[string]*dispatch.Schedule{},
		defined: map[owned]*definition{}, heard: map[string]dispatch.AccountInfo{}, served: map[string]time.Time{},
		sources: map[string]*source{}, processes: map[dispatch.UserID]map[string]dispatch.StoredProcess{},
		ledger: map[charged]dispatch.Charge{}, labeled: map[costLabel]dispatch.Charge{},
		spent: map[taskUnit]dispatch.Charge{}, operators: map[string]string{}, spread: map[dispatch.TaskID]int64{},
		numbers: map[dispatch.UserID]*numbers{},
	}
}

// lock locks the store and returns the time and the function to unlock.
func (s *MemStore) lock() (now time.Time, unlock func()) {
	s.mu.Lock()
	return micros(s.clock.Now()), s.mu.Unlock
}

func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0).Truncate(time.Microsecond)
}

// of returns an account's row, and creates it if there is none.
func (s *MemStore) of(a dispatch.Account) *account {
	if s.accounts[a] == nil {
		s.accounts[a] = &account{}
	}
	return s.accounts[a]
}

// wake wakes an account. One that is already due keeps its place in the queue.
func (s *MemStore) wake(a dispatch.Account, now time.Time) {
	acc := s.of(a)
	acc.wakes++
	if acc.due.IsZero() || acc.due.After(now) {
		acc.due = now
	}
}

func notFound() error {
	return &dispatch.Error{Kind: dispatch.NotFound, Op: "conformance.MemStore", Text: "There is no such job."}
}

func conflict() error {
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "conformance.MemStore",
		Text: "The record was changed by another request."}
}

func (s *MemStore) find(id dispatch.JobID) (*row, error) {
	for _, r := range s.jobs {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, notFound()
}

// owned returns a job of its owner, even if it is hidden.
func (s *MemStore) owned(u dispatch.UserID, id dispatch.JobID) (*row, error) {
	r, err := s.find(id)
	if err == nil && r.Owner != u {
		return nil, notFound()
	}
	return r, err
}

// visible returns a job of its owner unless it is hidden.
func (s *MemStore) visible(u dispatch.UserID, id dispatch.JobID) (*row, error) {
	r, err := s.owned(u, id)
	if err == nil && r.Hidden {
		return nil, notFound()
	}
	return r, err
}

func (r *row) job() dispatch.Job {
	j := r.Job
	j.Orphans, j.Past = slices.Clone(j.Orphans), slices.Clone(j.Past)
	return j
}

func (s *MemStore) NoteResponse(_ context.Context, platform, failure string, unless time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	heard := s.heard[platform]
	if failure == "" {
		heard.Answered = now
	} else if heard.Answered.IsZero() || now.Sub(heard.Answered) >= unless {
		heard.Failed, heard.Failure = now, strings.ReplaceAll(failure, "\x00", "\uFFFD")
	}
	s.heard[platform] = heard
	return nil
}

func (s *MemStore) NoteStarts(_ context.Context, platform string, seen dispatch.StartsSeen) error {
	_, unlock := s.lock()
	defer unlock()
	heard := s.heard[platform]
	if seen.Lagged {
		heard.Starts.Starts = 0
	}
	heard.Starts.Starts += seen.Prompt
	heard.Starts.Lag = max(heard.Starts.Lag, seen.Lag.Truncate(time.Microsecond))
	s.heard[platform] = heard
	return nil
}

func (s *MemStore) AccountInfo(_ context.Context, u dispatch.UserID, accounts []dispatch.Account,
	stalled map[dispatch.Account]time.Duration) (all []dispatch.AccountInfo, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, a := range accounts {
		heard := s.heard[a.Platform()]
		is := dispatch.AccountInfo{Account: a, Answered: heard.Answered, Failed: heard.Failed, Failure: heard.Failure,
			Starts: heard.Starts}
		if acc := s.accounts[a]; acc != nil && acc.hold.After(now) {
			is.Hold, is.Why, is.Notice = acc.hold, acc.why, acc.notice
		}
		for _, r := range s.jobs {
			is = s.addJob(is, u, r.Job, now, stalled[a])
		}
		live, lately := s.countRuns(u, dispatch.Quota{Account: a, Live: math.MaxInt, Daily: math.MaxInt}, now)
		is.Live, is.Lately = is.Live+live, is.Lately+lately
		unstarted, bytes := s.countUnstarted(u, a, now)
		is.Live += unstarted
		if a == "" {
			is.Bytes = s.bytes(u, now) + bytes
		}
		all = append(all, is)
	}
	return all, nil
}

// addJob adds a job to the state of an account.
func (s *MemStore) addJob(is dispatch.AccountInfo, u dispatch.UserID, j dispatch.Job, now time.Time,
	stalled time.Duration) dispatch.AccountInfo {
	if j.Phase == dispatch.Waiting && !j.Paused && j.Account.Platform() == is.Account.Platform() {
		is.Queue++
	}
	here := j.Account == is.Account
	if here && j.Phase.HoldsSlot() && !j.FreesSlot(stalled, now) {
		is.Held++
	}
	if j.Owner != u || !here && is.Account != "" {
		return is
	}
	if j.Phase != dispatch.Ended {
		is.Live++
	}
	if j.Created.After(now.Add(-dispatch.Day)) {
		is.Lately++
	}
	switch {
	case !here:
	case j.Phase == dispatch.Waiting && !j.Paused:
		is.Waiting++
	case j.Phase.HoldsSlot():
		is.Active++
	}
	return is
}

func (s *MemStore) Installation(context.Context) (string, error) { return "memory", nil }

func (s *MemStore) Purge(_ context.Context, keep time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	s.jobs = slices.DeleteFunc(s.jobs, func(r *row) bool {
		return r.Hidden && r.Phase == dispatch.Ended && len(r.Orphans) == 0 && r.Removal.Due.IsZero() &&
			r.Moved.Before(now.Add(-keep))
	})
	for id, t := range s.tasks {
		if t.Hidden && !slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Task == id }) {
			delete(s.tasks, id)
		}
	}
	s.runs = slices.DeleteFunc(s.runs, func(r *syncRun) bool {
		old := now.Add(-dispatch.SyncRunLife)
		return r.Created.Before(old) && r.lapses.Before(old)
	})
	s.unstarted = slices.DeleteFunc(s.unstarted, func(n dispatch.Unstarted) bool { return !n.Expires.After(now) })
	for k, used := range s.keys {
		if now.Sub(used.at) >= dispatch.KeyLife {
			delete(s.keys, k)
		}
	}
	kept := now.Add(-dispatch.LabelCostsLife).UTC().Format("2006-01")
	maps.DeleteFunc(s.labeled, func(k costLabel, _ dispatch.Charge) bool { return k.month < kept })
	s.forgetTurns()
	return nil
}

func (s *MemStore) Ping(context.Context) error { return nil }
