package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// ClockJump is how far a store's clock must have been set back before plans are moved. Plans that lie less far ahead
// are not moved.
const ClockJump = 5 * time.Minute

// FinishedChange is a change of the jobs of a task that somebody else has begun.
type FinishedChange struct {
	Task    TaskID
	Owner   UserID
	Account Account
	Action  string
}

// SkippedIDs is by how many ids a restored store skips ahead: more than can have been assigned since a backup.
const SkippedIDs = 10_000_000

// KeyLife is how long an idempotency key is kept.
const KeyLife = 24 * time.Hour

// Key is a client's idempotency key for a request: repeating the request with it submits nothing twice. Zero: the
// client sent none.
type Key struct {
	Text        string // unique for its owner
	Fingerprint string // of the request
}

// Scope selects jobs of an owner. One field is set, or both of the last two.
type Scope struct {
	Job   JobID
	Task  TaskID // its jobs
	Alone bool   // with Tasks or not: the jobs that belong to no task
	Tasks bool   // all jobs of tasks
}

// Contains reports whether the scope includes a job.
func (s Scope) Contains(j Job) bool {
	return j.ID == s.Job || j.Task != 0 && (s.Tasks || j.Task == s.Task) || j.Task == 0 && s.Alone
}

// Page selects a part of a list: at most Limit entries after a place that match the filters. An empty filter matches
// all. Entries are found by place, not by number, so that the parts of a list that changes meanwhile repeat nothing and
// omit nothing that was there throughout.
type Page struct {
	After    Place
	Limit    int  // 0: none
	Oldest   bool // Records and Tasks return the oldest first
	Statuses []Status
	Accounts []Account
	Since    time.Time // changed for their owner since then

	// Label selects jobs of no task, or tasks, by a label. The jobs of a task are not selected by it.
	Label LabelMatch

	// Most bounds how many bytes of each request are read; 0: all. A longer request is cut after that many characters, so
	// that only the members before its parameters are known. If Most is negative no request is read. For the jobs of a
	// task, unless Most is 0, Record.Value is read in place of Request.Parameters and Request.Options, and a longer value
	// is left out. Unless Most is 0, the jobs are read in part too, see Job.Listed.
	Most int
}

// AccountsAt returns the accounts that a user can have at platforms.
func AccountsAt(u UserID, platforms []string) (accounts []Account) {
	for _, name := range platforms {
		for _, identity := range []string{string(AccessShared), string(AccessOpen), string(u)} {
			accounts = append(accounts, Account(name+"/"+identity))
		}
	}
	return accounts
}

// Place is a position in a list that is ordered by creation, or by number. The zero Place is the beginning.
type Place struct {
	Created time.Time
	ID      int64 // or number
}

// Place returns the place of a job in a list that is ordered by creation.
func (r Record) Place() Place { return Place{Created: r.Created, ID: int64(r.ID)} }

// Place returns the place of a task in a list that is ordered by creation.
func (t TaskRecord) Place() Place { return Place{Created: t.Created, ID: int64(t.ID)} }

// Compare orders the places of two entries that a page selects by creation.
func (p Page) Compare(a, b Place) int {
	if !p.Oldest {
		a, b = b, a
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Follows reports whether an entry of a list that is ordered by creation is behind the place at which the page begins.
func (p Page) Follows(entry Place) bool {
	return p.After == Place{} || p.Compare(p.After, entry) < 0
}

// KeyTarget names the task or job that was stored when a key was first used. Both are zero for a new key.
type KeyTarget struct {
	Task TaskID
	Job  JobID
}

// Draft is a job to be stored with its body: a Request in JSON or, for a task's job, its value.
type Draft struct {
	Job
	Body     []byte
	Document *Document // that defines its service; nil: none, or the task's
	Hooks    []Hook    // that are notified of the job alone; a store that keeps hooks stores them with it
}

// Bytes returns the bytes of the request, which count in Quota.Bytes. A process that was sent with the request is a
// part of it.
func (d Draft) Bytes() int64 {
	return int64(len(d.Body)) + d.Document.Sent()
}

// Usage is how much of an account an owner uses.
type Usage struct {
	Account Account
	Quota   Quota    // of the owner there; not set by the store
	Live    int      // jobs that have not ended
	Lately  int      // jobs submitted within the time given to Records.Usage
	Jobs    int      // all jobs that are stored
	Costs   *float64 // of the jobs whose costs the platform reported, in its own unit; nil: it reported none
	// what all the owner's runs there cost, those of deleted jobs and of attempts before a retry too; newest month first
	Charges []Charge
}

// Charge is what runs of a user cost at an account in a month. Charges in different units are not comparable and never
// added.
type Charge struct {
	Month string // of the report, in UTC: 2026-11
	Unit  string // of the platform; "": it names none
	Costs float64
	Runs  int // whose costs the platform reported
	// the value of the label by which charges are told apart; nil: the runs have none, or there is no such label
	Label *string
}

// AccountCharge is a charge at an account.
type AccountCharge struct {
	Account Account
	Charge
}

// LabelCostsLife is how long costs by label are kept. Every job may have a label of its own, so that their number is
// that of the jobs.
const LabelCostsLife = 2 * 365 * Day

// AddCharge adds a charge to the usage of an account.
func AddCharge(all []Usage, a Account, c Charge) []Usage {
	i := slices.IndexFunc(all, func(u Usage) bool { return u.Account == a })
	if i < 0 {
		i, all = len(all), append(all, Usage{Account: a})
	}
	all[i].Charges = append(all[i].Charges, c)
	slices.SortFunc(all[i].Charges, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(b.Month, a.Month), cmp.Compare(a.Unit, b.Unit), compareLabels(a.Label, b.Label))
	})
	return all
}

// compareLabels compares values of a label; none is after all.
func compareLabels(a, b *string) int {
	switch {
	case a != nil && b != nil:
		return cmp.Compare(*a, *b)
	case a != nil:
		return -1
	case b != nil:
		return 1
	}
	return 0
}

// Room is how many accounts a process can visit now.
type Room struct {
	Platforms map[string]int // accounts of each platform that the process has configured
	Others    int            // accounts of all other platforms together
	// accounts of other platforms are leased only if no process has served the platform for this long
	Unserved time.Duration
}

// Lease is the exclusive right to act for an account until it runs out. The generation changes whenever the account is
// leased or released, so that an old lease renews and releases nothing.
type Lease struct {
	Account    Account
	Generation int64
	Until      time.Time // on the monotonic clock of the process that took it; zero: not known

	// Lapses is how many leases of the account were not released but ran out, each within [LapsesCount] of the one before;
	// 0: the last one ran out longer ago.
	Lapses int
}

// LapsesCount is for how long a lease that ran out counts in [Lease].Lapses.
const LapsesCount = 2 * time.Hour

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier returns the earlier of two times, of which zero means none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) && !b.IsZero() {
		return b
	}
	return a
}

// PartMost is how many bytes of each request a list reads, see Page.Most.
const PartMost = 8 << 10
