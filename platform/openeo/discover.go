package openeo

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// facts are what a back-end tells everybody about itself.
type facts struct {
	url    string // of the API version in use, without a slash at its end
	jwt    bool   // a token may be sent as it is
	remote bool   // takes process definitions by URL
	batch  bool   // has batch jobs
}

// version is one entry of /.well-known/openeo.
type version struct {
	URL        string `json:"url"`
	API        string `json:"api_version"`
	Production bool   `json:"production"` // false where it is absent, says the specification
}

// maxFacts is the size of the documents that tell them, in bytes.
const maxFacts = 1 << 20

// known gives the back-end's facts.
func (p *Platform) known(ctx context.Context) (facts, error) {
	return p.facts.Get(ctx, "", func(ctx context.Context, _ facts) (facts, error) {
		base, doubt := p.discover(ctx)
		f, err := p.capabilities(ctx, base)
		if err != nil && doubt != nil {
			err = doubt
		}
		return f, p.unusable(err)
	})
}

// unusable is what an error in asking for public facts means for a job: it waits, until the platform answers or the
// operator has mended the endpoint.
func (p *Platform) unusable(err error) error {
	e, ok := err.(*dispatch.Error)
	if !ok || upstream.Silent(err) || e.Kind == dispatch.Unsupported || e.Kind == dispatch.Misconfigured {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: e.Op, Text: "The endpoint of " + p.name + " does not answer as an openEO API does. " + e.Text, Err: err}
}

// absent reports whether an answer says that the back-end has no such resource.
func absent(a *upstream.Answer) bool {
	return a != nil && (a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusNotImplemented)
}

// discover finds the URL of the API version to use: what /.well-known/openeo says, or the endpoint itself where it says
// nothing, with an error where there should have been something. Only versions at the endpoint's own origin count, because
// tokens go nowhere else.
func (p *Platform) discover(ctx context.Context) (string, error) {
	const op = "openeo.discover"
	call := p.request(op, "GET", p.endpoint+"/.well-known/openeo", "", nil)
	call.Limit = maxFacts
	a, err := p.client.Do(ctx, call)
	var doc struct {
		Versions []version `json:"versions"`
	}
	switch {
	case err != nil && upstream.Silent(err):
		return p.endpoint, err
	case err != nil, upstream.JSON(a, op, &doc) != nil, len(doc.Versions) == 0:
		return p.endpoint, nil
	}
	var here []version
	for _, v := range doc.Versions {
		if v.URL = absolute(a.URL, v.URL); upstream.SameOrigin(v.URL, p.endpoint) {
			here = append(here, v)
		}
	}
	if len(here) == 0 {
		return p.endpoint, &dispatch.Error{Kind: dispatch.Misconfigured, Op: op,
			Text: "The platform's API is elsewhere, configure it as endpoint: " + upstream.Text(doc.Versions[0].URL)}
	}
	best, ok := choose(here)
	if !ok {
		return p.endpoint, &dispatch.Error{Kind: dispatch.Unsupported, Op: op, Text: "The platform offers no version 1 of the openEO API."}
	}
	return strings.TrimRight(best.URL, "/"), nil
}

// choose gives the highest production version of the API's major version 1; the highest of all where none is for
// production.
func choose(versions []version) (version, bool) {
	usable := slices.DeleteFunc(slices.Clone(versions), func(v version) bool {
		n, ok := parseSemVer(v.API)
		return !ok || n.core[0] != 1
	})
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
		x, _ := parseSemVer(a.API)
		y, _ := parseSemVer(b.API)
		return x.compare(y)
	}), true
}

// semVer is a version as https://semver.org/spec/v2.0.0.html has it, without its build.
type semVer struct {
	core [3]uint64
	pre  []string
}

var semVerText = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)

// parseSemVer also takes a version without a patch number.
func parseSemVer(s string) (v semVer, ok bool) {
	m := semVerText.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i, digits := range m[1:4] {
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil && digits != "" {
			return v, false
		}
		v.core[i] = n
	}
	if m[4] != "" {
		v.pre = strings.Split(m[4], ".")
	}
	return v, true
}

func (v semVer) compare(w semVer) int {
	if c := slices.Compare(v.core[:], w.core[:]); c != 0 {
		return c
	}
	switch {
	case len(v.pre) == 0 && len(w.pre) == 0:
		return 0
	case len(v.pre) == 0:
		return 1
	case len(w.pre) == 0:
		return -1
	}
	return slices.CompareFunc(v.pre, w.pre, comparePre)
}

// comparePre orders identifiers of a pre-release: numbers by size and before words.
func comparePre(a, b string) int {
	x, xErr := strconv.ParseUint(a, 10, 64)
	y, yErr := strconv.ParseUint(b, 10, 64)
	switch {
	case xErr == nil && yErr == nil:
		return slices.Compare([]uint64{x}, []uint64{y})
	case xErr == nil:
		return -1
	case yErr == nil:
		return 1
	}
	return strings.Compare(a, b)
}

var (
	jwtClass    = regexp.MustCompile(`^https?://api\.openeo\.org/[^/]+/authentication/jwt/?$`)
	remoteClass = regexp.MustCompile(`^https?://api\.openeo\.org/extensions/remote-process-definition/`)
)

// capabilities reads what the API at base can do.
func (p *Platform) capabilities(ctx context.Context, base string) (facts, error) {
	const op = "openeo.capabilities"
	call := p.request(op, "GET", base+"/", "", nil)
	call.Limit = maxFacts
	a, err := p.client.Do(ctx, call)
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
	}
	if err := upstream.JSON(a, op, &doc); err != nil {
		return facts{}, err
	}
	if v, ok := parseSemVer(doc.Version); !ok || v.core[0] != 1 {
		return facts{}, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: "The platform does not speak version 1 of the openEO API."}
	}
	f := facts{url: base, batch: len(doc.Endpoints) == 0}
	f.jwt = slices.ContainsFunc(doc.Classes, jwtClass.MatchString)
	f.remote = slices.ContainsFunc(doc.Classes, remoteClass.MatchString)
	for _, e := range doc.Endpoints {
		f.batch = f.batch || e.Path == "/jobs" && slices.Contains(e.Methods, "POST")
	}
	return f, nil
}

// provider is one identity provider of GET /credentials/oidc.
type provider struct {
	ID     string `json:"id"`
	Issuer string `json:"issuer"`
}

// bearer is what follows "Bearer " for a token: the configured prefix and the token; or the token alone, where the
// back-end lists the conformance class for that, or knows no OpenID Connect; or oidc/{provider}/{token}.
func (p *Platform) bearer(ctx context.Context, t dispatch.Token) (dispatch.Secret, error) {
	switch {
	case t.Secret == "":
		return "", nil
	case p.prefix != "":
		return prefixed(p.prefix, t.Secret), nil
	}
	f, err := p.known(ctx)
	if err != nil {
		return "", err
	}
	if f.jwt && strings.Count(t.Secret.Reveal(), ".") == 2 {
		return t.Secret, nil
	}
	providers, err := p.providers.Get(ctx, "", p.askProviders)
	if err != nil || len(providers) == 0 {
		return t.Secret, err
	}
	id, err := providerFor(providers, t.Issuer)
	return prefixed("oidc/"+id, t.Secret), err
}

// prefixed joins the prefix and the token; a basic token's prefix is "basic/".
func prefixed(prefix string, t dispatch.Secret) dispatch.Secret {
	if prefix == "basic" {
		prefix = "basic/"
	}
	return dispatch.Secret(prefix + "/" + t.Reveal())
}

func (p *Platform) askProviders(ctx context.Context, _ []provider) ([]provider, error) {
	var doc struct {
		Providers []provider `json:"providers"`
	}
	a, err := p.get(ctx, "openeo.providers", "/credentials/oidc", "", &doc)
	if absent(a) {
		return nil, nil
	}
	return doc.Providers, p.unusable(err)
}

// providerFor gives the back-end's own id of an issuer; of its first, which is its default, when the issuer is not known.
func providerFor(providers []provider, issuer string) (string, error) {
	var offered []string
	for _, pr := range providers {
		if issuer == "" || strings.TrimRight(pr.Issuer, "/") == strings.TrimRight(issuer, "/") {
			return pr.ID, nil
		}
		offered = append(offered, pr.Issuer)
	}
	return "", &dispatch.Error{Kind: dispatch.Misconfigured, Op: "openeo.bearer", Text: upstream.Text(fmt.Sprintf(
		"The platform takes no tokens of %s, but of %s.", issuer, strings.Join(offered, ", ")))}
}

// formatNames are the names that openEO uses for formats that users know under others.
var formatNames = map[string]string{
	"geojson": "GeoJSON", "json": "JSON", "netcdf": "netCDF", "gtiff": "GTiff", "geotiff": "GTiff", "tiff": "GTiff",
}

// format gives the back-end's own name of an output format.
func (p *Platform) format(ctx context.Context, asked string) (string, error) {
	name := asked
	if known, ok := formatNames[strings.ToLower(asked)]; ok {
		name = known
	}
	offered, err := p.formats.Get(ctx, "", p.askFormats)
	if err != nil || len(offered) == 0 {
		return name, err
	}
	for _, o := range offered {
		if strings.EqualFold(o, name) {
			return o, nil
		}
	}
	return "", dispatch.InvalidBody("openeo.format", upstream.Text(fmt.Sprintf(
		"The platform does not write %q. It writes: %s.", asked, strings.Join(offered, ", "))), "format")
}

// askFormats lists the output formats, sorted; none when the back-end does not tell.
func (p *Platform) askFormats(ctx context.Context, _ []string) ([]string, error) {
	var doc struct {
		Output map[string]any `json:"output"`
	}
	a, err := p.get(ctx, "openeo.formats", "/file_formats", "", &doc)
	if absent(a) {
		return nil, nil
	}
	var names []string
	for name := range doc.Output {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, p.unusable(err)
}
