package openeo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// SignIn is how users of openEO clients sign in at the broker's identity provider.
type SignIn struct {
	Issuer   string
	ClientID string // a public client there, for clients that bring none; "": users name one
	// URLs to which that client may lead users back, without a slash at the end: pages such as an editor's
	Pages []string
}

// providerID is the name of the identity provider in bearer tokens.
const providerID = "eodispatch"

// grantTypes are those of the default client. The Python client uses a client only if it has the last two.
var grantTypes = []string{"authorization_code+pkce", "urn:ietf:params:oauth:grant-type:device_code+pkce",
	"refresh_token"}

// identityProviders says where users sign in.
func (f *Facade) identityProviders(*request) (*answer, error) {
	provider := map[string]any{"id": providerID, "issuer": f.SignIn.Issuer, "title": cmp.Or(f.Title, providerID),
		"scopes": []string{"openid", "offline_access"}}
	if f.SignIn.ClientID != "" {
		client := map[string]any{"id": f.SignIn.ClientID, "grant_types": grantTypes}
		if len(f.SignIn.Pages) > 0 {
			client["redirect_urls"] = f.SignIn.Pages
		}
		provider["default_clients"] = []any{client}
	}
	return &answer{Body: map[string]any{"providers": []any{provider}}}, nil
}

// me says who the user is.
func (f *Facade) me(r *request) (*answer, error) {
	user := map[string]any{"user_id": userID(r.caller.Subject), "links": []link{}}
	if r.caller.Name != "" {
		user["name"] = r.caller.Name
	}
	return &answer{Body: user}, nil
}

// userID returns a subject in the characters that openEO allows: word characters, hyphens and dots. Others are written
// as a tilde and their bytes in hexadecimal, so that two subjects have two names.
func userID(subject string) string {
	var id strings.Builder
	for i := range len(subject) {
		switch c := subject[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
			id.WriteByte(c)
		default:
			fmt.Fprintf(&id, "~%02x", c)
		}
	}
	return id.String()
}

const (
	apiClasses      = "https://api.openeo.org/" // followed by a version
	jwtClass        = apiClasses + "1.3.0/authentication/jwt"
	optionsClass    = apiClasses + "extensions/processing-parameters/0.1.0"
	federationClass = apiClasses + "extensions/federation/0.2.0"
	stacVersion     = "1.0.0"
)

// passedClasses are the conformance classes of a platform that the broker preserves.
var passedClasses = regexp.MustCompile(`^https://api\.openeo\.org/extensions/remote-process-definition/`)

// described is what a platform says about itself, as far as its view repeats it.
type described struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Version     string          `json:"backend_version"`
	STAC        string          `json:"stac_version"`
	Billing     json.RawMessage `json:"billing"`
	Classes     []string        `json:"conformsTo"`
	Endpoints   []endpoint      `json:"endpoints"`
	Links       []link          `json:"links"`
}

type endpoint struct {
	Path    string   `json:"path"`
	Methods []string `json:"methods"`
}

// description returns what the platform of a view says about itself; the zero value if it does not respond.
func (f *Facade) description(r *request) (d described) {
	if r.view.merged() {
		return d
	}
	p, err := f.read(r, r.view.backend, "/")
	if err != nil || json.Unmarshal(p.At(r.root), &d) != nil {
		return described{}
	}
	return d
}

func (f *Facade) conformance(r *request) (*answer, error) {
	return &answer{Body: map[string]any{"conformsTo": f.classes(r.view, f.description(r))}}, nil
}

func (f *Facade) classes(v view, d described) []string {
	all := []string{apiClasses + v.version.number, jwtClass, optionsClass}
	if f.federated(v) {
		all = append(all, federationClass)
	}
	for _, class := range d.Classes {
		if passedClasses.MatchString(class) {
			all = append(all, class)
		}
	}
	return all
}

// capabilities describes a view and lists exactly what it serves.
func (f *Facade) capabilities(r *request) (*answer, error) {
	d := f.description(r)
	id, title := "eodispatch", cmp.Or(f.Title, "eodispatch")
	text := "All openEO platforms of this broker as one back-end. Jobs wait here while a platform is full or does " +
		"not respond. " +
		"The services of its catalogue, on platforms of all protocols, are the processes of the namespace " +
		servicesNamespace + "."
	if f.withoutGraphs(r.view) {
		text = "The services of this broker's catalogue are the processes of the namespace " + servicesNamespace +
			". No platform here runs process graphs that do more than call one of them."
	}
	if b := r.view.backend; b != nil {
		id, title = b.Name, cmp.Or(d.Title, b.Name)
		text = strings.TrimSpace(d.Description +
			"\n\nReached by a broker: jobs wait there while this platform is full or does not respond.")
	}
	body := map[string]any{
		"type": "Catalog", "api_version": r.view.version.number, "backend_version": cmp.Or(d.Version, f.Version),
		"stac_version": cmp.Or(d.STAC, stacVersion),
		"production":   true, "id": id, "title": title, "description": text, "conformsTo": f.classes(r.view, d),
		"endpoints": f.endpoints(r.view, d),
		"links":     f.capabilityLinks(r, d),
	}
	if len(d.Billing) > 0 {
		body["billing"] = d.Billing
	}
	if federation := f.federation(r); federation != nil {
		body["federation"] = federation
	}
	return &answer{Body: body}, nil
}

// passedLinks are the relations of a platform's links that hold for its view, too.
var passedLinks = []string{"terms-of-service", "privacy-policy", "about", "create-form"}

func (f *Facade) capabilityLinks(r *request, d described) []link {
	links := []link{
		{Rel: "self", Href: r.root, Type: "application/json"},
		{Rel: "version-history", Href: r.rootOf(version{}) + wellKnownPath, Type: "application/json"},
		{Rel: "conformance", Href: r.root + "/conformance", Type: "application/json"},
		{Rel: "data", Href: r.root + "/collections", Type: "application/json"},
	}
	for _, page := range f.SignIn.Pages {
		if strings.HasPrefix(page, "https:") { // others are those of programs on the users' machines
			links = append(links, link{Rel: "web-editor", Href: page, Type: "text/html"})
		}
	}
	for _, l := range d.Links {
		if slices.Contains(passedLinks, l.Rel) {
			links = append(links, l)
		}
	}
	return links
}

// endpoints lists the operations of a view, each path once.
func (f *Facade) endpoints(v view, d described) (all []endpoint) {
	for _, o := range f.table {
		if o.unlisted || o.passed && !v.merged() && !d.has(o) {
			continue
		}
		i := slices.IndexFunc(all, func(e endpoint) bool { return e.Path == o.path })
		if i < 0 {
			all, i = append(all, endpoint{Path: o.path}), len(all)
		}
		all[i].Methods = append(all[i].Methods, o.method)
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// has reports whether the platform lists an operation. A platform that lists nothing may have all.
func (d described) has(o operation) bool {
	if len(d.Endpoints) == 0 {
		return true
	}
	return slices.ContainsFunc(d.Endpoints, func(e endpoint) bool {
		return placeholder.ReplaceAllString(strings.TrimSuffix(e.Path, "/"),
			"{}") == placeholder.ReplaceAllString(o.path, "{}") && slices.Contains(e.Methods, o.method)
	})
}

// member is a platform in the description of a federation (https://api.openeo.org/extensions/federation/0.2.0).
type member struct {
	URL         string     `json:"url"`
	Title       string     `json:"title,omitempty"`
	Status      string     `json:"status"`
	Description string     `json:"description,omitempty"`
	Checked     *time.Time `json:"last_status_check,omitempty"`
}

// federated reports whether a view shows several openEO platforms.
func (f *Facade) federated(v view) bool { return v.merged() && len(f.backends()) > 1 }

// federation describes the platforms of the merged view, with the URLs of their own views; nil if there are fewer than
// two.
func (f *Facade) federation(r *request) map[string]member {
	if !f.federated(r.view) {
		return nil
	}
	backends, all := f.backends(), map[string]member{}
	for i, found := range f.readAll(r, backends, "/") {
		name := backends[i].Name
		m := member{URL: r.rootOf(version{path: "/" + name + r.view.version.path}), Title: name, Status: "online"}
		var d described
		if found.err != nil || found.Stale {
			m.Status = "offline"
		} else {
			m.Checked = known(found.Read)
		}
		if found.err == nil && json.Unmarshal(found.At(r.root), &d) == nil {
			m.Title = cmp.Or(d.Title, m.Title)
		}
		all[name] = m
	}
	return all
}
