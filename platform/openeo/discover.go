package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// facts is what a back-end publishes about itself.
type facts struct {
	url    string // URL of the API version in use, without a trailing slash
	jwt    bool   // accepts a token without a prefix
	remote bool   // accepts process definitions by URL
	batch  bool   // has batch jobs
	sync   bool   // has synchronous runs
	unit   string // in which it charges; "": it does not

	versions dispatch.Versions
}

type version struct {
	URL        string `json:"url"`
	API        string `json:"api_version"`
	Production bool   `json:"production"` // by the specification false if absent
}

// maxFacts limits the documents that publish the facts, in bytes.
const maxFacts = 1 << 20

func (p *Platform) backendFacts(ctx context.Context) (facts, error) {
	return p.facts.Get(ctx, "", func(ctx context.Context, last facts) (facts, error) {
		base, doubt := p.discover(ctx)
		f, err := p.capabilities(ctx, base)
		if err != nil && doubt != nil {
			err = doubt
		}
		return f, p.factsError(err, last.url != "")
	})
}

// factsError converts an error of reading public facts for a job: the job waits until the platform responds or the
// operator has corrected the endpoint. What stands in place of facts that are known, such as a page about maintenance,
// says nothing about the endpoint.
func (p *Platform) factsError(err error, known bool) error {
	e, ok := err.(*dispatch.Error)
	switch {
	case !ok || upstream.NotAnswered(err):
		return err
	case known:
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: e.Op, Text: e.Text, Err: err}
	case e.Kind == dispatch.Unsupported || e.Kind == dispatch.Misconfigured:
		return err
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: e.Op, Text: "The endpoint of " + p.Name +
		" does not respond like an openEO API. " + e.Text, Err: err}
}

// absent reports whether a response says that the back-end lacks the resource.
func absent(a *upstream.Answer) bool {
	lacks := []int{http.StatusNotFound, http.StatusGone, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	return a != nil && slices.Contains(lacks, a.Status)
}

// discover returns the URL of the API version to use: from /.well-known/openeo, or the endpoint itself if that document
// is missing; then the error says why it should have been there. Only versions at the endpoint's own origin count,
// because tokens are sent nowhere else.
func (p *Platform) discover(ctx context.Context) (string, error) {
	const op = "openeo.discover"
	call := p.request(op, "GET", p.Endpoint+"/.well-known/openeo", "", nil)
	call.Limit = maxFacts
	a, err := p.Client.Do(ctx, call)
	var doc struct {
		Versions []version `json:"versions"`
	}
	switch {
	case err != nil && upstream.NotAnswered(err):
		return p.Endpoint, err
	case err != nil, upstream.JSON(a, op, &doc) != nil, len(doc.Versions) == 0:
		return p.Endpoint, nil
	}
	var here []version
	for _, v := range doc.Versions {
		if v.URL = stac.Resolve(a.URL, v.URL); upstream.SameOrigin(v.URL, p.Endpoint) {
			here = append(here, v)
		}
	}
	if len(here) == 0 {
		return p.Endpoint, &dispatch.Error{Kind: dispatch.Misconfigured, Op: op,
			Text: "The platform's API is at another address. Configure it as " +
				"endpoint: " + upstream.Text(doc.Versions[0].URL)}
	}
	best, ok := newestVersion(here)
	if !ok {
		return p.Endpoint, &dispatch.Error{Kind: dispatch.Unsupported, Op: op,
			Text: "The platform does not offer version 1 of the openEO API."}
	}
	return strings.TrimRight(best.URL, "/"), nil
}

// newestVersion returns the highest production version of major version 1; the highest of all if none is for
// production.
func newestVersion(versions []version) (version, bool) {
	usable := slices.DeleteFunc(slices.Clone(versions), func(v version) bool { return !isVersion1(v.API) })
	if len(usable) == 0 {
		return version{}, false
	}
	return slices.MaxFunc(usable, func(a, b version) int {
		if a.Production != b.Production {
			if a.Production {
				return 1
			}
			return -1
		}
		return semver.Compare("v"+a.API, "v"+b.API)
	}), true
}

// isVersion1 reports whether a version of the openEO API is one of major version 1. It may lack a patch number.
func isVersion1(api string) bool { return semver.Major("v"+api) == "v1" }

var (
	jwtClass    = regexp.MustCompile(`^https?://api\.openeo\.org/[^/]+/authentication/jwt/?$`)
	remoteClass = regexp.MustCompile(`^https?://api\.openeo\.org/extensions/remote-process-definition/`)
)

func (p *Platform) capabilities(ctx context.Context, base string) (facts, error) {
	const op = "openeo.capabilities"
	call := p.request(op, "GET", base+"/", "", nil)
	call.Limit = maxFacts
	a, err := p.Client.Do(ctx, call)
	if err != nil {
		return facts{}, refine(a, err)
	}
	var doc struct {
		Version   string   `json:"api_version"`
		Classes   []string `json:"conformsTo"`
		Endpoints []struct {
			Path    string   `json:"path"`
			Methods []string `json:"methods"`
		} `json:"endpoints"`
		Software json.RawMessage `json:"backend_version"`
		Billing  json.RawMessage `json:"billing"`
	}
	if err := upstream.JSON(a, op, &doc); err != nil {
		return facts{}, err
	}
	if !isVersion1(doc.Version) {
		return facts{}, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op,
			Text: "The platform does not implement version 1 of the openEO API."}
	}
	var billing map[string]json.RawMessage
	_ = json.Unmarshal(doc.Billing, &billing) // a platform that names no currency charges nothing
	f := facts{url: base, batch: len(doc.Endpoints) == 0, sync: len(doc.Endpoints) == 0,
		unit: unitName(billing["currency"])}
	f.versions = dispatch.Versions{Version: upstream.Version(stac.Text(doc.Software)),
		API: upstream.Version(doc.Version)}
	f.jwt = slices.ContainsFunc(doc.Classes, jwtClass.MatchString)
	f.remote = slices.ContainsFunc(doc.Classes, remoteClass.MatchString)
	for _, e := range doc.Endpoints {
		post := slices.Contains(e.Methods, http.MethodPost)
		f.batch, f.sync = f.batch || e.Path == "/jobs" && post, f.sync || e.Path == "/result" && post
	}
	return f, nil
}

// maxUnit limits the name of a unit in characters.
const maxUnit = 40

// unitName returns the name of a unit that a platform sent; "" for none, and for a text that is no name.
func unitName(raw json.RawMessage) string {
	name := upstream.Text(stac.Text(raw))
	if len(name) > maxUnit {
		return ""
	}
	return name
}

type provider struct {
	ID     string `json:"id"`
	Issuer string `json:"issuer"`
}

// bearer returns what follows "Bearer " for a token: the configured prefix and the token; the token alone, if the
// back-end has the conformance class for that or no OpenID Connect; or oidc/{provider}/{token}.
func (p *Platform) bearer(ctx context.Context, t dispatch.Token) (dispatch.Secret, error) {
	switch {
	case t.Secret == "":
		return "", nil
	case p.TokenPrefix != "":
		return prefixed(p.TokenPrefix, t.Secret), nil
	}
	f, err := p.backendFacts(ctx)
	if err != nil {
		return "", err
	}
	if f.jwt && strings.Count(t.Secret.Reveal(), ".") == 2 {
		return t.Secret, nil
	}
	providers, err := p.providers.Get(ctx, "", p.fetchProviders)
	if err != nil || len(providers) == 0 {
		return t.Secret, err
	}
	id, err := providerFor(providers, t.Issuer)
	return prefixed("oidc/"+id, t.Secret), err
}

// factsAndBearer returns the back-end's facts, and what follows "Bearer " for a token.
func (p *Platform) factsAndBearer(ctx context.Context, t dispatch.Token) (facts, dispatch.Secret, error) {
	f, err := p.backendFacts(ctx)
	if err != nil {
		return facts{}, "", err
	}
	bearer, err := p.bearer(ctx, t)
	return f, bearer, err
}

// prefixed joins the prefix and the token; the prefix of a basic token is "basic/".
func prefixed(prefix string, t dispatch.Secret) dispatch.Secret {
	if prefix == "basic" {
		prefix = "basic/"
	}
	return dispatch.Secret(prefix + "/" + t.Reveal())
}

func (p *Platform) fetchProviders(ctx context.Context, last []provider) ([]provider, error) {
	var doc struct {
		Providers []provider `json:"providers"`
	}
	a, err := p.get(ctx, "openeo.providers", "/credentials/oidc", "", &doc)
	if absent(a) && !(len(last) > 0 && upstream.OfProxy(a)) {
		return nil, nil
	}
	return doc.Providers, p.factsError(err, len(last) > 0)
}

// providerFor returns the back-end's id of an issuer. For an unknown issuer it is that of the first provider, which is
// the default.
func providerFor(providers []provider, issuer string) (string, error) {
	var offered []string
	for _, pr := range providers {
		if issuer == "" || strings.TrimRight(pr.Issuer, "/") == strings.TrimRight(issuer, "/") {
			return pr.ID, nil
		}
		offered = append(offered, pr.Issuer)
	}
	return "", &dispatch.Error{Kind: dispatch.Misconfigured, Op: "openeo.bearer", Text: upstream.Text(fmt.Sprintf(
		"The platform does not accept tokens of the issuer %s. It accepts those of: %s.", issuer, strings.Join(offered,
			", ")))}
}

// ProviderIssuer returns the issuer of the provider that the back-end lists under the id. It returns Misconfigured if
// there is none.
func (p *Platform) ProviderIssuer(ctx context.Context, id string) (string, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	providers, err := p.providers.Get(ctx, "", p.fetchProviders)
	if err != nil {
		return "", err
	}
	for _, known := range providers {
		if known.ID == id {
			return known.Issuer, nil
		}
	}
	return "", &dispatch.Error{Kind: dispatch.Misconfigured, Op: "openeo.ProviderIssuer",
		Text: "The platform lists no identity provider with that id."}
}

// formatNames maps names of formats in requests to openEO's.
var formatNames = map[string]string{"geojson": "GeoJSON", "json": "JSON", "netcdf": "netCDF", "gtiff": "GTiff"}

// format returns the back-end's name of an output format; "": of the usual one that it offers.
func (p *Platform) format(ctx context.Context, asked string) (string, error) {
	offered, err := p.formats.Get(ctx, "", p.fetchFormats)
	var names []string
	for _, o := range offered {
		names = append(names, o.Name)
	}
	if asked == "" {
		asked = cmp.Or(dispatch.UsualFormat(names), "gtiff")
	}
	name := dispatch.FormatName(asked)
	if err != nil || len(offered) == 0 {
		return cmp.Or(formatNames[name], asked), err
	}
	for _, own := range names {
		if dispatch.FormatName(own) == name {
			return own, nil
		}
	}
	return "", dispatch.InvalidBody("openeo.format", upstream.Text(fmt.Sprintf(
		"The platform does not support the output format %q. It supports: %s.", asked, strings.Join(names, ", "))),
		"format")
}

// Formats returns the output formats of the back-end, sorted by name; none if it does not list them. Of a service whose
// definition at a URL fixes the format, it is that one.
func (p *Platform) Formats(ctx context.Context, _ dispatch.Token, s dispatch.Service) (shown []dispatch.OutputFormat,
	err error) {
	fixed := ""
	if where, id := definedAt(s); isURL(where) {
		proc, err := p.definition(ctx, where, id)
		if err != nil {
			return nil, err
		}
		fixed = proc.savesAs
	}
	offered, err := p.formats.Get(ctx, "", p.fetchFormats)
	for _, o := range offered {
		if fixed != "" && !strings.EqualFold(o.Name, fixed) {
			continue
		}
		f := dispatch.OutputFormat{Name: upstream.Text(o.Name), Title: upstream.Text(o.Title)}
		for _, kind := range o.GISDataTypes {
			f.GISDataTypes = append(f.GISDataTypes, upstream.Text(kind))
		}
		shown = append(shown, f)
	}
	if len(shown) == 0 && fixed != "" {
		return []dispatch.OutputFormat{{Name: upstream.Text(fixed)}}, nil
	}
	return shown, err
}

// fetchFormats lists the output formats, sorted; none if the back-end does not list them. Titles and data types of
// wrong types are left out.
func (p *Platform) fetchFormats(ctx context.Context, last []dispatch.OutputFormat) ([]dispatch.OutputFormat, error) {
	var doc struct {
		Output map[string]json.RawMessage `json:"output"`
	}
	a, err := p.get(ctx, "openeo.formats", "/file_formats", "", &doc)
	if absent(a) && !(len(last) > 0 && upstream.OfProxy(a)) {
		return nil, nil
	}
	var formats []dispatch.OutputFormat
	for _, name := range slices.Sorted(maps.Keys(doc.Output)) {
		var f struct {
			Title string   `json:"title"`
			Types []string `json:"gis_data_types"`
		}
		if json.Unmarshal(doc.Output[name], &f) != nil {
			f.Title, f.Types = "", nil
		}
		formats = append(formats, dispatch.OutputFormat{Name: name, Title: f.Title, GISDataTypes: f.Types})
	}
	return formats, p.factsError(err, len(last) > 0)
}
