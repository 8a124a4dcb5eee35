package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
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
	maxTicket  = 4096 // characters
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
	text, err := sealTicket(a.ticketKey, t)
	return &openapi.Plain[wire.Ticket]{Body: wire.Ticket{Ticket: text, Expires: t.Until.UTC()}}, err
}

// redeem returns the caller that a ticket was issued to, and uses the ticket up. It does not tell why a ticket is
// refused.
func (a *api) redeem(ctx context.Context, ticket string) (identity.Caller, error) {
	t, use, err := openTicket(a.ticketKey, ticket)
	if a.UseOnce == nil || err != nil || !time.Now().Before(t.Until) {
		return identity.Caller{}, errBadTicket
	}
	first, err := a.UseOnce(ctx, "ticket "+use, t.Until.Add(ticketKept))
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

// ticketKey derives the key of tickets from a secret. Processes with the same secret get the same key.
func ticketKey(secret dispatch.Secret) []byte {
	key := sha256.Sum256([]byte("ticket " + secret.Reveal()))
	return key[:]
}

// ticketPurpose separates the keys of tickets from those of other sealed texts.
const ticketPurpose = "stream ticket"

// sealTicket encrypts a ticket, because URLs may be logged.
func sealTicket(key []byte, t admission) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	sealed, err := identity.Seal(key, ticketPurpose, text)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// openTicket is the inverse of sealTicket. use identifies the ticket, independent of how its text is encoded.
func openTicket(key []byte, ticket string) (t admission, use string, err error) {
	if len(ticket) > maxTicket {
		return t, "", errors.New("the ticket is too long")
	}
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil {
		return t, "", errors.New("this is not a ticket")
	}
	text, salt, err := identity.Unseal(key, ticketPurpose, raw)
	if err != nil {
		return t, "", err
	}
	err = json.Unmarshal(text, &t)
	return t, base64.RawURLEncoding.EncodeToString(salt), err
}
