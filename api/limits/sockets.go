package limits

import (
	"net/http"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

var errTooManyOpen = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Message: "You have too many open streams. Close one before you open another.", Header: call.RetryAfter(time.Minute)}

// sockets counts the open streams of each user.
type sockets struct {
	mu   sync.Mutex
	open map[dispatch.UserID]int
}

func (s *sockets) Enter(u dispatch.UserID, most int) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[u] >= most {
		return nil, errTooManyOpen
	}
	if s.open == nil {
		s.open = map[dispatch.UserID]int{}
	}
	s.open[u]++
	return func() { s.release(u) }, nil
}

// Count returns how many streams all users have open.
func (s *sockets) Count() (open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.open {
		open += n
	}
	return open
}

func (s *sockets) release(u dispatch.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[u]--; s.open[u] == 0 {
		delete(s.open, u)
	}
}

var ErrTooManyWaits = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Message: "You have too many requests that wait for a change. End one, or repeat this one without wait.",
	Header:  call.RetryAfter(10 * time.Second)}
