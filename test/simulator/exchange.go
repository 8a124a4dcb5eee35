package simulator

import (
	"crypto/subtle"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	exchangeGrant   = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
)

// refuseIdP writes an OAuth error body.
func refuseIdP(w http.ResponseWriter, p problem) {
	doc := object{"error": p.code}
	if p.message != "" {
		doc["error_description"] = p.message
	}
	writeJSON(w, p.status, doc)
}

// token handles the token endpoint of a realm.
func (idp *IdP) token(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	if err := c.ParseForm(); err != nil {
		return &problem{400, "invalid_request", "Missing form parameter: grant_type"}
	}
	idp.mu.Lock()
	defer idp.mu.Unlock()
	switch conduct := idp.conduct; {
	case r.name != PlatformRealm:
	case conduct.Down:
		panic(http.ErrAbortHandler)
	case conduct.Status != 0:
		http.Error(w, http.StatusText(conduct.Status), conduct.Status)
		return nil
	}
	name, p := r.authenticate(c)
	if p != nil {
		return p
	}
	switch c.PostForm.Get("grant_type") {
	case "password":
		return idp.passwordGrant(w, c, r, name)
	case "client_credentials":
		return idp.serviceGrant(w, r, name)
	case "authorization_code":
		return idp.codeGrant(w, c, r, name)
	case "refresh_token":
		return idp.refreshGrant(w, c, r, name)
	case deviceGrant:
		return idp.deviceGrant(w, c, r, name)
	case exchangeGrant:
		if c.PostForm.Get("requested_token_type") == refreshTokenType && !c.PostForm.Has("requested_issuer") {
			return idp.sessionGrant(w, c, r, name)
		}
		return idp.exchange(w, c, r, name)
	case "":
		return &problem{400, "invalid_request", "Missing form parameter: grant_type"}
	}
	return &problem{400, "unsupported_grant_type", "Unsupported grant_type"}
}

// authenticate returns the client of a request, authenticated by HTTP Basic or in the form.
func (r *realm) authenticate(c call) (string, *problem) {
	name, secret := c.PostForm.Get("client_id"), c.PostForm.Get("client_secret")
	if user, password, ok := c.BasicAuth(); ok {
		name, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(password)
	}
	known, ok := r.clients[name]
	if !ok {
		return "", &problem{401, "invalid_client", "Invalid client or Invalid client credentials"}
	}
	if subtle.ConstantTimeCompare([]byte(known.secret), []byte(secret)) != 1 {
		return "", &problem{401, "unauthorized_client", "Invalid client or Invalid client credentials"}
	}
	return name, nil
}

func (idp *IdP) passwordGrant(w http.ResponseWriter, c call, r *realm, name string) *problem {
	user := c.PostForm.Get("username")
	if !r.clients[name].grants {
		return &problem{400, "unauthorized_client", "Client not allowed for direct access grants"}
	}
	if !slices.Contains(r.users, user) || c.PostForm.Get("password") != user+"-password" {
		return &problem{401, "invalid_grant", "Invalid user credentials"}
	}
	idp.issue(w, r, user, name, nil)
	return nil
}

func (idp *IdP) serviceGrant(w http.ResponseWriter, r *realm, name string) *problem {
	if !r.clients[name].service {
		return &problem{401, "unauthorized_client", "Client not enabled to retrieve service account"}
	}
	idp.issue(w, r, serviceAccount+name, name, nil)
	return nil
}

// issue responds with a new access token and the additional members.
func (idp *IdP) issue(w http.ResponseWriter, r *realm, user, client string, more object) {
	doc := object{
		"access_token": r.mint(idp.claims(r, user, client), TokenFaults{}), "token_type": "Bearer",
		"expires_in":         int(idp.TokenLife / time.Second),
		"refresh_expires_in": 0, "not-before-policy": 0, "scope": "openid profile email",
	}
	maps.Copy(doc, more)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, 200, doc)
}

// exchange handles Keycloak's legacy token exchange to a linked identity provider, which ignores the audience of the
// subject token.
func (idp *IdP) exchange(w http.ResponseWriter, c call, r *realm, name string) *problem {
	form := c.PostForm
	if !form.Has("requested_issuer") {
		return &problem{400, "invalid_request", "Standard token exchange is not enabled for the requested client"}
	}
	claims, err := idp.verify(r, form.Get("subject_token"))
	switch {
	case err != nil, form.Has("subject_token_type") && form.Get("subject_token_type") != accessTokenType:
		return &problem{400, "invalid_request", "Invalid token"}
	case r.name != BrokerRealm || form.Get("requested_issuer") != PlatformAlias:
		return &problem{400, "invalid_request", "Invalid issuer"}
	case !r.clients[name].exchange:
		return &problem{403, "access_denied", "Client not allowed to exchange"}
	case form.Has("requested_token_type") && form.Get("requested_token_type") != accessTokenType:
		return &problem{400, "invalid_target", "response_token_type_unsupported"}
	}
	linkURL := idp.issuer(r.name) + "/broker/" + PlatformAlias + "/link?client_id=" + url.QueryEscape(name)
	l, p := idp.linked(c, claims.User)
	switch {
	case p == nil:
		idp.respondWithLinkToken(w, l, object{"account-link-url": linkURL})
		return nil
	case p == unreachable:
		return &problem{500, "unknown_error", "For more on this error consult the server log."}
	}
	writeJSON(w, p.status, object{"error": p.code, "error_description": p.message, "account-link-url": linkURL})
	return nil
}

// respondWithLinkToken responds to an exchange with the token that is stored with a link.
func (idp *IdP) respondWithLinkToken(w http.ResponseWriter, l link, more object) {
	doc := object{
		"access_token": l.token, "token_type": "Bearer",
		"expires_in":         int(l.ends.Sub(nowFrom(idp.Now)).Round(time.Second) / time.Second),
		"refresh_expires_in": 0, "not-before-policy": 0, "scope": "openid profile email",
		"issued_token_type": accessTokenType, "session_state": idp.session(PlatformRealm, l.platformUser),
	}
	maps.Copy(doc, more)
	if said := idp.conduct.ExpiresIn; said != nil {
		doc["expires_in"] = said
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, 200, doc)
}

var unreachable = &problem{400, "invalid_request", "Failed to retrieve token from identity provider"}

// renewAtLeft: a stored token is renewed when it has less lifetime left than this.
const renewAtLeft = 5 * time.Second

// linked returns a user's link with a token to hand out. A link whose token cannot be renewed fails once with
// token_expired and is then removed. idp.mu is held, except during the request to the platform's provider.
func (idp *IdP) linked(c call, user string) (link, *problem) {
	l, ok := idp.links[user]
	switch {
	case !ok || l.platformUser == "":
		return link{}, &problem{400, "not_linked", "identity provider is not linked"}
	case l.stale:
		return idp.dropLink(user)
	case l.ends.Sub(nowFrom(idp.Now)) > renewAtLeft:
		return l, nil
	}
	if slow := idp.conduct.Slow; slow > 0 {
		idp.mu.Unlock()
		sleep(c.Context(), slow)
		idp.mu.Lock()
	}
	return idp.renew(user, l.renewals)
}

// renew renews the token stored for a user; seen is the number of renewals at the time the refresh token was read.
func (idp *IdP) renew(user string, seen int) (link, *problem) {
	l := idp.links[user]
	switch {
	case idp.conduct.Down:
		return link{}, unreachable
	case idp.conduct.Status != 0, idp.conduct.Rotates && l.renewals != seen, l.platformUser == "":
		return idp.dropLink(user)
	}
	platform, odd := idp.realms[PlatformRealm], TokenFaults{}
	if idp.conduct.Mixed {
		odd.Claims = object{"iss": idp.URL + "/realms/another"}
	}
	l.token = platform.mint(idp.claims(platform, l.platformUser, "apex-broker"), odd)
	l.ends, l.renewals = nowFrom(idp.Now).Add(idp.TokenLife), l.renewals+1
	idp.links[user] = l
	return l, nil
}

func (idp *IdP) dropLink(user string) (link, *problem) {
	idp.links[user] = link{}
	return link{}, &problem{400, "token_expired", "linked token is expired"}
}

// brokered handles Keycloak's Identity Brokering API, version 2.
func (idp *IdP) brokered(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	if err := c.ParseForm(); err != nil {
		return &problem{400, "invalid_request", "The form cannot be read"}
	}
	idp.mu.Lock()
	defer idp.mu.Unlock()
	name, p := r.authenticate(c)
	if p != nil {
		return p
	}
	claims, err := idp.verify(r, c.PostForm.Get("token"))
	switch {
	case r.clients[name].secret == "":
		return &problem{403, "invalid_client", "public clients not allowed"}
	case !r.clients[name].exchange || c.PathValue("alias") != PlatformAlias:
		return &problem{403, "invalid_client", "Client not allowed to retrieve token for the provider"}
	case err != nil:
		return &problem{400, "invalid_token", "Invalid token"}
	case claims.Client != name && !slices.Contains(claims.Aud, name):
		return &problem{403, "unauthorized_client", "Client is not within the token audience"}
	}
	if _, ok := idp.links[claims.User]; !ok {
		return &problem{400, "invalid_request", "User not associated to identity provider"}
	}
	l, p := idp.linked(c, claims.User)
	if p != nil {
		return p
	}
	idp.respondWithLinkToken(w, l, nil)
	return nil
}
