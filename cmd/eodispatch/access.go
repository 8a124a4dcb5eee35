package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/pages"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/observe/tracing"
	"github.com/eodispatch/eodispatch/store"
)

// access obtains platform tokens on behalf of users and connects the sign-in pages to the broker.
type access struct {
	*identity.Tokens
	broker *broker.Broker
	vault  *store.Store
	log    *slog.Logger
	ring   *identity.Keyring // nil: no permissions are stored
	asUser []string          // names of the platforms with access "user"
	linked []string          // platforms at which users link an account
	comeTo string            // redirect address after a sign-in; "": there are no pages

	session config.Session
	alone   bool // no other process uses the database
}

func newAccess(settings *config.Config, backends []*dispatch.Backend, db *store.Store, seen *telemetry.Telemetry,
	traces *tracing.Tracing, log *slog.Logger) (*access, error) {
	ring, err := keyring(settings)
	if err != nil {
		return nil, err
	}
	a := &access{vault: db, log: log, ring: ring, session: settings.Session,
		alone: !allowsSeveral(settings.Database.Reveal())}
	c := tokensOf(settings, backends, traces, log)
	c.OnToken = seen.TokenRequested
	c.Locker, c.SessionGrants = db, settings.Identity.SessionGrants
	if ring != nil {
		c.Vault, c.Keys = db, ring
		if !a.alone {
			c.SharedTokens = identity.NewTokenStore(db, ring)
		}
	}
	for i, p := range settings.Platforms {
		if p.Access != dispatch.AccessUser {
			continue
		}
		a.asUser = append(a.asUser, p.Name)
		c.Platforms[i].LinkLife = p.Exchange.LinkLife
		if linksAccounts(p) {
			a.linked = append(a.linked, p.Name)
		}
		c.Platforms[i].Link = pageFor(settings, p, ring != nil)
	}
	if id := settings.Identity; settings.PublicURL != "" && id.ClientID != "" && id.ClientSecret+id.ClientKey != "" {
		a.comeTo = settings.PublicURL + pages.SignedInPath
	}
	a.Tokens, err = identity.NewTokens(c)
	return a, err
}

// pageFor returns the address of the page where a user restores their access to a platform: the page to link accounts
// if the driver uses linked accounts, otherwise the page to give permission. Without public_url, accounts are linked at
// the identity provider's own page. "" means that there is no page.
func pageFor(settings *config.Config, p config.Platform, leave bool) string {
	base := settings.PublicURL
	switch {
	case base == "" && linksAccounts(p) && settings.Identity.Issuer != "":
		return accountPage(settings.Identity.Issuer)
	case base == "":
		return ""
	case linksAccounts(p):
		return base + "/link/" + p.Name
	case leave:
		return base + "/away"
	}
	return ""
}

// accountPage returns the address of Keycloak's page where users manage their account and its links.
func accountPage(issuer string) string { return strings.TrimSuffix(issuer, "/") + "/account" }

// linksAccounts reports whether the platform's driver uses accounts that users link at the identity provider.
func linksAccounts(p config.Platform) bool {
	return p.Exchange != nil && usesLinks(*p.Exchange)
}

func usesLinks(e config.Exchange) bool {
	return e.Driver == config.KeycloakBroker || e.Driver == config.KeycloakRequestedIssuer
}

// serve adds the sign-in pages, grants and links to the configuration of the API.
func (a *access) serve(c *api.Config) error {
	c.Grants, c.AsUser, c.Linked, c.Away = a, a.asUser, a.linked, a.ring != nil && a.comeTo != "" && len(a.asUser) > 0
	c.SignInLink = a.Link
	c.OnRequest = func(ctx context.Context, caller identity.Caller) {
		isNew := a.StoreUserToken(ctx, caller.User, caller.Token, caller.Expires)
		a.broker.HandleSignIn(ctx, caller.User, isNew)
	}
	c.OnAccessChanged = a.broker.HandleAccessChange
	if a.comeTo == "" {
		return nil
	}
	ring := a.ring
	if ring == nil { // a single process needs no shared key: only it reads back what browsers bring
		var err error
		if ring, err = identity.ParseKeyring(identity.NewKey(time.Now())); err != nil {
			return err
		}
	}
	signIns := a.SignIns(a.comeTo, ring, a.vault)
	c.SignIns = signIns
	if a.ring != nil || a.alone { // processes must open each other's sessions
		c.Sessions = signIns.Sessions(ring, identity.SessionsConfig{Store: a.vault, Life: a.session.Life,
			Idle: a.session.Idle, Home: strings.TrimSuffix(a.comeTo, pages.SignedInPath) + "/", Locker: a.vault})
	}
	return nil
}

// Revoke withdraws a user's permission and pauses the jobs that depend on it.
func (a *access) Revoke(ctx context.Context, u dispatch.UserID, id string) error {
	if err := a.Tokens.Revoke(ctx, u, id); err != nil {
		return err
	}
	return a.broker.PauseUntilSignIn(ctx, u)
}

// refreshRegularly refreshes, once a minute until ctx is done, the grants and links of users with running jobs, so that
// they do not expire from disuse.
func (a *access) refreshRegularly(ctx context.Context, guard func(context.Context, string, func() error)) {
	if len(a.asUser) == 0 {
		return
	}
	each := time.NewTicker(time.Minute)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			guard(ctx, "keeping links alive", func() error { a.refreshAll(ctx); return nil })
		case <-ctx.Done():
			return
		}
	}
}

func (a *access) refreshAll(ctx context.Context) {
	if err := a.RevokeAll(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "revoking permissions at the identity provider failed", "error", err)
	}
	accounts, err := a.vault.AccountsWithJobs(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "listing accounts with running jobs failed; links are not refreshed", "error", err)
	}
	for _, account := range accounts {
		if ctx.Err() != nil {
			return
		}
		if err := a.Refresh(ctx, account); err != nil {
			a.log.DebugContext(ctx, "refreshing a link failed", "account", string(account), "error", err)
		}
	}
}
