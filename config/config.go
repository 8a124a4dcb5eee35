// Package config reads how the broker is set up: a YAML file, EODISPATCH_… variables, and the variables of the service
// that this one replaces. Whatever is wrong is reported at once, each with its place and what to do.
package config

import (
	"log/slog"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Config is a configuration that was checked. The tag `yaml` names a key, `default` is what it is when absent, `oneof`
// lists what it may be.
type Config struct {
	Listen        string          `yaml:"listen" default:"127.0.0.1:8080"` // host:port
	TLS           TLS             `yaml:"tls"`
	PublicURL     string          `yaml:"public_url"`      // where clients reach the broker; "": not told
	Proxies       []string        `yaml:"trusted_proxies"` // networks of proxies whose X-Forwarded-For is believed
	Database      dispatch.Secret `yaml:"database" default:"sqlite:eodispatch.db"`
	Identity      Identity        `yaml:"identity"`
	Vault         Vault           `yaml:"vault"`
	Platforms     []Platform      `yaml:"platforms"`
	Applications  Applications    `yaml:"applications"`
	Development   bool            `yaml:"development" default:"false"` // allows http, private addresses and literal secrets
	Limits        Limits          `yaml:"limits"`
	Streams       Streams         `yaml:"streams"`
	Compat        Compat          `yaml:"compat"`
	CORS          CORS            `yaml:"cors"`
	About         About           `yaml:"about"`
	Log           Log             `yaml:"log"`
	Freshness     time.Duration   `yaml:"freshness" default:"10s"`      // how old a status may be that clients are told
	ShutdownGrace time.Duration   `yaml:"shutdown_grace" default:"40s"` // longer than any platform's limits.send

	// GiveUpAfter is how long a job is tried for that the platform turns away, or that cannot be found out about.
	GiveUpAfter time.Duration `yaml:"give_up_after" default:"24h"`
	// StalledAfter is how long a platform may say the same of a job until its owner is told, and PlatformLimits.FreeStalled frees its slot.
	StalledAfter time.Duration `yaml:"stalled_after" default:"6h"`

	// Notes are what an operator should be told at the start though it is no error.
	Notes []string `yaml:"-"`
}

// TLS names the files, in PEM, with which the broker serves by TLS itself; both or none. They are read again when they change.
type TLS struct {
	CertFile string `yaml:"cert"` // the chain, the broker's own first
	KeyFile  string `yaml:"key"`
}

// Identity is the provider whose tokens the broker's clients bring, and the broker's own client there.
type Identity struct {
	Issuer       string          `yaml:"issuer"`
	Audience     []string        `yaml:"audience"` // absent: the client's id
	Clients      []string        `yaml:"clients"`  // whose tokens are taken by their azp, whatever their aud is
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // in place of the secret: a private key in PEM

	SessionGrants bool          `yaml:"session_grants" default:"true"` // act on from users' sessions, where the provider gives leave
	GiveUpAfter   time.Duration `yaml:"give_up_after" default:"336h"`  // how long waiting jobs wait for their user
}

// Vault says how secrets of users are kept. Without keys none are.
type Vault struct {
	Keys dispatch.Secret `yaml:"keys"` // see identity.ParseKeyring
}

// Platform is one external back-end. One that is given without a protocol becomes two: NAME for openEO, and NAME-ogc for
// OGC API - Processes.
type Platform struct {
	Name           string          `yaml:"name"`
	Protocol       Protocol        `yaml:"protocol" oneof:"openeo ogc-api-processes"`
	Endpoint       string          `yaml:"endpoint"`
	Aliases        []string        `yaml:"aliases"`
	Access         dispatch.Access `yaml:"access" oneof:"user shared open"`
	Exchange       *Exchange       `yaml:"exchange"`        // set where access is user
	ServiceAccount *ServiceAccount `yaml:"service_account"` // set where access is shared
	Users          *Users          `yaml:"users"`           // not where access is user
	TokenPrefix    string          `yaml:"token_prefix"`    // openEO: what goes before the token; "": derived by issuer
	Issuer         string          `yaml:"issuer"`          // of the platform's tokens; "": not known
	Limits         PlatformLimits  `yaml:"limits"`
	Submit         Submit          `yaml:"submit" default:"at_most_once" oneof:"at_most_once at_least_once"`

	// StartSettlesAfter is for openEO, see dispatch.Backend; absent: learned.
	StartSettlesAfter time.Duration `yaml:"start_settles_after"`
}

// Protocol is what a platform speaks.
type Protocol string

const (
	OpenEO     Protocol = "openeo"
	OGCProcess Protocol = "ogc-api-processes"
)

// Label is the label of the jobs that a platform of this protocol takes.
func (p Protocol) Label() dispatch.Label {
	if p == OGCProcess {
		return dispatch.OGCProcess
	}
	return dispatch.OpenEO
}

// Submit says what to do with a submission whose fate cannot be found out.
type Submit string

const (
	AtMostOnce  Submit = "at_most_once"
	AtLeastOnce Submit = "at_least_once"
)

// The exchange drivers.
const (
	KeycloakBroker          = "keycloak-broker"           // Keycloak's Identity Brokering API, version 2
	KeycloakRequestedIssuer = "keycloak-requested-issuer" // Keycloak's legacy token exchange (V1): requested_issuer=alias
	TokenExchange           = "token-exchange"            // RFC 8693 at our own provider, for another audience
	JWTGrant                = "jwt-grant"                 // RFC 8693 at ours, then RFC 7523 at the platform's
	Passthrough             = "passthrough"               // the caller's own token
)

// Exchange is how the caller's token becomes one that the platform takes.
type Exchange struct {
	Driver   string `yaml:"driver" oneof:"keycloak-broker keycloak-requested-issuer token-exchange jwt-grant passthrough"`
	Alias    string `yaml:"alias"`    // keycloak-…: of the platform's identity provider at ours
	Audience string `yaml:"audience"` // token-exchange: the platform at our provider; jwt-grant: absent, the platform's issuer

	LinkLife time.Duration `yaml:"link_life" default:"1h"` // keycloak-…: how long a link lasts that is not used

	// jwt-grant: the broker's own client at the platform's provider.
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // in place of the secret: a private key in PEM
}

// ServiceAccount is the one account under which all jobs of a platform run. Its tokens come from TokenURL, or from the
// token endpoint that Issuer's discovery document names, or from the issuer that the openEO back-end lists as Provider,
// which must then be Issuer where that is set.
type ServiceAccount struct {
	TokenURL     string          `yaml:"token_url"`
	Issuer       string          `yaml:"issuer"`
	Provider     string          `yaml:"provider"`
	ClientID     string          `yaml:"client_id"`
	ClientSecret dispatch.Secret `yaml:"client_secret"`
	ClientKey    dispatch.Secret `yaml:"client_key"` // in place of the secret: a private key in PEM
	Allow        []string        `yaml:"allow"`      // what requests may do under it, see dispatch.Permits
}

// Users says who may use an account that users share, and how much of it each.
type Users struct {
	Jobs  int      `yaml:"jobs"`         // that have not ended; absent: as many as limits.user_jobs
	Daily int      `yaml:"jobs_per_day"` // submitted in 24 hours; absent: as many as limits.user_jobs_per_day
	Claim string   `yaml:"claim"`        // of a user's token, see identity.Caller.Has; absent: everybody may
	AnyOf []string `yaml:"any_of"`       // what the claim must have one of
}

// PlatformLimits are the limits that the broker keeps towards a platform.
type PlatformLimits struct {
	Jobs     int           `yaml:"jobs"`                 // at the platform at once, per account; absent: as many as it takes
	Requests int           `yaml:"requests" default:"8"` // at once, per account
	Rate     Pace          `yaml:"rate"`                 // of requests, of all accounts together; absent: none
	MinPoll  time.Duration `yaml:"min_poll" default:"2s"`
	Send     time.Duration `yaml:"send" default:"30s"` // how long one request may take

	FreeStalled bool `yaml:"free_stalled" default:"false"` // a job that has not moved for StalledAfter takes no slot, see dispatch.Job.FreesSlot
}

// Applications says where the documents may lie that users name by URL.
type Applications struct {
	AllowHosts []string `yaml:"allow_hosts"` // empty: any public host, by https
}

// Limits are the limits that the broker keeps towards its clients.
type Limits struct {
	Body            Size `yaml:"body" default:"10MiB"`
	Values          int  `yaml:"values" default:"10000"`              // of one task
	UserJobs        int  `yaml:"user_jobs" default:"100000"`          // of one user that have not ended
	UserDaily       int  `yaml:"user_jobs_per_day" default:"1000000"` // that one user submits in 24 hours
	UserBytes       Size `yaml:"user_bytes" default:"1GiB"`           // of the requests of one user's jobs that have not ended
	Memory          Size `yaml:"memory"`                              // of the process; absent: as the container's limit says
	Connections     int  `yaml:"connections" default:"10000"`         // open at once, in each process
	RateUser        Pace `yaml:"rate_user"`                           // of one user's requests, in each process; absent: none
	RateAddress     Pace `yaml:"rate_address"`                        // likewise of one address
	RateSignIn      Pace `yaml:"rate_sign_in" default:"10/s"`         // likewise of one address, on the pages where users sign in
	UserRequests    int  `yaml:"user_requests" default:"16"`          // of one user that are worked on at once, in each process
	AddressRequests int  `yaml:"address_requests" default:"512"`      // likewise of one address, while the user is not known
	Streams         int  `yaml:"streams" default:"100"`               // WebSockets of one user, in each process; likewise requests that wait
}

// Streams says how WebSockets are opened.
type Streams struct {
	QueryTokens bool `yaml:"query_token" default:"true"` // by a token in the address, too
}

// Compat is what older clients need.
type Compat struct {
	SubmittedAsCreated bool `yaml:"submitted_as_created" default:"false"`
}

// CORS lists the web origins whose pages may call the broker; empty: none.
type CORS struct {
	AllowedOrigins []string `yaml:"allowed_origins"`
}

// About heads the OpenAPI document.
type About struct {
	Title       string `yaml:"title" default:"eodispatch"`
	Description string `yaml:"description"`
}

// Log says how the log is written.
type Log struct {
	Format string     `yaml:"format" default:"auto" oneof:"auto text json"`
	Level  slog.Level `yaml:"level" default:"info"`
}
