package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// bytes returns the size of the requests of a user's unfinished jobs and synchronous runs. What the jobs of a task
// share counts once.
func (s *MemStore) bytes(u dispatch.UserID, now time.Time) (n int64) {
	counted := map[dispatch.TaskID]bool{0: true}
	for _, r := range s.jobs {
		if r.Owner != u || r.Phase == dispatch.Ended {
			continue
		}
		n += r.bytes
		if !counted[r.Task] {
			counted[r.Task] = true
			n += sizeOf(s.tasks[r.Task].Request)
			if d := s.defined[owned{task: r.Task}]; d != nil {
				n += d.Sent()
			}
		}
	}
	for _, r := range s.runs {
		if r.Owner == u && r.at(now).Ended.IsZero() {
			n += sizeOf(r.Request)
		}
	}
	return n
}

// bytesAgain returns how many bytes a user's live requests grow by when these ended jobs are live again.
func (s *MemStore) bytesAgain(u dispatch.UserID, jobs []*row, now time.Time) int64 {
	before := s.bytes(u, now)
	phases := make([]dispatch.Phase, len(jobs))
	for i, r := range jobs {
		phases[i], r.Phase = r.Phase, dispatch.Waiting
	}
	after := s.bytes(u, now)
	for i, r := range jobs {
		r.Phase = phases[i]
	}
	return after - before
}

// sizeOf returns the size of a request as a store keeps it.
func sizeOf(r dispatch.Request) int64 {
	text, err := dispatch.Encode(r)
	if err != nil {
		return 0
	}
	return int64(len(text))
}
