package simulator

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The realms of the broker and of the platform.
const (
	BrokerRealm   = "apex"
	PlatformRealm = "platform"
	PlatformAlias = "platform" // the platform's realm as an identity provider of the broker's
)

// IdP is an identity provider with two realms that responds like Keycloak 26.7, including errors: discovery, key set,
// password grant, authorization code with PKCE, refresh and offline tokens and their revocation, logout by the client
// and by back channel, client credentials, the standard exchange for a refresh token, the legacy exchange by
// requested_issuer, and the brokering API POST /realms/{realm}/broker/{alias}/token. The broker's realm has the users
// alice, bob and carol, the platform's alice-p, bob-p and carol-p; passwords are "<name>-password". Alice and carol are
// linked to their platform accounts.
type IdP struct {
	URL       string           // base URL without a trailing slash; "": that of the first request
	Now       func() time.Time // nil: time.Now
	TokenLife time.Duration    // 0: five minutes

	Redirects       []string // allowed redirect addresses; none: all
	RefreshOnce     bool     // a refresh token can be used only once
	NoSessionGrants bool     // the standard exchange returns no refresh tokens

	Faults Faults
	Oracle Oracle

	once    sync.Once
	routes  *http.ServeMux
	handler handler

	mu       sync.Mutex // of all that follows
	realms   map[string]*realm
	conduct  LinkBehavior
	links    map[string]link    // of users of the broker's realm
	sessions map[string]int     // number of logouts
	arrivals map[string]arrival // by code
	devices  map[string]*device // by the code that the device sends
	grants   map[string]grant   // by refresh token
	disabled map[string]bool    // users
	logouts  string             // see TellLogouts
	serial   int
	nextKey  int
}

type realm struct {
	name    string
	key     int   // the signing key
	valid   []int // keys in the key set
	users   []string
	clients map[string]client
}

// client is a registered client.
type client struct {
	secret   string // "": public
	audience []string
	grants   bool // may use the password grant
	service  bool // has a service account
	exchange bool // may exchange tokens for those of the platform
}

// link connects a user to an account at the platform. Its stored token is handed out, and renewed shortly before it
// expires.
type link struct {
	platformUser string
	stale        bool // the stored token can no longer be renewed
	token        string
	ends         time.Time // zero: renew at the next use
	renewals     int
}

// LinkBehavior is how the platform's provider responds when the broker's provider renews the stored tokens of linked
// accounts. The zero value is that of a correct provider.
type LinkBehavior struct {
	Status    int           // its token endpoint responds with this; links renewed meanwhile are lost, as in Keycloak
	Down      bool          // it cannot be reached; links stay
	Slow      time.Duration // duration of a renewal
	Rotates   bool          // refresh tokens can be used once, so of two concurrent renewals the second loses the link
	Mixed     bool          // tokens of another issuer are handed out
	ExpiresIn any           // returned in place of the lifetime
}

// SetLinkBehavior sets the conduct from now on.
func (idp *IdP) SetLinkBehavior(c LinkBehavior) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	idp.conduct = c
}

// Expire makes every stored token require a renewal at its next use.
func (idp *IdP) Expire() {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	for user, l := range idp.links {
		l.ends = time.Time{}
		idp.links[user] = l
	}
}

// Linked returns how many users have a working link.
func (idp *IdP) Linked() (n int) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	for _, l := range idp.links {
		if l.platformUser != "" && !l.stale {
			n++
		}
	}
	return n
}

const serviceAccount = "service-account-"

// audience returns the audience of the client's tokens.
func (r *realm) audience(client string) []string {
	return append(slices.Clone(r.clients[client].audience), "account")
}

func (idp *IdP) init() {
	if idp.TokenLife == 0 {
		idp.TokenLife = 5 * time.Minute
	}
	idp.nextKey = foreignKey + 1
	idp.sessions, idp.arrivals, idp.grants, idp.disabled, idp.devices = map[string]int{}, map[string]arrival{},
		map[string]grant{}, map[string]bool{}, map[string]*device{}
	idp.links = map[string]link{"alice": {platformUser: "alice-p"}, "carol": {platformUser: "carol-p"}}
	idp.realms = map[string]*realm{
		BrokerRealm: {name: BrokerRealm, users: []string{"alice", "bob", "carol"}, clients: map[string]client{
			"eodispatch-api": {secret: "eodispatch-api-secret", service: true, exchange: true},
			"portal":         {grants: true, audience: []string{"eodispatch-api"}},
			"stranger":       {grants: true},
			"other-api":      {secret: "other-api-secret", service: true},
		}},
		PlatformRealm: {name: PlatformRealm, users: []string{"alice-p", "bob-p", "carol-p"}, clients: map[string]client{
			"apex-broker": {secret: "apex-broker-secret", audience: []string{"platform-api"}},
			"eodispatch-service": {secret: "eodispatch-service-secret", service: true,
				audience: []string{"platform-api"}},
			"platform-api": {secret: "platform-api-secret"},
		}},
	}
	for _, name := range []string{BrokerRealm, PlatformRealm} {
		idp.rotate(idp.realms[name])
	}
	idp.handler = handler{&idp.Faults, &idp.Oracle, refuseIdP}
	idp.routes = http.NewServeMux()
	for _, r := range []struct {
		name   string
		handle func(http.ResponseWriter, call) *problem
	}{
		{"GET /realms/{realm}/.well-known/openid-configuration", idp.discovery},
		{"GET /realms/{realm}/protocol/openid-connect/certs", idp.certs},
		{"POST /realms/{realm}/protocol/openid-connect/token", idp.token},
		{"GET /realms/{realm}/protocol/openid-connect/auth", idp.authorize},
		{"POST /realms/{realm}/protocol/openid-connect/auth/device", idp.authorizeDevice},
		{"GET /realms/{realm}/device", idp.signInDevice},
		{"POST /realms/{realm}/protocol/openid-connect/revoke", idp.revoke},
		{"GET /realms/{realm}/protocol/openid-connect/logout", idp.endSession},
		{"POST /realms/{realm}/broker/{alias}/token", idp.brokered},
		{"/", func(http.ResponseWriter, call) *problem {
			return &problem{404, "Unable to find matching target resource method", ""}
		}},
	} {
		idp.routes.HandleFunc(r.name, func(w http.ResponseWriter, request *http.Request) {
			idp.handler.handle(w, call{Request: request, route: r.name}, r.handle)
		})
	}
}

func (idp *IdP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	if idp.URL == "" {
		idp.URL = origin(r)
	}
	idp.mu.Unlock()
	if page := r.Header.Get("Origin"); local.MatchString(page) {
		w.Header().Set("Access-Control-Allow-Origin", page)
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			w.WriteHeader(http.StatusOK)
			return
		}
	}
	idp.routes.ServeHTTP(w, r)
}

// local matches the origins of pages that sign in and get tokens, as if they were the web origins of each client.
var local = regexp.MustCompile(`^http://(localhost|127\.0\.0\.1)(:[0-9]+)?$`)

// rotate gives a realm a new signing key; older keys stay valid. idp.mu is held.
func (idp *IdP) rotate(r *realm) {
	r.key = idp.nextKey
	idp.nextKey++
	r.valid = append(r.valid, r.key)
}

// Rotate makes a realm sign with a new key. With forget, its older keys are removed from the key set.
func (idp *IdP) Rotate(realm string, forget bool) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	r := idp.realms[realm]
	idp.rotate(r)
	if forget {
		r.valid = []int{r.key}
	}
}

// Fetches returns how often the key sets of both realms were requested.
func (idp *IdP) Fetches() int {
	return idp.Oracle.Requests("GET /realms/{realm}/protocol/openid-connect/certs")
}

// Issuer returns the issuer of a realm's tokens.
func (idp *IdP) Issuer(realm string) string {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	return idp.issuer(realm)
}

func (idp *IdP) issuer(realm string) string { return idp.URL + "/realms/" + url.PathEscape(realm) }

// session returns the id of a user's current session. idp.mu is held.
func (idp *IdP) session(realm, user string) string {
	name := realm + "/" + user
	return fmt.Sprintf("%s.%d", subject("session of "+realm, user), idp.sessions[name])
}

// Link links a user of the broker's realm to an account at the platform, in place of any other.
func (idp *IdP) Link(user, platformUser string) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	idp.links[user] = link{platformUser: platformUser}
}

// Unlink removes a user's link.
func (idp *IdP) Unlink(user string) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	delete(idp.links, user)
}

// Spoil makes the platform refuse to renew the stored token of a user's link: the next exchange fails with
// token_expired, later ones with not_linked, as in Keycloak.
func (idp *IdP) Spoil(user string) {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	l := idp.links[user]
	l.stale = true
	idp.links[user] = l
}

// realmOf returns the realm of a request.
func (idp *IdP) realmOf(c call) (*realm, *problem) {
	idp.mu.Lock()
	defer idp.mu.Unlock()
	if r := idp.realms[c.PathValue("realm")]; r != nil {
		return r, nil
	}
	return nil, &problem{404, "Realm does not exist", ""}
}

func (idp *IdP) discovery(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	issuer := idp.Issuer(r.name)
	writeJSON(w, 200, object{
		"issuer":                               issuer,
		"authorization_endpoint":               issuer + "/protocol/openid-connect/auth",
		"device_authorization_endpoint":        issuer + "/protocol/openid-connect/auth/device",
		"token_endpoint":                       issuer + "/protocol/openid-connect/token",
		"jwks_uri":                             issuer + "/protocol/openid-connect/certs",
		"revocation_endpoint":                  issuer + "/protocol/openid-connect/revoke",
		"end_session_endpoint":                 issuer + "/protocol/openid-connect/logout",
		"backchannel_logout_supported":         true,
		"backchannel_logout_session_supported": true,
		"grant_types_supported": []string{"authorization_code", "refresh_token", "password",
			"client_credentials", exchangeGrant, deviceGrant},
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post"},

		"authorization_response_iss_parameter_supported": true,
	})
	return nil
}

func (idp *IdP) certs(w http.ResponseWriter, c call) *problem {
	r, p := idp.realmOf(c)
	if p != nil {
		return p
	}
	idp.mu.Lock()
	defer idp.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, n := range r.valid {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &key(n).PublicKey, KeyID: keyID(n), Algorithm: "RS256",
			Use: "sig"})
	}
	writeJSON(w, 200, set)
	return nil
}
