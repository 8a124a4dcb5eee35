package identity

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// logoutEvent is the event of a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	logoutLasts = 10 * time.Minute // after its issue a logout token is not accepted any more, whatever it says
)

type logout struct {
	user, sid, id   string
	issued, expires time.Time
}

// EndByProvider ends the sessions that a logout token of the identity provider names (OpenID Connect Back-Channel
// Logout
// 1.0). Invalid if the token is not valid; Unavailable if it cannot be verified now.
func (s *Sessions) EndByProvider(ctx context.Context, token dispatch.Secret) error {
	l, err := s.verifyLogout(ctx, token)
	if dispatch.Is(err, dispatch.Unavailable) {
		return err
	}
	name := "logout " + l.id
	if err == nil {
		used, failure := s.signIns.wasUsed(ctx, name)
		if failure != nil {
			return failure
		}
		if used {
			err = errors.New("the token was used before")
		}
	}
	if err != nil {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.EndByProvider", Err: err,
			Text: "The logout token is not valid."}
	}
	var owner dispatch.UserID
	if l.user != "" {
		owner = dispatch.UserID(s.client.provider.issuer + " " + l.user)
	}
	n, err := s.Store.EndSessions(ctx, s.client.provider.issuer, l.sid, owner)
	s.log.InfoContext(ctx, "audit", "action", "sign_out_by_provider", "user", string(owner), "sessions", n, "error",
		err)
	if err != nil {
		return err // the token is still good when the provider sends it again
	}
	_, err = s.signIns.vault.UseOnce(ctx, name, l.issued.Add(logoutLasts+skew))
	return err
}

func (s *Sessions) verifyLogout(ctx context.Context, token dispatch.Secret) (logout, error) {
	if len(token) > MaxToken {
		return logout{}, errors.New("the token is too long")
	}
	h, err := parseHeaderOf(token.Reveal(), "logout+jwt", "jwt", "")
	if err != nil {
		return logout{}, err
	}
	_, raw, _, err := s.signIns.keys.verify(ctx, token, h, oidc.Config{ClientID: s.client.ID, SkipExpiryCheck: true})
	if err != nil {
		return logout{}, err
	}
	l, err := parseLogout(raw)
	if err != nil {
		return logout{}, err
	}
	return l, l.check(s.now()) // and the times
}

func parseLogout(raw []byte) (l logout, err error) {
	m, err := members(raw)
	if err != nil {
		return l, err
	}
	var faults [5]error
	l.user, faults[0] = m.text("sub")
	l.sid, faults[1] = m.text("sid")
	l.id, faults[2] = m.text("jti")
	l.issued, faults[3] = m.moment("iat")
	l.expires, faults[4] = m.moment("exp")
	if err := errors.Join(faults[:]...); err != nil {
		return l, err
	}
	var events map[string]json.RawMessage
	var event map[string]json.RawMessage
	if json.Unmarshal(m["events"], &events) != nil || json.Unmarshal(events[logoutEvent], &event) != nil ||
		event == nil {
		return l, errors.New("the token has no event of a logout")
	}
	if _, ok := m["nonce"]; ok {
		return l, errors.New("the token has a nonce, as ID tokens have")
	}
	return l, nil
}

// check checks what a logout token must have, and its times.
func (l logout) check(now time.Time) error {
	switch {
	case l.user == "" && l.sid == "":
		return errors.New("the token names neither a user nor a session")
	case l.user != "" && !validSubject(l.user):
		return errBadSubject
	case l.id == "" || len(l.id) > 256:
		return errors.New("jti is missing or too long")
	case l.issued.IsZero() || l.issued.After(now.Add(skew)) || now.After(l.issued.Add(logoutLasts)):
		return errors.New("the token was not issued lately")
	case l.expires.IsZero() || !now.Before(l.expires.Add(skew)):
		return ErrExpired
	}
	return nil
}
