package limits

import (
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

var errTooManyOpen = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Message: "You have too many open streams. Close one before you open another.", Header: call.RetryAfter(time.Minute)}

// EnterStream counts an open stream of a user until release is called.
func (a *Admission) EnterStream(u dispatch.UserID) (release func(), err error) {
	leave := a.streams.TryAcquire(u, 1)
	if leave == nil {
		return nil, errTooManyOpen
	}
	a.open.Add(1)
	return func() {
		leave()
		a.open.Add(-1)
	}, nil
}

// Streams returns how many streams all users have open.
func (a *Admission) Streams() int { return int(a.open.Load()) }

var errTooManyWaits = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Message: "You have too many requests that wait for a change. End one, or repeat this one without wait.",
	Header:  call.RetryAfter(10 * time.Second)}

// EnterWait counts a request of a user that waits until release is called.
func (a *Admission) EnterWait(u dispatch.UserID) (release func(), err error) {
	if release = a.waits.TryAcquire(u, 1); release == nil {
		return nil, errTooManyWaits
	}
	return release, nil
}
