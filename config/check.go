package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

var typeOfTexts = reflect.TypeFor[[]string]()

// finish derives settings that were left open and checks rules that concern several keys.
func (r *reader) finish(c *Config) {
	r.checkTags(c, reflect.ValueOf(c).Elem(), "")
	r.finishDatabase(c)
	r.checkTransport(c)
	for _, network := range c.Proxies {
		if p, err := netip.ParsePrefix(network); err == nil && p.Bits() == 0 {
			c.Notes = append(c.Notes, "trusted_proxies: "+network+
				" trusts everybody: clients can choose the address that limits and audit lines use")
		}
	}
	r.checkSecrets(c)
	noteTelemetry(c)
	r.finishTraces(c)
	r.checkRetention(c.Retention)
	c.PublicURL = plainURL(c.PublicURL)
	r.finishIdentity(c)
	noteOrigins(c)
	if _, err := c.Hooks.Mail.Sender(); err != nil {
		r.failAt("hooks.mail", "%v", err)
	}
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
				"proxy in front of the broker terminates TLS")
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

// noteTelemetry notes a private listener that may be reached from outside: it asks for no sign-in.
func noteTelemetry(c *Config) {
	if at := c.Telemetry.Listen; at != TelemetryOff && !internal(at) {
		c.Notes = append(c.Notes, "telemetry.listen: "+at+
			" may be a public address, where anyone can read metrics and profiles; write a loopback or private "+
			"address, or let only the monitoring reach it")
	}
}

// checkRetention checks that parts of a job are not kept longer than the job.
func (r *reader) checkRetention(k Retention) {
	for key, age := range map[string]time.Duration{"results": k.Results, "requests": k.Requests,
		"platform": k.Platform} {
		if k.Jobs > 0 && age > k.Jobs {
			r.failAt("retention."+key, "must not be longer than retention.jobs (%v): they are deleted with the job",
				k.Jobs)
		}
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
		r.failAt("database_direct", "is for PostgreSQL behind a pooler: write the address of the server itself, "+
			"postgres://USER:PASSWORD@HOST/NAME, or leave it out")
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
				"true allows it)")
		}
	}
}

func (r *reader) finishIdentity(c *Config) {
	id := &c.Identity
	id.Audience = r.checkProvider("identity", *id)
	secret := id.ClientSecret.Reveal()+id.ClientKey.Reveal() != ""
	for key, client := range map[string]string{"docs_client": id.DocsClient,
		"command_line_client": id.CommandLineClient, "openeo_client": id.OpenEOClient} {
		if client != "" && client == id.ClientID && secret {
			r.failAt("identity."+key, "must be a public client of its own: browsers and users' programs must not "+
				"need the secret of identity.client_id")
		}
	}
}

// checkProvider checks which tokens of a provider are accepted, and the broker's client there. It returns the audience,
// by default the client.
func (r *reader) checkProvider(key string, id Identity) []string {
	if id.ClientSecret != "" {
		r.checkClient(key, id.ClientSecret, id.ClientKey)
	}
	audience := id.Audience
	if len(audience) == 0 && id.ClientID != "" {
		audience = []string{id.ClientID}
	}
	if len(audience) == 0 {
		r.failAt(key+".audience", "is missing: list what a token's aud must contain, or set %s",
			r.settingName(key+".client_id"))
	}
	return audience
}

// noteOrigins notes origins that no browser sends.
func noteOrigins(c *Config) {
	for i, origin := range c.CORS.AllowedOrigins {
		if u, err := url.Parse(origin); err == nil && origin != "*" && !anyPort.MatchString(origin) &&
			(strings.Contains(u.Host, "*") || strings.ToLower(origin) != origin) {
			c.Notes = append(c.Notes, fmt.Sprintf("cors.allowed_origins[%d]: %s matches no page: origins are compared "+
				"exactly, without wildcards but for http://localhost:*, and browsers send them in lower case", i,
				origin))
		}
	}
}

func (r *reader) checkPlatform(c *Config, p *Platform, key string) {
	if p.Protocol == OGCProcess && p.TokenPrefix != "" {
		r.failAt(key+".token_prefix", "only openEO has one: remove it")
	}
	if p.Protocol == OGCProcess && p.StartSettlesAfter != 0 {
		r.failAt(key+".start_settles_after", "only openEO starts jobs in a request of its own: remove it")
	}
	if p.Limits.Send >= c.ShutdownGrace && !r.failed("shutdown_grace") {
		r.failAt(key+".limits.send", "must be shorter than shutdown_grace (%v)", c.ShutdownGrace)
	}
	r.checkAccess(c, p, key)
}

func (r *reader) checkAccess(c *Config, p *Platform, key string) {
	if p.Access == "" {
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
	if r.failed(key + ".driver") {
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
func (r *reader) checkDriverKey(key, value string, set, needed bool, what string) {
	switch {
	case set && needed && value == "":
		r.failAt(key, "is missing: %s", what)
	case !set && value != "":
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
	r.checkClient(key, a.ClientSecret, a.ClientKey)
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
			"account's secret; write the expected issuer")
		return
	}
	c.Notes = append(c.Notes,
		fmt.Sprintf("platform %s: service_account.issuer is required with provider: otherwise the platform chooses "+
			"which server receives the account's secret; set the expected issuer in %s", p.Name, variableOf(key)))
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
