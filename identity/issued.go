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
	maxLife     = time.Hour   // a token is asked for anew after this, whatever it says
	defaultLife = time.Minute // of a token whose end is not told
)

// issued is a token that a provider gave us, with what is known about it.
type issued struct {
	token   dispatch.Secret
	issuer  string // "" where the token does not say
	expires time.Time
}

// readIssued reads the success answer of a token endpoint (RFC 6749, section 5.1).
func (c *client) readIssued(a answer) (issued, error) {
	var m struct {
		Token    dispatch.Secret `json:"access_token"`
		Type     string          `json:"token_type"`
		Lifetime json.RawMessage `json:"expires_in"`
	}
	// The error of a decoder can quote what it read, so it is not passed on.
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
		expires = now.Add(lifetime(m.Lifetime))
	}
	if latest := now.Add(maxLife); expires.After(latest) {
		expires = latest
	}
	return issued{m.Token, issuer, expires}, nil
}

// sendable reports whether a text can stand in a header.
func sendable(token string) bool {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return token != ""
}

// lifetime reads expires_in. Providers were seen that send none, 0, a string, or the time of day of the end: then the
// default holds.
func lifetime(raw json.RawMessage) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || !(seconds >= 1 && seconds <= (365*24*time.Hour).Seconds()) {
		return defaultLife
	}
	return time.Duration(seconds) * time.Second
}

// selfDescription reads issuer and end out of a token that is a JWT. The signature is the platform's matter.
func selfDescription(token string) (issuer string, expires time.Time) {
	m, err := payload(token)
	if err != nil {
		return "", time.Time{}
	}
	issuer, _ = m.text("iss")
	expires, _ = m.moment("exp")
	return issuer, expires
}

// payload reads what a JWT says, without a look at its signature.
func payload(token string) (object, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("not a JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil, errors.New("not a JWT")
	}
	return members(raw)
}
