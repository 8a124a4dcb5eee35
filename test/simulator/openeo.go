package simulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// OpenEO is an openEO 1.2 back-end, served below /openeo/1.2 (and /openeo/1.1, like older back-ends), with version
// discovery at /.well-known/openeo. The zero value accepts any bearer token, and jobs finish at once.
type OpenEO struct {
	Now    func() time.Time // nil: time.Now
	Seed   uint64           // for ids and the random parts of Life
	Life   Life             // use SetLife to change it while requests are served
	Faults Faults
	Oracle Oracle

	// Tag matches a job's title; its first group is the tag. Nil: the text in square brackets at the end.
	Tag *regexp.Regexp

	// Check returns the account of an access token. Nil: every token is its own account.
	Check func(token string) (account string, err error)
	Open  bool // no token is needed; all jobs belong to one account

	Provider string // id of the identity provider; "": "sim"
	Issuer   string // its issuer; "": https://idp.invalid/realms/platform
	JWT      bool   // plain JWTs are accepted too, as the conformance class announces

	ListedOnly bool // it reads no definitions of processes at URLs

	// Namespaces fetches remote process definitions. Nil: only the form of their URLs is checked.
	Namespaces *http.Client

	Collections []string // ids of its collections; nil: two

	Items    bool          // results are a STAC Item, not a Collection
	Stubs    bool          // before the end, results are a Collection of the whole Earth without files
	Unpaged  bool          // listings return all jobs at once, whatever is requested
	PageMax  int           // maximum page size of listings, whatever is requested; 0: unlimited
	LinkLife time.Duration // lifetime of signed URLs; 0: an hour

	once    sync.Once
	routes  *http.ServeMux
	handler handler
	jobServer
}

const openEOVersion = "1.2"

var openEOVersions = []string{"1.1", openEOVersion}

var titleTag = regexp.MustCompile(`\[([^\[\]]+)\]$`)

func (s *OpenEO) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.init)
	s.routes.ServeHTTP(w, r)
}

// openEORoute is one operation. Public ones need no token.
type openEORoute struct {
	method, path string
	public       bool
	handle       func(*OpenEO, http.ResponseWriter, call) *problem
}

func openEORoutes() []openEORoute {
	return []openEORoute{
		{"GET", "/", true, (*OpenEO).capabilities},
		{"GET", "/conformance", true, (*OpenEO).conformance},
		{"GET", "/credentials/oidc", true, (*OpenEO).providers},
		{"GET", "/file_formats", true, (*OpenEO).fileFormats},
		{"GET", "/processes", true, (*OpenEO).processes},
		{"GET", "/collections", true, (*OpenEO).collections},
		{"GET", "/collections/{id}", true, (*OpenEO).collection},
		{"GET", "/collections/{id}/queryables", true, (*OpenEO).queryables},
		{"GET", "/udf_runtimes", true, (*OpenEO).udfRuntimes},
		{"GET", "/processing_parameters", true, (*OpenEO).processingParameters},
		{"GET", "/me", false, (*OpenEO).me},
		{"GET", "/process_graphs/{id}", false, (*OpenEO).storedProcess},
		{"POST", "/validation", false, (*OpenEO).validation},
		{"POST", "/result", false, (*OpenEO).result},
		{"GET", "/jobs", false, (*OpenEO).list},
		{"POST", "/jobs", false, (*OpenEO).create},
		{"GET", "/jobs/{id}", false, about((*OpenEO).own, (*OpenEO).describe)},
		{"PATCH", "/jobs/{id}", false, about((*OpenEO).own, (*OpenEO).modify)},
		{"DELETE", "/jobs/{id}", false, about((*OpenEO).own, (*OpenEO).delete)},
		{"GET", "/jobs/{id}/results", false, about((*OpenEO).own, (*OpenEO).results)},
		{"POST", "/jobs/{id}/results", false, about((*OpenEO).own, (*OpenEO).start)},
		{"DELETE", "/jobs/{id}/results", false, about((*OpenEO).own, (*OpenEO).cancel)},
		{"GET", "/jobs/{id}/logs", false, about((*OpenEO).own, (*OpenEO).logs)},
		{"GET", "/signed/{id}/{expires}/{signature}", true, about((*OpenEO).signedJob, (*OpenEO).canonical)},
		{"GET", "/signed/{id}/{expires}/{signature}/{file}", true, about((*OpenEO).signedJob, (*OpenEO).asset)},
	}
}

func (s *OpenEO) init() {
	s.jobs.seed = s.Seed
	if s.Tag == nil {
		s.Tag = titleTag
	}
	if s.Provider == "" {
		s.Provider = "sim"
	}
	if s.Issuer == "" {
		s.Issuer = "https://idp.invalid/realms/platform"
	}
	if s.LinkLife == 0 {
		s.LinkLife = time.Hour
	}
	s.handler = handler{&s.Faults, &s.Oracle, refuseOpenEO}
	s.routes = http.NewServeMux()
	discovery := openEORoute{"GET", "/.well-known/openeo", true, (*OpenEO).wellKnown}
	for _, below := range []string{"", "/openeo", "/openeo/1.1", "/openeo/1.2"} {
		s.routes.HandleFunc("GET "+below+discovery.path, s.through(discovery))
	}
	for _, version := range openEOVersions {
		for _, route := range openEORoutes() {
			path := route.path
			if path == "/" {
				path = "/{$}"
			}
			s.routes.HandleFunc(route.method+" /openeo/"+version+path, s.through(route))
		}
		s.routes.HandleFunc("GET /openeo/"+version, s.through(openEORoute{"GET", "/", true, (*OpenEO).capabilities}))
	}
	s.routes.HandleFunc("/", s.through(openEORoute{"", "elsewhere", true, (*OpenEO).notFound}))
}

// through wraps a route in the server's handler.
func (s *OpenEO) through(route openEORoute) http.HandlerFunc {
	name := strings.TrimSpace(route.method + " " + route.path)
	return func(w http.ResponseWriter, r *http.Request) {
		c := call{Request: r, route: name}
		if !route.public {
			c.account, c.denied = s.signedIn(r)
		}
		s.handler.handle(w, c, func(w http.ResponseWriter, c call) *problem { return route.handle(s, w, c) })
	}
}

// signedIn returns the account of a request, by the rules of the openEO API for bearer tokens.
func (s *OpenEO) signedIn(r *http.Request) (string, *problem) {
	if s.Open {
		return "open", nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", &problem{401, "AuthenticationRequired", "Unauthorized."}
	}
	bearer, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return "", &problem{403, "AuthenticationSchemeInvalid", "Authentication method not supported."}
	}
	invalid := &problem{403, "TokenInvalid", "Authorization token has expired or is invalid. Please authenticate " +
		"again."}
	token, ok := strings.CutPrefix(bearer, "oidc/"+s.Provider+"/")
	if !ok && s.JWT && !strings.Contains(bearer, "/") {
		token, ok = bearer, true
	}
	if !ok || token == "" {
		return "", invalid
	}
	if s.Check == nil {
		return token, nil
	}
	account, err := s.Check(token)
	if err != nil {
		return "", invalid
	}
	return account, nil
}

func refuseOpenEO(w http.ResponseWriter, p problem) {
	writeJSON(w, p.status, object{"id": "r-0", "code": p.code, "message": p.message, "links": []object{}})
}

func (s *OpenEO) notFound(http.ResponseWriter, call) *problem {
	return &problem{404, "NotFound", "The requested URL was not found on the server."}
}

// SetLife changes how new jobs proceed. Running jobs keep their course.
func (s *OpenEO) SetLife(l Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Life = l
}

// api returns the base URL of the API that a request used.
func (s *OpenEO) api(r *http.Request) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/openeo/"), "/")
	if !slices.Contains(openEOVersions, version) {
		version = openEOVersion
	}
	return origin(r) + "/openeo/" + version
}

func (s *OpenEO) wellKnown(w http.ResponseWriter, c call) *problem {
	var versions []object
	for _, v := range openEOVersions {
		versions = append(versions, object{"url": origin(c.Request) + "/openeo/" + v + "/", "api_version": v + ".0",
			"production": true})
	}
	writeJSON(w, 200, object{"versions": versions})
	return nil
}

func (s *OpenEO) capabilities(w http.ResponseWriter, c call) *problem {
	type endpoint struct {
		Path    string   `json:"path"`
		Methods []string `json:"methods"`
	}
	var endpoints []endpoint
	for _, r := range openEORoutes() {
		if r.path == "/" || strings.HasPrefix(r.path, "/signed/") {
			continue
		}
		path := strings.Replace(strings.Replace(r.path, "/collections/{id}", "/collections/{collection_id}", 1), "{id}",
			"{job_id}", 1)
		i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.Path == path })
		if i < 0 {
			endpoints = append(endpoints, endpoint{Path: path})
			i = len(endpoints) - 1
		}
		endpoints[i].Methods = append(endpoints[i].Methods, r.method)
	}
	api := s.api(c.Request)
	writeJSON(w, 200, object{
		"type": "Catalog", "id": "simulator", "title": "openEO simulator",
		"description": "A back-end for demonstrations and tests.",
		"api_version": strings.TrimPrefix(api, origin(c.Request)+"/openeo/") + ".0", "backend_version": "1.0.0",
		"stac_version": "1.0.0",
		"production":   true, "conformsTo": s.classes(), "endpoints": endpoints,
		"billing": object{"currency": "credits"}, "links": []object{
			{"rel": "version-history", "href": origin(c.Request) + "/.well-known/openeo", "type": "application/json"},
			{"rel": "conformance", "href": api + "/conformance", "type": "application/json"},
		},
	})
	return nil
}

func (s *OpenEO) classes() []string {
	classes := []string{"https://api.openeo.org/1.2.0"}
	if !s.ListedOnly {
		classes = append(classes, "https://api.openeo.org/extensions/remote-process-definition/0.1.0")
	}
	if s.JWT {
		classes = append(classes, "https://api.openeo.org/1.3.0/authentication/jwt")
	}
	return classes
}

func (s *OpenEO) conformance(w http.ResponseWriter, _ call) *problem {
	writeJSON(w, 200, object{"conformsTo": s.classes()})
	return nil
}

func (s *OpenEO) providers(w http.ResponseWriter, _ call) *problem {
	writeJSON(w, 200, object{"providers": []object{{
		"id": s.Provider, "issuer": s.Issuer, "title": "Simulated identity provider", "scopes": []string{"openid"},
	}}})
	return nil
}

func (s *OpenEO) fileFormats(w http.ResponseWriter, _ call) *problem {
	format := func(title string, kinds ...string) object {
		return object{"title": title, "gis_data_types": kinds, "parameters": object{}}
	}
	writeJSON(w, 200, object{
		"input": object{"GeoJSON": format("GeoJSON", "vector")},
		"output": object{
			"GTiff":   format("GeoTIFF", "raster"),
			"netCDF":  format("NetCDF", "raster"),
			"GeoJSON": format("GeoJSON", "vector"),
			"JSON":    format("JSON", "raster", "vector"),
		},
	})
	return nil
}

func (s *OpenEO) me(w http.ResponseWriter, c call) *problem {
	writeJSON(w, 200, object{"user_id": c.account, "name": c.account, "budget": 500})
	return nil
}
