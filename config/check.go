package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// leastMemory is the least memory, in bytes, that the process can work with.
const leastMemory = 128 << 20

var typeOfTexts = reflect.TypeFor[[]string]()

// finish derives settings that were left open and checks rules that concern several keys.
func (r *reader) finish(c *Config) {
	r.finishDatabase(c)
	r.checkTransport(c)
	for i, network := range c.Proxies {
		p, err := netip.ParsePrefix(network)
		switch {
		case err != nil || p.Addr().Is4In6():
			r.failAt(fmt.Sprintf("trusted_proxies[%d]", i), "write a network such as 10.0.0.0/8 or fd00::/8")
		case p.Bits() == 0:
			c.Notes = append(c.Notes, "trusted_proxies: "+network+
				" trusts everybody: clients can choose the address that limits and audit lines use")
		}
	}
	r.checkSecrets(c)
	if m := c.Limits.Memory; m != 0 && m < leastMemory {
		r.failAt("limits.memory", "write 128MiB or more: the program cannot work with less")
	}
	if !listenable(c.Listen) {
		r.failAt("listen", "write HOST:PORT, for example 0.0.0.0:8080")
	}
	r.checkTelemetry(c)
	r.finishTraces(c)
	r.checkRetention(c.Retention)
	if c.PublicURL != "" {
		r.checkURL(c, "public_url", c.PublicURL)
		c.PublicURL = plainURL(c.PublicURL)
	}
	r.finishIdentity(c)
	r.checkBaseMap(c)
	r.checkOrigins(c)
	for i, host := range c.Applications.AllowHosts {
		if host == "" || strings.ContainsAny(host, "/ ?#@") {
			r.failAt(fmt.Sprintf("applications.allow_hosts[%d]", i),
				"write a host without scheme and path: raw.githubusercontent.com")
		}
	}
	r.checkHooks(c)
	if len(c.Platforms) == 0 && !r.failedBelow("platforms") && !r.failedIn("BACKENDS") {
		r.failAt("platforms", "no platform is configured: list at least one under platforms, or set BACKENDS")
	}
	for i := range c.Platforms {
		if key := fmt.Sprintf("platforms[%d]", i); !r.failed(key) {
			r.checkPlatform(c, &c.Platforms[i], key)
		}
	}
	r.checkUnique(c.Platforms)
	r.finishIssuers(c)
	r.checkCatalogue(c)
	r.checkVault(c)
	r.noteLinks(c)
}

func (r *reader) checkHooks(c *Config) {
	for i, origin := range c.Hooks.Trusted {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin ||
			u.Scheme != "http" &&
				u.Scheme != "https" {
			r.failAt(fmt.Sprintf("hooks.trusted[%d]", i),
				"write SCHEME://HOST[:PORT] without a path: http://receiver.internal:8080")
		}
	}
	if _, err := c.Hooks.Mail.Sender(); err != nil {
		r.failAt("hooks.mail", "%v", err)
	}
}

// noteLinks notes which functions are missing because public_url or another address is not set.
func (r *reader) noteLinks(c *Config) {
	if c.PublicURL == "" &&
		slices.ContainsFunc(c.Platforms, func(p Platform) bool { return p.Access == dispatch.AccessUser }) {
		c.Notes = append(c.Notes,
			"public_url is missing: users link their accounts on the identity provider's account page, and cannot "+
				"let jobs run while they are away")
	}
}

// checkTransport notes unprotected traffic, and checks the TLS files.
func (r *reader) checkTransport(c *Config) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		r.failAt("tls", "set both cert and key: the files of the certificate and of its private key")
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && !loopback(host) && c.TLS.CertFile == "" &&
		!c.Development {
		c.Notes = append(c.Notes,
			"listen is not a loopback address and tls.cert is missing: tokens cross the network unencrypted unless a "+
				"proxy in "+"front of the broker terminates TLS")
	}
	u, err := url.Parse(c.Database.Reveal())
	if err == nil && u.Scheme == "postgres" && slices.ContainsFunc(hostsOf(u), distant) &&
		u.Query().Get("sslmode") != "verify-full" && !c.Development {
		c.Notes = append(c.Notes,
			"database: without sslmode=verify-full the broker does not know that it speaks to the right PostgreSQL "+
				"server")
	}
}

// distant reports whether a host of a database, which is a folder for a socket, is another machine.
func distant(host string) bool { return host != "" && !strings.HasPrefix(host, "/") && !loopback(host) }

// listenable reports whether an address has a host, which may be empty, and a port. Port 0 stands for a free port.
func listenable(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// checkTelemetry checks the address of the private listener, and notes one that may be reached from outside: it asks
// for no sign-in.
func (r *reader) checkTelemetry(c *Config) {
	switch at := c.Telemetry.Listen; {
	case at == TelemetryOff:
	case !listenable(at):
		r.failAt("telemetry.listen", "write HOST:PORT, for example 127.0.0.1:9090, or off")
	case !internal(at):
		c.Notes = append(c.Notes, "telemetry.listen: "+at+
			" may be a public address, where anyone can read metrics and profiles; write a loopback or private "+
			"address, or let only the monitoring reach it")
	}
}

// keysAtLeast is for how long clients may rely on their idempotency keys.
const keysAtLeast = 24 * time.Hour

// checkRetention checks that parts of a job are not kept longer than the job, and that keys last as long as clients
// were promised.
func (r *reader) checkRetention(k Retention) {
	for key, age := range map[string]time.Duration{"results": k.Results, "requests": k.Requests,
		"platform": k.Platform} {
		if k.Jobs > 0 && age > k.Jobs {
			r.failAt("retention."+key, "must not be longer than retention.jobs (%v): they are deleted with the job",
				k.Jobs)
		}
	}
	if k.Keys < keysAtLeast && !r.failed("retention.keys") {
		r.failAt("retention.keys", "must be 24h or more: clients may repeat a request for a day")
	}
	if k.Jobs > 0 && k.Jobs < k.Keys && !r.failed("retention.jobs") {
		r.failAt("retention.jobs",
			"must not be shorter than retention.keys (%v): a repeated request returns the job that it stands for",
			k.Keys)
	}
}

// internal reports whether an address with a port is one of the loopback interface or of a private network.
func internal(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return loopback(host) || err == nil && (ip.Unmap().IsPrivate() || ip.Unmap().IsLinkLocalUnicast())
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// checkVault requires keys if several processes may share users' secrets.
func (r *reader) checkVault(c *Config) {
	if c.Vault.Keys != "" {
		if _, err := identity.ParseKeyring(c.Vault.Keys); err != nil {
			r.failAt("vault.keys", "%v", err)
		}
		return
	}
	asUser := slices.ContainsFunc(c.Platforms, func(p Platform) bool { return p.Access == dispatch.AccessUser })
	switch {
	case !asUser || r.failed("vault.keys"):
	case strings.HasPrefix(c.Database.Reveal(), "postgres:"):
		r.failAt("vault.keys", "is missing: %s on PostgreSQL needs a key, to store users' tokens encrypted: "+
			"set %s to what `eodispatch vault key` prints", r.asUserName(), variableOf("vault.keys"))
	default:
		c.Notes = append(c.Notes,
			"vault.keys is missing: nothing is kept for users who are away; their jobs wait once their tokens have "+
				"ended")
	}
}

// asUserName returns how the configuration says that a platform is used as the user.
func (r *reader) asUserName() string {
	if r.origin[r.at["platforms"]] == "BACKENDS" {
		return "USER_CREDENTIALS in BACKENDS"
	}
	return "access: user"
}

func (r *reader) finishDatabase(c *Config) {
	address, err := database(c.Database.Reveal())
	if err != nil {
		r.failAt("database", "%v", err)
		return
	}
	c.Database = dispatch.Secret(address)
	if c.Direct == "" {
		return
	}
	direct, err := database(c.Direct.Reveal())
	switch {
	case err != nil:
		r.failAt("database_direct", "%v", err)
	case !strings.HasPrefix(direct, "postgres:") || !strings.HasPrefix(address, "postgres:"):
		r.failAt("database_direct",
			"is for PostgreSQL behind a pooler: write the address of the server itself, "+
				"postgres://USER:PASSWORD@HOST/NAME, "+
				"or leave it out")
	}
	c.Direct = dispatch.Secret(direct)
}

func (r *reader) checkSecrets(c *Config) {
	if c.Development {
		return
	}
	addresses := map[string]string{"database": c.Database.Reveal(), "database_direct": c.Direct.Reveal()}
	for _, key := range r.literals {
		if address, ok := addresses[key]; !ok || carriesPassword(address) {
			r.failAt(key, "the file must not contain the secret itself: write env:NAME or file:PATH (development: "+
				"true "+"allows it)")
		}
	}
}

func (r *reader) checkURL(c *Config, key, text string) {
	if err := checkURL(text, c.Development); err != nil {
		r.failAt(key, "%v", err)
	}
}

// checkAddress checks the URL of a server that is compared with those that requests name.
func (r *reader) checkAddress(c *Config, key, text string) {
	r.checkURL(c, key, text)
	if _, err := dispatch.ParseAddress(text); err != nil && !r.failed(key) {
		r.failAt(key, "%v", err)
	}
}

// require reports a missing key. It returns whether the key is set.
func (r *reader) require(key, value, what string) bool {
	if value == "" {
		r.failAt(key, "is missing: %s", what)
	}
	return value != ""
}

func (r *reader) finishIdentity(c *Config) {
	id := &c.Identity
	r.require("identity.issuer", id.Issuer,
		"write the URL of the identity provider, or set KEYCLOAK_HOST and KEYCLOAK_REALM")
	id.Audience = r.checkProvider(c, "identity", *id)
	if id.DocsClient != "" && id.DocsClient == id.ClientID && id.ClientSecret.Reveal()+id.ClientKey.Reveal() != "" {
		r.failAt("identity.docs_client",
			"must be a public client of its own: browsers must not need the secret of identity.client_id")
	}
	if id.CommandLineClient != "" && id.CommandLineClient == id.ClientID && id.ClientSecret.Reveal()+
		id.ClientKey.Reveal() != "" {
		r.failAt("identity.command_line_client",
			"must be a public client of its own: users' programs must not need the secret of identity.client_id")
	}
	if id.OpenEOClient != "" && id.OpenEOClient == id.ClientID && id.ClientSecret.Reveal()+id.ClientKey.Reveal() != "" {
		r.failAt("identity.openeo_client",
			"must be a public client of its own: users' programs must not need the secret of identity.client_id")
	}
	for i, page := range id.OpenEOPages {
		r.checkURL(c, fmt.Sprintf("identity.openeo_pages[%d]", i), page)
	}
}

// checkProvider checks which tokens of a provider are accepted, and the broker's client there. It returns the audience,
// by default the client.
func (r *reader) checkProvider(c *Config, key string, id Identity) []string {
	if id.ClientSecret != "" {
		r.checkClient(key, id.ClientSecret, id.ClientKey)
	}
	if id.Issuer != "" {
		r.checkURL(c, key+".issuer", id.Issuer)
	}
	audience := id.Audience
	if len(audience) == 0 && id.ClientID != "" {
		audience = []string{id.ClientID}
	}
	if slices.Contains(audience, "") && !r.failedBelow(key+".audience") {
		r.failAt(key+".audience", "must not contain an empty text")
	}
	if slices.Contains(id.Clients, "") && !r.failedBelow(key+".clients") {
		r.failAt(key+".clients", "must not contain an empty text")
	}
	if len(audience) == 0 {
		r.failAt(key+".audience", "is missing: list what a token's aud must contain, or set %s",
			r.settingName(key+".client_id"))
	}
	return audience
}

// checkBaseMap checks the address of the tiles, which browsers load.
func (r *reader) checkBaseMap(c *Config) {
	m := c.Page.BaseMap
	if m == nil || r.failedBelow("page.base_map") {
		return
	}
	if r.require("page.base_map.url", m.URL, "write the address of the tiles, with {z}, {x} and {y}") {
		r.checkURL(c, "page.base_map.url", m.URL)
		for _, part := range []string{"{z}", "{x}", "{y}"} {
			if !strings.Contains(m.URL, part) {
				r.failAt("page.base_map.url",
					"must contain {z}, {x} and {y}, for example https://tiles.example.org/{z}/{x}/{y}.png")
				break
			}
		}
	}
	r.require("page.base_map.attribution", m.Attribution,
		"write who made the map, as its licence requires it to be shown")
}

// anyPort matches the origins of all servers on the user's own machine.
var anyPort = regexp.MustCompile(`^https?://(localhost|127\.0\.0\.1):\*$`)

func (r *reader) checkOrigins(c *Config) {
	for i, origin := range c.CORS.AllowedOrigins {
		u, err := url.Parse(origin)
		key := fmt.Sprintf("cors.allowed_origins[%d]", i)
		switch {
		case origin == "*", anyPort.MatchString(origin):
		case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin:
			r.failAt(key, "write SCHEME://HOST[:PORT] without a path, http://localhost:*, or *")
		case strings.Contains(u.Host, "*") || strings.ToLower(origin) != origin:
			c.Notes = append(c.Notes, key+": "+origin+" matches no page: origins are compared exactly, "+
				"without wildcards but for http://localhost:*, and browsers send them in lower case")
		}
	}
}

var platformName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (r *reader) checkPlatform(c *Config, p *Platform, key string) {
	if r.require(key+".name", p.Name, "name the platform") && !platformName.MatchString(p.Name) {
		r.failAt(key+".name", "use letters, digits, dots, dashes and underscores, 100 at most, and no slash")
	}
	if r.require(key+".endpoint", p.Endpoint, "write the platform's URL") {
		r.checkAddress(c, key+".endpoint", p.Endpoint)
	}
	for i, alias := range p.Aliases {
		r.checkAddress(c, fmt.Sprintf("%s.aliases[%d]", key, i), alias)
	}
	if p.Issuer != "" {
		r.checkURL(c, key+".issuer", p.Issuer)
	}
	if p.Protocol == OGCProcess && p.TokenPrefix != "" {
		r.failAt(key+".token_prefix", "only openEO has one: remove it")
	}
	if p.Protocol == OGCProcess && p.StartSettlesAfter != 0 {
		r.failAt(key+".start_settles_after", "only openEO starts jobs in a request of its own: remove it")
	}
	for i, f := range p.Failures {
		at := fmt.Sprintf("%s.failures[%d]", key, i)
		r.require(at+".cause", string(f.Cause), "write platform or request")
		if r.require(at+".matches", f.Matches, "write a regular expression for what the platform says") {
			if _, err := regexp.Compile(f.Matches); err != nil {
				r.failAt(at+".matches", "is not a regular expression: %v", err)
			}
		}
	}
	if p.Limits.Send >= c.ShutdownGrace && !r.failed("shutdown_grace") {
		r.failAt(key+".limits.send", "must be shorter than shutdown_grace (%v)", c.ShutdownGrace)
	}
	r.checkAccess(c, p, key)
}

func (r *reader) checkAccess(c *Config, p *Platform, key string) {
	if !r.require(key+".access", string(p.Access), "write user, shared or open") {
		return
	}
	if p.Access != dispatch.AccessUser && p.Exchange != nil {
		r.failAt(key+".exchange", "is only for access: user, but access is %s: remove the key or change access",
			p.Access)
	}
	if p.Access != dispatch.AccessShared && p.ServiceAccount != nil {
		r.failAt(key+".service_account", "is only for access: shared, but access is %s: remove the key or change "+
			"access", p.Access)
	}
	r.checkUsers(c, p, key+".users")
	switch p.Access {
	case dispatch.AccessUser:
		r.checkExchange(p, key+".exchange", c.Identity, "identity")
	case dispatch.AccessShared:
		r.checkServiceAccount(c, p, key+".service_account")
	}
}

// checkUsers checks who may use a shared account, and notes accounts that any user may charge.
func (r *reader) checkUsers(c *Config, p *Platform, key string) {
	u := p.Users
	switch {
	case u == nil && p.Access == dispatch.AccessShared:
		c.Notes = append(c.Notes,
			fmt.Sprintf("platform %s: all users of the broker can use its service account, up to limits.user_jobs; "+
				"limit them with users: {jobs: …, claim: …}", p.Name))
	case u == nil:
	case p.Access == dispatch.AccessUser:
		r.failAt(key, "limits an account that users share, but access is user: remove it")
	case (u.Claim == "") != (len(u.AnyOf) == 0):
		r.failAt(key, "set both claim and any_of: a claim of users' tokens, and the values of which it must have one")
	case slices.Contains(u.AnyOf, ""):
		r.failAt(key+".any_of", "must not contain an empty text")
	}
}

// checkExchange checks how the tokens of a provider's users are exchanged for those of a platform. at is the key of the
// provider.
func (r *reader) checkExchange(p *Platform, key string, id Identity, at string) {
	e := p.Exchange
	if e == nil {
		r.failAt(key, "is missing: access: user needs exchange: {driver: %s, alias: …}", KeycloakBroker)
		return
	}
	keycloak, grant := e.Driver == KeycloakBroker || e.Driver == KeycloakRequestedIssuer, e.Driver == JWTGrant
	if r.failed(key+".driver") || !r.require(key+".driver", e.Driver, "write "+KeycloakBroker+", or another driver") {
		return
	}
	r.checkDriverKey(key+".alias", e.Alias, keycloak, true,
		"write the alias of the platform's identity provider at the broker's provider")
	r.checkDriverKey(key+".audience", e.Audience, grant || e.Driver == TokenExchange, !grant,
		"write the platform's client id at the broker's provider")
	r.checkDriverKey(key+".client_id", e.ClientID, grant, true,
		"write the broker's client id at the platform's provider")
	if grant {
		r.checkClient(key, e.ClientSecret, e.ClientKey)
	} else {
		r.checkDriverKey(key+".client_secret", e.ClientSecret.Reveal(), false, false, "")
		r.checkDriverKey(key+".client_key", e.ClientKey.Reveal(), false, false, "")
	}
	switch {
	case grant && p.Issuer == "":
		r.failAt(key, "%s needs the platform's issuer", JWTGrant)
	case e.Driver == Passthrough && (p.Issuer == "" || p.Issuer != id.Issuer):
		r.failAt(key, "%s needs the platform's issuer, and that must be %s.issuer: nobody else may see users' tokens",
			Passthrough, at)
	}
	r.checkExchangeClient(key, e.Driver, id, at)
}

// checkExchangeClient checks the broker's client, which a driver uses. Keycloak lets a public client, which has neither
// a secret nor a key, exchange tokens only by the legacy exchange.
func (r *reader) checkExchangeClient(key, driver string, id Identity, at string) {
	name, public := r.settingName(at+".client_id"), id.ClientSecret+id.ClientKey == ""
	switch {
	case id.ClientID == "":
		r.failAt(key, "token exchange needs the id of the broker's client: set %s", name)
	case public && driver != KeycloakRequestedIssuer:
		r.failAt(key, "token exchange needs either %s or %s: without one the client is public, which only %s allows",
			r.settingName(at+".client_secret"), r.settingName(at+".client_key"), KeycloakRequestedIssuer)
	}
}

// checkClient checks that a client has either a secret or a key.
func (r *reader) checkClient(key string, secret, private dispatch.Secret) {
	switch {
	case secret+private == "":
		r.failAt(key+".client_secret", "is missing: write env:NAME or file:PATH")
	case secret != "" && private != "":
		r.failAt(key+".client_key", "and client_secret are both set: remove one of them")
	}
}

// checkDriverKey reports a key that the driver does not have, or that it needs and is missing.
func (r *reader) checkDriverKey(key, value string, has, needed bool, what string) {
	switch {
	case has && needed:
		r.require(key, value, what)
	case !has && value != "":
		r.failAt(key, "this driver does not use the key: remove it")
	}
}

func (r *reader) checkServiceAccount(c *Config, p *Platform, key string) {
	a := p.ServiceAccount
	if a == nil {
		r.failAt(key, "is missing: access: shared needs service_account: {issuer: …, client_id: …, client_secret: "+
			"env:NAME}")
		return
	}
	r.require(key+".client_id", a.ClientID, "write the id of the shared client")
	r.checkClient(key, a.ClientSecret, a.ClientKey)
	if slices.Contains(a.Allow, "") {
		r.failAt(key+".allow", "must not contain an empty text")
	}
	for name, value := range map[string]string{"token_url": a.TokenURL, "issuer": a.Issuer} {
		if value != "" {
			r.checkURL(c, key+"."+name, value)
		}
	}
	switch {
	case a.TokenURL+a.Issuer+a.Provider == "", a.TokenURL != "" && a.Issuer+a.Provider != "":
		r.failAt(key, "set one of token_url, issuer and provider, or provider together with the expected issuer")
	case a.Provider != "" && a.Issuer == "":
		r.checkPinned(c, p, key+".issuer")
	}
}

// checkPinned refuses a service account whose issuer only the platform names, because the platform could then choose
// the server that receives the secret. BACKENDS has no key for the issuer and must keep working, so there it is only
// noted.
func (r *reader) checkPinned(c *Config, p *Platform, key string) {
	if r.origin[r.at["platforms"]] != "BACKENDS" {
		r.failAt(key, "is required with provider: otherwise the platform could choose which server receives the "+
			"account's "+"secret; write the expected issuer")
		return
	}
	c.Notes = append(c.Notes,
		fmt.Sprintf("platform %s: service_account.issuer is required with provider: otherwise the platform chooses "+
			"which "+"server receives "+
			"the account's secret; set the expected issuer in %s", p.Name, variableOf(key)))
}

// checkUnique reports platforms with the same name or address.
func (r *reader) checkUnique(platforms []Platform) {
	names, addresses := claims{}, claims{}
	for i, p := range platforms {
		key := fmt.Sprintf("platforms[%d]", i)
		for _, one := range expand([]Platform{p}) {
			r.claim(names, strings.ToLower(one.Name), key+".name", "the name "+one.Name)
			r.claim(addresses, address(one, one.Endpoint), key+".endpoint", "this address")
			for j, alias := range one.Aliases {
				r.claim(addresses, address(one, alias), fmt.Sprintf("%s.aliases[%d]", key, j), "this address")
			}
		}
	}
}

// claims records which key first used a value.
type claims map[string]string

func (r *reader) claim(taken claims, value, key, what string) {
	if first, twice := taken[value]; twice {
		r.failAt(key, "%s is also that of %s", what, first)
		return
	}
	taken[value] = key
}

// address returns a platform's address in one spelling, together with its protocol.
func address(p Platform, endpoint string) string {
	a, err := dispatch.ParseAddress(endpoint)
	if err != nil {
		return string(p.Protocol) + " " + endpoint
	}
	_, place, _ := strings.Cut(a.String(), "://")
	return string(p.Protocol) + " " + place
}
