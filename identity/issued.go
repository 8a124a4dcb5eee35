package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	maxLife     = time.Hour   // a token is renewed after this, whatever its expiry
	defaultLife = time.Minute // of a token without a known expiry
)

// issued is a token from a provider, with its issuer and expiry.
type issued struct {
	token   dispatch.Secret
	issuer  string // "" if it is not known
	expires time.Time
}

// readIssued reads the success response of a token endpoint (RFC 6749, section 5.1).
func (c *client) readIssued(a answer) (issued, error) {
	var m struct {
		Token    dispatch.Secret `json:"access_token"`
		Type     string          `json:"token_type"`
		Lifetime json.RawMessage `json:"expires_in"`
	}
	// A decoder's error can quote the response, so it is not passed on.
	if a.status != http.StatusOK || json.Unmarshal(a.body, &m) != nil {
		return issued{}, unavailable(errors.New("the token answer cannot be read"))
	}
	switch {
	case !sendable(m.Token.Reveal()):
		return issued{}, unavailable(errors.New("the token answer has no token that can be sent"))
	case m.Type != "" && !strings.EqualFold(m.Type, "Bearer"):
		return issued{}, misconfigured(errors.New("the token is not for use as a bearer"))
	}
	now := c.now()
	issuer, expires := selfDescription(m.Token.Reveal())
	if expires.IsZero() {
		expires = now.Add(lifetime(m.Lifetime, defaultLife))
	}
	if latest := now.Add(maxLife); expires.After(latest) {
		expires = latest
	}
	return issued{m.Token, issuer, expires}, nil
}

// sendable reports whether a token can be sent in a header.
func sendable(token string) bool {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return token != ""
}

// lifetime reads expires_in, which some providers send as a string. Some send none, 0, or a point in time, which is
// unknown.
func lifetime(raw json.RawMessage, unknown time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || !(seconds >= 1 && seconds <= (365*24*time.Hour).Seconds()) {
		return unknown
	}
	return time.Duration(seconds) * time.Second
}

// selfDescription reads the issuer and the expiry of a token that is a JWT. It does not verify the signature, which is
// up to the platform.
func selfDescription(token string) (issuer string, expires time.Time) {
	m, err := payload(token)
	if err != nil {
		return "", time.Time{}
	}
	issuer, _ = m.text("iss")
	expires, _ = m.moment("exp")
	return issuer, expires
}

// payload reads the payload of a JWT without verifying its signature.
func payload(token string) (object, error) {
	raw, err := rawPayload(token)
	if err != nil {
		return nil, err
	}
	return members(raw)
}

// rawPayload returns the payload of a JWT as it is encoded, without verifying the token.
func rawPayload(token string) ([]byte, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("not a JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil, errors.New("not a JWT")
	}
	return raw, nil
}
