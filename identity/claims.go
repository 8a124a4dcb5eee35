package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	strictjson "github.com/go-jose/go-jose/v4/json"
)

// header is the part of a token's JOSE header that the verifier uses.
type header struct {
	alg, kid string
	typ      string // in lower case, without "application/"
}

const maxKeyID = 256

// parseHeader reads the header of an access token or ID token. It refuses unacceptable tokens before any key is looked
// up.
func parseHeader(token string) (header, error) {
	// RFC 9068, section 2.1; tokens of other uses have another typ (RFC 8725, section 3.11)
	return parseHeaderOf(token, "at+jwt", "jwt", "")
}

// parseHeaderOf reads the header of a signed token in compact serialization whose typ is one of types.
func parseHeaderOf(token string, types ...string) (header, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || slices.Contains(parts, "") || strings.ContainsAny(token, "\r\n") {
		return header{}, errors.New("not a signed token in compact serialization")
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return header{}, errors.New("not base64url")
		}
	}
	m, err := members(raw[0])
	if err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	for _, name := range []string{"crit", "b64", "jwk", "jku", "x5u", "x5c", "enc", "zip"} {
		if _, ok := m[name]; ok {
			return header{}, fmt.Errorf("the header has %s", name)
		}
	}
	var h header
	var errs [3]error
	h.alg, errs[0] = m.text("alg")
	h.kid, errs[1] = m.text("kid")
	h.typ, errs[2] = m.text("typ")
	if err := errors.Join(errs[:]...); err != nil {
		return header{}, err
	}
	if !slices.Contains(algorithms, h.alg) {
		return header{}, errors.New("the algorithm is not allowed")
	}
	if len(h.kid) > maxKeyID {
		return header{}, errors.New("the kid is too long")
	}
	if h.typ = strings.TrimPrefix(strings.ToLower(h.typ), "application/"); !slices.Contains(types, h.typ) {
		return header{}, errors.New("the header's typ is that of a token for another use")
	}
	return h, nil
}

// claims is the part of a token's payload that the verifier uses.
type claims struct {
	issuer, subject, name string
	kind                  string   // Keycloak's claim typ
	audience              []string // nil: no aud
	party, client         string   // azp, client_id
	username              string   // preferred_username
	session               bool     // it has a sid
	forItself             bool     // it has the marks of a token that Keycloak issued to a client for itself
	expires               time.Time
	notBefore, issued     time.Time // zero: absent
}

func parseClaims(payload []byte) (claims, error) {
	m, err := members(payload)
	if err != nil {
		return claims{}, fmt.Errorf("payload: %w", err)
	}
	if _, ok := m["cnf"]; ok {
		return claims{}, errors.New("the token is bound to a key (cnf), which a plain bearer does not prove")
	}
	var c claims
	var faults []error
	text := func(to *string, name string) {
		var err error
		*to, err = m.text(name)
		faults = append(faults, err)
	}
	moment := func(to *time.Time, name string) {
		var err error
		*to, err = m.moment(name)
		faults = append(faults, err)
	}
	text(&c.issuer, "iss")
	text(&c.subject, "sub")
	text(&c.kind, "typ")
	text(&c.party, "azp")
	text(&c.client, "client_id")
	moment(&c.expires, "exp")
	moment(&c.notBefore, "nbf")
	moment(&c.issued, "iat")
	c.audience, err = m.texts("aud")
	faults = append(faults, err)
	c.username, _ = m.text("preferred_username") // only for display, so faults do not matter
	_, c.session = m["sid"]
	c.forItself = m.forItself()
	name, _ := m.text("name")
	c.name = displayName(name, c.username, c.subject)
	return c, errors.Join(faults...)
}

// clientCredentials matches the id of a Keycloak token of the client credentials grant: the kinds of session and token,
// then the grant.
var clientCredentials = regexp.MustCompile(`^[a-z]{4}cc:`)

// forItself reports whether the token has the marks of Keycloak's client credentials grant: the address of the client,
// and the id of the token. They are there without the scope profile too.
func (m object) forItself() bool {
	for _, name := range []string{"clientHost", "clientAddress"} {
		if _, ok := m[name]; ok {
			return true
		}
	}
	id, _ := m.text("jti")
	return clientCredentials.MatchString(id)
}

// checkType refuses tokens that are not access tokens of a person.
func (c claims) checkType(h header) error {
	switch {
	case c.kind != "Bearer" && !(c.kind == "" && h.typ == "at+jwt"):
		return errors.New("not an access token")
	case c.subject != "" && !validSubject(c.subject):
		return errBadSubject
	case strings.HasPrefix(c.username, "service-account-"), // Keycloak's username of a service account
		c.subject != "" && (c.subject == c.party || c.subject == c.client), // RFC 9068, section 5
		c.forItself,
		// Keycloak adds client_id only to such tokens
		c.kind == "Bearer" && c.client != "" && c.client == c.party && !c.session:
		return errors.New("the token is a client's own, not a user's")
	}
	return nil
}

// checkParties refuses tokens from another issuer, and those for another audience unless their client is accepted.
func (c claims) checkParties(config Config) error {
	wanted := func(name string) bool { return slices.Contains(config.Audience, name) }
	party := c.party
	if party == "" {
		party = c.client
	}
	admitted := party != "" && slices.Contains(config.Clients, party)
	switch {
	case c.issuer != config.Issuer:
		return errors.New("the token is from another issuer")
	case c.audience == nil && !wanted(c.party) && !admitted:
		return fmt.Errorf("the token has no aud, and %s", foreignParty(party))
	case c.audience != nil && !slices.ContainsFunc(c.audience, wanted) && !admitted:
		return fmt.Errorf("the token is for another audience, and %s", foreignParty(party))
	}
	return nil
}

// foreignParty describes, for operators, a client whose tokens are not accepted.
func foreignParty(party string) string {
	return fmt.Sprintf(
		"its azp %q is not an accepted client; to accept the tokens of that client, add it to the clients of the "+
			"issuer (identity.clients, or the variable EODISPATCH_IDENTITY_CLIENTS)", printable(party, 100))
}

func (c claims) checkTimes(now time.Time) error {
	switch {
	case !now.Before(c.expires.Add(skew)): // also if there is no exp
		return ErrExpired
	case c.notBefore.After(now.Add(skew)):
		return errors.New("the token is not valid yet")
	case c.issued.After(now.Add(skew)):
		return errors.New("the token was issued in the future")
	}
	return nil
}

// maxSubject is the length of a subject in bytes (OpenID Connect Core 1.0, section 2).
const maxSubject = 255

var errBadSubject = fmt.Errorf("sub is longer than %d bytes, or has control characters or invisible ones", maxSubject)

// validSubject reports whether a subject can identify a user. It becomes part of database keys and is shown to
// operators. It is compared byte by byte and may contain any visible character: Keycloak's subjects of users of a user
// storage provider contain the user's name there.
func validSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unseen)
}

// unseen reports whether a character is not seen in a text, or stands for one that could not be decoded, so that two
// subjects would look the same or be the same.
func unseen(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == brailleBlank ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// displayName returns the first name with a printable character.
func displayName(names ...string) string {
	for _, name := range names {
		if shown := printable(name, 100); shown != "" {
			return shown
		}
	}
	return ""
}

// object is a JSON object with case-sensitive member names; encoding/json alone would ignore the case.
type object map[string]json.RawMessage

// members reads an object. It refuses duplicate names at any depth, because two readers could take different ones.
func members(raw []byte) (object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	var whole any
	if err := strictjson.Unmarshal(raw, &whole); err != nil {
		return nil, errors.New("not JSON, or a member is duplicated")
	}
	var m object
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, errors.New("not a JSON object")
	}
	return m, nil
}

// text returns a string member; "" if it is absent.
func (m object) text(name string) (string, error) {
	raw, ok := m[name]
	if !ok {
		return "", nil
	}
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", fmt.Errorf("%s is not a string", name)
	}
	return *s, nil
}

const maxMoment = 1 << 37 // seconds; about 4,000 years

// moment returns a NumericDate (RFC 7519, section 2); zero if it is absent.
func (m object) moment(name string) (time.Time, error) {
	raw, ok := m[name]
	if !ok {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds >= 0 && seconds < maxMoment) {
		return time.Time{}, fmt.Errorf("%s is not a date", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

// texts returns a member that is a string or an array of strings; nil if it is absent.
func (m object) texts(name string) ([]string, error) {
	raw, ok := m[name]
	if !ok {
		return nil, nil
	}
	if one, err := m.text(name); err == nil {
		return []string{one}, nil
	}
	var many []*string
	if json.Unmarshal(raw, &many) != nil || many == nil || slices.Contains(many, nil) {
		return nil, fmt.Errorf("%s is neither a string nor strings", name)
	}
	all := make([]string, len(many))
	for i, one := range many {
		all[i] = *one
	}
	return all, nil
}

// Has reports whether a claim of the caller's token is one of these values, or a list that contains one. Dots lead into
// objects (realm_access.roles). The claim scope is a space-separated list (RFC 8693, section 4.2). Callers without a
// token have no claims.
func (c Caller) Has(claim string, anyOf []string) bool {
	m, err := payload(c.Token.Reveal())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(m.at(claim), func(value string) bool { return slices.Contains(anyOf, value) })
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
