package simulator

import (
	"net/http"
	"slices"
	"sync"
)

// desk keeps a server's jobs.
type desk struct {
	mu   sync.Mutex // of jobs, and of the server's Life
	jobs ledger
}

func (d *desk) lock() (unlock func()) {
	d.mu.Lock()
	return d.mu.Unlock
}

// SetStatus makes a job tell a status word from now on, whatever the truth; "" ends that. It reports whether there is
// such a job.
func (d *desk) SetStatus(id, word string) bool {
	defer d.lock()()
	j := d.jobs.byID[id]
	if j != nil {
		j.word = word
	}
	return j != nil
}

// Forget makes the server lose a job. It reports whether there was such a job.
func (d *desk) Forget(id string) bool {
	defer d.lock()()
	j := d.jobs.byID[id]
	if j != nil {
		d.jobs.remove(j)
	}
	return j != nil
}

// Sent gives the request body that made a job; nil: there is no such job.
func (d *desk) Sent(id string) []byte {
	defer d.lock()()
	if j := d.jobs.byID[id]; j != nil {
		return slices.Clone(j.body)
	}
	return nil
}

// about is the handler of requests about one job, which find finds. While do works on it nothing else happens at the desk.
func about[S interface{ lock() (unlock func()) }](find func(S, call) (*job, *problem), do func(S, http.ResponseWriter, call, *job) *problem) func(S, http.ResponseWriter, call) *problem {
	return func(s S, w http.ResponseWriter, c call) *problem {
		defer s.lock()()
		j, p := find(s, c)
		if p != nil {
			return p
		}
		return do(s, w, c, j)
	}
}
