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

// Config is a configuration without faults. The tag `yaml` names a key, `default` is the value of an absent key, and
// `oneof` lists the permitted values.
type Config struct {
	Listen string `yaml:"listen" default:"127.0.0.1:8080"` // host:port
	TLS    TLS    `yaml:"tls"`
	// base URL that clients use, without a slash at its end; "": unknown
	PublicURL string          `yaml:"public_url"`
	Proxies   []string        `yaml:"trusted_proxies"` // networks of proxies whose X-Forwarded-For is trusted
	Database  dispatch.Secret `yaml:"database" default:"sqlite:eodispatch.db"`
	// the PostgreSQL server behind a pooler, for migrations and notifications; "": Database
	Direct       dispatch.Secret `yaml:"database_direct"`
	Identity     Identity        `yaml:"identity"`
	Issuers      []Issuer        `yaml:"issuers"` // further providers whose tokens the broker accepts
	Vault        Vault           `yaml:"vault"`
	Session      Session         `yaml:"session"`
	Page         Page            `yaml:"page"`
	Platforms    []Platform      `yaml:"platforms"`
	Catalogue    Catalogue       `yaml:"catalogue"`
	Services     []Service       `yaml:"services"`
	ServiceRules []ServiceRule   `yaml:"service_rules"`
	OGCAPI       OGCAPI          `yaml:"ogcapi"`
	Applications Applications    `yaml:"applications"`
	Hooks        Hooks           `yaml:"hooks"`
	// allows http, private addresses and literal secrets
	Development bool      `yaml:"development" default:"false"`
	Limits      Limits    `yaml:"limits"`
	Streams     Streams   `yaml:"streams"`
	Compat      Compat    `yaml:"compat"`
	CORS        CORS      `yaml:"cors"`
	About       About     `yaml:"about"`
	Log         Log       `yaml:"log"`
	Telemetry   Telemetry `yaml:"telemetry"`
	Traces      Traces    `yaml:"traces"`
	Retention   Retention `yaml:"retention"`
	Operator    Operator  `yaml:"operator"`
	// maximum age of a status before its platform is asked
	Freshness     time.Duration `yaml:"freshness" default:"10s"`
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"40s"` // longer than any platform's limits.send
	// from the signal to stop until the port closes; absent: none
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`

	// GiveUpAfter is how long the broker tries to submit a job that the platform refuses or whose fate cannot be found
	// out.
	GiveUpAfter time.Duration `yaml:"give_up_after" default:"24h"`
	// StalledAfter is how long a platform may report no progress of a job before its owner is notified and
	// PlatformLimits.FreeStalled frees its slot.
	StalledAfter time.Duration `yaml:"stalled_after" default:"6h"`

	// Notes are warnings for the operator that do not prevent the start.
	Notes []string `yaml:"-"`
}

// TLS names the PEM files for serving by TLS; both or none. The files are read again when they change.
type TLS struct {
	CertFile string `yaml:"cert"` // certificate chain, the broker's own certificate first
	KeyFile  string `yaml:"key"`
}

// Identity is the provider whose tokens the broker accepts, and the broker's own client there.
type Identity struct {
	Issuer       string          `yaml:"issuer"`
	Audience     []string        `yaml:"audience"` // absent: the client's id
	Clients      []string        `yaml:"clients"`  // clients whose tokens are accepted by their azp, whatever their aud
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // used instead of the secret: a private key in PEM
	// CommandLineClient is a public client with which the commands for users sign in; "": users name one.
	CommandLineClient string `yaml:"command_line_client"`
	// OpenEOClient is a public client with which clients of the openEO API sign their users in; "": CommandLineClient.
	OpenEOClient string `yaml:"openeo_client"`
	// URLs of pages, such as openEO editors, to which that client leads users back
	OpenEOPages []string `yaml:"openeo_pages"`
	// public client with which users sign in on /docs; "": they paste tokens there
	DocsClient string `yaml:"docs_client"`

	// continue in users' sessions, if the provider permits it
	SessionGrants bool          `yaml:"session_grants" default:"true"`
	GiveUpAfter   time.Duration `yaml:"give_up_after" default:"336h"` // how long waiting jobs wait for their user
}

// Issuer is a further provider whose tokens the broker accepts, the broker's own client there, and the platforms that
// its users may use.
type Issuer struct {
	Issuer       string           `yaml:"issuer"`
	Audience     []string         `yaml:"audience"` // absent: the client's id
	Clients      []string         `yaml:"clients"`  // as in Identity
	ClientID     string           `yaml:"client_id"`
	ClientSecret dispatch.Secret  `yaml:"client_secret"`
	ClientKey    dispatch.Secret  `yaml:"client_key"` // used instead of the secret: a private key in PEM
	Platforms    []IssuerPlatform `yaml:"platforms"`
}

// IssuerPlatform is a platform that the users of an issuer may use.
type IssuerPlatform struct {
	Name     string    `yaml:"name"`
	Exchange *Exchange `yaml:"exchange"` // if the platform's access is user
	// of the tokens that the exchange returns; absent: that of the platform or, with passthrough, of the users
	Issuer string `yaml:"issuer"`
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

// Vault configures the encryption of users' secrets. Without keys none are stored.
type Vault struct {
	Keys dispatch.Secret `yaml:"keys"` // see identity.ParseKeyring
}

// Session limits how long browsers stay signed in to the page.
type Session struct {
	Life time.Duration `yaml:"life" default:"24h"` // after a sign-in
	Idle time.Duration `yaml:"idle" default:"8h"`  // after the last request
}

// Page configures the page at /.
type Page struct {
	BaseMap *BaseMap `yaml:"base_map"` // absent: the map that the page brings along, without requests to others
}

// BaseMap is a map of tiles from another server.
type BaseMap struct {
	URL         string `yaml:"url"` // with {z}, {x} and {y}
	Attribution string `yaml:"attribution"`
}

// Platform is one external back-end. A platform without a protocol becomes two: NAME for openEO, and NAME-ogc for OGC
// API - Processes.
type Platform struct {
	Name           string          `yaml:"name"`
	Protocol       Protocol        `yaml:"protocol" oneof:"openeo ogc-api-processes"`
	Endpoint       string          `yaml:"endpoint"`
	Aliases        []string        `yaml:"aliases"`
	Access         dispatch.Access `yaml:"access" oneof:"user shared open"`
	Exchange       *Exchange       `yaml:"exchange"`        // for access: user
	ServiceAccount *ServiceAccount `yaml:"service_account"` // for access: shared
	Users          *Users          `yaml:"users"`           // not for access: user
	TokenPrefix    string          `yaml:"token_prefix"`    // openEO: prefix of the token; "": derived from the issuer
	Issuer         string          `yaml:"issuer"`          // of the platform's tokens; "": not known
	Limits         PlatformLimits  `yaml:"limits"`
	Submit         Submit          `yaml:"submit" default:"at_most_once" oneof:"at_most_once at_least_once"`

	Assets Assets `yaml:"assets" default:"direct" oneof:"direct proxy"`

	Traceparent bool `yaml:"traceparent" default:"false"` // send the platform the trace context of requests

	// Failures are rules for options.retries; the first that matches decides, and then those of the program.
	Failures []Failure `yaml:"failures"`

	// StartSettlesAfter is for openEO, see dispatch.Backend; absent: learned.
	StartSettlesAfter time.Duration `yaml:"start_settles_after"`

	// EitherProtocol marks the two platforms that one without a protocol became, which follow one another.
	EitherProtocol bool `yaml:"-"`
}

// Failure is a rule that decides what caused a failure, see dispatch.FailureRule.
type Failure struct {
	Matches string         `yaml:"matches"` // a regular expression
	Cause   dispatch.Cause `yaml:"cause" oneof:"platform request"`
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

// Exchange configures how the caller's token is exchanged for one that the platform accepts.
type Exchange struct {
	Driver string `yaml:"driver" oneof:"keycloak-broker keycloak-requested-issuer token-exchange jwt-grant passthrough"`
	Alias  string `yaml:"alias"` // keycloak-…: alias of the platform's identity provider at the broker's provider
	// token-exchange: the platform at the broker's provider; jwt-grant: default the platform's issuer
	Audience string `yaml:"audience"`

	LinkLife time.Duration `yaml:"link_life" default:"1h"` // keycloak-…: how long an unused link lasts

	// jwt-grant: the broker's own client at the platform's provider.
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // used instead of the secret: a private key in PEM
}

// ServiceAccount is the account under which all jobs of a platform run. Its tokens come from TokenURL, from the token
// endpoint in Issuer's discovery document, or from the issuer that the openEO back-end lists as Provider; if Issuer is
// set too, that issuer must equal it.
type ServiceAccount struct {
	TokenURL     string          `yaml:"token_url"`
	Issuer       string          `yaml:"issuer"`
	Provider     string          `yaml:"provider"`
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // used instead of the secret: a private key in PEM
	Allow        []string        `yaml:"allow"`      // what requests may do with the account, see dispatch.Permits
}

// Users limits who may use a shared account, and how much of it one user may use.
type Users struct {
	Jobs  int `yaml:"jobs"`         // jobs of one user that have not ended; absent: limits.user_jobs
	Daily int `yaml:"jobs_per_day"` // jobs that one user submits in 24 hours; absent: limits.user_jobs_per_day
	// what the jobs of one user may cost in a month, in the platform's unit; absent: any
	Costs int `yaml:"costs_per_month"`
	// claim of a user's token, see identity.Caller.Has; absent: every user may use the account
	Claim string   `yaml:"claim"`
	AnyOf []string `yaml:"any_of"` // the claim must have one of these values
}

// PlatformLimits limits what the broker sends to a platform.
type PlatformLimits struct {
	// jobs at the platform at once, per account; absent: as many as it accepts
	Jobs     int           `yaml:"jobs"`
	Requests int           `yaml:"requests" default:"8"` // requests at once, per account
	Rate     Pace          `yaml:"rate"`                 // request rate of all accounts together; absent: unlimited
	MinPoll  time.Duration `yaml:"min_poll" default:"2s"`
	Send     time.Duration `yaml:"send" default:"30s"` // maximum duration of one request

	// a job without progress for StalledAfter takes no slot, see dispatch.Job.FreesSlot
	FreeStalled bool `yaml:"free_stalled" default:"false"`
}

// Catalogue configures where the services that users can pick come from, besides Config.Services.
type Catalogue struct {
	Sources []string      `yaml:"sources"`              // folders, and URLs of records, lists or catalogue pages
	Refresh time.Duration `yaml:"refresh" default:"1h"` // how often sources at URLs are read
	Open    bool          `yaml:"open" default:"false"` // without a sign-in
}

// Service is a service that users can pick.
type Service struct {
	ID          string             `yaml:"id"`
	Title       string             `yaml:"title"`       // absent: the id
	Description string             `yaml:"description"` // Markdown
	Platform    string             `yaml:"platform"`    // name of a platform
	Application string             `yaml:"application"`
	Namespace   *string            `yaml:"namespace"`
	Keywords    []string           `yaml:"keywords"`
	Cost        string             `yaml:"cost"`    // what it costs, in words
	Example     json.RawMessage    `yaml:"example"` // a mapping of parameters
	Also        []ServicePlacement `yaml:"also"`    // further platforms that offer the service
}

// ServicePlacement is a further platform that offers a service, and what the service is called there.
type ServicePlacement struct {
	Platform    string  `yaml:"platform"` // name of a platform
	Application string  `yaml:"application"`
	Namespace   *string `yaml:"namespace"`
}

// ServiceRule sets defaults and limits of requests for some services, see dispatch.Policy.
type ServiceRule struct {
	Services    []string        `yaml:"services"`    // ids of the catalogue; absent: any service
	Platform    string          `yaml:"platform"`    // name of a platform; absent: any
	Application string          `yaml:"application"` // as in requests, with * for any text; absent: any
	Options     json.RawMessage `yaml:"options"`     // a mapping of options that requests have unless they give them
	// longest one that requests may set, and the one of requests that set none; absent: any
	MaxDuration time.Duration `yaml:"max_duration"`
	Budget      int           `yaml:"budget"`      // of tasks that have none; absent: none
	BudgetUnit  string        `yaml:"budget_unit"` // of the budget; absent: the one in which the platform charges
	Format      string        `yaml:"format"`      // of requests that name none
	Users       *RuleUsers    `yaml:"users"`       // who may run the services; absent: everybody
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
	Echo bool `yaml:"echo" default:"false"` // offer the process that suites test servers with
}

// Hooks limits where users' hooks may be.
type Hooks struct {
	// origins, which may have private addresses and use http; any other URL needs https and a public address
	Trusted []string `yaml:"trusted"`
	Mail    Mail     `yaml:"mail"`
}

// Mail names the server that mails of hooks are sent by.
type Mail struct {
	Server     string          `yaml:"server"` // host:port; "": no mail is sent
	From       string          `yaml:"from"`
	Encryption mail.Encryption `yaml:"encryption" default:"starttls" oneof:"starttls implicit none"`
	Username   string          `yaml:"username"`
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
	AllowHosts []string `yaml:"allow_hosts"` // empty: any public host, with https
}

// Limits limits the broker's clients.
type Limits struct {
	Body      Size `yaml:"body" default:"10MiB"`
	Values    int  `yaml:"values" default:"10000"`              // of one task
	UserJobs  int  `yaml:"user_jobs" default:"100000"`          // jobs of one user that have not ended
	UserDaily int  `yaml:"user_jobs_per_day" default:"1000000"` // jobs that one user submits in 24 hours
	// bytes of the requests of one user's jobs that have not ended
	UserBytes Size `yaml:"user_bytes" default:"1GiB"`
	// memory of the process; absent: the container's limit
	Memory      Size `yaml:"memory"`
	Connections int  `yaml:"connections" default:"10000"` // open connections of each process
	// requests of one user to each process; absent: unlimited
	RateUser Pace `yaml:"rate_user"`
	// requests of one address to each process; absent: unlimited
	RateAddress Pace `yaml:"rate_address"`
	// requests of one address to the sign-in pages of each process
	RateSignIn Pace `yaml:"rate_sign_in" default:"10/s"`
	// requests of one user that each process serves at once
	UserRequests int `yaml:"user_requests" default:"16"`
	// requests of one address without a known user that each process serves at once
	AddressRequests int `yaml:"address_requests" default:"512"`
	// WebSockets of one user in each process, and waiting requests of one user
	Streams int `yaml:"streams" default:"100"`
}

// Streams configures how WebSockets are opened.
type Streams struct {
	QueryTokens bool `yaml:"query_token" default:"true"` // accept access tokens in the query
}

// Compat switches on behavior that clients of the replaced service rely on. The variables of that service switch it on.
type Compat struct {
	SubmittedAsCreated bool `yaml:"submitted_as_created" default:"false"`
	ObjectAsString     bool `yaml:"object_as_string" default:"false"` // in POST /params, also arrays
}

// CORS lists the origins whose pages may call the broker; empty: none.
type CORS struct {
	AllowedOrigins []string `yaml:"allowed_origins"`
}

// About is the head of the OpenAPI document.
type About struct {
	Title       string `yaml:"title" default:"eodispatch"`
	Description string `yaml:"description"`
	Version     string `yaml:"version"` // "": that of the program
}

// Retention is for how long what belongs to ended jobs is kept, see dispatch.Retention. Absent: for ever.
type Retention struct {
	Results  time.Duration `yaml:"results"`
	Requests time.Duration `yaml:"requests"`
	Jobs     time.Duration `yaml:"jobs"`
	Platform time.Duration `yaml:"platform"`           // what platforms hold of them
	Keys     time.Duration `yaml:"keys" default:"24h"` // idempotency keys, from their first use
}

// Telemetry configures the private listener with metrics, readiness and profiles.
type Telemetry struct {
	Listen string `yaml:"listen" default:"127.0.0.1:9090"` // host:port, or TelemetryOff
}

// Operator configures what is kept for operators.
type Operator struct {
	History time.Duration `yaml:"history" default:"168h"` // how long what happened to a job is kept
}

// TelemetryOff is the address of a private listener that is not opened.
const TelemetryOff = "off"

// TelemetryDefault is the address of the private listener if none is configured.
const TelemetryDefault = "127.0.0.1:9090"

// Log configures the format and level of the log.
type Log struct {
	Format string     `yaml:"format" default:"auto" oneof:"auto text json"`
	Level  slog.Level `yaml:"level" default:"info"`
}
