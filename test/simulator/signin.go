package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	refreshTokenType = "urn:ietf:params:oauth:token-type:refresh_token"
	codeLasts        = time.Minute
	sessionLasts     = 30 * time.Minute // lifetime of a refresh token that is not used
)

// arrival is what a code stands for.
type arrival struct {
	user, client, redirect, challenge, nonce string
	offline                                  bool
	until                                    time.Time
}

// grant is what a refresh token stands for.
type grant struct {
	user, client string
	session      string // "": an offline session, which no logout ends
	family       int    // grants that descend from each other have the same family
	until        time.Time
	used         bool
}

// authorize handles the authorization endpoint, also for kc_action=idp_link:platform. The parameter "as" names the
// user, who refuses with deny=1; without "as" the browser is shown the choices.
func (idp *IdP) authorize(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	idp.mu.Lock()
	defer idp.mu.Unlock()
	q := c.URL.Query()
	_, known := r.clients[q.Get("client_id")]
	redirect, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || len(idp.Redirects) > 0 && !slices.Contains(idp.Redirects, q.Get("redirect_uri")) {
		return &problem{400, "invalid_request", "Invalid parameter: redirect_uri"}
	}
	user := q.Get("as")
	if !slices.Contains(r.users, user) {
		idp.choices(w, r, c.URL)
		return nil
	}
	back := url.Values{"state": {q.Get("state")}, "session_state": {idp.session(r.name, user)},
		"iss": {idp.issuer(r.name)}}
	action, alias, _ := strings.Cut(q.Get("kc_action"), ":")
	switch {
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "":
		back.Set("error", "invalid_request")
	case q.Get("deny") != "" && action == "":
		back.Set("error", "access_denied")
	default:
		if action != "" {
			back.Set("kc_action", action)
			back.Set("kc_action_status", idp.linkNow(user, alias, q.Get("deny") != ""))
		}
		back.Set("code", idp.code(arrival{user: user, client: q.Get("client_id"), redirect: q.Get("redirect_uri"),
			challenge: q.Get("code_challenge"),
			nonce:     q.Get("nonce"), offline: slices.Contains(strings.Fields(q.Get("scope")), "offline_access")}))
	}
	redirect.RawQuery = back.Encode()
	http.Redirect(w, c.Request, redirect.String(), http.StatusFound)
	return nil
}

// linkNow links a user to their account at the platform unless they refuse, and returns kc_action_status.
func (idp *IdP) linkNow(user, alias string, deny bool) string {
	switch {
	case alias != PlatformAlias:
		return "error"
	case deny:
		return "cancelled"
	}
	idp.links[user] = link{platformUser: user + "-p"}
	return "success"
}

// choices lets a browser choose its user.
func (idp *IdP) choices(w http.ResponseWriter, r *realm, at *url.URL) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w,
		`<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Sign in to %s</title><main><h1>Who are you?</h1>`+
			`<p>This simulated identity provider asks for no password.</p>`, r.name)
	for _, user := range r.users {
		for _, answer := range []struct{ more, text string }{{"", "Sign in as " + user},
			{"&deny=1", "Refuse as " + user}} {
			fmt.Fprintf(w, `<p><a href="%s&amp;as=%s%s">%s</a>`, html.EscapeString(at.RequestURI()), user,
				html.EscapeString(answer.more), answer.text)
		}
	}
}

func (idp *IdP) code(a arrival) string {
	idp.serial++
	code := fmt.Sprintf("code-%08d", idp.serial)
	a.until = nowFrom(idp.Now).Add(codeLasts)
	idp.arrivals[code] = a
	return code
}

// codeGrant accepts a code, once.
func (idp *IdP) codeGrant(w http.ResponseWriter, c call, r *realm, name string) *problem {
	form := c.PostForm
	a, ok := idp.arrivals[form.Get("code")]
	delete(idp.arrivals, form.Get("code"))
	challenge := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case !ok || a.client != name || !nowFrom(idp.Now).Before(a.until):
		return &problem{400, "invalid_grant", "Code not valid"}
	case a.redirect != form.Get("redirect_uri"):
		return &problem{400, "invalid_grant", "Incorrect redirect_uri"}
	case base64.RawURLEncoding.EncodeToString(challenge[:]) != a.challenge:
		return &problem{400, "invalid_grant", "PKCE verification failed: Code mismatch"}
	}
	idp.admit(w, r, a)
	return nil
}

// refreshGrant accepts a refresh token. With RefreshOnce, a second use revokes the whole family.
func (idp *IdP) refreshGrant(w http.ResponseWriter, c call, r *realm, name string) *problem {
	token := c.PostForm.Get("refresh_token")
	g, ok := idp.grants[token]
	switch {
	case !ok || g.client != name:
		return &problem{400, "invalid_grant", "Invalid refresh token"}
	case g.session != "" && (g.session != idp.session(r.name, g.user) || !nowFrom(idp.Now).Before(g.until)):
		return &problem{400, "invalid_grant", "Session not active"}
	case idp.disabled[g.user]:
		return &problem{400, "invalid_grant", "User disabled"}
	case g.used:
		maps.DeleteFunc(idp.grants, func(_ string, other grant) bool { return other.family == g.family })
		return &problem{400, "invalid_grant", "Maximum allowed refresh token reuse exceeded"}
	}
	if idp.RefreshOnce {
		g.used = true
		idp.grants[token] = g
		g.used = false
	}
	idp.issueFor(w, r, g, nil)
	return nil
}

// sessionGrant returns a refresh token for the session of an access token (Keycloak's standard exchange).
func (idp *IdP) sessionGrant(w http.ResponseWriter, c call, r *realm, name string) *problem {
	claims, err := idp.verify(r, c.PostForm.Get("subject_token"))
	scope := strings.Fields(c.PostForm.Get("scope"))
	switch {
	case err != nil:
		return &problem{400, "invalid_request", "Invalid token"}
	case claims.Client != name && !slices.Contains(claims.Aud, name):
		return &problem{403, "access_denied", "Client is not within the token audience"}
	case slices.Contains(scope, "offline_access"):
		return &problem{400, "invalid_request", "Scope offline_access not allowed for token exchange"}
	case idp.NoSessionGrants || claims.Session == "":
		return &problem{400, "invalid_request", "requested_token_type unsupported"}
	}
	idp.serial++
	idp.issueFor(w, r, grant{user: claims.User, client: name, session: claims.Session, family: idp.serial},
		object{"issued_token_type": refreshTokenType})
	return nil
}

// issueFor responds with an access token and a new refresh token of a grant.
func (idp *IdP) issueFor(w http.ResponseWriter, r *realm, g grant, more object) {
	idp.serial++
	token := fmt.Sprintf("refresh-%08d-%x", idp.serial, sha256.Sum256([]byte(g.user+fmt.Sprint(idp.serial))))
	g.until = nowFrom(idp.Now).Add(sessionLasts)
	idp.grants[token] = g
	doc := object{"refresh_token": token, "refresh_expires_in": int(sessionLasts / time.Second)}
	odd := TokenFaults{}
	if g.session == "" {
		doc["refresh_expires_in"] = 0
		odd.Claims = object{"sid": nil}
	}
	doc["access_token"] = r.mint(idp.claims(r, g.user, g.client), odd)
	maps.Copy(doc, more)
	idp.issue(w, r, g.user, g.client, doc)
}

// revoke revokes a refresh token and its whole family (RFC 7009).
func (idp *IdP) revoke(w http.ResponseWriter, c call) *problem {
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
	if g, ok := idp.grants[c.PostForm.Get("token")]; ok && g.client == name {
		maps.DeleteFunc(idp.grants, func(_ string, other grant) bool { return other.family == g.family })
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// Disable invalidates a user's refresh tokens.
func (idp *IdP) Disable(user string) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	idp.disabled[user] = true
}

// Grants returns how many unrevoked, unused grants a user has given.
func (idp *IdP) Grants(user string) int {
	idp.mu.Lock()
	defer idp.mu.Unlock()
	families := map[int]bool{}
	for _, g := range idp.grants {
		if g.user == user && !g.used {
			families[g.family] = true
		}
	}
	return len(families)
}
