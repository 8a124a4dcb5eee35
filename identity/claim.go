package identity

import (
	"encoding/json"
	"slices"
	"strings"
)

// Has reports whether a claim of the caller's token is one of these values, or a list that contains one. Dots lead into
// objects (realm_access.roles). The claim scope is a space-separated list (RFC 8693, section 4.2). Callers without a
// token have no claims.
func (c Caller) Has(claim string, anyOf []string) bool {
	m, err := payload(c.Token.Reveal())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(m.at(claim), func(has string) bool { return slices.Contains(anyOf, has) })
}

// Email returns the e-mail address in the caller's token; "" if it has none.
func (c Caller) Email() string {
	m, err := payload(c.Token.Reveal())
	if err != nil {
		return ""
	}
	address, _ := m.text("email") // only for display, so faults do not matter
	return printable(address, 254)
}

// VerifiedEmail returns the e-mail address in the caller's token if the identity provider has verified that it is the
// caller's (email_verified of OpenID Connect); "" otherwise.
func (c Caller) VerifiedEmail() string {
	m, err := payload(c.Token.Reveal())
	if err != nil || string(m["email_verified"]) != "true" {
		return ""
	}
	address, _ := m.text("email") // no text is no address
	return address
}

// at returns the texts at a path. It also finds a member whose name contains dots.
func (m object) at(path string) []string {
	if _, ok := m[path]; ok {
		texts, _ := m.texts(path) // members that are not texts count as absent
		if path == "scope" && len(texts) == 1 {
			return strings.Fields(texts[0])
		}
		return texts
	}
	for i, r := range path {
		var below object
		if r == '.' && json.Unmarshal(m[path[:i]], &below) == nil {
			if found := below.at(path[i+1:]); found != nil {
				return found
			}
		}
	}
	return nil
}
