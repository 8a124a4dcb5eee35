package api

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const (
	// ticketKept is how long the use of a ticket is remembered after it expires, so that clocks of replicas and of the
	// database that differ by minutes do not make it valid again.
	ticketKept = 10 * time.Minute
	// ticketPurpose separates the keys of tickets from those of other sealed texts.
	ticketPurpose = "stream ticket"
)

// admission is the content of a ticket.
type admission struct {
	User  dispatch.UserID
	Ends  time.Time // expiry of the token that the ticket was issued for, and so of the stream; zero: never
	Until time.Time // expiry of the ticket
}

var errBadTicket = call.Unauthorized("The ticket is not valid: it was used before or is older than 30 seconds. Get a " +
	"new one with POST /tickets.")

// ticketRoutes registers the operation that issues tickets. Without UseOnce there are none.
func (a *api) ticketRoutes() {
	if a.UseOnce == nil {
		return
	}
	openapi.Register(a.Document, huma.Operation{OperationID: "create_ticket", Method: http.MethodPost, Path: "/tickets",
		Tags:    []string{"streams"},
		Summary: "Get a ticket that opens one stream",
		Description: "For browsers, which cannot send a token with a WebSocket: open the stream with `?ticket=` in " +
			"place of the token. The ticket is valid once, for 30 seconds, at any replica; a request uses it up, " +
			"whatever the response. The stream ends when the token expires with which the ticket was requested. A " +
			"user gets limits.streams tickets in 30 seconds; further requests get 429.",
		DefaultStatus: http.StatusCreated, Responses: a.Errors(401, 429, 503)}, a.createTicket)
}

func (a *api) createTicket(ctx context.Context, _ *openapi.Request) (*openapi.Plain[wire.Ticket], error) {
	caller := call.In(ctx).Caller
	if wait := a.ByTicket.Wait(caller.User); wait > 0 {
		return nil, limits.ErrTooFast("yours", wait)
	}
	t := admission{User: caller.User, Ends: caller.Expires, Until: time.Now().Add(limits.TicketLasts)}
	if !t.Ends.IsZero() && t.Ends.Before(t.Until) {
		t.Until = t.Ends
	}
	text, err := files.Seal(a.ticketKey(), ticketPurpose, t) // URLs may be logged
	return &openapi.Plain[wire.Ticket]{Body: wire.Ticket{Ticket: text, Expires: t.Until.UTC()}}, err
}

// redeem returns the caller that a ticket was issued to, and uses the ticket up. It does not tell why a ticket is
// refused.
func (a *api) redeem(ctx context.Context, ticket string) (identity.Caller, error) {
	var t admission
	name, ok := files.Open(a.ticketKey(), ticketPurpose, ticket, &t)
	if a.UseOnce == nil || !ok || !time.Now().Before(t.Until) {
		return identity.Caller{}, errBadTicket
	}
	first, err := a.UseOnce(ctx, "ticket "+name, t.Until.Add(ticketKept))
	switch {
	case err != nil:
		return identity.Caller{}, err
	case !first:
		return identity.Caller{}, errBadTicket
	}
	if wait := a.ByUser.Wait(t.User); wait > 0 {
		return identity.Caller{}, limits.ErrTooFast("yours", wait)
	}
	return identity.Caller{User: t.User, Expires: t.Ends}, nil
}

// ticketKey returns the key of tickets. Processes with the same secret have the same key.
func (a *api) ticketKey() dispatch.Secret {
	key := sha256.Sum256([]byte("ticket " + a.Secret.Reveal()))
	return dispatch.Secret(key[:])
}
