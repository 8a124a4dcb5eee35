package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const logoutTokenLife = 2 * time.Minute

// TellLogouts sends a logout token to an address when the session of a user of the broker's realm ends. "" sends none.
func (idp *IdP) TellLogouts(address string) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	idp.logouts = address
}

// Logout ends a user's session: its tokens are no longer accepted.
func (idp *IdP) Logout(realm, user string) {
	token := idp.MintLogout(realm, user, TokenFaults{})
	idp.mu.Lock()
	idp.sessions[realm+"/"+user]++
	address := idp.logouts
	idp.mu.Unlock()
	if address == "" || realm != BrokerRealm {
		return
	}
	response, err := http.PostForm(address, url.Values{"logout_token": {token}})
	if err == nil {
		response.Body.Close() // as in Keycloak, the logout succeeds without the client
	}
}

// MintLogout returns a logout token for a user's present session and the broker's client (OpenID Connect Back-Channel
// Logout 1.0). It panics on impossible TokenFaults, which are a mistake of the test.
func (idp *IdP) MintLogout(realm, user string, odd TokenFaults) string {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	now := nowFrom(idp.Now)
	idp.serial++
	claims := object{"iss": idp.issuer(realm), "aud": "eodispatch-api", "sub": subject(realm, user),
		"sid": idp.session(realm, user), "typ": "Logout",
		"iat": now.Unix(), "exp": now.Add(logoutTokenLife).Unix(), "jti": fmt.Sprintf("logout-%08d", idp.serial),
		"events": object{"http://schemas.openid.net/event/backchannel-logout": object{}}}
	if odd.Header == nil {
		odd.Header = object{"typ": "logout+jwt"}
	}
	return idp.realms[realm].mint(claims, odd)
}

// endSession handles the end session endpoint (OpenID Connect RP-Initiated Logout 1.0). Without a valid id_token_hint
// the user is asked, and nothing ends.
func (idp *IdP) endSession(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	q := c.URL.Query()
	idp.mu.Lock()
	claims, err := idp.signed(r, q.Get("id_token_hint"))
	_, known := r.clients[cmp.Or(q.Get("client_id"), claims.Client)]
	idp.mu.Unlock()
	switch {
	case !known || claims.Client != "" && q.Get("client_id") != "" && claims.Client != q.Get("client_id"):
		return &problem{400, "invalid_request", "Invalid parameter: client_id"}
	case err != nil || claims.Type != "ID" || !slices.Contains(r.users, claims.User):
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>Do you want to sign out?</h1>", html.EscapeString(r.name))
		return nil
	}
	idp.Logout(r.name, claims.User)
	if back := q.Get("post_logout_redirect_uri"); back != "" {
		http.Redirect(w, c.Request, back, http.StatusFound)
		return nil
	}
	fmt.Fprintln(w, "You are signed out.")
	return nil
}

// signed returns the claims of a token that a realm has signed. idp.mu is held.
func (idp *IdP) signed(r *realm, token string) (claims tokenClaims, err error) {
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || len(parsed.Signatures) != 1 {
		return claims, errToken
	}
	for _, n := range r.valid {
		if parsed.Signatures[0].Header.KeyID != keyID(n) {
			continue
		}
		payload, err := parsed.Verify(&key(n).PublicKey)
		if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Issuer != idp.issuer(r.name) {
			return tokenClaims{}, errToken
		}
		return claims, nil
	}
	return claims, errToken
}
