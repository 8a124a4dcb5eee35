package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

// access is how the broker acts for its users.
type access struct {
	*identity.Tokens
	broker *dispatch.Broker
	vault  dispatch.Vault
	log    *slog.Logger
	ring   *identity.Keyring // nil: no leave is kept
	asUser []string          // platforms
	linkTo map[string]string // pages of ours where accounts are linked, or leave is given
	comeTo string            // where browsers come back to; "": there are no pages
}

func newAccess(settings *config.Config, backends []*dispatch.Backend, kept *store.Store, log *slog.Logger) (*access, error) {
	ring, err := keyring(settings)
	if err != nil {
		return nil, err
	}
	a := &access{vault: kept, log: log, ring: ring, linkTo: map[string]string{}}
	c := tokensOf(settings, backends, log)
	c.Locker, c.SessionGrants = kept, settings.Identity.SessionGrants
	if ring != nil {
		c.Vault, c.Keys = kept, ring
		if strings.HasPrefix(settings.Database.Reveal(), "postgres:") {
			c.SharedTokens = identity.NewTokenStore(kept, ring)
		}
	}
	for i, p := range settings.Platforms {
		if p.Access != dispatch.AccessUser {
			continue
		}
		a.asUser = append(a.asUser, p.Name)
		c.Platforms[i].LinkLife = p.Exchange.LinkLife
		a.linkTo[p.Name] = pageFor(settings, p, ring != nil)
		c.Platforms[i].Link = a.linkTo[p.Name]
	}
	if settings.PublicURL != "" && len(a.asUser) > 0 {
		a.comeTo = strings.TrimSuffix(settings.PublicURL, "/") + api.SignedInPath
	}
	a.Tokens, err = identity.NewTokens(c)
	return a, err
}

// readable is nil if the keys fit what the vault holds, or there are none.
func (a *access) readable(ctx context.Context) error {
	if a.ring == nil {
		return nil
	}
	return identity.Readable(ctx, a.vault, a.ring)
}

// pageFor is the page of ours where a user mends their access to a platform: where accounts are linked, by linking; else by
// giving leave. Without an address of ours, accounts are linked at the identity provider's own page. "": there is none.
func pageFor(settings *config.Config, p config.Platform, leave bool) string {
	base := strings.TrimSuffix(settings.PublicURL, "/")
	driver := p.Exchange.Driver
	linked := driver == config.KeycloakBroker || driver == config.KeycloakRequestedIssuer
	switch {
	case base == "" && linked && settings.Identity.Issuer != "":
		return strings.TrimSuffix(settings.Identity.Issuer, "/") + "/account"
	case base == "":
		return ""
	case linked:
		return base + "/link/" + p.Name
	case leave:
		return base + "/away"
	}
	return ""
}

// serve adds to an API what users see and do about this.
func (a *access) serve(c *api.Config) error {
	c.Grants, c.AsUser, c.Away = a, a.asUser, a.ring != nil && a.comeTo != ""
	c.SignInLink = func(platform string) string { return a.linkTo[platform] }
	c.SignedIn = func(ctx context.Context, caller identity.Caller) {
		a.Offer(caller.User, caller.Token, caller.Expires)
		a.broker.SignedIn(ctx, caller.User)
	}
	c.Mended = a.broker.Mended
	if a.comeTo == "" {
		return nil
	}
	ring := a.ring
	if ring == nil { // one process serves: what browsers bring back needs to be read by no other
		var err error
		if ring, err = identity.ParseKeyring(identity.NewKey(time.Now())); err != nil {
			return err
		}
	}
	c.SignIns = a.SignIns(a.comeTo, ring)
	return nil
}

// Revoke takes a leave back, and pauses what it carried.
func (a *access) Revoke(ctx context.Context, u dispatch.UserID, id string) error {
	if err := a.Tokens.Revoke(ctx, u, id); err != nil {
		return err
	}
	return a.broker.Pause(ctx, u)
}

// keep uses, until ctx is done, the grants and links of users with live work before they end unused.
func (a *access) keep(ctx context.Context, guard func(context.Context, string, func() error)) {
	if len(a.asUser) == 0 {
		return
	}
	each := time.NewTicker(time.Minute)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			guard(ctx, "keeping links alive", func() error { a.keepAll(ctx); return nil })
		case <-ctx.Done():
			return
		}
	}
}

func (a *access) keepAll(ctx context.Context) {
	if err := a.RevokeAll(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "revoking permissions at the identity provider failed", "error", err)
	}
	accounts, err := a.vault.Working(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "no link is kept alive", "error", err)
	}
	for _, account := range accounts {
		if ctx.Err() != nil {
			return
		}
		if err := a.Keep(ctx, account); err != nil {
			a.log.DebugContext(ctx, "not kept alive", "account", string(account), "error", err)
		}
	}
}
