package limits

import (
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Admission bounds what clients have done at once, and how often.
type Admission struct {
	*call.Answers
	limits     Limits
	streams    bounds.Shares[dispatch.UserID]
	open       atomic.Int64                   // streams of all users
	waits      bounds.Shares[dispatch.UserID] // requests that wait for a change
	ByUser     Rates[dispatch.UserID]
	ByTicket   Rates[dispatch.UserID] // ticket requests of each user
	BySignIn   Rates[netip.Prefix]    // requests of each address to the sign-in pages
	byAddress  Rates[netip.Prefix]
	OfUser     RequestsAtOnce[dispatch.UserID]
	OfAddress  RequestsAtOnce[netip.Prefix]
	Bodies     bounds.Shares[string]  // bytes of the bodies of each user that façades hold
	OpenBodies *bounds.Places[string] // the same of strangers, by their address
	Rendering  *rendering
	Cores      *bounds.Places[string] // that work takes for long
	Streaming  group
}

// NewAdmission returns the admission of clients within limits.
func NewAdmission(l Limits, answers *call.Answers) *Admission {
	a := &Admission{Answers: answers, limits: l}
	a.ByTicket.Pace, a.ByTicket.most = TicketLasts/time.Duration(l.Sockets), l.Sockets
	a.ByUser.Pace, a.byAddress.Pace, a.BySignIn.Pace = l.UserPace, l.AddressPace, l.SignInPace
	a.Bodies.Most = BodiesOfUser * l.Body
	a.OpenBodies = bounds.NewPlaces[string](BodiesOfOthers*bounds.OpenBody.Most, BodiesOfAddress*bounds.OpenBody.Most)
	a.streams.Most, a.waits.Most = int64(l.Sockets), int64(l.Sockets)
	a.OfUser.Most, a.OfAddress.Most = int64(l.UserRequests), int64(l.AddressRequests)
	a.Rendering, a.Cores = NewRendering(l.Rendering), NewCores(runtime.GOMAXPROCS(0))
	return a
}

const TicketLasts = 30 * time.Second
