package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
)

const whole = `
listen: 0.0.0.0:8080
public_url: https://dispatch.example.org
database: env:DB
database_direct: env:DIRECT
operator: {history: 24h}
traces: {endpoint: "https://collector.example.org", headers: env:TRACES, incoming: true}
identity:
  issuer: https://auth.example.org/realms/apex
  audience: [eodispatch-api, other]
  client_id: eodispatch-api
  client_secret: env:CLIENT
  clients: [portal, notebook]
  docs_client: docs
  command_line_client: programs
  openeo_client: notebooks
  openeo_pages: [https://editor.example.org]
  session_grants: false
  give_up_after: 48h
issuers:
  - issuer: https://partner.example.org
    audience: [broker]
    clients: [their-portal]
    client_id: broker-there
    client_secret: env:CLIENT
    platforms:
      - {name: cdse, exchange: {driver: token-exchange, audience: cdse}, issuer: https://partner.example.org}
      - {name: open-ogc}
vault: {keys: env:VAULT}
session: {life: 12h, idle: 1h}
page: {base_map: {url: "https://tiles.example.org/{z}/{x}/{y}.png", attribution: Somebody}}
platforms:
  - name: cdse
    protocol: openeo
    endpoint: https://openeo.example.org
    aliases: [https://openeofed.example.org]
    access: user
    exchange: {driver: keycloak-requested-issuer, alias: cdse, link_life: 30m}
    token_prefix: oidc/CDSE
    issuer: https://identity.example.org/realms/CDSE
    limits: {jobs: 3, requests: 4, rate: 10/s, min_poll: 5s, send: 20s, free_stalled: true}
    submit: at_least_once
    assets: proxy
    start_settles_after: 5m
    traceparent: true
    failures: [{matches: "(?i)spot node", cause: platform}]
  - name: processes
    protocol: ogc-api-processes
    endpoint: https://ogc.example.org/api
    access: shared
    service_account: {token_url: https://auth.example.org/token, client_id: broker, client_secret: file:SECRETFILE}
    users: {jobs: 20, jobs_per_day: 200, costs_per_month: 500, claim: realm_access.roles, any_of: [eo-users, admins]}
  - {name: open, endpoint: https://open.example.org, access: open}
service_rules:
- {services: [ndvi], platform: open-ogc, application: 'nd*', options: {memory: 4g, retries: 2}, max_duration: 2h, budget: 100, budget_unit: credits, format: gtiff, users: {claim: realm_access.roles, any_of: [eo-users]}}
applications: {allow_hosts: [raw.githubusercontent.com]}
hooks: {trusted: ['http://receiver.internal:8080'], mail: {server: 'smtp.example.org:465', from: 'EO <eo@example.org>', encryption: implicit, username: eo, password: 'env:MAIL_PASSWORD'}}
tls: {cert: /tls/cert.pem, key: /tls/key.pem}
trusted_proxies: [10.0.0.0/8]
limits: {body: 2MiB, connections: 600, rate_user: 20/s, rate_address: 50/s, rate_sign_in: 12/m, user_requests: 17, address_requests: 600, values: 500, user_jobs: 7000, user_jobs_per_day: 8000, user_bytes: 3GiB, memory: 512MiB, streams: 30}
streams: {query_token: false}
catalogue: {sources: [/etc/records, 'https://catalogue.example.org/items?limit=100'], refresh: 10m, open: true}
services:
- id: ndvi
  title: NDVI
  description: |
    *Green.*
  platform: open-ogc
  application: ndvi
  namespace: ns
  also: [{platform: cdse, application: 'https://apps.example.org/ndvi.json'}]
  keywords: [a, b]
  cost: one credit
  example: {from: 2024-06-01, box: [1, 2.50, yes], deep: {a: null, b: "2024-06-01"}}
- {id: other, platform: cdse, application: https://apps.example.org/p.json}
compat: {submitted_as_created: true, object_as_string: true}
cors: {allowed_origins: [https://portal.example.org]}
about: {title: Dispatch, description: for all, version: 1.2.3}
log: {format: text, level: debug}
telemetry: {listen: '10.0.0.1:9191'}
retention: {results: 168h, requests: 720h, jobs: 8760h, platform: 2160h, keys: 48h}
freshness: 3s
shutdown_grace: 1m
shutdown_delay: 4s
give_up_after: 90m
stalled_after: 8h
`

const vaultKey = "2026:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// minimal is the smallest valid configuration; tests add to it.
const minimal = `
identity: {issuer: https://auth.example.org, client_id: api}
platforms:
- {name: a, protocol: openeo, endpoint: https://a.example.org, access: open}
`

func TestLoad_ReadsEveryKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load("x.yaml", []byte(strings.Replace(whole, "SECRETFILE", file, 1)),
		[]string{"DB=postgres://u:p@db/eo?sslmode=verify-full",
			"DIRECT=postgres://u:p@db1,db2:5433/eo?sslmode=verify-full",
			"CLIENT=from a variable", "VAULT=" + vaultKey, "MAIL_PASSWORD=mail-secret", "TRACES=x-api-key=abc"})
	if err != nil {
		t.Fatal(err)
	}
	defaults := PlatformLimits{Requests: 8, MinPoll: 2 * time.Second, Send: 30 * time.Second}
	want := &Config{
		Listen: "0.0.0.0:8080", Proxies: []string{"10.0.0.0/8"}, TLS: TLS{"/tls/cert.pem", "/tls/key.pem"},
		PublicURL: "https://dispatch.example.org", Database: "postgres://u:p@db/eo?sslmode=verify-full",
		Direct:   "postgres://u:p@db1,db2:5433/eo?sslmode=verify-full&target_session_attrs=read-write",
		Operator: Operator{History: 24 * time.Hour},
		Traces:   Traces{Endpoint: "https://collector.example.org/v1/traces", Headers: "x-api-key=abc", Incoming: true},
		Identity: Identity{Issuer: "https://auth.example.org/realms/apex",
			Audience: []string{"eodispatch-api", "other"},
			Clients:  []string{"portal", "notebook"}, ClientID: "eodispatch-api", ClientSecret: "from a variable",
			DocsClient: "docs", CommandLineClient: "programs", OpenEOClient: "notebooks",
			OpenEOPages: []string{"https://editor.example.org"}, GiveUpAfter: 48 * time.Hour},
		Issuers: []Issuer{{Issuer: "https://partner.example.org", Audience: []string{"broker"},
			Clients: []string{"their-portal"}, ClientID: "broker-there", ClientSecret: "from a variable",
			Platforms: []IssuerPlatform{{Name: "cdse", Exchange: &Exchange{Driver: TokenExchange, Audience: "cdse",
				LinkLife: time.Hour}, Issuer: "https://partner.example.org"}, {Name: "open-ogc"}}}},
		Vault: Vault{Keys: vaultKey}, Session: Session{Life: 12 * time.Hour, Idle: time.Hour},
		Page: Page{BaseMap: &BaseMap{URL: "https://tiles.example.org/{z}/{x}/{y}.png", Attribution: "Somebody"}},
		Platforms: []Platform{{
			Name: "cdse", Protocol: OpenEO, Endpoint: "https://openeo.example.org",
			Aliases: []string{"https://openeofed.example.org"}, Access: dispatch.AccessUser,
			Exchange:    &Exchange{Driver: KeycloakRequestedIssuer, Alias: "cdse", LinkLife: 30 * time.Minute},
			TokenPrefix: "oidc/CDSE", Issuer: "https://identity.example.org/realms/CDSE",
			Limits: PlatformLimits{Jobs: 3, Requests: 4, Rate: Pace(100 * time.Millisecond), MinPoll: 5 * time.Second,
				Send: 20 * time.Second, FreeStalled: true},
			Submit: AtLeastOnce, Assets: ProxiedAssets, Traceparent: true, StartSettlesAfter: 5 * time.Minute,
			Failures: []Failure{{Matches: "(?i)spot node", Cause: dispatch.CausedByPlatform}},
		}, {
			Name: "processes", Protocol: OGCProcess, Endpoint: "https://ogc.example.org/api",
			Access: dispatch.AccessShared,
			ServiceAccount: &ServiceAccount{TokenURL: "https://auth.example.org/token", ClientID: "broker",
				ClientSecret: "from a file"},
			Users: &Users{Jobs: 20, Daily: 200, Costs: 500, Claim: "realm_access.roles", AnyOf: []string{"eo-users",
				"admins"}},
			Limits: defaults, Submit: AtMostOnce, Assets: DirectAssets,
		}, {
			Name: "open", Protocol: OpenEO, Endpoint: "https://open.example.org", Access: dispatch.AccessOpen,
			Limits: defaults, Submit: AtMostOnce, Assets: DirectAssets, EitherProtocol: true,
		}, {
			Name: "open-ogc", Protocol: OGCProcess, Endpoint: "https://open.example.org", Access: dispatch.AccessOpen,
			Limits: defaults, Submit: AtMostOnce, Assets: DirectAssets, EitherProtocol: true,
		}},
		Catalogue: Catalogue{Sources: []string{"/etc/records", "https://catalogue.example.org/items?limit=100"},
			Refresh: 10 * time.Minute, Open: true},
		Services: []Service{{ID: "ndvi", Title: "NDVI", Description: "*Green.*\n", Platform: "open-ogc",
			Application: "ndvi", Namespace: new("ns"), Also: []ServicePlacement{{Platform: "cdse",
				Application: "https://apps.example.org/ndvi.json"}},
			Keywords: []string{"a", "b"}, Cost: "one credit",
			Example: json.RawMessage(`{"box":[1,2.5,"yes"],"deep":{"a":null,"b":"2024-06-01"},"from":"2024-06-01"}`)},
			{ID: "other", Platform: "cdse", Application: "https://apps.example.org/p.json"}},
		ServiceRules: []ServiceRule{{Services: []string{"ndvi"}, Platform: "open-ogc", Application: "nd*",
			Options: json.RawMessage(`{"memory":"4g","retries":2}`), MaxDuration: 2 * time.Hour,
			Budget: 100, BudgetUnit: "credits", Format: "gtiff", Users: &RuleUsers{Claim: "realm_access.roles",
				AnyOf: []string{"eo-users"}}}},
		Applications: Applications{AllowHosts: []string{"raw.githubusercontent.com"}},
		Hooks: Hooks{Trusted: []string{"http://receiver.internal:8080"}, Mail: Mail{Server: "smtp.example.org:465",
			From: "EO <eo@example.org>", Encryption: mail.Implicit, Username: "eo", Password: "mail-secret"}},
		Limits: Limits{Body: 2 << 20, Connections: 600, RateUser: Pace(50 * time.Millisecond),
			RateAddress: Pace(20 * time.Millisecond), RateSignIn: Pace(5 * time.Second), UserRequests: 17,
			AddressRequests: 600,
			Values:          500, UserJobs: 7000, UserDaily: 8000, UserBytes: 3 << 30, Memory: 512 << 20, Streams: 30},
		Compat: Compat{SubmittedAsCreated: true, ObjectAsString: true},
		CORS:   CORS{AllowedOrigins: []string{"https://portal.example.org"}}, About: About{Title: "Dispatch",
			Description: "for all", Version: "1.2.3"},
		Log: Log{Format: "text", Level: slog.LevelDebug}, Telemetry: Telemetry{Listen: "10.0.0.1:9191"},
		Retention: Retention{Results: 168 * time.Hour, Requests: 720 * time.Hour, Jobs: 8760 * time.Hour,
			Platform: 2160 * time.Hour, Keys: 48 * time.Hour}, Freshness: 3 * time.Second, ShutdownGrace: time.Minute,
		ShutdownDelay: 4 * time.Second, GiveUpAfter: 90 * time.Minute, StalledAfter: 8 * time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_CatalogueFaults(t *testing.T) {
	for text, want := range map[string]string{
		"catalogue: {sources: ['']}":                          "catalogue.sources: must not contain an empty text",
		"catalogue: {sources: [/a, /a]}":                      "this source is also that of catalogue.sources[0]",
		"catalogue: {sources: ['http://a.example.org']}":      "use https",
		"catalogue: {sources: ['https://u:p@a.example.org']}": "must not contain a user name",
		"catalogue: {refresh: 0s}":                            "write a duration",
		"hooks: {trusted: ['https://a.example.org/path']}":    "hooks.trusted[0]: write SCHEME://HOST",
		"hooks: {mail: {server: smtp, from: a@example.org}}":  "hooks.mail: server: write HOST:PORT",
		"hooks: {mail: {server: 'smtp:25', from: nobody}}":    "hooks.mail: from: write an address",
		"hooks: {mail: {server: 'smtp:25', from: a@example.org, encryption: tls}}": "hooks.mail: " +
			"encryption: write starttls",
		"services: [{id: a b, platform: a, application: x}]": "services[0].id: write the id of a service",
		"services: [{id: x, platform: a, application: x, also: [{platform: a, application: " +
			"y}]}]": "services[0].also[0].platform: the platform a is also that of services[0].platform",
		"services: [{id: x, platform: a, application: x, also: [{platform: " +
			"aa}]}]": "services[0].also[0].application: is missing",
		"services: [{platform: a}]": "services[0].application: is missing",
		"services: [{id: x, platform: aa, application: " +
			"x}]": "services[0].platform: is not the name of a platform; did you mean a?",
		"services: [{id: x, application: x}]":                          "services[0].platform: is missing",
		"services: [{id: x, platform: a, application: x, example: 3}]": "services[0].example: write a mapping",
		"services: [{id: x, platform: a, application: x, example: {a: " +
			".inf}}]": "services[0].example: cannot be written as JSON",
		"services: [{id: x, platform: a, application: x}, {id: x, platform: a, application: y}]": "the id x is also " +
			"that of services[0].id",
		"service_rules: [{format: gtiff}]": "service_rules[0]: name the services",
		"service_rules: [{platform: aa}]": "service_rules[0].platform: is not the name of a platform; did you " +
			"mean a?",
		"service_rules: [{services: [a b]}]": "service_rules[0].services[0]: write the id of a service",
		"service_rules: [{services: [x], format: " + strings.Repeat("x", 101) +
			"}]": "service_rules[0].format: write at most 100 characters",
		"service_rules: [{services: [x], max_duration: 1500ms}]": "service_rules[0].max_duration: write " +
			"whole seconds",
		"service_rules: [{services: [x], budget_unit: credits}]": "service_rules[0].budget_unit: is the " +
			"unit of budget",
		"service_rules: [{services: [x], options: {budget: 3}}]": "service_rules[0].options: write " +
			"budget beside options",
		"service_rules: [{services: [x], options: {notify: {}}}]": "service_rules[0].options: must not have notify",
		"service_rules: [{services: [x], options: {retries: 99}}]": "service_rules[0].options: retries is " +
			"a whole number, 10 at most",
		"service_rules: [{services: [x], options: {pin: maybe}}]": "service_rules[0].options: pin is true or false",
		"service_rules: [{services: [x], options: 3}]":            "service_rules[0].options: write a mapping",
		"service_rules: [{services: [x], users: {claim: groups}}]": "service_rules[0].users: set both " +
			"claim and any_of",
		"ogcapi: {echo: true}\nservices: [{id: echo, platform: a, application: x}]": "services[0].id: the id echo is " +
			"also that of ogcapi.echo",
	} {
		if _, err := load("x.yaml", []byte(minimal+text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLoad_RuleNamesAnyFormat checks that a rule, like a request, can name each format that a service offers, not only
// the usual ones.
func TestLoad_RuleNamesAnyFormat(t *testing.T) {
	c, err := load("x.yaml", []byte(minimal+"service_rules: [{services: [x], format: PNG}]"), nil)
	if err != nil || c.ServiceRules[0].Format != "PNG" {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestLoad_EchoNeedsItsName(t *testing.T) {
	text := strings.Replace(minimal, "name: a", "name: "+EchoName, 1)
	if text == minimal {
		t.Fatal("the minimal configuration has no platform a")
	}
	if _, err := load("x.yaml", []byte(text+"ogcapi: {echo: true}"), nil); err == nil ||
		!strings.Contains(err.Error(), "ogcapi.echo: needs the name echo") {
		t.Error(err)
	}
	mustLoad(t, text)
}

func TestLoad_Defaults(t *testing.T) {
	c := mustLoad(t, minimal)
	switch {
	case c.Listen != "127.0.0.1:8080", c.Database != "sqlite:eodispatch.db", c.Limits.Body != 10<<20, c.Development,
		c.Log != Log{Format: "auto"}, c.Telemetry.Listen != TelemetryDefault, c.ShutdownDelay != 0,
		c.About.Title != "eodispatch", c.ShutdownGrace != 40*time.Second,
		c.Limits.Values != 10_000, c.Limits.UserJobs != 100_000, c.Limits.Streams != 100,
		c.Limits.RateSignIn != Pace(100*time.Millisecond), !c.Streams.QueryTokens, c.GiveUpAfter != 24*time.Hour,
		c.StalledAfter != 6*time.Hour:
		t.Errorf("defaults: %+v", c)
	}
	if diff := cmp.Diff([]string{"api"}, c.Identity.Audience); diff != "" {
		t.Error("the audience is not the client: " + diff)
	}
}

func TestConfig_PrintsNoSecret(t *testing.T) {
	c := mustLoad(t, minimal, "DATABASE_URL=postgresql://u:canary1@db/eo", "KEYCLOAK_CLIENT_SECRET=canary2")
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", c, c, c), string(marshalled)} {
		if strings.Contains(text, "canary") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if c.Identity.ClientSecret.Reveal() != "canary2" || !strings.Contains(c.Database.Reveal(), "canary1") {
		t.Error("the secrets were not read")
	}
}

func TestLoad_VariablesWinOverTheFile(t *testing.T) {
	c := mustLoad(t, minimal+"listen: 127.0.0.1:1\n",
		"EODISPATCH_LISTEN=127.0.0.1:2", "EODISPATCH_IDENTITY_CLIENT_SECRET=s", "EODISPATCH_IDENTITY_AUDIENCE=one, two",
		"EODISPATCH_PLATFORMS_0_LIMITS_JOBS=7", "EODISPATCH_PLATFORMS_1_LIMITS_JOBS=9", "EODISPATCH_PLATFORMS_1_NAME=b",
		"EODISPATCH_PLATFORMS_1_ENDPOINT=https://b.example.org",
		"EODISPATCH_PLATFORMS_1_ACCESS=user", "EODISPATCH_PLATFORMS_1_EXCHANGE_ALIAS=b",
		"EODISPATCH_PLATFORMS_1_PROTOCOL=openeo",
		"EODISPATCH_PLATFORMS_1_EXCHANGE_DRIVER=keycloak-requested-issuer", "EODISPATCH_LIMITS_BODY=1KiB")
	if c.Listen != "127.0.0.1:2" || c.Identity.ClientSecret != "s" || len(c.Identity.Audience) != 2 ||
		c.Limits.Body != 1024 {
		t.Errorf("not overridden: %+v", c)
	}
	if len(c.Platforms) != 2 || c.Platforms[0].Limits.Jobs != 7 || c.Platforms[1].Exchange.Alias != "b" {
		t.Errorf("platforms: %+v", c.Platforms)
	}
}

func TestLoad_VariableOfALaterElement(t *testing.T) {
	c := mustLoad(t, minimal+"- {name: b, protocol: openeo, endpoint: https://b.example.org, access: open}\n",
		"EODISPATCH_PLATFORMS_1_LIMITS_JOBS=9")
	if c.Platforms[0].Limits.Jobs != 0 || c.Platforms[1].Limits.Jobs != 9 {
		t.Errorf("platforms: %+v", c.Platforms)
	}
}

func TestLoad_PlatformsInOneVariable(t *testing.T) {
	c := mustLoad(t, "", "EODISPATCH_IDENTITY_ISSUER=https://auth.example.org", "EODISPATCH_IDENTITY_AUDIENCE=api",
		`EODISPATCH_PLATFORMS=[{"name": "a", "endpoint": "https://a.example.org", "access": "open", "protocol": "openeo"}]`)
	if len(c.Platforms) != 1 || c.Platforms[0].Name != "a" {
		t.Errorf("platforms: %+v", c.Platforms)
	}
}

// deployed is the environment of the service that this one replaces.
var deployed = []string{
	"KEYCLOAK_HOST=auth.example.org", "KEYCLOAK_REALM=apex", "KEYCLOAK_CLIENT_ID=apex-api",
	"KEYCLOAK_CLIENT_SECRET=secret",
	"DATABASE_URL=sqlite:///./dispatch.db", "CORS_ALLOWED_ORIGINS=https://portal.example.org, http://localhost:5173",
	"APP_NAME=APEx Dispatch API", "APP_DESCRIPTION=All of it", "APP_ENV=production", "APP_VERSION=0.9",
	`BACKENDS={"https://openeo.example.org": {"auth_method": "USER_CREDENTIALS", "token_provider": "cdse", "token_prefix": "oidc/CDSE"},
	 "https://shared.example.org:8443/openeo": {"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "EGI/broker/with/slash"}}`,
}

// deployedWithout returns deployed without a variable.
func deployedWithout(name string) []string {
	return slices.DeleteFunc(slices.Clone(deployed), func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

func TestLoad_VariablesOfTheDeployedService(t *testing.T) {
	c := mustLoad(t, "", deployed...)
	if c.Identity.Issuer != "https://auth.example.org/realms/apex" || c.Database != "sqlite:./dispatch.db" ||
		c.About != (About{"APEx Dispatch API", "All of it", "0.9"}) || len(c.CORS.AllowedOrigins) != 2 ||
		c.Log.Format != "json" || c.Compat != (Compat{SubmittedAsCreated: true, ObjectAsString: true}) {
		t.Errorf("read: %+v", c)
	}
	var names []string
	for _, p := range c.Platforms {
		names = append(names, p.Name+" "+string(p.Protocol)+" "+string(p.Access)+" "+p.TokenPrefix)
	}
	want := []string{"openeo.example.org openeo user oidc/CDSE", "openeo.example.org-ogc ogc-api-processes user ",
		"shared.example.org-8443-openeo openeo shared ", "shared.example.org-8443-openeo-ogc ogc-api-processes shared "}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if a := c.Platforms[3].ServiceAccount; a == nil ||
		!reflect.DeepEqual(*a, (ServiceAccount{Provider: "EGI", ClientID: "broker", ClientSecret: "with/slash"})) {
		t.Errorf("account: %+v", a)
	}
}

// Two further variables set the bounds, for both protocols.
func TestLoad_BoundsSharedAccountsOfTheDeployedService(t *testing.T) {
	c := mustLoad(t, "", append(slices.Clone(deployed), "EODISPATCH_PLATFORMS_1_USERS_JOBS=5",
		"EODISPATCH_PLATFORMS_1_USERS_CLAIM=groups", "EODISPATCH_PLATFORMS_1_USERS_ANY_OF=/eo, /admins")...)
	for _, p := range c.Platforms[2:] {
		if p.Access != dispatch.AccessShared || p.Users == nil || p.Users.Jobs != 5 || p.Users.Claim != "groups" ||
			len(p.Users.AnyOf) != 2 {
			t.Errorf("%s: %+v", p.Name, p.Users)
		}
	}
	if len(c.Platforms) != 4 || c.Platforms[0].Users != nil {
		t.Errorf("platforms %+v", c.Platforms)
	}
}

func TestLoad_FileWinsOverTheDeployedService(t *testing.T) {
	c := mustLoad(t, minimal, deployed...)
	if c.Identity.Issuer != "https://auth.example.org" || len(c.Platforms) != 1 || c.Identity.ClientSecret != "secret" {
		t.Errorf("read: %+v", c)
	}
}

// Links are made from public_url, however the operator spells it.
func TestLoad_PublicURLSpellings(t *testing.T) {
	for _, spelled := range []string{"https://dispatch.example.org", "https://dispatch.example.org/",
		"HTTPS://Dispatch.Example.org//"} {
		if c := mustLoad(t, minimal+"public_url: "+spelled+"\n"); c.PublicURL != "https://dispatch.example.org" {
			t.Errorf("%s is read as %s", spelled, c.PublicURL)
		}
	}
}

func TestLoad_DatabaseSpellings(t *testing.T) {
	for given, want := range map[string]string{
		"sqlite:eo.db": "sqlite:eo.db", "sqlite:///./file.db": "sqlite:./file.db",
		"sqlite:////var/eo.db": "sqlite:/var/eo.db",
		"sqlite:///:memory:":   "sqlite::memory:", "sqlite+pysqlite:///a.db": "sqlite:a.db",
		"postgresql://u:p@h/db":                            "postgres://u:p@h/db",
		"postgresql+psycopg2://u:p@h:5/db?sslmode=disable": "postgres://u:p@h:5/db?sslmode=disable",
	} {
		if got, err := database(given); err != nil || got != want {
			t.Errorf("%s is read as %q, %v; not %q", given, got, err, want)
		}
	}
}

// Each driver is read with the keys that it needs.
func TestLoad_EachDriver(t *testing.T) {
	for _, exchange := range []string{
		"driver: keycloak-broker, alias: a", "driver: keycloak-requested-issuer, alias: a",
		"driver: token-exchange, audience: a",
		"driver: jwt-grant, client_id: a, client_secret: env:S",
		"driver: jwt-grant, audience: b, client_id: a, client_secret: env:S",
		"driver: jwt-grant, client_id: a, client_key: env:S",
		"driver: passthrough",
	} {
		text := `{identity: {issuer: https://a.example.org, client_id: a, client_secret: env:S}, platforms: [
			{name: p, protocol: openeo, endpoint: https://p.example.org, issuer: https://a.example.org, access: user, exchange: {` + exchange + `}}]}`
		c, err := load("x.yaml", []byte(text), []string{"S=s"})
		if err != nil {
			t.Errorf("%s: %v", exchange, err)
		} else if e := c.Platforms[0].Exchange; !strings.Contains(exchange, e.Driver) ||
			strings.Contains(exchange, "S") && e.ClientSecret+e.ClientKey != "s" {
			t.Errorf("%s: %+v", exchange, e)
		}
	}
}

// faultyFile is a configuration and what is wrong with it.
type faultyFile struct {
	yaml string
	env  []string
	want string
}

// faultyFiles returns the cases of TestLoad_Faults.
func faultyFiles() map[string]faultyFile {
	const user = "identity: {issuer: https://auth.example.org, client_id: api, client_secret: env:S}\nplatforms:\n- " +
		"{name: a, protocol: openeo, endpoint: https://a.example.org, access: user, "
	const shared = "=identity: {issuer: https://auth.example.org, client_id: api}\nplatforms:\n- {name: a, protocol: " +
		"openeo, endpoint: https://a.example.org, access: shared"
	return map[string]faultyFile{
		"not YAML":         {yaml: "={a: ", want: "x.yaml:1: this is not YAML: did not find expected node content"},
		"a list":           {yaml: "=- a", want: "x.yaml: write a mapping of keys to values"},
		"two documents":    {yaml: "---\n{}", want: "remove everything after"},
		"unknown key":      {yaml: "listn: a", want: "x.yaml:5: listn: the key is not known; did you mean listen?"},
		"unknown deep key": {yaml: "log: {colour: red}", want: "x.yaml:5: log.colour: the key is not known"},
		"a key twice": {yaml: "log: {level: info, level: warn}",
			want: "x.yaml:5: log.level: the key is duplicated: it is first set in line 5"},
		"listen":           {yaml: "listen: 8080", want: "x.yaml:5: listen: write HOST:PORT"},
		"private listener": {yaml: "telemetry: {listen: '9090'}", want: "x.yaml:5: telemetry.listen: write HOST:PORT"},
		"public_url":       {yaml: "public_url: dispatch", want: "public_url: write an absolute URL"},
		"public_url http": {yaml: "public_url: http://dispatch.example.org",
			want: "public_url: use https; http is for development only"},
		"URL with a password": {yaml: "public_url: https://u:p@dispatch.example.org",
			want: "must not contain a user name and password"},
		"URL with a query": {yaml: "public_url: https://dispatch.example.org?a=b",
			want: "remove the query or fragment"},
		"URL of another kind": {yaml: "public_url: ftp://dispatch.example.org", want: "use https instead of ftp"},
		"mysql": {env: []string{"DATABASE_URL=mysql+pymysql://u:canary@h/db"},
			want: "DATABASE_URL: database: MySQL and MariaDB are not supported: use PostgreSQL"},
		"unknown database": {yaml: "database: oracle://h",
			want: "database: this kind of database is not known: write sqlite:FILE"},
		"database, no scheme": {yaml: "database: eo", want: "database: write sqlite:FILE or postgres://"},
		"database, no file":   {yaml: "database: 'sqlite:'", want: "database: name a file"},
		"postgres, no name":   {yaml: "database: postgres://h", want: "database: write postgres://USER"},
		"password in the file": {yaml: "database: postgres://u:canary@h/db",
			want: "x.yaml:5: database: the file must not contain the secret itself: write env:NAME"},
		"literal secret": {yaml: "=identity: {issuer: https://a.example.org, client_id: a,\n client_secret: canary}",
			want: "x.yaml:2: identity.client_secret: the file must not contain the secret itself: write env:NAME or " +
				"file:PATH"},
		"secret's variable": {yaml: "=identity: {client_secret: env:NO}",
			want: "identity.client_secret: the variable NO is not set"},
		"secret's file": {yaml: "=identity: {client_secret: file:/no/such}",
			want: "identity.client_secret: the secret cannot be read: open /no/such"},
		"secret's empty file": {yaml: "=identity: {client_secret: file:/dev/null}",
			want: "the file /dev/null is empty"},
		"no issuer": {yaml: "=identity: {client_id: a}",
			want: "x.yaml:1: identity.issuer: is missing: write the URL of the identity provider, or set " +
				"KEYCLOAK_HOST"},
		"no audience": {yaml: "=identity: {issuer: https://a.example.org}",
			want: "identity.audience: is missing"},
		"command_line_client": {yaml: "=identity: {issuer: https://a.example.org, client_id: a, client_secret: " +
			"env:CLIENT, command_line_client: a}", env: []string{"CLIENT=s"},
			want: "identity.command_line_client: must be a public client of its own"},
		"openeo_client": {yaml: "=identity: {issuer: https://a.example.org, client_id: a, client_secret: " +
			"env:CLIENT, openeo_client: a}", env: []string{"CLIENT=s"},
			want: "identity.openeo_client: must be a public client of its own"},
		"openeo_pages": {yaml: "=identity: {issuer: https://a.example.org, openeo_pages: [editor]}",
			want: "identity.openeo_pages[0]: "},
		"docs_client": {yaml: "=identity: {issuer: https://a.example.org, client_id: a, client_secret: " +
			"env:CLIENT, docs_client: a}", env: []string{"CLIENT=s"},
			want: "identity.docs_client: must be a public client of its own"},
		"no platform": {yaml: "=identity: {issuer: https://a.example.org, client_id: a}",
			want: "platforms: no platform is configured"},
		"origin": {yaml: "cors: {allowed_origins: [https://a.example.org/]}",
			want: "cors.allowed_origins[0]: write SCHEME://HOST"},
		"allowed host": {yaml: "applications: {allow_hosts: [https://a]}",
			want: "applications.allow_hosts[0]: write a host without scheme"},
		"bool":     {yaml: "development: maybe", want: "development: write true or false"},
		"duration": {yaml: "shutdown_grace: 30", want: "shutdown_grace: write a duration such as"},
		"size":     {yaml: "limits: {body: 10 elephants}", want: "limits.body: write a size such as"},
		"log format": {yaml: "log: {format: jsno}",
			want: "log.format: write one of auto, text, json; did you mean json?"},
		"log level":          {yaml: "log: {level: loud}", want: "log.level: write debug, info, warn or error"},
		"list for a text":    {yaml: "listen: [a]", want: "listen: write a single value"},
		"text for a list":    {yaml: "cors: {allowed_origins: a}", want: "cors.allowed_origins: write a list"},
		"text for a mapping": {yaml: "log: a", want: "log: write a mapping of keys to values"},
		"rate":               {yaml: "  limits: {rate: 10}", want: "limits.rate: write a rate such as 10/s"},
		"endless rate":       {yaml: "  limits: {rate: 1e-300/s}", want: "limits.rate: write a rate such as 10/s"},
		"number":             {yaml: "  limits: {jobs: 0}", want: "limits.jobs: write a whole number from 1"},
		"slow request": {yaml: "  limits: {send: 1h}",
			want: "limits.send: must be shorter than shutdown_grace (40s)"},
		"no name": {yaml: "- {endpoint: https://b.example.org, access: open}",
			want: "x.yaml:5: platforms[1].name: is missing"},
		"name with a slash": {yaml: "- {name: a/b, endpoint: https://b.example.org, access: open}",
			want: "platforms[1].name: use letters, digits"},
		"no endpoint": {yaml: "- {name: b, access: open}", want: "platforms[1].endpoint: is missing"},
		"http endpoint": {yaml: "- {name: b, endpoint: http://b.example.org, access: open}",
			want: "x.yaml:5: platforms[1].endpoint: use https"},
		"http alias": {yaml: "- {name: b, endpoint: https://b.example.org, aliases: [http://c.example.org], " +
			"access: open}", want: "platforms[1].aliases[0]: use https"},
		"bad issuer": {yaml: "- {name: b, endpoint: https://b.example.org, issuer: x, access: open}",
			want: "platforms[1].issuer: write an absolute URL"},
		"protocol": {yaml: "- {name: b, protocol: openEO, endpoint: https://b.example.org, access: open}",
			want: "platforms[1].protocol: write one of openeo, ogc-api-processes; did you mean openeo?"},
		"start settles for OGC": {yaml: "- {name: b, protocol: ogc-api-processes, endpoint: https://b.example.org, " +
			"access: open, start_settles_after: 5m}", want: "platforms[1].start_settles_after: only openEO starts " +
			"jobs"},
		"failure without cause": {yaml: "- {name: b, endpoint: https://b.example.org, access: open, failures: " +
			"[{matches: x}]}", want: "platforms[1].failures[0].cause: is missing: write platform or request"},
		"failure of no kind": {yaml: "- {name: b, endpoint: https://b.example.org, access: open, failures: " +
			"[{matches: x, cause: weather}]}", want: "platforms[1].failures[0].cause: write one of platform, request"},
		"failure of no pattern": {yaml: "- {name: b, endpoint: https://b.example.org, access: open, failures: " +
			"[{matches: '(x', cause: request}]}",
			want: "platforms[1].failures[0].matches: is not a regular expression"},
		"prefix for OGC": {yaml: "- {name: b, protocol: ogc-api-processes, endpoint: https://b.example.org, " +
			"access: open, token_prefix: x}", want: "platforms[1].token_prefix: only openEO has one"},
		"no access": {yaml: "- {name: b, endpoint: https://b.example.org}",
			want: "platforms[1].access: is missing: write user, shared or open"},
		"access": {yaml: "- {name: b, endpoint: https://b.example.org, access: all}",
			want: "platforms[1].access: write one of user, shared, open"},
		"name twice": {yaml: "- {name: A, endpoint: https://b.example.org, access: open}",
			want: "platforms[1].name: the name A is also that of platforms[0].name"},
		"name of an expansion": {yaml: "- {name: b, endpoint: https://b.example.org, access: open}\n- {name: b-ogc, " +
			"endpoint: https://c.example.org, access: open}",
			want: "platforms[2].name: the name b-ogc is also that of platforms[1].name"},
		"address twice": {yaml: "- {name: b, endpoint: https://A.example.org/, access: open}",
			want: "platforms[1].endpoint: this address is also that of platforms[0].endpoint"},
		"alias twice": {yaml: "- {name: b, endpoint: https://b.example.org, aliases: [https://a.example.org], " +
			"access: open}", want: "platforms[1].aliases[0]: this address is also that of platforms[0].endpoint"},
		"users, not shared": {yaml: "=" + user + "exchange: {driver: keycloak-broker, alias: a}, users: {jobs: 2}}",
			env: []string{"S=s"}, want: "platforms[0].users: limits an account that users share"},
		"allow, empty value": {yaml: shared +
			", service_account: {issuer: https://a.example.org, client_id: a, client_secret: env:S, allow: [plan, " +
			"'']}}", env: []string{"S=s"}, want: "platforms[0].service_account.allow: must not contain an empty text"},
		"users, no value": {yaml: shared +
			", service_account: {issuer: https://a.example.org, client_id: a, client_secret: env:S}, users: {claim: " +
			"groups}}", env: []string{"S=s"}, want: "platforms[0].users: set both claim and any_of"},
		"users, no claim": {yaml: "  users: {any_of: [a]}", want: "platforms[0].users: set both claim and any_of"},
		"users, empty value": {yaml: "  users: {claim: groups, any_of: [a, '']}",
			want: "platforms[0].users.any_of: must not contain an empty text"},
		"users, none": {yaml: "  users: {jobs: 0}", want: "platforms[0].users.jobs: write a whole number from 1"},
		"exchange, not user": {yaml: "  exchange: {driver: keycloak-requested-issuer, alias: b}",
			want: "exchange: is only for access: user, but access is open"},
		"account, not shared": {yaml: "  service_account: {client_id: b}",
			want: "service_account: is only for access: shared, but access is open"},
		"no exchange": {yaml: "=" + user + "}", env: []string{"S=s"},
			want: "platforms[0].exchange: is missing: access: user needs"},
		"no driver": {yaml: "=" + user + "exchange: {alias: a}}", env: []string{"S=s"},
			want: "exchange.driver: is missing"},
		"no alias": {yaml: "=" + user + "exchange: {driver: keycloak-requested-issuer}}", env: []string{"S=s"},
			want: "exchange.alias: is missing"},
		"unknown driver": {yaml: "=" + user + "exchange: {driver: magic, alias: a}}", env: []string{"S=s"},
			want: "exchange.driver: write one of keycloak-broker, keycloak-requested-issuer, token-exchange, " +
				"jwt-grant, passthrough"},
		"broker, no alias": {yaml: "=" + user + "exchange: {driver: keycloak-broker}}", env: []string{"S=s"},
			want: "exchange.alias: is missing"},
		"broker, audience": {yaml: "=" + user + "exchange: {driver: keycloak-broker, alias: a, audience: b}}",
			env: []string{"S=s"}, want: "exchange.audience: this driver does not use the key: remove it"},
		"no audience to exchange": {yaml: "=" + user + "exchange: {driver: token-exchange}}", env: []string{"S=s"},
			want: "exchange.audience: is missing"},
		"token-exchange, alias": {yaml: "=" + user + "exchange: {driver: token-exchange, audience: a, alias: b}}",
			env: []string{"S=s"}, want: "exchange.alias: this driver does not use the key: remove it"},
		"grant, no issuer": {yaml: "=" + user + "exchange: {driver: jwt-grant, client_id: a, client_secret: env:S}}",
			env: []string{"S=s"}, want: "exchange: jwt-grant needs the platform's issuer"},
		"grant, no client": {yaml: "=" + user + "issuer: https://p.example.org, exchange: {driver: jwt-grant}}",
			env: []string{"S=s"}, want: "exchange.client_id: is missing"},
		"grant, no secret": {yaml: "=" + user +
			"issuer: https://p.example.org, exchange: {driver: jwt-grant, client_id: a}}", env: []string{"S=s"},
			want: "exchange.client_secret: is missing"},
		"grant, secret and key": {yaml: "=" + user +
			"issuer: https://p.example.org, exchange: {driver: jwt-grant, client_id: a, client_secret: env:S, " +
			"client_key: env:S}}", env: []string{"S=s"}, want: "exchange.client_key: and client_secret are both set"},
		"broker, key": {yaml: "=" + user + "exchange: {driver: keycloak-broker, alias: a, client_key: env:S}}",
			env: []string{"S=s"}, want: "exchange.client_key: this driver does not use the key"},
		"own secret and key": {yaml: "=identity: {issuer: https://a.example.org, client_id: a, client_secret: env:S, " +
			"client_key: env:S}", env: []string{"S=s"}, want: "identity.client_key: and client_secret are both set"},
		"passthrough, another's": {yaml: "=" + user + "issuer: https://p.example.org, exchange: {driver: passthrough}}",
			env: []string{"S=s"}, want: "exchange: passthrough needs the platform's issuer, and that must be " +
				"identity.issuer"},
		"passthrough, secret": {yaml: "=" + user +
			"issuer: https://a.example.org, exchange: {driver: passthrough, client_secret: env:S}}",
			env: []string{"S=s"}, want: "exchange.client_secret: this driver does not use the key"},
		"exchange, no client": {yaml: "- {name: b, endpoint: https://b.example.org, access: user, exchange: {driver: " +
			"keycloak-broker, alias: b}}",
			want: "exchange: token exchange needs either identity.client_secret or identity.client_key"},
		"issuer, unnamed": {yaml: "issuers: [{client_id: a, platforms: [{name: a}]}]",
			want: "issuers[0].issuer: is missing"},
		"issuer, twice": {yaml: "issuers: [{issuer: https://auth.example.org, client_id: a, platforms: " +
			"[{name: a}]}]", want: "issuers[0].issuer: this issuer is also that of identity.issuer"},
		"issuer, http": {yaml: "issuers: [{issuer: http://b.example.org, client_id: a, platforms: [{name: a}]}]",
			want: "issuers[0].issuer: use https"},
		"issuer, no audience": {yaml: "issuers: [{issuer: https://b.example.org, platforms: [{name: a}]}]",
			want: "issuers[0].audience: is missing"},
		"issuer, for nothing": {yaml: "issuers: [{issuer: https://b.example.org, client_id: a}]",
			want: "issuers[0].platforms: is missing"},
		"issuer, no platform": {yaml: "issuers: [{issuer: https://b.example.org, client_id: a, platforms: [{name: " +
			"aa}]}]", want: "issuers[0].platforms[0].name: is not the name of a platform"},
		"issuer, platform twice": {yaml: "issuers: [{issuer: https://b.example.org, client_id: a, platforms: [{name: " +
			"a}, {name: a}]}]", want: "issuers[0].platforms[1].name: this platform is also that of " +
			"issuers[0].platforms[0].name"},
		"issuer, vain exchange": {yaml: "issuers: [{issuer: https://b.example.org, client_id: a, platforms: [{name: " +
			"a, exchange: {driver: passthrough}}]}]", want: "issuers[0].platforms[0].exchange: is only for access: " +
			"user"},
		"issuer, no exchange": {yaml: "=" + user +
			"exchange: {driver: keycloak-broker, alias: a}}\nissuers: [{issuer: https://b.example.org, client_id: a, " +
			"platforms: [{name: a}]}]", env: []string{"S=s"}, want: "issuers[0].platforms[0].exchange: is missing"},
		"issuer, no client": {yaml: "=" + user +
			"exchange: {driver: keycloak-broker, alias: a}}\nissuers: [{issuer: https://b.example.org, audience: " +
			"[a], platforms: [{name: a, exchange: {driver: passthrough}}]}]", env: []string{"S=s"},
			want: "issuers[0].platforms[0].exchange: token exchange needs the id of the broker's client: set " +
				"issuers[0].client_id"},
		"issuer, another's token": {yaml: "=" + user +
			"issuer: https://auth.example.org, exchange: {driver: keycloak-broker, alias: a}}\nissuers: [{issuer: " +
			"https://b.example.org, client_id: a, platforms: [{name: a, exchange: {driver: passthrough}}]}]",
			env: []string{"S=s"}, want: "passthrough needs the platform's issuer, and that must be issuers[0].issuer"},
		"no account": {yaml: shared + "}",
			want: "platforms[0].service_account: is missing: access: shared needs"},
		"account without all": {yaml: shared + ", service_account: {token_url: https://a.example.org/t}}",
			want: "service_account.client_id: is missing"},
		"account's secret": {yaml: shared + ", service_account: {issuer: https://a.example.org, client_id: a}}",
			want: "service_account.client_secret: is missing: write env:NAME or file:PATH"},
		"account's two issuers": {yaml: shared + ", service_account: {token_url: https://a.example.org, provider: a}}",
			want: "service_account: set one of token_url, issuer and provider"},
		"tls, no key": {yaml: shared + "}\ntls: {cert: a}", want: "tls: set both cert and key"},
		"proxy, no network": {yaml: shared + "}\ntrusted_proxies: [10.0.0.1/40]",
			want: "trusted_proxies[0]: write a network such as"},
		"account's http": {yaml: shared + ", service_account: {token_url: http://a.example.org/t}}",
			want: "service_account.token_url: use https"},
		"BACKENDS, not JSON": {yaml: "=", env: []string{"BACKENDS={canary"}, want: "BACKENDS: write JSON: {\"URL\""},
		"BACKENDS, wrong type": {yaml: "=", env: []string{`BACKENDS={"https://a.example.org": "canary"}`},
			want: "(wrong type at byte "},
		"BACKENDS, cut off": {yaml: "=", env: []string{`BACKENDS={"https://a.example.org"`},
			want: "(the JSON is not complete)"},
		"BACKENDS, method": {yaml: "=", env: []string{`BACKENDS={"https://a.example.org": {"auth_method": "NONE"}}`},
			want: "BACKENDS: https://a.example.org: auth_method is neither"},
		"BACKENDS, provider": {yaml: "=",
			env:  []string{`BACKENDS={"https://a.example.org": {"auth_method": "USER_CREDENTIALS"}}`},
			want: "token_provider is missing"},
		"BACKENDS, credentials": {yaml: "=",
			env: []string{`BACKENDS={"https://a.example.org": {"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "canary"}}`}, want: "client_credentials is not PROVIDER/CLIENT_ID/CLIENT_SECRET"},
		"BACKENDS, http": {yaml: "=",
			env:  []string{`BACKENDS={"http://a.example.org": {"auth_method": "USER_CREDENTIALS", "token_provider": "a"}}`},
			want: "BACKENDS: platforms[0].endpoint: use https"},
		"a variable": {env: []string{"EODISPATCH_PLATFORMS_0_LIMITS_RATE=fast"},
			want: "EODISPATCH_PLATFORMS_0_LIMITS_RATE: platforms[0].limits.rate: write a rate"},
		"a variable's list": {env: []string{"EODISPATCH_PLATFORMS=[canary"},
			want: "EODISPATCH_PLATFORMS: platforms: write a list"},
	}
}

// Each row adds to the minimal configuration, or replaces it if it begins with =, and names the expected report.
func TestLoad_Faults(t *testing.T) {
	for name, row := range faultyFiles() {
		t.Run(name, func(t *testing.T) {
			text, replaced := strings.CutPrefix(row.yaml, "=")
			switch {
			case !replaced && strings.HasPrefix(text, "  "):
				text = strings.Replace(minimal, ", access: open}", ", access: open, "+strings.TrimSpace(text)+"}", 1)
			case !replaced:
				text = strings.TrimPrefix(minimal, "\n") + row.yaml
				text = "\n" + text
			}
			_, err := load("x.yaml", []byte(text), row.env)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("reported:\n%v\nnot: %s", err, row.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestLoad_AllFaultsInOrder(t *testing.T) {
	_, err := load("x.yaml", []byte(minimal+"listn: a\nlog: {level: loud}\ncors: {allowed_origins: a}\n"), nil)
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) != 3 {
		t.Fatalf("reported: %v", err)
	}
	for i, f := range faults {
		if want := fmt.Sprintf("x.yaml:%d", 5+i); f.Where != want {
			t.Errorf("%v is reported at %s, not %s", f, f.Where, want)
		}
	}
}

func TestLoad_NoFile(t *testing.T) {
	if _, err := Load("/no/such.yaml", nil); err == nil ||
		!strings.Contains(err.Error(), "the configuration cannot be read") {
		t.Errorf("reported: %v", err)
	}
}

func TestLoad_DevelopmentIsNoted(t *testing.T) {
	c := mustLoad(t, `
development: true
identity: {issuer: http://127.0.0.1:1, client_id: a, client_secret: literal}
platforms:
- {name: a, endpoint: http://127.0.0.1:2, access: open}
`)
	if len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], "development:") {
		t.Errorf("notes: %q", c.Notes)
	}
}

func TestLoad_FolderOfTestsIsNoSetting(t *testing.T) {
	c := mustLoad(t, minimal, "EODISPATCH_CATALOGUE=/srv/catalogue", "EODISPATCH_CATALOGUE_OPEN=true")
	if !c.Catalogue.Open || len(c.Catalogue.Sources) != 0 {
		t.Errorf("%+v", c.Catalogue)
	}
}

func TestLoad_MisspeltVariableIsNoted(t *testing.T) {
	c := mustLoad(t, strings.Replace(minimal, "client_id: api",
		"client_id: api, client_secret: env:EODISPATCH_IDENTITY_CLIENT_SECRE", 1),
		"EODISPATCH_LISTN=x", "EODISPATCH_IDENTITY_CLIENT_SECRE=a", "EODISPATCH_SERVICE_HOST=10.0.0.1",
		"EODISPATCH_PLATFORMS_0_LIMITS_JOBS=3")
	want := []string{"the variable EODISPATCH_LISTN is unknown and was ignored; did you mean LISTEN? (without " +
		"EODISPATCH_)"}
	if diff := cmp.Diff(want, c.Notes); diff != "" {
		t.Error(diff)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(whole, "")
	f.Add(minimal, `{"https://a.example.org": {"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "a/b/c"}}`)
	f.Add("a: &a [*a]", "{}")
	f.Add("platforms: &a [*a, *a]", "{}")
	f.Add("platforms: [{limits: {rate: 1/s}}]\n<<: {a: b}", "[")
	f.Fuzz(func(t *testing.T, text, backends string) {
		c, err := load("x.yaml", []byte(text), []string{"BACKENDS=" + backends, "EODISPATCH_PLATFORMS_1_NAME=n",
			"KEYCLOAK_HOST=h", "KEYCLOAK_REALM=r"})
		if err == nil && (len(c.Platforms) == 0 || len(c.Identity.Audience) == 0 || c.Identity.Issuer == "") {
			t.Errorf("accepted without what it needs: %+v", c)
		}
		if faults, ok := errors.AsType[Faults](err); err != nil && (!ok || len(faults) == 0) {
			t.Errorf("an error that lists no faults: %v", err)
		}
	})
}

func mustLoad(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := load("x.yaml", []byte(text), environ)
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	return c
}

func TestLoad_VaultKeys(t *testing.T) {
	user := strings.Replace(minimal, "access: open",
		"access: user, exchange: {driver: keycloak-requested-issuer, alias: a}", 1)
	user = strings.Replace(user, "client_id: api", "client_id: api, client_secret: env:S", 1)
	for name, row := range map[string]struct {
		yaml string
		env  []string
		want string
	}{
		"no key": {yaml: minimal + "vault: {keys: env:V}", env: []string{"V=canary"},
			want: "vault.keys: key 1 is not NAME:BASE64 of 32 bytes"},
		"literal": {yaml: minimal + "vault: {keys: '" + vaultKey + "'}",
			want: "vault.keys: the file must not contain the secret itself"},
		"PostgreSQL, as users": {yaml: user, env: []string{"S=s", "DATABASE_URL=postgresql://h/db"},
			want: "vault.keys: is missing: access: user on PostgreSQL needs a key"},
	} {
		_, err := load("x.yaml", []byte(row.yaml), row.env)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "canary") ||
			strings.Contains(err.Error(), vaultKey[6:]) {
			t.Errorf("%s: reported:\n%v\nnot: %s", name, err, row.want)
		}
	}
	mustLoad(t, user, "S=s", "DATABASE_URL=postgresql://h/db", "EODISPATCH_VAULT_KEYS="+vaultKey)
	mustLoad(t, minimal, "DATABASE_URL=postgresql://h/db")
	if c := mustLoad(t, user, "S=s"); len(c.Notes) != 2 ||
		!strings.Contains(c.Notes[0], "vault.keys is missing: nothing is kept for users who are away") ||
		!strings.Contains(c.Notes[1], "public_url is missing: users link their accounts on the identity") {
		t.Errorf("notes %v", c.Notes)
	}
}

// A shared account with bounds causes no note.
func TestLoad_UnboundedSharedAccountIsNoted(t *testing.T) {
	const account = "identity: {issuer: https://a.example.org, client_id: a}\nplatforms:\n- {name: a, protocol: " +
		"openeo, endpoint: https://b.example.org, " +
		"access: shared, service_account: {issuer: https://a.example.org, client_id: a, client_secret: env:S}"
	for _, row := range []struct {
		users string
		want  int
	}{{"}", 1}, {", users: {jobs: 5}}", 0}, {", users: {claim: sub, any_of: [x]}}", 0}} {
		c := mustLoad(t, account+row.users, "S=s")
		n := 0
		for _, note := range c.Notes {
			if strings.HasPrefix(note, "platform a: all users of the broker can use its service account") {
				n++
			}
		}
		if n != row.want {
			t.Errorf("%s: notes %q", row.users, c.Notes)
		}
	}
}

// A platform must not choose which server gets the secret of an account.
func TestLoad_RequiresTheIssuerOfAPlatformsProvider(t *testing.T) {
	for given, want := range map[string]bool{"provider: EGI": false,
		"provider: EGI, issuer: https://c.example.org": true,
		"issuer: https://c.example.org":                true} {
		_, err := load("x.yaml",
			[]byte("identity: {issuer: https://a.example.org, client_id: a}\nplatforms:\n- {name: a, protocol: "+
				"openeo, endpoint: https://b.example.org, "+
				"access: shared, service_account: {"+given+", client_id: a, client_secret: env:S}}"), []string{"S=s"})
		if want == (err != nil) || err != nil &&
			!strings.Contains(err.Error(), "platforms[0].service_account.issuer: is required with provider") {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// The variables of the deployed service cannot name the issuer, so it is only noted; a variable of this service names
// it.
func TestLoad_UnpinnedIssuerIsNoted(t *testing.T) {
	deployed := []string{"KEYCLOAK_HOST=a.example.org", "KEYCLOAK_REALM=r", "KEYCLOAK_CLIENT_ID=a",
		`BACKENDS={"https://b.example.org": {"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "EGI/id/secret"}}`}
	const pin = "EODISPATCH_PLATFORMS_0_SERVICE_ACCOUNT_ISSUER=https://c.example.org"
	for name, environ := range map[string][]string{"open": deployed, "pinned": append(slices.Clone(deployed), pin)} {
		c, err := load("", nil, environ)
		if err != nil {
			t.Fatal(name, err)
		}
		said := slices.ContainsFunc(c.Notes, func(note string) bool {
			return strings.Contains(note, "service_account.issuer is required with provider") &&
				strings.Contains(note, "EODISPATCH_PLATFORMS_0_SERVICE_ACCOUNT_ISSUER")
		})
		if said != (name == "open") {
			t.Errorf("%s: notes %q", name, c.Notes)
		}
	}
}

// Connections of clients to a public listener, and connections to a PostgreSQL server on another host.
func TestLoad_UnprotectedConnectionsAreNoted(t *testing.T) {
	for given, want := range map[string]string{
		"listen: 127.0.0.1:80": "", "listen: '[::1]:80'": "", "listen: localhost:80": "",
		"listen: 0.0.0.0:80": "listen is not", "listen: ':80'": "listen is not",
		"listen: ':443'\ntls: {cert: c, key: k}":                 "",
		"database: postgres://db/eo":                             "database: without",
		"database: postgres://db/eo?sslmode=require":             "database: without",
		"database: postgres://db/eo?sslmode=verify-full":         "",
		"database: postgres://localhost/eo":                      "",
		"listen: 0.0.0.0:80\ndevelopment: true":                  "development: ",
		"database: postgres://db/eo\ndevelopment: true\nlog: {}": "development: ",
	} {
		c := mustLoad(t, minimal+given)
		if len(c.Notes) > 1 || (len(c.Notes) == 1) != (want != "") ||
			want != "" && !strings.HasPrefix(c.Notes[0], want) {
			t.Errorf("%s: notes %q, want %q", given, c.Notes, want)
		}
	}
}

// The private listener asks for no sign-in, so an address that others may reach is noted.
func TestLoad_PublicTelemetryIsNoted(t *testing.T) {
	for listen, noted := range map[string]bool{
		"'off'": false, "off": false, "127.0.0.1:9090": false, "'[::1]:9090'": false, "localhost:9090": false,
		"10.1.2.3:9090": false, "'[fd00::1]:9090'": false,
		"0.0.0.0:9090": true, "':9090'": true, "'[::]:9090'": true, "203.0.113.5:9090": true,
		"metrics.example.org:9090": true,
	} {
		c := mustLoad(t, minimal+"telemetry: {listen: "+listen+"}")
		if got := slices.ContainsFunc(c.Notes, func(n string) bool {
			return strings.HasPrefix(n, "telemetry.listen: ")
		}); got != noted {
			t.Errorf("%s: notes %q, want one: %v", listen, c.Notes, noted)
		}
	}
}

// Every secret of a configuration, also a future one, has the type that prints nothing.
func TestConfig_SecretsHaveTheirType(t *testing.T) {
	c := &Config{Page: Page{BaseMap: &BaseMap{}}, Platforms: []Platform{{Exchange: &Exchange{},
		ServiceAccount: &ServiceAccount{}, Users: &Users{}}}}
	secrets := 0
	var fill func(reflect.Value, string)
	fill = func(v reflect.Value, path string) {
		switch {
		case v.Type() == reflect.TypeFor[dispatch.Secret]():
			v.SetString("canary")
			secrets++
		case v.Kind() == reflect.Pointer:
			fill(v.Elem(), path)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				fill(v.Index(i), path)
			}
		case v.Kind() == reflect.Int64: // a number or a duration
		case regexp.MustCompile(`(?i)(secret|password|token|keys?)$`).MatchString(path):
			t.Errorf("%s is no dispatch.Secret", path)
		}
	}
	fill(reflect.ValueOf(c).Elem(), "")
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("all", "config", c, "one", c.Vault, "platform", c.Platforms[0])
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%v %+v", c.Platforms[0].Exchange,
		*c.Platforms[0].ServiceAccount), string(marshalled), log.String()} {
		if strings.Contains(text, "canary") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if secrets < 8 {
		t.Errorf("only %d secrets are known", secrets)
	}
}

// What clients of the deployed service rely on is the default under its variables, and with a configuration of our own
// it is not. Variables of our own decide in both cases.
func TestLoad_CompatibilityFollowsTheVariablesOfTheDeployedService(t *testing.T) {
	all := Compat{SubmittedAsCreated: true, ObjectAsString: true}
	for name, k := range map[string]struct {
		file    string
		environ []string
		want    Compat
	}{
		"deployed":       {environ: deployed, want: all},
		"issuer alone":   {minimal[strings.Index(minimal, "platforms"):], deployed[:3], all},
		"own file":       {minimal, deployed, Compat{}},
		"database alone": {minimal, []string{"DATABASE_URL=sqlite:a.db"}, Compat{}},
		"statuses as ours": {"", append(slices.Clone(deployed), "EODISPATCH_COMPAT_SUBMITTED_AS_CREATED=false"),
			Compat{ObjectAsString: true}},
		"types as ours": {"", append(slices.Clone(deployed), "EODISPATCH_COMPAT_OBJECT_AS_STRING=false"),
			Compat{SubmittedAsCreated: true}},
		"own file, statuses": {minimal, []string{"EODISPATCH_COMPAT_SUBMITTED_AS_CREATED=true"},
			Compat{SubmittedAsCreated: true}},
	} {
		if c := mustLoad(t, k.file, k.environ...); c.Compat != k.want {
			t.Errorf("%s: %+v", name, c.Compat)
		}
	}
}

// APP_ENV, which is development in every installation that does not change it, weakens nothing.
func TestLoad_EnvironmentOfTheDeployedServiceChangesTheLogAlone(t *testing.T) {
	for environment, format := range map[string]string{"development": "text", "production": "json", "": "auto"} {
		c := mustLoad(t, minimal, "APP_ENV="+environment)
		if c.Development || c.Log.Format != format {
			t.Errorf("%s: %+v, development %v", environment, c.Log, c.Development)
		}
	}
	if c := mustLoad(t, minimal, "APP_ENV=development", "EODISPATCH_LOG_FORMAT=json"); c.Log.Format != "json" {
		t.Errorf("%+v", c.Log)
	}
}

// The address of the interface comes from a file or a variable of its own, else from the deployed service, else from
// the image.
func TestLoad_Listen(t *testing.T) {
	const image, own = "EODISPATCH_DEFAULT_LISTEN=0.0.0.0:8080", "EODISPATCH_LISTEN=127.0.0.1:1"
	for name, k := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"own":                 {minimal, nil, "127.0.0.1:8080"},
		"own, PORT":           {minimal, []string{"PORT=9"}, "127.0.0.1:8080"},
		"own, image":          {minimal, []string{image}, "0.0.0.0:8080"},
		"own, image, file":    {minimal + "listen: 127.0.0.1:2", []string{image}, "127.0.0.1:2"},
		"deployed":            {"", deployed, "0.0.0.0:8000"},
		"deployed, image":     {"", append(slices.Clone(deployed), image), "0.0.0.0:8000"},
		"deployed, PORT":      {"", append(slices.Clone(deployed), image, "PORT=9"), ":9"},
		"deployed, PORT, own": {"", append(slices.Clone(deployed), image, "PORT=9", own), "127.0.0.1:1"},
	} {
		c := mustLoad(t, k.file, k.environ...)
		if c.Listen != k.want ||
			slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, "DEFAULT_LISTEN") }) {
			t.Errorf("%s: %s, %q", name, c.Listen, c.Notes)
		}
	}
}

// A client without a secret is public. Keycloak lets it exchange tokens by the legacy exchange alone.
func TestLoad_PublicClient(t *testing.T) {
	const user = "access: user, exchange: {driver: DRIVER, alias: a}"
	for driver, want := range map[string]string{
		KeycloakRequestedIssuer: "",
		KeycloakBroker: "token exchange needs either identity.client_secret or identity.client_key: " +
			"without one the client is public, which only keycloak-requested-issuer allows",
	} {
		text := strings.Replace(minimal, "access: open", strings.Replace(user, "DRIVER", driver, 1), 1)
		_, err := load("x.yaml", []byte(text), nil)
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", driver, err)
		}
	}
	for _, secret := range []string{"KEYCLOAK_CLIENT_SECRET=", "UNRELATED="} {
		c := mustLoad(t, "", append(deployedWithout("KEYCLOAK_CLIENT_SECRET"), secret)...)
		if c.Identity.ClientID != "apex-api" || c.Identity.ClientSecret != "" {
			t.Errorf("%s: %+v", secret, c.Identity)
		}
	}
}

// Operators who configure the broker by the variables of the deployed service are notified of variables, not of keys of
// a file.
func TestLoad_FaultsNameTheVariablesOfTheDeployedService(t *testing.T) {
	for name, k := range map[string]struct {
		environ []string
		want    string
	}{
		"no client": {deployedWithout("KEYCLOAK_CLIENT_ID"), "set KEYCLOAK_CLIENT_ID"},
		"no vault key": {append(deployedWithout("DATABASE_URL"), "DATABASE_URL=postgresql://h/db"),
			"USER_CREDENTIALS in BACKENDS " +
				"on PostgreSQL needs a key, to store users' tokens encrypted: set EODISPATCH_VAULT_KEYS to what " +
				"`eodispatch vault key` prints"},
		"another driver": {append(deployedWithout("KEYCLOAK_CLIENT_SECRET"),
			"EODISPATCH_PLATFORMS_0_EXCHANGE_DRIVER=keycloak-broker"),
			"either KEYCLOAK_CLIENT_SECRET or EODISPATCH_IDENTITY_CLIENT_KEY"},
		"http": {append(deployedWithout("KEYCLOAK_HOST"), "KEYCLOAK_HOST=http://a.example.org"),
			"EODISPATCH_DEVELOPMENT=true"},
	} {
		if _, err := load("", nil, k.environ); !strings.Contains(fmt.Sprint(err), k.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoad_BaseMap(t *testing.T) {
	for given, want := range map[string]string{
		`{url: "https://tiles.example.org/{z}/{x}/{y}.png", attribution: A}`: "",
		`{url: "https://tiles.example.org/{z}/{x}.png", attribution: A}`: "page.base_map.url: must contain {z}, {x} " +
			"and {y}",
		`{url: "http://tiles.example.org/{z}/{x}/{y}.png", attribution: A}`: "page.base_map.url: ",
		`{url: "https://tiles.example.org/{z}/{x}/{y}.png"}`:                "page.base_map.attribution: is missing",
		`{attribution: A}`: "page.base_map.url: is missing",
	} {
		_, err := load("x.yaml", []byte(minimal+"page: {base_map: "+given+"}\n"), nil)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// TestLoad_Retention: parts are not kept longer than jobs, keys last a day at least, and a job lasts as long as the key
// that stands for it.
func TestLoad_Retention(t *testing.T) {
	for text, want := range map[string]string{
		"{results: 48h, requests: 720h}":       "",
		"{results: 48h, jobs: 47h, keys: 24h}": "retention.results: must not be longer than retention.jobs",
		"{requests: 48h, jobs: 47h}":           "retention.requests: must not be longer than retention.jobs",
		"{platform: 48h, jobs: 47h}":           "retention.platform: must not be longer than retention.jobs",
		"{jobs: 23h}":                          "retention.jobs: must not be shorter than retention.keys",
		"{keys: 23h}":                          "retention.keys: write 24h or more",
	} {
		_, err := load("", []byte(minimal+"\nretention: "+text+"\n"), nil)
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An address of several servers leads to the one that can be written, however it lists them; one of a single server
// stays as it is.
func TestDatabase_OfSeveralServers(t *testing.T) {
	for given, want := range map[string]string{
		"postgres://u@db/eo":                                   "postgres://u@db/eo",
		"postgres://u@db1:5432,db2:5433/eo":                    "postgres://u@db1:5432,db2:5433/eo?target_session_attrs=read-write",
		"postgresql+psycopg2://u@db1,db2/eo?sslmode=disable":   "postgres://u@db1,db2/eo?sslmode=disable&target_session_attrs=read-write",
		"postgres://u@/eo?host=/a,/b":                          "postgres://u@/eo?host=/a,/b&target_session_attrs=read-write",
		"postgres://u@db1,db2/eo?target_session_attrs=primary": "postgres://u@db1,db2/eo?target_session_attrs=primary",
		"postgres://u@[::1]:5432/eo":                           "postgres://u@[::1]:5432/eo",
	} {
		if got, err := database(given); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", given, got, err, want)
		}
	}
}

// Only PostgreSQL can be behind a pooler.
func TestDirect_IsOfPostgreSQL(t *testing.T) {
	for database, direct := range map[string]string{"sqlite:a.db": "postgres://u@db/eo",
		"postgres://u@db/eo": "sqlite:a.db"} {
		_, err := load("x.yaml", []byte(whole), []string{"EODISPATCH_DATABASE=" + database,
			"EODISPATCH_DATABASE_DIRECT=" + direct, "CLIENT=c", "VAULT=" + vaultKey, "MAIL_PASSWORD=mail-secret"})
		if err == nil || !strings.Contains(err.Error(), "database_direct") {
			t.Errorf("%s with %s: %v", database, direct, err)
		}
	}
}

// On Knative, PORT is the port, whatever a variable or a file sets, and port 9090 is left to Knative's proxy.
func TestLoad_OnKnative(t *testing.T) {
	image := append(slices.Clone(deployed), "EODISPATCH_LISTEN=0.0.0.0:8080", "PORT=8012")
	for _, k := range []struct{ more, listen, private string }{
		{"K_SERVICE=dispatch", ":8012", knativePrivate},
		{"K_SERVICE=", "0.0.0.0:8080", TelemetryDefault},
	} {
		if c := mustLoad(t, "", append(image, k.more)...); c.Listen != k.listen || c.Telemetry.Listen != k.private {
			t.Errorf("%s: %s, %s", k.more, c.Listen, c.Telemetry.Listen)
		}
	}
	if c := mustLoad(t, "", append(image, "K_SERVICE=dispatch",
		"EODISPATCH_TELEMETRY_LISTEN=off")...); c.Telemetry.Listen != TelemetryOff {
		t.Errorf("%s", c.Telemetry.Listen)
	}
	if _, err := load("", nil, append(image, "K_SERVICE=dispatch", "PORT=none")); err == nil ||
		!strings.Contains(err.Error(), "PORT: listen: write HOST:PORT") {
		t.Error(err)
	}
}

// A process that migrates is given the database alone.
func TestLoadDatabase(t *testing.T) {
	for given, want := range map[string]string{
		"DATABASE_URL=postgresql+psycopg2://u:canary@h/n": "postgres://u:canary@h/n",
		"EODISPATCH_DATABASE=sqlite:a.db":                 "sqlite:a.db",
		"DATABASE_URL=":                                   "error: environment: database: is missing",
		"BACKENDS={":                                      "error: environment: database: is missing",
		"DATABASE_URL=mysql+pymysql://u:canary@h/n": "error: DATABASE_URL: database: MySQL and MariaDB are not " +
			"supported",
	} {
		c, err := LoadDatabase([]string{given})
		if rest, fails := strings.CutPrefix(want, "error: "); fails {
			if err == nil || !strings.HasPrefix(err.Error(), rest) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", given, err)
			}
			continue
		}
		if err != nil || c.Database.Reveal() != want {
			t.Errorf("%s: %v, %v", given, c, err)
		}
	}
}
