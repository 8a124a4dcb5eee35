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

// SetStatus makes a job report a fixed status word, whatever its true status; "" ends that. It reports whether the job
// exists.
func (s *jobServer) SetStatus(id, word string) bool {
	defer s.lock()()
	j := s.jobs.byID[id]
	if j != nil {
		j.word = word
	}
	return j != nil
}

// Forget removes a job, as a server that loses it. It reports whether the job existed.
func (s *jobServer) Forget(id string) bool {
	defer s.lock()()
	j := s.jobs.byID[id]
	if j != nil {
		s.jobs.remove(j)
	}
	return j != nil
}

// Sent returns the request body that created a job; nil if the job does not exist.
func (s *jobServer) Sent(id string) []byte {
	defer s.lock()()
	if j := s.jobs.byID[id]; j != nil {
		return slices.Clone(j.body)
	}
	return nil
}

// about makes a handler for requests about one job, which find looks up. The server is locked while do handles the job.
func about[S interface{ lock() (unlock func()) }](find func(S, call) (*job, *problem), do func(S, http.ResponseWriter,
	call, *job) *problem) func(S, http.ResponseWriter, call) *problem {
	return func(s S, w http.ResponseWriter, c call) *problem {
		defer s.lock()()
		j, p := find(s, c)
		if p != nil {
			return p
		}
		return do(s, w, c, j)
	}
}
