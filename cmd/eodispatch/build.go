package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	facadeogcapi "github.com/eodispatch/eodispatch/api/facade/ogcapi"
	facadeopeneo "github.com/eodispatch/eodispatch/api/facade/openeo"
	facadestac "github.com/eodispatch/eodispatch/api/facade/stac"
	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/api/pages"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/notify/events"
	"github.com/eodispatch/eodispatch/observe/history"
	"github.com/eodispatch/eodispatch/observe/operator"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/observe/tracing"
	"github.com/eodispatch/eodispatch/platform/echo"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/visit/engine"
	"github.com/eodispatch/eodispatch/web"
)

// keepHidden is how long a deleted job stays in the database after it has ended.
const keepHidden = 7 * 24 * time.Hour

// keepSources is how long the database keeps what was read from a source of the catalogue that is no longer configured.
const keepSources = 30 * 24 * time.Hour

// assembly holds the parts of a running broker.
type assembly struct {
	store     *store.Store
	engine    *engine.Engine
	jobs      *broker.Broker
	access    *access
	offered   *catalogue.Catalogue
	retention dispatch.Retention
	seen      *telemetry.Telemetry
	sender    *events.Sender
	lost      *losses
	past      *history.Recorder
	keepPast  time.Duration
	handler   api.API
	log       *slog.Logger
}

// wallClock is the real time.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// jobStore stores jobs for a broker and its engine.
type jobStore interface {
	broker.Stores
	engine.Store
}

// seams are hooks for fault injection. They are empty except in builds with the tag failpoints.
var seams = struct {
	store   func(jobStore) jobStore
	hooks   func(events.Outbox) events.Outbox
	network func(upstream.Config) upstream.Config
	timing  dispatch.Timing // waiting times that have no setting
}{store: func(s jobStore) jobStore { return s }, hooks: func(h events.Outbox) events.Outbox { return h },
	network: func(c upstream.Config) upstream.Config { return c }}

// build assembles a broker. It contacts neither platforms nor identity providers, so an unavailable one does not delay
// the start; only the database must answer.
func build(ctx context.Context, settings *config.Config, db *store.Store, seen *telemetry.Telemetry,
	traces *tracing.Tracing, log *slog.Logger) (*assembly, error) {
	log = slog.New(call.LogHandler(log.Handler()))
	memory := findMemoryLimit(settings, memlimit.FromCgroup)
	memory.apply(log)
	backends := platforms(settings, traces)
	verifiers, err := identity.NewVerifiers(verifiersOf(settings))
	if err != nil {
		return nil, err
	}
	access, err := newAccess(settings, backends, db, seen, traces, log)
	if err != nil {
		return nil, err
	}
	if err := identity.Readable(ctx, db, access.ring); dispatch.DatabaseError(err) != nil {
		log.Warn("cannot check whether the vault keys open everything", "error", err)
	} else if err != nil {
		log.Error("vault keys are missing; permissions and hooks that need them are not used", "error", err)
	}
	installation, err := db.Installation(ctx)
	if err != nil {
		return nil, err
	}
	jobs := seams.store(db)
	past := history.New(seen, db, wallClock{}, log)
	b := broker.New(jobs, dispatch.Setup{Tokens: access, Backends: backends, Installation: installation, Log: log,
		Observer: past, Tracer: traces, Timing: seams.timing})
	bound(b, settings)
	lost := &losses{database: db, log: log}
	process := telemetry.Process{Durability: lost.last, Unsaved: b.Unsaved,
		Pools: func() []telemetry.Pool { return poolsOf(db) }, Refusals: bounds.Refusals}
	work := engine.New(engine.Config{Store: jobs, Visit: traces.Visits(seen.Visits(b.Visit)), Log: log,
		Lease:    longestLease(backends),
		Notifier: notifierOf(settings, &process, log), OnWake: b.Woken.Signal, OnBroadcast: b.HandleBroadcast,
		Platforms: namesOf(backends)})
	b.Engine, access.broker = work, b
	offered := offeredServices(settings, b, db, log)
	b.Describe = items.Describe
	b.Policies, b.Recorded = policies(settings.ServiceRules, offered), offered.Formats
	served := apiConfig(settings, b, db, offered, memory)
	served.Verifier, served.DocsSignIn, served.OnServed, served.Trace, served.Log = verifierOf(settings, verifiers),
		docsSignIn(settings, verifiers[settings.Identity.Issuer]), seen.RequestServed, traces.Request, log
	processes := processServer(settings, b, offered)
	sender, err := senderOf(settings, access, db, installation, processes, seen, log)
	if err != nil {
		return nil, err
	}
	served.Hooks, served.CreateHook, b.Targets = db, sender.Create, sender
	served.Files = &files.Facade{Broker: b, Backends: b.Backends, Secret: access.ring.LinkSecret(db.CursorKey())}
	served.Facades = []facade.Facade{backEnd(settings, b, db, offered, served.Files), processes,
		facadestac.New(facadestac.Config{Broker: b, Files: served.Files, Title: settings.About.Title,
			Description: settings.About.Description, Version: ownVersion()}), served.Files}
	if err := access.serve(&served); err != nil {
		return nil, err
	}
	handler := api.New(served)
	process.Streams = handler.Streams
	seen.Observe(process)
	seen.Offer(namesOf(backends))
	seen.ServeOperators(operator.Handler(operator.Config{Store: db, Key: db.OperatorKey(), End: b.EndJob,
		Hurry: work.Hurry, Platforms: namesOf(backends), Log: log}))
	return &assembly{store: db, engine: work, jobs: b, access: access, offered: offered,
		retention: retentionOf(settings), seen: seen, lost: lost, past: past, sender: sender,
		keepPast: settings.Operator.History, log: log, handler: handler}, nil
}

// bound gives a broker the limits and times of the configuration.
func bound(b *broker.Broker, settings *config.Config) {
	b.UserJobs, b.UserDaily, b.UserBytes, b.AreaOf = settings.Limits.UserJobs, settings.Limits.UserDaily,
		int64(settings.Limits.UserBytes), grid.AreaOf
	b.Timing.SignInWithin, b.Timing.GiveUpAfter, b.Timing.StalledAfter = settings.Identity.GiveUpAfter,
		settings.GiveUpAfter, settings.StalledAfter
}

// apiConfig is what the HTTP interface is configured with by the settings alone.
func apiConfig(settings *config.Config, b *broker.Broker, db *store.Store, offered *catalogue.Catalogue,
	memory memoryLimit) api.Config {
	return api.Config{
		Services: offered, OpenCatalogue: settings.Catalogue.Open,
		Broker: b, Health: db.Ping,
		Endpoints: endpoints(settings.Platforms), Title: settings.About.Title, Description: settings.About.Description,
		Version: ownVersion(), DocumentVersion: settings.About.Version, Freshness: settings.Freshness,
		Secret:  db.CursorKey(),
		UseOnce: db.UseOnce, NoQueryToken: !settings.Streams.QueryTokens,
		PublicURL: settings.PublicURL, CORSOrigins: settings.CORS.AllowedOrigins,
		Limits: limits.Limits{Body: int64(settings.Limits.Body), Values: settings.Limits.Values,
			Sockets: settings.Limits.Streams, Rendering: memory.rendering(),
			UserPace: time.Duration(settings.Limits.RateUser), AddressPace: time.Duration(settings.Limits.RateAddress),
			SignInPace:   time.Duration(settings.Limits.RateSignIn),
			UserRequests: settings.Limits.UserRequests, AddressRequests: settings.Limits.AddressRequests},
		PublicSignIn: &pages.PublicSignIn{Issuer: settings.Identity.Issuer, Others: furtherIssuers(settings),
			ClientID: settings.Identity.CommandLineClient},
		Proxies: proxies(settings),
		Compat:  openapi.Compat(settings.Compat), Page: pageOf(settings),
	}
}

// backEnd returns the broker as an openEO back-end.
func backEnd(settings *config.Config, b *broker.Broker, db *store.Store,
	offered *catalogue.Catalogue, passed *files.Facade) *facadeopeneo.Facade {
	id := settings.Identity
	return facadeopeneo.New(facadeopeneo.Config{Broker: b, Backends: b.Backends, Processes: db, Services: offered,
		Files: passed, Title: settings.About.Title, Version: ownVersion(), Secret: passed.Secret,
		SignIn: facadeopeneo.SignIn{Issuer: id.Issuer, ClientID: cmp.Or(id.OpenEOClient, id.CommandLineClient),
			Pages: id.OpenEOPages}})
}

// processServer returns the broker as a server of OGC API - Processes.
func processServer(settings *config.Config, b *broker.Broker, offered *catalogue.Catalogue) *facadeogcapi.Facade {
	c := facadeogcapi.Config{Broker: b, Services: offered, Backends: b.Backends, Title: settings.About.Title,
		Description: settings.About.Description, Version: ownVersion(),
		Open: settings.Catalogue.Open, Freshness: settings.Freshness, MostTiles: settings.Limits.Values}
	if settings.OGCAPI.Echo {
		c.Echo = echo.Process
	}
	return facadeogcapi.New(c)
}

// pageOf returns the page that was built into the program, and its settings.
func pageOf(settings *config.Config) pages.Page {
	p := pages.Page{Files: web.Page(), Development: settings.Development, Mail: settings.Hooks.Mail.Server != ""}
	if settings.Identity.Issuer != "" && slices.ContainsFunc(settings.Platforms, linksAccounts) {
		p.Account = accountPage(settings.Identity.Issuer)
	}
	if m := settings.Page.BaseMap; m != nil {
		p.BaseMap = &pages.BaseMap{URL: m.URL, Attribution: m.Attribution}
	}
	return p
}

// docsSignIn returns the sign-in on the documentation page; nil without a client for it.
func docsSignIn(settings *config.Config, verifier *identity.Verifier) *pages.DocsSignIn {
	if settings.Identity.DocsClient == "" {
		return nil
	}
	return &pages.DocsSignIn{ClientID: settings.Identity.DocsClient, Endpoints: verifier.SignInEndpoints}
}

// endpoints returns the endpoint of the first platform of each protocol.
func endpoints(platforms []config.Platform) map[dispatch.Label]string {
	first := map[dispatch.Label]string{}
	for _, p := range platforms {
		if label := p.Protocol.Label(); first[label] == "" {
			first[label] = p.Endpoint
		}
	}
	return first
}

// proxies returns the networks of trusted proxies, which were validated with the settings.
func proxies(settings *config.Config) (networks []netip.Prefix) {
	for _, p := range settings.Proxies {
		networks = append(networks, netip.MustParsePrefix(p))
	}
	return networks
}

// notifierOf returns what reaches other processes: nil on SQLite, whose file only one process may use.
func notifierOf(settings *config.Config, process *telemetry.Process, log *slog.Logger) engine.Notifier {
	if !allowsSeveral(settings.Database.Reveal()) {
		return nil
	}
	notifier := engine.NewPostgres(cmp.Or(settings.Direct, settings.Database).Reveal(), log)
	process.Notifications = notifier.Listening
	return notifier
}

// poolsOf returns the state of the store's pools for the metrics.
func poolsOf(db *store.Store) (all []telemetry.Pool) {
	for _, p := range db.Pools() {
		all = append(all, telemetry.Pool{Name: p.Name, Used: p.Used, Idle: p.Idle, Max: p.Max,
			Waited: p.Waited.Seconds()})
	}
	return all
}

func namesOf(backends []*dispatch.Backend) (names []string) {
	for _, b := range backends {
		names = append(names, b.Name)
	}
	return names
}

func longestLease(backends []*dispatch.Backend) (longest time.Duration) {
	for _, b := range backends {
		longest = max(longest, b.Limits.Lease())
	}
	return longest
}

// runEngine runs the engine and the periodic clean-up until ctx is done. The returned channel is closed when both have
// ended.
func (b *assembly) runEngine(ctx context.Context) <-chan struct{} {
	var all sync.WaitGroup
	for _, run := range []func(context.Context){b.cleanUpRegularly, b.lost.watch, b.past.Run, b.offered.Run,
		b.sender.Run} {
		all.Go(func() { run(ctx) })
	}
	all.Go(func() { b.access.refreshRegularly(ctx, b.runGuarded) })
	for op, run := range map[string]func(context.Context){"spreading tasks": b.jobs.SpreadTasks,
		"reading results": b.jobs.KeepItems, "finishing changes": b.jobs.FinishChanges,
		"counting for the metrics": func(ctx context.Context) {
			b.seen.CollectStats(ctx, b.store, b.jobs.Backends, b.log)
		}} {
		all.Go(func() { b.runGuarded(ctx, op, func() error { run(ctx); return nil }) })
	}
	all.Go(func() {
		b.engine.Run(ctx)
		b.jobs.Drain()
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}

// documentsWithin limits one check of the documents of waiting jobs.
const documentsWithin = 30 * time.Minute

// cleanUpRegularly periodically deletes what is older than the settings keep, hidden jobs and other expired rows, and
// checks whether the documents of waiting jobs have changed.
func (b *assembly) cleanUpRegularly(ctx context.Context) {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		b.runGuarded(ctx, "deleting what is older than retention",
			func() error { return b.store.Retain(ctx, b.retention) })
		b.runGuarded(ctx, "purge", func() error { return b.store.Purge(ctx, keepHidden) })
		b.runGuarded(ctx, "purging the history of jobs", func() error { return b.store.PurgeEvents(ctx, b.keepPast) })
		b.runGuarded(ctx, "purging sources of the catalogue",
			func() error { return b.store.PurgeSources(ctx, keepSources) })
		b.runGuarded(ctx, "revalidating documents", func() error { return b.revalidate(ctx) })
		select {
		case <-hourly.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *assembly) revalidate(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, documentsWithin)
	defer cancel()
	return b.jobs.Revalidate(within)
}

// runGuarded runs f and logs its failure unless ctx is done. A panic counts as a failure: background work must not end
// the process.
func (b *assembly) runGuarded(ctx context.Context, op string, f func() error) {
	caught := func() (err error) {
		defer dispatch.RecoverAsError(ctx, b.log, op, &err)
		return f()
	}
	if err := caught(); err != nil && ctx.Err() == nil {
		b.log.Warn(op+" failed", "error", err)
	}
}

// platforms creates the configured back-ends.
func platforms(settings *config.Config, traces *tracing.Tracing) []*dispatch.Backend {
	client := upstream.New(seams.network(upstream.Config{
		UserAgent: "eodispatch/" + ownVersion(), Development: settings.Development, Trust: trusted(settings),
		Trace: traces.Outgoing(receivesTraces(settings)),
	}))
	var backends []*dispatch.Backend
	for _, p := range settings.Platforms {
		backends = append(backends, &dispatch.Backend{
			Name: p.Name, Label: p.Protocol.Label(), Endpoint: p.Endpoint, Aliases: p.Aliases, Access: p.Access,
			Platform: adapter(p, client, settings.Applications.AllowHosts), Limits: limitsOf(p.Limits),
			AtLeastOnce: p.Submit == config.AtLeastOnce, ProxyAssets: p.Assets == config.ProxiedAssets,
			Quota: quota(p.Users), Entitled: entitlementCheck(p, settings),
			Failures:          failureRules(p.Failures),
			StartSettlesAfter: p.StartSettlesAfter,
		})
	}
	if settings.OGCAPI.Echo {
		backends = append(backends, echo.Backend(wallClock{}))
	}
	return backends
}

func adapter(p config.Platform, client *upstream.Client, allowHosts []string) dispatch.Platform {
	if p.Protocol == config.OGCProcess {
		return ogcapi.New(ogcapi.Config{Name: p.Name, Endpoint: p.Endpoint, Aliases: p.Aliases, Client: client,
			AllowHosts: allowHosts, Permits: sharedPermits(p)})
	}
	return openeo.New(openeo.Config{Name: p.Name, Endpoint: p.Endpoint, TokenPrefix: p.TokenPrefix, Client: client,
		AllowHosts: allowHosts, Permits: sharedPermits(p)})
}

// sharedPermits returns the slots and rates of a shared account.
func sharedPermits(p config.Platform) dispatch.Permits {
	if p.ServiceAccount == nil {
		return nil
	}
	return dispatch.NewPermits(p.ServiceAccount.Allow)
}

// failureRules returns the rules of a configuration that was checked.
func failureRules(all []config.Failure) (rules dispatch.FailureRules) {
	for _, f := range all {
		rules = append(rules, dispatch.FailureRule{Matches: regexp.MustCompile(f.Matches), Cause: f.Cause})
	}
	return rules
}

func quota(u *config.Users) dispatch.Quota {
	if u == nil {
		return dispatch.Quota{}
	}
	return dispatch.Quota{Live: u.Jobs, Daily: u.Daily, Costs: float64(u.Costs)}
}

// entitlementCheck returns a check whether the token of a request has the configured entitlement, and is of an issuer
// whose users may use the platform.
func entitlementCheck(p config.Platform, settings *config.Config) func(context.Context) bool {
	u, closed := p.Users, issuersWithout(p.Name, settings)
	claimed := u != nil && u.Claim != ""
	if !claimed && len(closed) == 0 {
		return nil
	}
	return func(ctx context.Context) bool {
		caller := call.In(ctx).Caller
		return !slices.Contains(closed, caller.Issuer) && (!claimed || caller.Has(u.Claim, u.AnyOf))
	}
}

// issuersWithout returns the issuers whose users may not use a platform.
func issuersWithout(platform string, settings *config.Config) (closed []string) {
	for _, i := range settings.Issuers {
		if i.Platform(platform) == nil {
			closed = append(closed, i.Issuer)
		}
	}
	return closed
}

func limitsOf(l config.PlatformLimits) dispatch.Limits {
	return dispatch.Limits{Jobs: l.Jobs, Requests: l.Requests, Pace: time.Duration(l.Rate), Send: l.Send,
		MinPoll: l.MinPoll, FreeStalled: l.FreeStalled}
}

// trusted lists the hosts that the operator configured; these may have private addresses.
func trusted(settings *config.Config) []string {
	var urls []string
	for _, p := range settings.Platforms {
		urls = append(append(urls, p.Endpoint), p.Aliases...)
	}
	return urls
}

// verifiersOf returns which tokens are accepted, of the first issuer and then of the others.
func verifiersOf(settings *config.Config) []identity.Config {
	id, client := settings.Identity, identityClient(settings, nil)
	all := []identity.Config{{Issuer: id.Issuer, Audience: id.Audience, Clients: id.Clients, Client: client,
		Development: settings.Development}}
	for _, i := range settings.Issuers {
		all = append(all, identity.Config{Issuer: i.Issuer, Audience: i.Audience, Clients: i.Clients, Client: client,
			Development: settings.Development})
	}
	return all
}

// verifierOf returns the verifier of all tokens. Where there is one issuer, no token is read to find its issuer.
func verifierOf(settings *config.Config, all identity.Verifiers) api.Verifier {
	if len(settings.Issuers) == 0 {
		return all[settings.Identity.Issuer]
	}
	return all
}

// identityClient returns the HTTP client for identity providers.
func identityClient(settings *config.Config, traces *tracing.Tracing) *upstream.Client {
	return upstream.New(upstream.Config{
		UserAgent: "eodispatch/" + ownVersion(), Development: settings.Development, Trust: trustedProviders(settings),
		Trace: traces.Outgoing(receivesNone),
	})
}

// trustedProviders lists the identity providers that the operator configured; these may have private addresses. The
// issuer of a service account's provider comes from the platform, even where it is pinned, and must have a public
// address.
func trustedProviders(settings *config.Config) []string {
	urls := []string{settings.Identity.Issuer}
	for _, i := range settings.Issuers {
		urls = append(urls, i.Issuer)
		for _, p := range i.Platforms {
			if p.Issuer != "" {
				urls = append(urls, p.Issuer)
			}
		}
	}
	for _, p := range settings.Platforms {
		if p.Issuer != "" {
			urls = append(urls, p.Issuer)
		}
		a := p.ServiceAccount
		if a == nil || a.Provider != "" {
			continue
		}
		for _, address := range []string{a.TokenURL, a.Issuer} {
			if address != "" {
				urls = append(urls, address)
			}
		}
	}
	return urls
}

func tokensOf(settings *config.Config, backends []*dispatch.Backend, traces *tracing.Tracing,
	log *slog.Logger) identity.TokensConfig {
	c := identity.TokensConfig{Issuer: settings.Identity.Issuer, ClientID: settings.Identity.ClientID,
		ClientSecret: settings.Identity.ClientSecret, ClientKey: settings.Identity.ClientKey,
		Client: identityClient(settings, traces), Log: log, Development: settings.Development}
	for i, p := range settings.Platforms {
		access := identity.Platform{Name: p.Name, Access: p.Access, Issuer: p.Issuer}
		if p.Exchange != nil {
			access.Exchange = exchangeOf(*p.Exchange)
		}
		if p.ServiceAccount != nil {
			access.Account = serviceAccount(*p.ServiceAccount, issuers(settings, i, backends))
		}
		c.Platforms = append(c.Platforms, access)
	}
	if settings.OGCAPI.Echo {
		c.Platforms = append(c.Platforms, identity.Platform{Name: echo.Name, Access: dispatch.AccessOpen})
	}
	for _, i := range settings.Issuers {
		c.Issuers = append(c.Issuers, exchangesOf(i))
	}
	return c
}

// exchangesOf returns how the tokens of a further issuer's users are exchanged. Users link their accounts at their own
// issuer: the pages of the broker sign users of the first issuer in.
func exchangesOf(i config.Issuer) identity.IssuerConfig {
	c := identity.IssuerConfig{Issuer: i.Issuer, ClientID: i.ClientID, ClientSecret: i.ClientSecret,
		ClientKey: i.ClientKey}
	for _, p := range i.Platforms {
		if p.Exchange == nil {
			continue
		}
		own := identity.Platform{Name: p.Name, Access: dispatch.AccessUser, Issuer: p.Issuer,
			Exchange: exchangeOf(*p.Exchange), LinkLife: p.Exchange.LinkLife}
		if usesLinks(*p.Exchange) {
			own.Link = accountPage(i.Issuer)
		}
		c.Platforms = append(c.Platforms, own)
	}
	return c
}

func furtherIssuers(settings *config.Config) (issuers []string) {
	for _, i := range settings.Issuers {
		issuers = append(issuers, i.Issuer)
	}
	return issuers
}

func exchangeOf(e config.Exchange) identity.Exchange {
	return identity.Exchange{Driver: e.Driver, Alias: e.Alias, Audience: e.Audience, ClientID: e.ClientID,
		ClientSecret: e.ClientSecret, ClientKey: e.ClientKey}
}

// issuers returns the openEO platform that lists the identity providers of platform i: itself, or its openEO side.
func issuers(settings *config.Config, i int, backends []*dispatch.Backend) *openeo.Platform {
	for j, p := range settings.Platforms {
		if platform, ok := backends[j].Platform.(*openeo.Platform); ok && p.Endpoint == settings.Platforms[i].Endpoint {
			return platform
		}
	}
	return nil
}

func serviceAccount(a config.ServiceAccount, platform *openeo.Platform) identity.ServiceAccount {
	account := identity.ServiceAccount{TokenURL: a.TokenURL, Issuer: a.Issuer, ClientID: a.ClientID,
		ClientSecret: a.ClientSecret, ClientKey: a.ClientKey}
	if a.Provider != "" && platform != nil {
		account.Issuer, account.Pinned = "", a.Issuer
		account.FindIssuer = func(ctx context.Context) (string, error) {
			return platform.ProviderIssuer(ctx, a.Provider)
		}
	}
	return account
}
