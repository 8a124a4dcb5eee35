package limits

import (
	"context"
	"net/http"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// The bodies of requests to façades that are being served.
const (
	BodiesOfUser    = 4 // of the largest size: those of one user
	BodiesOfOthers  = 8 // of the size of [bounds.OpenBody]: those of all who have not signed in
	BodiesOfAddress = BodiesOfOthers / 2
)

// ReserveBody waits until a body fits among those of the user's requests, or of strangers' requests, and returns its
// limit in bytes. It is counted until the request ends, because a request that waits for a platform keeps its body.
func (a *Admission) ReserveBody(r *http.Request) (most int64, reason string, err error) {
	c, acquire, client := call.In(r.Context()), a.OpenBodies.Acquire, ClientOf(r.Context())
	if most = a.limits.Body; c.Caller.User == "" {
		most, reason = min(most, bounds.OpenBody.Most), " without a sign-in (bound "+bounds.OpenBody.Name+")"
	} else {
		acquire = a.Bodies.Acquire
	}
	size := most
	if r.ContentLength > 0 {
		size = min(r.ContentLength, most)
	}
	waiting, cancel := context.WithTimeout(r.Context(), call.TurnOfRequest)
	defer cancel()
	release, err := acquire(waiting, client, size)
	if err != nil {
		return 0, "", tooManyBodies
	}
	c.AtEnd = append(c.AtEnd, release)
	return most, reason, nil
}

var tooManyBodies = call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
	Header:  call.RetryAfter(call.TurnOfRequest),
	Message: "Too many large requests are being served. Repeat this one in a few seconds."}
