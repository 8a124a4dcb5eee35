package identity

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	revocationsAtOnce = 100 // grants that one run of revokeAll revokes
	// after this a revocation that the provider refuses, or whose provider is no longer configured, is given up
	revocationLasts = 30 * 24 * time.Hour
)

// withdraw takes a grant out of use and revokes it at the provider (RFC 7009). If that fails, a later run of revokeAll
// repeats it.
func (g *grants) withdraw(ctx context.Context, u dispatch.UserID, id string) error {
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return err
	}
	defer unlock()
	row, err := g.vault.Grant(ctx, u, g.client.provider.issuer)
	if err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return err
	}
	if err != nil || row.ID != id {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "identity.Revoke", Text: "There is no such permission."}
	}
	if err := g.vault.Withdraw(context.WithoutCancel(ctx), u, id); err != nil {
		return err
	}
	err = g.revoke(ctx, dispatch.Revocation{ID: row.ID, OwnerHash: u.Hash(), Issuer: row.Issuer, Kind: row.Kind,
		Sealed: row.Sealed})
	g.log.InfoContext(ctx, "audit", "action", "revoke", "user", string(u), "kind", string(row.Kind), "grant", id,
		"at_provider", err == nil, "error", err)
	return nil
}

// revokeAll revokes withdrawn grants at the provider that issued them. It stops at the first failure that may pass.
func (g *grants) revokeAll(ctx context.Context) error {
	rows, err := g.vault.Revocations(ctx, g.client.provider.issuer, g.now().Add(-revocationLasts), revocationsAtOnce)
	if err != nil {
		return err
	}
	for _, row := range rows {
		err := g.revokeLater(ctx, row)
		switch {
		case err == nil:
		case g.now().Sub(row.Created) > revocationLasts:
			g.log.ErrorContext(ctx, "revocation of a permission at the identity provider abandoned", "user_sha256",
				row.OwnerHash, "grant", row.ID, "error", err)
			if err := g.vault.EraseRevocation(ctx, row.ID); err != nil {
				return err
			}
		case dispatch.Is(err, dispatch.Unavailable):
			return err
		}
	}
	return nil
}

// revokeLater revokes a grant that was withdrawn earlier, unless its owner has given the permission again since.
func (g *grants) revokeLater(ctx context.Context, row dispatch.Revocation) error {
	unlock, err := g.lockOf(ctx, row.OwnerHash)
	if err != nil {
		return err
	}
	defer unlock()
	if pending, err := g.vault.HasRevocation(ctx, row.ID); err != nil || !pending {
		return err
	}
	if err = g.revoke(ctx, row); err == nil {
		g.log.InfoContext(ctx, "audit", "action", "revoked", "user_sha256", row.OwnerHash, "kind", string(row.Kind),
			"grant", row.ID)
	}
	return err
}

// revoke revokes a grant at the provider and erases it. No other provider than the one that issued it gets it. If the
// provider revokes nothing by requests, the grant is erased all the same.
func (g *grants) revoke(ctx context.Context, row dispatch.Revocation) error {
	if row.Issuer != g.client.provider.issuer {
		return misconfigured(errors.New("the provider " + row.Issuer +
			", which issued the permission, is no longer configured"))
	}
	var p permission
	err := g.ring.openJSON(row.Sealed, &p, grantPlace(row.ID, row.OwnerHash, row.Issuer)...)
	if err != nil {
		return err
	}
	err = g.client.revoke(ctx, dispatch.Secret(p.Refresh))
	if errors.Is(err, errCannotRevoke) {
		g.log.WarnContext(ctx, "the identity provider has no revocation endpoint, so a permission that was withdrawn "+
			"stays valid there until it expires; end the user's sessions, or withdraw the consent to the broker's "+
			"client, at the provider", "user_sha256", row.OwnerHash, "kind", string(row.Kind), "grant", row.ID)
		return errors.Join(err, g.vault.EraseRevocation(context.WithoutCancel(ctx), row.ID))
	}
	if err != nil {
		return err
	}
	return g.vault.EraseRevocation(context.WithoutCancel(ctx), row.ID)
}

// errCannotRevoke is wrapped by the error for a provider without a revocation endpoint.
var errCannotRevoke = errors.New("the provider has no revocation endpoint")

// revoke revokes a refresh token at the provider (RFC 7009).
func (c exchangeClient) revoke(ctx context.Context, token dispatch.Secret) error {
	at, err := c.provider.endpoints(ctx)
	switch {
	case err != nil:
		return unavailable(err)
	case at.Revocation == "":
		return misconfigured(errCannotRevoke)
	}
	a, err := c.post(ctx, at.Revocation, url.Values{"token": {token.Reveal()}, "token_type_hint": {"refresh_token"}})
	switch {
	case err != nil:
		return unavailable(err)
	case a.status != http.StatusOK:
		return a.failed("identity.Revoke", a.refusal(token, c.Secret))
	}
	return nil
}
