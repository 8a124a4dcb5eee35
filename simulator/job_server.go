package simulator

import (
	"net/http"
	"slices"
	"sync"
)

// jobServer holds the jobs of a simulated server and lets tests change them.
type jobServer struct {
	mu   sync.Mutex // of jobs, and of the server's Life
	jobs jobTable
}

func (s *jobServer) lock() (unlock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// SetStatus makes a job tell a status word from now on, whatever the truth; "" ends that. It reports whether there is
// such a job.
func (s *jobServer) SetStatus(id, word string) bool {
	defer s.lock()()
	j := s.jobs.byID[id]
	if j != nil {
		j.word = word
	}
	return j != nil
}

// Forget makes the server lose a job. It reports whether there was such a job.
func (s *jobServer) Forget(id string) bool {
	defer s.lock()()
	j := s.jobs.byID[id]
	if j != nil {
		s.jobs.remove(j)
	}
	return j != nil
}

// Sent gives the request body that made a job; nil: there is no such job.
func (s *jobServer) Sent(id string) []byte {
	defer s.lock()()
	if j := s.jobs.byID[id]; j != nil {
		return slices.Clone(j.body)
	}
	return nil
}

// about makes a handler for requests about one job, which find looks up. The server is locked while do handles the job.
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
