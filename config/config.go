// Package config reads the settings of the broker: a YAML file, EODISPATCH_… variables, and the variables of the
// service that this one replaces. It reports all faults at once, each with its place and what to do.
package config

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
)

// Config is a configuration without faults. Tags declare a key: yaml names it, default is its value if it is absent,
// oneof lists the permitted values, least is the smallest one, check names a test of a text ([checks]), require is what
// to write if it may not be absent, variable is the one of the replaced service that sets it, restart marks what a
// reload leaves as it is, and doc describes it and those after it that have none for docs/configuration.md, with code
// in single quotes. A key of Config that has doc and keys below it is a section there.
type Config struct {
	Listen        string          `yaml:"listen" default:"127.0.0.1:8080" check:"address" restart:"true" doc:"address of the public listener; in the image '0.0.0.0:8080' ('EODISPATCH_DEFAULT_LISTEN')"`
	TLS           TLS             `yaml:"tls"`
	Proxies       []string        `yaml:"trusted_proxies" check:"network" doc:"networks of proxies, such as '10.0.0.0/8', whose part of 'X-Forwarded-For' names the client's address"`
	PublicURL     string          `yaml:"public_url" check:"url" doc:"base URL that clients use, for links and the OpenAPI document"`
	Database      dispatch.Secret `yaml:"database" default:"sqlite:eodispatch.db" variable:"DATABASE_URL" restart:"true" doc:"'sqlite:FILE', for one process, relative to the working directory, or 'postgres://user:password@host/name'; of several hosts ('host1,host2') the writable one is used. A process opens 17 connections to PostgreSQL, and twice 'pool_max_conns' (default: CPUs, at least 4), named 'eodispatch HOST POOL'"`
	Direct        dispatch.Secret `yaml:"database_direct" restart:"true" doc:"the server's own address behind a pooler, for migrations and notifications ([operations.md](operations.md#postgresql-that-fails-over))"`
	Freshness     time.Duration   `yaml:"freshness" default:"10s" doc:"maximum age of a status; for an older one the platform is asked first"`
	ShutdownDelay time.Duration   `yaml:"shutdown_delay" restart:"true" doc:"time from SIGTERM until the port closes: five seconds in Kubernetes"`
	ShutdownGrace time.Duration   `yaml:"shutdown_grace" default:"40s" restart:"true" doc:"time that running requests get then; longer than every 'limits.send'"`
	Telemetry     Telemetry       `yaml:"telemetry"`
	Traces        Traces          `yaml:"traces"`
	Operator      Operator        `yaml:"operator"`
	Development   bool            `yaml:"development" default:"false" doc:"permits http, private addresses and secrets in the file"`
	GiveUpAfter   time.Duration   `yaml:"give_up_after" default:"24h" doc:"how long the broker retries a job that its platform refuses temporarily, or finds out what happened to it; then the job fails"`
	StalledAfter  time.Duration   `yaml:"stalled_after" default:"6h" doc:"time without progress after which a job gets the attention 'stalled'. The job goes on"`
	Retention     Retention       `yaml:"retention"`
	Limits        Limits          `yaml:"limits"`
	Streams       Streams         `yaml:"streams"`
	Session       Session         `yaml:"session"`
	Vault         Vault           `yaml:"vault"`
	Page          Page            `yaml:"page"`
	Compat        Compat          `yaml:"compat"`
	CORS          CORS            `yaml:"cors"`
	About         About           `yaml:"about"`
	Log           Log             `yaml:"log"`
	Applications  Applications    `yaml:"applications"`
	OGCAPI        OGCAPI          `yaml:"ogcapi"`
	Catalogue     Catalogue       `yaml:"catalogue" doc:"The services that users can pick."`
	Services      []Service       `yaml:"services" doc:"A list, beside 'catalogue.sources'; records with the same id are not shown."`
	ServiceRules  []ServiceRule   `yaml:"service_rules" doc:"Defaults and limits of requests. A rule applies to services that match its first three keys. Of several rules all limits hold, and the first default of each kind; 'GET /services/{id}' shows them."`
	Hooks         Hooks           `yaml:"hooks" doc:"Users name URLs that are notified when their jobs end ([webhooks.md](webhooks.md)). Without 'vault.keys', only requests can name URLs, and messages are not signed."`
	Identity      Identity        `yaml:"identity" doc:"The provider of users' tokens."`
	Issuers       []Issuer        `yaml:"issuers" doc:"A list of [further issuers](identity.md#several-issuers)."`
	Platforms     []Platform      `yaml:"platforms" doc:"A list. A platform without 'protocol' becomes two: 'NAME' for openEO and 'NAME-ogc' for OGC API - Processes."`

	// Notes are warnings for the operator that do not prevent the start.
	Notes []string `yaml:"-"`
}

// TLS names the PEM files for serving by TLS; both or none. The files are read again when they change.
type TLS struct {
	CertFile string `yaml:"cert" restart:"true" doc:"PEM files of the certificate chain and its key, for TLS 1.2 or newer and HTTP/1.1; read again when they change"`
	KeyFile  string `yaml:"key" restart:"true"`
}

// Identity is the provider whose tokens the broker accepts, and the broker's own client there.
type Identity struct {
	Issuer            string          `yaml:"issuer" check:"url" require:"write the URL of the identity provider, or set KEYCLOAK_HOST and KEYCLOAK_REALM" doc:"issuer of users' tokens, exactly as in their 'iss'"`
	Audience          []string        `yaml:"audience" doc:"names of the broker, of which a token's 'aud' must contain one, or its 'azp' be one if it has no 'aud'; absent: 'client_id'"`
	Clients           []string        `yaml:"clients" doc:"other clients, such as a portal, whose tokens are accepted by their 'azp' ([identity.md](identity.md#the-brokers-client))"`
	ClientID          string          `yaml:"client_id" variable:"KEYCLOAK_CLIENT_ID" doc:"the broker's own client; required for platforms with 'access: user'"`
	ClientSecret      dispatch.Secret `yaml:"client_secret" variable:"KEYCLOAK_CLIENT_SECRET"`
	ClientKey         dispatch.Secret `yaml:"client_key" doc:"in place of any 'client_secret', here and below: a private key in PEM that signs assertions ('private_key_jwt')"`
	CommandLineClient string          `yaml:"command_line_client" doc:"a public client (PKCE, device authorization) for [commands](identity.md#sign-in-at-the-command-line); absent: users name one with '--client-id'"`
	OpenEOClient      string          `yaml:"openeo_client" doc:"the same for [clients of the openEO API](identity.md#sign-in-of-openeo-clients); absent: 'command_line_client'"`
	OpenEOPages       []string        `yaml:"openeo_pages" check:"url" doc:"URLs of pages, such as an openEO editor, to which it leads users back; those with https are offered as editors"`
	DocsClient        string          `yaml:"docs_client" doc:"a public client (PKCE) for [*Authorize* on '/docs'](identity.md#sign-in-on-docs); absent: users paste tokens"`
	SessionGrants     bool            `yaml:"session_grants" default:"true" doc:"with a vault, jobs continue in users' sessions after tokens have expired ([identity.md](identity.md#users-who-are-away))"`
	GiveUpAfter       time.Duration   `yaml:"give_up_after" default:"336h" doc:"how long jobs wait for their user to sign in or link an account; then they fail"`
}

// Issuer is a further provider whose tokens the broker accepts, the broker's own client there, and the platforms that
// its users may use.
type Issuer struct {
	Issuer       string           `yaml:"issuer" check:"url" require:"write the URL of the identity provider" doc:"as in 'identity'; each issuer is listed once"`
	Audience     []string         `yaml:"audience"`
	Clients      []string         `yaml:"clients"`
	ClientID     string           `yaml:"client_id" doc:"the broker's own client there; required for platforms with 'access: user'"`
	ClientSecret dispatch.Secret  `yaml:"client_secret"`
	ClientKey    dispatch.Secret  `yaml:"client_key"`
	Platforms    []IssuerPlatform `yaml:"platforms"`
}

// IssuerPlatform is a platform that the users of an issuer may use.
type IssuerPlatform struct {
	Name     string    `yaml:"name" require:"write the name of a platform" doc:"platforms that its users may use (of one without 'protocol': 'NAME' and 'NAME-ogc'); others get 403"`
	Exchange *Exchange `yaml:"exchange" doc:"for 'access: user': as 'exchange' below, for tokens of this issuer"`
	Issuer   string    `yaml:"issuer" check:"url" doc:"issuer of the tokens that this exchange returns; absent: that of the platform, with 'passthrough' this one"`
}

// identity returns the provider as that of all users.
func (i Issuer) identity() Identity {
	return Identity{Issuer: i.Issuer, Audience: i.Audience, Clients: i.Clients, ClientID: i.ClientID,
		ClientSecret: i.ClientSecret, ClientKey: i.ClientKey}
}

// Platform returns the platform of a name that the issuer's users may use; nil: they may not.
func (i Issuer) Platform(name string) *IssuerPlatform {
	for k := range i.Platforms {
		if i.Platforms[k].Name == name {
			return &i.Platforms[k]
		}
	}
	return nil
}

// Vault configures the encryption of users' secrets. Without keys none are stored. See identity.ParseKeyring.
type Vault struct {
	Keys dispatch.Secret `yaml:"keys" doc:"keys that encrypt users' secrets, each 'NAME:BASE64' as 'eodispatch vault key' prints it, newest first, separated by commas or line breaks. Without keys, jobs stop for users who sign out, and on PostgreSQL the broker does not start with 'access: user'"`
}

// Session limits how long browsers stay signed in to the page.
type Session struct {
	Life time.Duration `yaml:"life" default:"24h" doc:"how long a browser stays signed in, and how long without a request. [Sessions](identity.md#sign-in-to-the-page) need 'public_url', the client's secret or key, and on PostgreSQL 'vault.keys'"`
	Idle time.Duration `yaml:"idle" default:"8h"`
}

// Page configures the page at /.
type Page struct {
	BaseMap *BaseMap `yaml:"base_map" doc:"'url' (with '{z}', '{x}' and '{y}') and 'attribution' of map tiles: XYZ, or a WMTS with the matrix set GoogleMapsCompatible; absent: the page's own coasts, borders and places"`
}

// BaseMap is a map of tiles from another server.
type BaseMap struct {
	URL         string `yaml:"url" check:"tiles" require:"write the address of the tiles, with {z}, {x} and {y}"`
	Attribution string `yaml:"attribution" require:"write who made the map, as its licence requires it to be shown"`
}

// Platform is one external back-end. A platform without a protocol becomes two: NAME for openEO, and NAME-ogc for OGC
// API - Processes.
type Platform struct {
	Name              string          `yaml:"name" check:"name" require:"name the platform" doc:"name shown to users; no slash"`
	Protocol          Protocol        `yaml:"protocol" oneof:"openeo ogc-api-processes" doc:"absent: both"`
	Endpoint          string          `yaml:"endpoint" check:"server" require:"write the platform's URL" doc:"address; users may spell it differently"`
	Aliases           []string        `yaml:"aliases" check:"server" doc:"other addresses of it"`
	Access            dispatch.Access `yaml:"access" oneof:"user shared open" require:"write user, shared or open" doc:"'user': under the user's own account. 'shared': under one service account. 'open': without a token"`
	Exchange          *Exchange       `yaml:"exchange"`
	ServiceAccount    *ServiceAccount `yaml:"service_account"`
	Users             *Users          `yaml:"users"`
	TokenPrefix       string          `yaml:"token_prefix" doc:"openEO: prefix of the token, such as 'oidc/CDSE'; absent: by the token's issuer"`
	Issuer            string          `yaml:"issuer" check:"url" doc:"issuer of the platform's tokens; others are never sent. Required for 'jwt-grant' and 'passthrough'"`
	Limits            PlatformLimits  `yaml:"limits"`
	Traceparent       bool            `yaml:"traceparent" default:"false" doc:"send the trace context, if [traces](operations.md#traces) are recorded"`
	StartSettlesAfter time.Duration   `yaml:"start_settles_after" doc:"openEO: how long the platform must report 'created' before a lost start is repeated; absent: [learned](reliability.md#for-users). Too short, it may start a job twice"`
	Failures          []Failure       `yaml:"failures" doc:"rules for which failures 'options.retries' retries: a list of '{matches: \"(?i)spot node\", cause: platform}'. 'matches' is a regular expression for the platform's message and the last errors of the log, 'cause' is 'platform' or 'request'. The first match decides, then the program's own rules, then 'request'"`
	Submit            Submit          `yaml:"submit" default:"at_most_once" oneof:"at_most_once at_least_once" doc:"an OGC submission with an unknown outcome: 'at_most_once' asks the owner, 'at_least_once' repeats"`
	Assets            Assets          `yaml:"assets" default:"direct" oneof:"direct proxy" doc:"where users read result files: 'direct' at the server that the platform links to; 'proxy' at the broker, by [signed links](results.md#files), for platforms that they cannot reach"`

	// EitherProtocol marks the two platforms that one without a protocol became, which follow one another.
	EitherProtocol bool `yaml:"-"`
}

// Failure is a rule that decides what caused a failure, see dispatch.FailureRule.
type Failure struct {
	Matches string         `yaml:"matches" check:"expression" require:"write a regular expression for what the platform says"`
	Cause   dispatch.Cause `yaml:"cause" oneof:"platform request" require:"write platform or request"`
}

// Protocol is the protocol of a platform.
type Protocol string

const (
	OpenEO     Protocol = "openeo"
	OGCProcess Protocol = "ogc-api-processes"
)

// Label returns the label of the jobs for a platform of this protocol.
func (p Protocol) Label() dispatch.Label {
	if p == OGCProcess {
		return dispatch.OGCProcess
	}
	return dispatch.OpenEO
}

// Assets is where users read the files of results.
type Assets string

const (
	DirectAssets  Assets = "direct" // at the server to which the platform links
	ProxiedAssets Assets = "proxy"  // at the broker, which passes them on
)

// Submit is the policy for a submission whose outcome cannot be determined.
type Submit string

const (
	AtMostOnce  Submit = "at_most_once"
	AtLeastOnce Submit = "at_least_once"
)

// The names of the exchange drivers.
const (
	KeycloakBroker = "keycloak-broker" // Keycloak's Identity Brokering API, version 2
	// Keycloak's legacy token exchange (V1): requested_issuer=alias
	KeycloakRequestedIssuer = "keycloak-requested-issuer"
	TokenExchange           = "token-exchange" // RFC 8693 at the broker's provider, for another audience
	// RFC 8693 at the broker's provider, then RFC 7523 at the platform's provider
	JWTGrant    = "jwt-grant"
	Passthrough = "passthrough" // the caller's own token
)

// Exchange configures how the caller's token is exchanged for one that the platform accepts. The client is that of
// jwt-grant.
type Exchange struct {
	Driver       string          `yaml:"driver" oneof:"keycloak-broker keycloak-requested-issuer token-exchange jwt-grant passthrough" require:"write keycloak-broker, or another driver" doc:"for 'access: user' ([identity.md](identity.md#choosing-an-exchange))"`
	Alias        string          `yaml:"alias" doc:"'keycloak-…': the platform's identity provider at the broker's"`
	Audience     string          `yaml:"audience" doc:"'token-exchange': the platform's client id at the broker's provider. 'jwt-grant': the platform's provider's name for itself; absent: 'issuer'"`
	LinkLife     time.Duration   `yaml:"link_life" default:"1h" doc:"'keycloak-…': how long an unused link lasts; those of users with unfinished jobs are kept in use"`
	ClientID     string          `yaml:"client_id" doc:"'jwt-grant': the broker's client at the platform's provider"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"`
}

// ServiceAccount is the account under which all jobs of a platform run. Its tokens come from TokenURL, from the token
// endpoint in Issuer's discovery document, or from the issuer that the openEO back-end lists as Provider; if Issuer is
// set too, that issuer must equal it. See dispatch.Permits for Allow.
type ServiceAccount struct {
	ClientID     string          `yaml:"client_id" require:"write the id of the shared client" doc:"for 'access: shared'"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"`
	TokenURL     string          `yaml:"token_url" check:"url" doc:"one of: token endpoint; issuer whose discovery document names it; id that the openEO back-end lists, together with 'issuer', so that the platform cannot choose which server gets the secret (not required for platforms from 'BACKENDS')"`
	Issuer       string          `yaml:"issuer" check:"url"`
	Provider     string          `yaml:"provider"`
	Allow        []string        `yaml:"allow" doc:"what requests may do with the account besides running processes on public data; anything else gets 422: 'plan', 'budget' (options of openEO jobs); openEO processes that read what the account stores: 'load_result', 'load_ml_model', 'load_stac', 'read_vector', 'load_url', 'get_geometries', 'vector_buffer', 'aggregate_spatial' (refused only if they may open something other than a plain public URL, or an unsigned '…/jobs/{id}/results'; the last three also get geometries of other nodes), 'load_uploaded_files', 'load_disk_data', 'load_disk_collection', 'export_workspace', 'save_user_…'; 'namespace' (nodes defined at another URL); members of an OGC execute request, such as 'subscriber' ('outputs', 'response' and 'mode' always may be)"`
}

// Users limits who may use a shared account, and how much of it one user may use. See identity.Caller.Has for Claim.
type Users struct {
	Jobs  int      `yaml:"jobs" doc:"for 'access: shared' and 'open', as the keys below: unfinished jobs of one user, and jobs in 24 hours; more get 429; absent: 'limits.user_jobs', 'limits.user_jobs_per_day'"`
	Daily int      `yaml:"jobs_per_day"`
	Costs int      `yaml:"costs_per_month" doc:"what one user's jobs may cost in a calendar month (UTC), in the platform's unit. Once the platform has reported as much, further jobs get 429; accepted ones go on"`
	Claim string   `yaml:"claim" doc:"who may run jobs: a claim of the tokens ('realm_access.roles', 'scope', 'groups', 'sub'; dots lead into objects) must be, or contain, one of the values; others get 403"`
	AnyOf []string `yaml:"any_of"`
}

// PlatformLimits limits what the broker sends to a platform.
type PlatformLimits struct {
	Jobs        int           `yaml:"jobs" doc:"jobs of each account at once. Without it, a refusal makes the account wait until one of its jobs has ended; set it if the platform accepts more than it can run. A job with an unknown submission keeps its slot until it is deleted, or for 'give_up_after'. Synchronous runs take no slot, jobs of processes that only run synchronously do"`
	FreeStalled bool          `yaml:"free_stalled" default:"false" doc:"a started job that is 'stalled' takes no slot, unless the platform reports it as running; there may then be more than 'limits.jobs'"`
	Requests    int           `yaml:"requests" default:"8" doc:"requests of each account at once"`
	Rate        Pace          `yaml:"rate" doc:"maximum rate of requests of all accounts: '10/s', '100/m'. Accounts take turns; a tenth is for requests that people wait for"`
	MinPoll     time.Duration `yaml:"min_poll" default:"2s" doc:"minimum time between reads of a status: less for jobs under two minutes"`
	Send        time.Duration `yaml:"send" default:"30s" doc:"maximum duration of one request"`
}

// Catalogue configures where the services that users can pick come from, besides Config.Services.
type Catalogue struct {
	Sources []string      `yaml:"sources" doc:"folders, read every minute ('*.json', also below), and https URLs of a record, a list (a JSON array of records or URLs, or a FeatureCollection with links 'next'), or a page with links 'item', 'items' or 'child'. Records are those of OGC API - Records with the type 'service': the link 'service' is the platform's address, 'application' the openEO process. A record with several such pairs is at several platforms"`
	Refresh time.Duration `yaml:"refresh" default:"1h" doc:"how often URLs are read. A source that does not respond keeps its last state. Of one that exceeds a [bound](security.md#hostile-inputs) or nine minutes, the first records are shown"`
	Open    bool          `yaml:"open" default:"false" doc:"the catalogue can be read without a sign-in"`
}

// Service is a service that users can pick.
type Service struct {
	ID          string             `yaml:"id" check:"service" require:"name the service" doc:"letters, digits and '. _ : @ ~ -'"`
	Title       string             `yaml:"title" doc:"absent: the id"`
	Description string             `yaml:"description" doc:"Markdown"`
	Platform    string             `yaml:"platform" require:"write the name of a platform" doc:"'name' of a platform; one without 'protocol' has two names"`
	Application string             `yaml:"application" require:"write the URL or id of a process" doc:"as in a request: URL or id of an openEO process, id of an OGC process"`
	Namespace   *string            `yaml:"namespace"`
	Also        []ServicePlacement `yaml:"also" doc:"up to seven further platforms that offer the same ([tasks spread over them](upscaling.md#several-platforms)): a list with 'platform', 'application' and 'namespace'"`
	Keywords    []string           `yaml:"keywords" doc:"a list"`
	Cost        string             `yaml:"cost" doc:"what it costs, in words"`
	Example     json.RawMessage    `yaml:"example" doc:"a mapping of parameters that gives a result"`
}

// ServicePlacement is a further platform that offers a service, and what the service is called there.
type ServicePlacement struct {
	Platform    string  `yaml:"platform" require:"write the name of a platform"`
	Application string  `yaml:"application" require:"write the URL or id of a process"`
	Namespace   *string `yaml:"namespace"`
}

// ServiceRule sets defaults and limits of requests for some services, see dispatch.Policy.
type ServiceRule struct {
	Services    []string        `yaml:"services" check:"service" doc:"ids of the catalogue, which 'doctor' checks"`
	Platform    string          `yaml:"platform" doc:"'name' of a platform"`
	Application string          `yaml:"application" doc:"as in requests, with '*' for any text"`
	Options     json.RawMessage `yaml:"options" doc:"default options of the job, for the platform, or 'retries', 'pin' and 'trial'"`
	MaxDuration time.Duration   `yaml:"max_duration" doc:"how long a job may run; requests for longer are refused"`
	Budget      int             `yaml:"budget" doc:"default budget of tasks at one platform, a whole number; the default unit is the platform's"`
	BudgetUnit  string          `yaml:"budget_unit"`
	Format      string          `yaml:"format" doc:"default format, any that the services offer, such as 'gtiff'"`
	Users       *RuleUsers      `yaml:"users" doc:"'claim' and 'any_of', as for [platforms](#platforms): who may run the services; others get 403"`
}

// RuleUsers are the users whose tokens have a claim, see identity.Caller.Has.
type RuleUsers struct {
	Claim string   `yaml:"claim"`
	AnyOf []string `yaml:"any_of"`
}

// EchoName is the name of the platform and the id of the service of OGCAPI.Echo.
const EchoName = "echo"

// OGCAPI configures the interface that is an OGC API - Processes server.
type OGCAPI struct {
	Echo bool `yaml:"echo" default:"false" doc:"offer below '/ogcapi' the process 'echo', at a platform 'echo', for suites that test servers"`
}

// Hooks limits where users' hooks may be.
type Hooks struct {
	Trusted []string `yaml:"trusted" check:"receiver" doc:"origins ('http://receiver.internal:8080') that may be private and use http"`
	Mail    Mail     `yaml:"mail"`
}

// Mail names the server that mails of hooks are sent by.
type Mail struct {
	Server     string          `yaml:"server" doc:"SMTP server, 'HOST:PORT'; absent: no mail"`
	From       string          `yaml:"from" doc:"the sender: 'EO jobs <noreply@example.org>'"`
	Encryption mail.Encryption `yaml:"encryption" default:"starttls" oneof:"starttls implicit none" doc:"'starttls' (required), 'implicit' (usually port 465), or 'none', for a relay on the same machine"`
	Username   string          `yaml:"username" doc:"the account at the server"`
	Password   dispatch.Secret `yaml:"password"`
}

// Sender returns what sends mail; nil if there is no server.
func (m Mail) Sender() (*mail.Sender, error) {
	if m.Server == "" {
		return nil, nil
	}
	return mail.New(mail.Config{Server: m.Server, From: m.From, Encryption: m.Encryption, Username: m.Username,
		Password: m.Password})
}

// Applications limits which documents users may name by URL.
type Applications struct {
	AllowHosts []string `yaml:"allow_hosts" check:"host" doc:"hosts of documents that users may name by URL; absent: any public host, by https"`
}

// Limits limits the broker's clients.
type Limits struct {
	Body            Size `yaml:"body" default:"10MiB" doc:"maximum size of a request body"`
	Connections     int  `yaml:"connections" default:"10000" restart:"true" doc:"client connections that each process serves at once; more wait"`
	UserRequests    int  `yaml:"user_requests" default:"16" doc:"requests of one user that each process serves at once ([S30](security.md#load))"`
	AddressRequests int  `yaml:"address_requests" default:"512" doc:"the same for one address (IPv6: /64) without a known user. Behind a proxy set 'trusted_proxies'"`
	RateUser        Pace `yaml:"rate_user" doc:"maximum rate of requests of one user, and of one address, to each process: '10/s', '100/m'. Ten seconds' worth may come at once; more get 429. A portal sends requests of many users from one address"`
	RateAddress     Pace `yaml:"rate_address"`
	RateSignIn      Pace `yaml:"rate_sign_in" default:"10/s" doc:"the same for one address and the pages for sign-in, links and permissions, of which a user needs about six"`
	Values          int  `yaml:"values" default:"10000" doc:"values of one task"`
	UserJobs        int  `yaml:"user_jobs" default:"100000" doc:"unfinished jobs of one user, and jobs in 24 hours; more get 429"`
	UserDaily       int  `yaml:"user_jobs_per_day" default:"1000000"`
	UserBytes       Size `yaml:"user_bytes" default:"1GiB" doc:"size in the database of the requests of one user's unfinished jobs; more get 429"`
	Memory          Size `yaml:"memory" least:"128MiB" restart:"true" doc:"memory of the process, an eighth of it for large requests; absent: the container's. 'GOMEMLIMIT' takes precedence"`
	Streams         int  `yaml:"streams" default:"100" doc:"WebSockets of one user in each process, and as many requests with '?wait='"`
}

// Streams configures how WebSockets are opened.
type Streams struct {
	QueryTokens bool `yaml:"query_token" default:"true" doc:"accept tokens in a WebSocket's URL ('?token='). With 'false', browsers use a ticket ('POST /tickets') or the sub-protocol 'bearer.TOKEN'"`
}

// Compat switches on behavior that clients of the replaced service rely on. The variables of that service switch it on.
type Compat struct {
	SubmittedAsCreated bool `yaml:"submitted_as_created" default:"false" doc:"report 'submitted' as 'created', for clients that do not know it"`
	ObjectAsString     bool `yaml:"object_as_string" default:"false" doc:"report parameters of the types 'object' and 'array' as 'string'"`
}

// CORS lists the origins whose pages may call the broker; empty: none.
type CORS struct {
	AllowedOrigins []string `yaml:"allowed_origins" check:"origin" variable:"CORS_ALLOWED_ORIGINS" doc:"origins whose [pages](portals.md#pages-of-another-origin-cors) may call the broker and open its WebSockets, in lower case and exactly; 'http://localhost:*', 'http://127.0.0.1:*': any port; '*': all, without cookies"`
}

// About is the head of the OpenAPI document.
type About struct {
	Title       string `yaml:"title" default:"eodispatch" variable:"APP_NAME" doc:"of the OpenAPI document; absent version: the program's"`
	Description string `yaml:"description" variable:"APP_DESCRIPTION"`
	Version     string `yaml:"version" variable:"APP_VERSION"`
}

// Retention is for how long what belongs to ended jobs is kept, see dispatch.Retention. Absent: for ever.
type Retention struct {
	Results  time.Duration `yaml:"results" doc:"how long parts of ended jobs are kept ([operations.md](operations.md#retention)): copies of results; parameters, options and service definitions; whole jobs and tasks; absent: for ever"`
	Requests time.Duration `yaml:"requests"`
	Jobs     time.Duration `yaml:"jobs"`
	Platform time.Duration `yaml:"platform" doc:"the same for ended jobs and their results [at the platforms](operations.md#removal-at-the-platform), 'retention.jobs' at most"`
	Keys     time.Duration `yaml:"keys" default:"24h" least:"24h" restart:"true" doc:"how long an 'Idempotency-Key' stands for its job, 'retention.jobs' at most"`
}

// Telemetry configures the private listener with metrics, readiness and profiles.
type Telemetry struct {
	Listen string `yaml:"listen" default:"127.0.0.1:9090" check:"private" restart:"true" doc:"address of the [private listener](operations.md#the-private-listener), or 'off'. If the default port is taken, there is none"`
}

// Traces configures where traces are sent, by OTLP over HTTP. See Traces.Fields for Headers.
type Traces struct {
	Endpoint string          `yaml:"endpoint" restart:"true" doc:"URL of a receiver of [traces](operations.md#traces) by OTLP over HTTP; without a path, '/v1/traces' is added. OpenTelemetry's variables have the lowest precedence: 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS' (both also '…_TRACES_…'), 'OTEL_SDK_DISABLED', 'OTEL_TRACES_EXPORTER', 'OTEL_TRACES_SAMPLER', 'OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES', 'OTEL_BSP_…'"`
	Headers  dispatch.Secret `yaml:"headers" restart:"true" doc:"a secret: headers for it, 'NAME=VALUE', separated by commas, escaped as in URLs"`
	Incoming bool            `yaml:"incoming" default:"false" restart:"true" doc:"continue the trace of a request's 'traceparent': only behind a proxy that sets it"`
}

// Operator configures what is kept for operators.
type Operator struct {
	History time.Duration `yaml:"history" default:"168h" doc:"how long 'operator history' is kept"`
}

// TelemetryOff is the address of a private listener that is not opened.
const TelemetryOff = "off"

// TelemetryDefault is the address of the private listener if none is configured.
const TelemetryDefault = "127.0.0.1:9090"

// Log configures the format and level of the log.
type Log struct {
	Format string     `yaml:"format" default:"auto" oneof:"auto text json" restart:"true" doc:"'auto': 'text' on a terminal, 'json' elsewhere"`
	Level  slog.Level `yaml:"level" default:"info" doc:"'debug', 'info', 'warn' or 'error'"`
}
