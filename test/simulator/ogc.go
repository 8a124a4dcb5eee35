package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// OGC is a server of OGC API - Processes, Part 1 version 1.0, with job list and dismiss. Every path is also served
// below any namespace, /{namespace}/processes and so on, and each namespace has its own jobs. The zero value needs no
// token, and jobs finish at once. Like pygeoapi, it serves documents as HTML pages unless the client accepts JSON.
type OGC struct {
	Now    func() time.Time // nil: time.Now
	Seed   uint64           // for ids and the random parts of Life
	Life   Life             // use SetLife to change it while requests are served
	Faults Faults
	Oracle Oracle

	// Marker is the name of the input that holds a job's tag. "": "marker".
	Marker string

	// Check returns the account of a bearer token. Nil: no token is needed, and all jobs belong to one account.
	Check func(token string) (account string, err error)

	Sync    bool // execute synchronously wherever the process allows it, whatever the client prefers
	ZOO     bool // like ZOO-Project: no namespaces, below which it responds 400, and no progress of ended jobs
	PageMax int  // maximum page size of listings, whatever is requested; 0: ten thousand

	once    sync.Once
	routes  *http.ServeMux
	handler handler
	jobServer
}

// ogcRoute is one operation. Public ones need no token; a page is HTML unless the client accepts JSON.
type ogcRoute struct {
	method, path string
	public, page bool
	handle       func(*OGC, http.ResponseWriter, call) *problem
}

func ogcRoutes() []ogcRoute {
	return []ogcRoute{
		{"GET", "/", true, true, (*OGC).landing},
		{"GET", "/conformance", true, true, (*OGC).conformance},
		{"GET", "/processes", true, true, (*OGC).processes},
		{"GET", "/processes/{id}", true, true, (*OGC).process},
		{"POST", "/processes/{id}/execution", false, false, (*OGC).execute},
		{"GET", "/jobs", false, true, (*OGC).list},
		{"GET", "/jobs/{id}", false, true, about((*OGC).own, (*OGC).status)},
		{"DELETE", "/jobs/{id}", false, false, about((*OGC).own, (*OGC).dismiss)},
		{"GET", "/jobs/{id}/results", false, true, about((*OGC).own, (*OGC).results)},
		{"GET", "/files/{id}/{file}", true, false, (*OGC).file},
	}
}

func (s *OGC) init() {
	s.jobs.seed = s.Seed
	if s.Marker == "" {
		s.Marker = "marker"
	}
	s.handler = handler{&s.Faults, &s.Oracle, refuseOGC}
	s.routes = http.NewServeMux()
	for _, route := range ogcRoutes() {
		path := route.path
		if path == "/" {
			path = "/{$}"
		}
		s.routes.HandleFunc(route.method+" "+path, s.through(route))
	}
	s.routes.HandleFunc("/", s.through(ogcRoute{"", "elsewhere", true, false, (*OGC).notFound}))
}

// ServeHTTP moves the namespace from the path into the context.
func (s *OGC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.init)
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "", "conformance", "processes", "jobs", "files":
	default:
		r = r.Clone(context.WithValue(r.Context(), namespaceKey{}, first))
		r.URL.Path, r.URL.RawPath = "/"+rest, ""
	}
	s.routes.ServeHTTP(w, r)
}

type namespaceKey struct{}

func namespace(c call) string {
	ns, _ := c.Context().Value(namespaceKey{}).(string)
	return ns
}

// base returns the URL of the API, including the namespace.
func (s *OGC) base(c call) string {
	if ns := namespace(c); ns != "" {
		return origin(c.Request) + "/" + url.PathEscape(ns)
	}
	return origin(c.Request)
}

// through wraps a route in the server's handler.
func (s *OGC) through(route ogcRoute) http.HandlerFunc {
	name := strings.TrimSpace(route.method + " " + route.path)
	return func(w http.ResponseWriter, r *http.Request) {
		c := call{Request: r, route: name}
		if !route.public {
			c.account, c.denied = s.signedIn(r)
		}
		s.handler.handle(w, c, func(w http.ResponseWriter, c call) *problem {
			if s.ZOO && namespace(c) != "" {
				return &problem{400, "BadRequest", "The resource is not available"}
			}
			if route.page && !acceptsJSON(c.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, "<!doctype html><html><body><h1>%s</h1></body></html>\n", name)
				return nil
			}
			return route.handle(s, w, c)
		})
	}
}

func acceptsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "json") || r.URL.Query().Get("f") == "json"
}

func (s *OGC) signedIn(r *http.Request) (string, *problem) {
	if s.Check == nil {
		return "open", nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", &problem{401, "unauthorized", "A bearer token is required."}
	}
	account, err := s.Check(token)
	if err != nil {
		return "", &problem{401, "unauthorized", "The bearer token is expired or invalid."}
	}
	return account, nil
}

const exceptions = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"

// refuseOGC writes an exception as RFC 7807.
func refuseOGC(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.status)
	json.NewEncoder(w).Encode(object{"type": exceptions + p.code, "title": p.code, "status": p.status,
		"detail": p.message})
}

func (s *OGC) notFound(http.ResponseWriter, call) *problem {
	return &problem{404, "not-found", "There is no such resource."}
}

// SetLife changes how new jobs proceed. Running jobs keep their course.
func (s *OGC) SetLife(l Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Life = l
}

func (s *OGC) landing(w http.ResponseWriter, c call) *problem {
	base := s.base(c)
	writeJSON(w, 200, object{"title": "OGC API - Processes simulator",
		"description": "A server for demonstrations and tests.", "links": []object{
			{"rel": "self", "type": "application/json", "href": base + "/?f=json"},
			{"rel": "http://www.opengis.net/def/rel/ogc/1.0/conformance", "type": "application/json", "href": base +
				"/conformance?f=json"},
			{"rel": "http://www.opengis.net/def/rel/ogc/1.0/processes", "type": "application/json", "href": base +
				"/processes?f=json"},
			{"rel": "http://www.opengis.net/def/rel/ogc/1.0/job-list", "type": "application/json", "href": base +
				"/jobs?f=json"},
		}})
	return nil
}

func (s *OGC) conformance(w http.ResponseWriter, _ call) *problem {
	classes := []string{}
	for _, class := range []string{"core", "ogc-process-description", "json", "html", "job-list", "dismiss"} {
		classes = append(classes, "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/"+class)
	}
	writeJSON(w, 200, object{"conformsTo": classes})
	return nil
}

func (s *OGC) processes(w http.ResponseWriter, c call) *problem {
	all := []object{}
	for _, id := range slices.Sorted(maps.Keys(ogcProcesses)) {
		all = append(all, s.summary(c, ogcProcesses[id]))
	}
	writeJSON(w, 200, object{"processes": all, "links": []object{{"rel": "self", "type": "application/json",
		"href": s.base(c) + "/processes?f=json"}}})
	return nil
}

func (s *OGC) summary(c call, p ogcProcess) object {
	address := s.base(c) + "/processes/" + p.id
	return object{"id": p.id, "version": "1.0.0", "title": p.title, "jobControlOptions": p.modes,
		"outputTransmission": p.transmission(),
		"links": []object{
			{"rel": "self", "type": "application/json", "href": address + "?f=json"},
			{"rel": "http://www.opengis.net/def/rel/ogc/1.0/execute", "type": "application/json", "href": address +
				"/execution"},
		}}
}

func (s *OGC) process(w http.ResponseWriter, c call) *problem {
	p, ok := ogcProcesses[c.PathValue("id")]
	if !ok {
		return noSuchProcess(c)
	}
	doc := s.summary(c, p)
	doc["inputs"], doc["outputs"] = p.describeInputs(s.Marker), p.describeOutputs()
	writeJSON(w, 200, doc)
	return nil
}

func noSuchProcess(c call) *problem {
	return &problem{404, "no-such-process", fmt.Sprintf("There is no process %q.", c.PathValue("id"))}
}

// execute runs a process in the mode that the standard's table gives for the process's modes and the client's
// preference.
func (s *OGC) execute(w http.ResponseWriter, c call) *problem {
	p, ok := ogcProcesses[c.PathValue("id")]
	if !ok {
		return noSuchProcess(c)
	}
	body, bad := readBody(c)
	if bad != nil {
		return bad
	}
	e, bad := p.read(body)
	if bad != nil {
		return bad
	}
	if j := s.admitJob(c, p, e, body); j != nil && s.runsAsync(c, p) {
		return s.answerAsync(w, c, j)
	} else if j != nil {
		return s.answerSync(w, c, p, e, j)
	}
	return &problem{429, "too-many-jobs", "Too many jobs of this account are running."}
}

// admitJob creates and starts a job; nil if the account has no free slot.
func (s *OGC) admitJob(c call, p ogcProcess, e execution, body []byte) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := nowFrom(s.Now)
	if s.jobs.full(c.account, s.Life.Slots, now) {
		return nil
	}
	j := &job{account: c.account, base: namespace(c), process: p.id, body: body, created: now, tag: e.text(s.Marker)}
	s.jobs.add(j)
	s.jobs.start(j, s.Life, now)
	j.course.fails = j.course.fails || p.fails
	s.Oracle.note(j.tag, func(c *Counts) { c.Creates++; c.Starts++; c.Runs++ })
	return j
}

func (s *OGC) runsAsync(c call, p ogcProcess) bool {
	switch {
	case !p.can("async-execute"):
		return false
	case !p.can("sync-execute"):
		return true
	}
	return !s.Sync && prefers(c.Request, "respond-async")
}

// prefers parses Prefer by RFC 7240: preferences separated by commas, in any number of headers, with parameters after a
// semicolon.
func prefers(r *http.Request, preference string) bool {
	for _, header := range r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(header, ",") {
			name, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), preference) {
				return true
			}
		}
	}
	return false
}

func (s *OGC) answerAsync(w http.ResponseWriter, c call, j *job) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if prefers(c.Request, "respond-async") {
		w.Header().Set("Preference-Applied", "respond-async")
	}
	w.Header().Set("Location", s.base(c)+"/jobs/"+j.id)
	writeJSON(w, 201, s.statusInfo(c, j))
	return nil
}

func (s *OGC) answerSync(w http.ResponseWriter, c call, p ogcProcess, e execution, j *job) *problem {
	s.mu.Lock()
	course := *j.course
	s.mu.Unlock()
	if !sleep(c.Context(), course.end.Sub(course.start)) {
		return &problem{504, "timeout", "The request took too long."}
	}
	if course.fails {
		return &problem{500, "process-failed", failureText}
	}
	w.Header().Set("Link", fmt.Sprintf(`<%s/jobs/%s>; rel="monitor"`, s.base(c), j.id))
	return e.respond(w, p.run(e, s.base(c)+"/files/"+j.id))
}

var ogcWords = map[phase]string{created: "accepted", queued: "accepted", running: "running",
	finished: "successful", failed: "failed", canceled: "dismissed"}

// own finds the job of a request among those of its account and namespace. s.mu is held.
func (s *OGC) own(c call) (*job, *problem) {
	j := s.jobs.byID[c.PathValue("id")]
	if j == nil || j.account != c.account || j.base != namespace(c) {
		return nil, &problem{404, "no-such-job", fmt.Sprintf("There is no job %q.", c.PathValue("id"))}
	}
	return j, nil
}

// statusInfo returns a job in the standard's form. s.mu is held.
func (s *OGC) statusInfo(c call, j *job) object {
	now := nowFrom(s.Now)
	at := j.seen(now, s.Life)
	address := s.base(c) + "/jobs/" + j.id
	doc := object{"jobID": j.id, "type": "process", "processID": j.process, "status": ogcWords[at],
		"created": stamp(j.created), "updated": stamp(j.updated), "progress": int(j.progress(now.Add(-s.Life.Lag))),
		"links": []object{{"rel": "self", "type": "application/json", "href": address + "?f=json"}}}
	if at == running || at == finished {
		doc["started"] = stamp(j.course.run)
	}
	switch at {
	case finished:
		doc["message"] = "Job complete"
		doc["finished"] = stamp(j.course.end)
		doc["links"] = append(doc["links"].([]object), object{"rel": "http://www.opengis.net/def/rel/ogc/1.0/results",
			"type": "application/json", "href": address + "/results?f=json"})
	case failed:
		doc["message"] = failureText
	}
	if j.word != "" {
		doc["status"] = j.word
	}
	if s.ZOO {
		doc["id"] = j.id
		if at.final() {
			delete(doc, "progress")
		}
	}
	return doc
}

func (s *OGC) status(w http.ResponseWriter, c call, j *job) *problem {
	writeJSON(w, 200, s.statusInfo(c, j))
	return nil
}

// dismiss cancels a job that has not ended, and removes one that has.
func (s *OGC) dismiss(w http.ResponseWriter, c call, j *job) *problem {
	now := nowFrom(s.Now)
	if j.at(now).final() {
		s.jobs.remove(j)
	} else {
		j.course.stopped, j.updated = now, now
	}
	s.Oracle.note(j.tag, func(c *Counts) { c.Cancels++ })
	doc := s.statusInfo(c, j)
	doc["status"] = ogcWords[canceled]
	writeJSON(w, 200, doc)
	return nil
}

// list returns a page of the jobs, newest first; 10 by default.
func (s *OGC) list(w http.ResponseWriter, c call) *problem {
	query := c.URL.Query()
	limit := 10
	if query.Has("limit") {
		n, err := strconv.Atoi(query.Get("limit"))
		if err != nil || n < 1 {
			return &problem{400, "invalid-parameter-value", "limit must be a positive integer"}
		}
		limit = min(n, 10000)
	}
	if s.PageMax > 0 {
		limit = min(limit, s.PageMax)
	}
	before, _ := strconv.ParseUint(query.Get("before"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := nowFrom(s.Now)
	page, more := s.jobs.page(c.account, before, limit, func(j *job) bool {
		return j.base == namespace(c) && s.listed(j, query, now)
	})
	jobs := make([]object, len(page))
	for i, j := range page {
		jobs[i] = s.statusInfo(c, j)
	}
	links := []object{{"rel": "self", "type": "application/json", "href": s.base(c) + "/jobs?f=json"}}
	if more {
		query.Set("before", strconv.FormatUint(page[len(page)-1].number, 10))
		query.Set("limit", strconv.Itoa(limit))
		links = append(links, object{"rel": "next", "type": "application/json", "href": s.base(c) + "/jobs?" +
			query.Encode()})
	}
	writeJSON(w, 200, object{"jobs": jobs, "links": links})
	return nil
}

// listed reports whether j matches the query of a listing.
func (s *OGC) listed(j *job, query url.Values, now time.Time) bool {
	var statuses []string
	for _, v := range query["status"] {
		statuses = append(statuses, strings.Split(v, ",")...)
	}
	return !j.created.After(now.Add(-s.Life.Unlisted)) &&
		(len(query["processID"]) == 0 || slices.Contains(query["processID"], j.process)) &&
		(len(statuses) == 0 || slices.Contains(statuses, ogcWords[j.seen(now, s.Life)]))
}

func (s *OGC) results(w http.ResponseWriter, c call, j *job) *problem {
	at := ogcWords[j.seen(nowFrom(s.Now), s.Life)]
	if j.word != "" {
		at = j.word
	}
	switch at {
	case ogcWords[finished]:
		process := ogcProcesses[j.process]
		e, _ := process.read(j.body)
		return e.respond(w, process.run(e, s.base(c)+"/files/"+j.id))
	case ogcWords[failed]:
		return &problem{500, "process-failed", failureText}
	case ogcWords[canceled]:
		return &problem{404, "no-such-job", "The job was dismissed."}
	}
	return &problem{404, "result-not-ready", "The job has not finished yet."}
}

// file serves the files of results. It needs no token, because job ids cannot be guessed.
func (s *OGC) file(w http.ResponseWriter, c call) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs.byID[c.PathValue("id")]
	if j == nil || j.base != namespace(c) || j.at(nowFrom(s.Now)) != finished {
		return s.notFound(w, c)
	}
	subject := sceneOf(j.body)
	if c.PathValue("file") == "collection.json" {
		writeJSON(w, 200, resultCollection(subject, s.base(c)+"/files/"+j.id))
		return nil
	}
	for _, f := range []product{produce("GTiff", subject), produce("GeoJSON", subject), produce("netCDF", subject),
		landCover(subject)} {
		if f.name == c.PathValue("file") {
			f.serve(w, c.Request)
			return nil
		}
	}
	return s.notFound(w, c)
}
