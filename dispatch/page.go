package dispatch

import (
	"cmp"
	"time"
)

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

	// Most bounds how many bytes of each request are read; 0: all. A longer request is cut after that many characters,
	// so that only the members before its parameters are known. If Most is negative no request is read. For the jobs of
	// a task, unless Most is 0, Record.Value is read in place of Request.Parameters and Request.Options, and a longer
	// value is left out. Unless Most is 0, the jobs are read in part too, see Job.Listed.
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

// PartMost is how many bytes of each request a list reads, see Page.Most.
const PartMost = 8 << 10
