// Package openeo runs jobs on back-ends that implement the openEO API, versions 1.x.
//
// It follows https://api.openeo.org and the observed deviations of real back-ends. A job takes two requests with an
// effect: one creates it, inert and marked by a tag at the end of its title, and one starts it.
package openeo

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// Config is the configuration of one back-end.
type Config struct {
	Name string // for texts to the operator
	// URL as operators and users know it: of the API itself, or of the host that lists its versions
	Endpoint string
	// put before the token with a slash: "oidc/CDSE"; default: derived from the token's issuer
	TokenPrefix string
	Client      *upstream.Client // must trust Endpoint if that is private
	AllowHosts  []string         // hosts of process definitions; empty: any public host
	Permits     dispatch.Permits // permissions of requests under a shared account
	Now         func() time.Time // default time.Now
}

// Platform is a [dispatch.Platform] for one back-end. It caches the back-end's public facts and holds no user state.
type Platform struct {
	Config

	answers    *upstream.Share // memory for large responses
	publishing chan struct{}   // holds one entry for each request for a publication

	facts          *upstream.Cache[facts]
	providers      *upstream.Cache[[]provider]
	formats        *upstream.Cache[[]dispatch.OutputFormat]
	documents      *upstream.Cache[process]               // at users' URLs
	processes      *upstream.Cache[process]               // stored at the back-end, by id
	predefinedList *upstream.Cache[map[string]definition] // predefined at the back-end
	publications   *upstream.Cache[publication]           // what the back-end offers, by whose and path
}

var (
	_ dispatch.Platform    = (*Platform)(nil)
	_ dispatch.Lister      = (*Platform)(nil)
	_ dispatch.Canceler    = (*Platform)(nil)
	_ dispatch.Remover     = (*Platform)(nil)
	_ dispatch.SyncRunner  = (*Platform)(nil)
	_ dispatch.Logger      = (*Platform)(nil)
	_ dispatch.GraphRunner = (*Platform)(nil)
	_ dispatch.Prober      = (*Platform)(nil)
	_ dispatch.Formatter   = (*Platform)(nil)
)

const (
	factsLife   = 15 * time.Minute
	processLife = time.Minute // then a definition is requested again, with its ETag if it has one
)

// New returns a Platform. It sends no request.
func New(c Config) *Platform {
	c.Endpoint, c.TokenPrefix = strings.TrimRight(c.Endpoint, "/"), strings.TrimRight(c.TokenPrefix, "/")
	return &Platform{
		Config: c, answers: upstream.NewShare(),
		publishing: make(chan struct{}, publishedAtOnce),
		facts:      upstream.NewCache(upstream.CacheConfig[facts]{Now: c.Now, Fresh: factsLife}),
		providers:  upstream.NewCache(upstream.CacheConfig[[]provider]{Now: c.Now, Fresh: factsLife}),
		formats:    upstream.NewCache(upstream.CacheConfig[[]dispatch.OutputFormat]{Now: c.Now, Fresh: factsLife}),
		documents: upstream.NewCache(upstream.CacheConfig[process]{Now: c.Now, Fresh: processLife,
			MaxPause: documentPause, Size: process.weight}),
		processes: upstream.NewCache(upstream.CacheConfig[process]{Now: c.Now, Fresh: processLife,
			Size: process.weight}),
		predefinedList: upstream.NewCache(upstream.CacheConfig[map[string]definition]{Now: c.Now, Fresh: processLife}),
		publications: upstream.NewCache(upstream.CacheConfig[publication]{Now: c.Now, Fresh: publicationLife,
			Size: func(d publication) int { return d.size }}),
	}
}

// TwoStep returns true: a job is created, then started.
func (p *Platform) TwoStep() bool { return true }

// processName matches an id or a namespace. The specification allows word characters only; in the field there are also
// hyphens, and "u:someone" for a user's namespace.
var processName = regexp.MustCompile(`^[\w\-.:~@]+$`)

// Base checks that the application is the URL of a process definition, or the id of a process in the service's
// namespace (null: the user's own, then predefined). The namespace of an id may be the URL of its definition.
func (p *Platform) Base(s dispatch.Service) (string, error) {
	const op = "openeo.Base"
	if isURL(s.Application) {
		return "", p.allowed(op, s.Application, "application")
	}
	if !processName.MatchString(s.Application) {
		return "", dispatch.InvalidBody(op, "The application is neither a URL nor the id of a process.", "service",
			"application")
	}
	switch namespace := namespaceOf(s); {
	case isURL(namespace):
		return "", p.allowed(op, namespace, "namespace")
	case namespace != "" && !processName.MatchString(namespace):
		return "", dispatch.InvalidBody(op, "The namespace is neither a URL nor a name.", "service", "namespace")
	}
	return "", nil
}

func (p *Platform) allowed(op, raw, member string) error {
	if err := p.Client.Allowed(op, raw, p.AllowHosts); err != nil {
		return dispatch.InvalidBody(op, dispatch.TextFor(err), "service", member)
	}
	return nil
}

func isURL(s string) bool { return strings.Contains(s, "://") }

func namespaceOf(s dispatch.Service) string {
	if s.Namespace == nil {
		return ""
	}
	return *s.Namespace
}

// call sends one request to the back-end's API, at a path below the version in use.
func (p *Platform) call(ctx context.Context, op, method, path string, bearer dispatch.Secret,
	body []byte) (*upstream.Answer, error) {
	f, err := p.backendFacts(ctx)
	if err != nil {
		return nil, err
	}
	a, err := p.Client.Do(ctx, p.request(op, method, f.url+path, bearer, body))
	return a, refine(a, err)
}

func (p *Platform) request(op, method, url string, bearer dispatch.Secret, body []byte) upstream.Call {
	return upstream.Call{
		Op: op, Server: "platform " + p.Name, Method: method, URL: url, Token: bearer, Origin: p.Endpoint, Body: body,
		Effect: method != http.MethodGet,
		Header: http.Header{"Accept": {"application/json"}},
	}
}

func (p *Platform) get(ctx context.Context, op, path string, bearer dispatch.Secret, into any) (*upstream.Answer,
	error) {
	a, err := p.call(ctx, op, http.MethodGet, path, bearer, nil)
	if err != nil {
		return a, err
	}
	return a, upstream.JSON(a, op, into)
}

// jobID matches what the specification allows; "." and ".." would address something else.
var jobID = regexp.MustCompile(`^[\w\-.~]+$`)

// maxID is the maximum length of an identifier in bytes. Identifiers are stored with the job and put into URLs.
const maxID = 256

func validID(id string) bool {
	return len(id) <= maxID && jobID.MatchString(id) && id != "." && id != ".."
}

// onJob returns the path of a job, and what follows "Bearer ".
func (p *Platform) onJob(ctx context.Context, op string, t dispatch.Token, ref dispatch.Ref) (string, dispatch.Secret,
	error) {
	if !validID(ref.ID) {
		return "", "", &dispatch.Error{Kind: dispatch.NotFound, Op: op, Text: "The platform has no such job."}
	}
	bearer, err := p.bearer(ctx, t)
	return "/jobs/" + ref.ID, bearer, err
}

// Probe reads the back-end's facts and, if there is a token, tries it.
func (p *Platform) Probe(ctx context.Context, t dispatch.Token) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	if _, err := p.backendFacts(ctx); err != nil {
		return err
	}
	if t.Secret == "" {
		return nil
	}
	_, err := p.me(ctx, t)
	return err
}

// me returns what the back-end says about the user of a token; nil if it has no resource for that, which is allowed.
func (p *Platform) me(ctx context.Context, t dispatch.Token) (*upstream.Answer, error) {
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return nil, err
	}
	a, err := p.call(ctx, opMe, http.MethodGet, "/me", bearer, nil)
	if absent(a) {
		return nil, nil
	}
	return a, err
}

const opMe = "openeo.me"

// Balance returns the budget of the user of a token, in the currency of the back-end.
func (p *Platform) Balance(ctx context.Context, t dispatch.Token) (*dispatch.Amount, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	f, err := p.backendFacts(ctx)
	if err != nil || f.unit == "" { // it charges nothing
		return nil, err
	}
	a, err := p.me(ctx, t)
	if a == nil || err != nil {
		return nil, err
	}
	var user struct {
		Budget json.RawMessage `json:"budget"`
	}
	if err := upstream.JSON(a, opMe, &user); err != nil {
		return nil, err
	}
	left := number(user.Budget, -math.MaxFloat64, math.MaxFloat64)
	if left == nil {
		return nil, nil
	}
	return &dispatch.Amount{Value: *left, Unit: f.unit}, nil
}

// errorKinds maps the openEO error codes whose kind differs from that of their HTTP status. See
// https://api.openeo.org/draft/errors.json; back-ends send ConcurrentJobLimit and OidcSupportError unofficially.
var errorKinds = map[string]dispatch.Kind{
	"AuthenticationRequired":      dispatch.SignInRequired,
	"TokenInvalid":                dispatch.SignInRequired, // 403; also sent for a token that has just expired
	"CredentialsInvalid":          dispatch.SignInRequired,
	"AuthenticationSchemeInvalid": dispatch.Misconfigured, // another token prefix is needed
	"OidcSupportError":            dispatch.Misconfigured,
	"UnsupportedApiVersion":       dispatch.Misconfigured,
	"PermissionsInsufficient":     dispatch.Forbidden,
	"PaymentRequired":             dispatch.Forbidden,
	"StorageQuotaExceeded":        dispatch.Forbidden,
	"ConcurrentJobLimit":          dispatch.Busy,
	"InfrastructureBusy":          dispatch.Busy,
	"InfrastructureMaintenance":   dispatch.Busy,
	"JobNotFinished":              dispatch.Conflict,
	"JobNotStarted":               dispatch.Conflict,
	"JobLocked":                   dispatch.Conflict,
	"JobNotFound":                 dispatch.NotFound,
	"ProcessUnsupported":          dispatch.Invalid,
	"ProcessGraphNotFound":        dispatch.Invalid,
	"FeatureUnsupported":          dispatch.Unsupported,
}

// refine sets the kind that the response's openEO code means.
func refine(a *upstream.Answer, err error) error {
	e, ok := err.(*dispatch.Error)
	if !ok || a == nil {
		return err
	}
	if kind, known := errorKinds[codeOf(a)]; known {
		e.Kind = kind
	} else if a.Status == http.StatusPaymentRequired {
		e.Kind = dispatch.Forbidden
	} else if upstream.OfProxy(a) {
		e.Kind = dispatch.Unavailable
	}
	return e
}

// codeOf returns the openEO error code of a response; "" for none.
func codeOf(a *upstream.Answer) string {
	var body struct {
		Code any `json:"code"`
	}
	if a.Status < 400 || upstream.JSON(a, "", &body) != nil {
		return ""
	}
	code, _ := body.Code.(string)
	return code
}

// OpenFile implements [dispatch.FileOpener].
func (p *Platform) OpenFile(ctx context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return nil, err
	}
	return p.Client.Relay(ctx, upstream.Relay{Op: "openeo.OpenFile", FileRequest: r, Token: bearer, Origin: p.Endpoint})
}
