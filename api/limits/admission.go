package limits

import (
	"net/netip"
	"runtime"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Admission bounds what clients have done at once, and how often.
type Admission struct {
	*call.Answers
	limits    Limits
	Sockets   sockets
	Waits     sockets // requests that wait for a change
	ByUser    Rates[dispatch.UserID]
	ByTicket  Rates[dispatch.UserID] // ticket requests of each user
	BySignIn  Rates[netip.Prefix]    // requests of each address to the sign-in pages
	byAddress Rates[netip.Prefix]
	OfUser    RequestsAtOnce[dispatch.UserID]
	OfAddress RequestsAtOnce[netip.Prefix]
	// bytes of bodies that façades hold: of each user, and of all strangers together
	Bodies, OpenBodies bounds.Shares[dispatch.UserID]
	Rendering          *rendering
	Heavy              *heavyWork
	Streaming          group
}

// NewAdmission returns the admission of clients within limits.
func NewAdmission(l Limits, answers *call.Answers) *Admission {
	a := &Admission{Answers: answers, limits: l}
	a.ByTicket.Pace, a.ByTicket.most = TicketLasts/time.Duration(l.Sockets), l.Sockets
	a.ByUser.Pace, a.byAddress.Pace, a.BySignIn.Pace = l.UserPace, l.AddressPace, l.SignInPace
	a.Bodies.Most, a.OpenBodies.Most = BodiesOfUser*l.Body, BodiesOfOthers*bounds.OpenBody.Most
	a.OfUser.Most, a.OfAddress.Most = int64(l.UserRequests), int64(l.AddressRequests)
	a.Rendering, a.Heavy = NewRendering(l.Rendering), NewHeavyWork(runtime.GOMAXPROCS(0))
	return a
}

// HeavyTurn returns a turn of heavy work for a user.
func (a *Admission) HeavyTurn(u dispatch.UserID) HeavyTurn { return HeavyTurn{Work: a.Heavy, User: u} }

const TicketLasts = 30 * time.Second

// MostSockets returns how many streams, and how many requests that wait, a user can have open.
func (a *Admission) MostSockets() int { return a.limits.Sockets }
