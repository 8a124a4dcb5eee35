package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
	deviceCodeLasts = 10 * time.Minute
	devicePause     = time.Second // between two questions of a client
)

// device is a program that waits for its user to sign in elsewhere (RFC 8628).
type device struct {
	arrival         // user "": not signed in yet
	userCode string // which the user's browser names
	refused  bool
}

// authorizeDevice handles the device authorization endpoint.
func (idp *IdP) authorizeDevice(w http.ResponseWriter, c call) *problem {
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
	idp.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "device %s %d", r.name, idp.serial))
	code, userCode := fmt.Sprintf("device-%x", sum[:8]), strings.ToUpper(fmt.Sprintf("%x-%x", sum[8:10], sum[10:12]))
	idp.devices[code] = &device{userCode: userCode, arrival: arrival{client: name,
		challenge: c.PostForm.Get("code_challenge"),
		offline:   slices.Contains(strings.Fields(c.PostForm.Get("scope")), "offline_access"),
		until:     nowFrom(idp.Now).Add(deviceCodeLasts)}}
	page := idp.issuer(r.name) + "/device"
	writeJSON(w, 200, object{"device_code": code, "user_code": userCode, "verification_uri": page,
		"interval":                  int(devicePause / time.Second),
		"verification_uri_complete": page + "?" + url.Values{"user_code": {userCode}}.Encode(),
		"expires_in":                int(deviceCodeLasts / time.Second)})
	return nil
}

// signInDevice is the page on which a user signs a device in: "as" names the user, who refuses with deny=1; without
// "as" the browser is shown the choices.
func (idp *IdP) signInDevice(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	idp.mu.Lock()
	defer idp.mu.Unlock()
	q := c.URL.Query()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for _, d := range idp.devices {
		if d.userCode != q.Get("user_code") || !nowFrom(idp.Now).Before(d.until) {
			continue
		}
		if !slices.Contains(r.users, q.Get("as")) {
			idp.choices(w, r, c.URL)
			return nil
		}
		d.user, d.refused = q.Get("as"), q.Get("deny") != ""
		fmt.Fprint(w,
			`<!doctype html><html lang="en"><title>Signed in</title><main><p>You can close this page and go back to your program.`)
		return nil
	}
	fmt.Fprint(w,
		`<!doctype html><html lang="en"><title>Sign in a program</title><main><form><label>Code that the program shows <input name="user_code"></label> <button>Continue</button></form>`)
	return nil
}

// deviceGrant accepts the code of a device whose user has signed in, once.
func (idp *IdP) deviceGrant(w http.ResponseWriter, c call, r *realm, name string) *problem {
	code := c.PostForm.Get("device_code")
	d := idp.devices[code]
	challenge := sha256.Sum256([]byte(c.PostForm.Get("code_verifier")))
	switch {
	case d == nil || d.client != name:
		return &problem{400, "invalid_grant", "Device code not valid"}
	case !nowFrom(idp.Now).Before(d.until):
		return &problem{400, "expired_token", "Device code is expired"}
	case d.challenge != "" && base64.RawURLEncoding.EncodeToString(challenge[:]) != d.challenge:
		return &problem{400, "invalid_grant", "PKCE verification failed: Code mismatch"}
	case d.refused:
		return &problem{400, "access_denied", "The end user denied the authorization request"}
	case d.user == "":
		return &problem{400, "authorization_pending", "The authorization request is still pending"}
	}
	delete(idp.devices, code)
	idp.admit(w, r, d.arrival)
	return nil
}

// admit responds with the tokens of a user who has signed in.
func (idp *IdP) admit(w http.ResponseWriter, r *realm, a arrival) {
	g := grant{user: a.user, client: a.client, family: idp.serial}
	if !a.offline {
		g.session = idp.session(r.name, a.user)
	}
	idp.serial++
	id := idp.claims(r, a.user, a.client)
	maps.Copy(id, object{"typ": "ID", "aud": a.client, "nonce": a.nonce})
	idp.issueFor(w, r, g, object{"id_token": r.mint(id, TokenFaults{})})
}
