package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

var openEOWords = map[phase]string{created: "created", queued: "queued", running: "running",
	finished: "finished", failed: "error", canceled: "canceled"}

func (s *OpenEO) create(w http.ResponseWriter, c call) *problem {
	body, p := readBody(c)
	if p != nil {
		return p
	}
	g, p := s.readGraph(c.Context(), body)
	if p != nil {
		return p
	}
	var request struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return &problem{400, "Internal", "400 Bad Request: " + err.Error()}
	}
	s.mu.Lock()
	now := nowFrom(s.Now)
	j := &job{account: c.account, title: request.Title, tag: s.tagOf(request.Title), process: g.process(), body: body,
		created: now, updated: now}
	s.jobs.add(j)
	s.mu.Unlock()
	s.Oracle.note(j.tag, func(c *Counts) { c.Creates++ })
	w.Header().Set("Location", s.api(c.Request)+"/jobs/"+j.id)
	w.Header().Set("OpenEO-Identifier", j.id)
	w.WriteHeader(201)
	return nil
}

func (s *OpenEO) tagOf(title string) string {
	if m := s.Tag.FindStringSubmatch(title); len(m) > 1 {
		return m[1]
	}
	return ""
}

// own finds the job of a request among those of its account. s.mu is held.
func (s *OpenEO) own(c call) (*job, *problem) {
	j := s.jobs.byID[c.PathValue("id")]
	if j == nil || j.account != c.account {
		return nil, &problem{404, "JobNotFound", fmt.Sprintf("The batch job '%s' does not exist.", c.PathValue("id"))}
	}
	return j, nil
}

// start queues a job. By the specification it has no effect on a queued or running job, and runs any other job again.
func (s *OpenEO) start(w http.ResponseWriter, c call, j *job) *problem {
	now := nowFrom(s.Now)
	if at := j.at(now); at == created || at.final() {
		if s.jobs.full(c.account, s.Life.Slots, now) {
			return &problem{400, "ConcurrentJobLimit",
				fmt.Sprintf("Job was not started because concurrent job limit (%d) is reached.", s.Life.Slots)}
		}
		s.jobs.start(j, s.Life, now)
		s.Oracle.note(j.tag, func(c *Counts) { c.Runs++ })
	}
	s.Oracle.note(j.tag, func(c *Counts) { c.Starts++ })
	w.WriteHeader(202)
	return nil
}

// cancel stops a job: a running job becomes canceled, a queued one returns to created.
func (s *OpenEO) cancel(w http.ResponseWriter, c call, j *job) *problem {
	now := nowFrom(s.Now)
	switch j.at(now) {
	case queued:
		j.course, j.updated = nil, now
	case running:
		j.course.stopped, j.updated = now, now
	}
	s.Oracle.note(j.tag, func(c *Counts) { c.Cancels++ })
	w.WriteHeader(204)
	return nil
}

func (s *OpenEO) delete(w http.ResponseWriter, c call, j *job) *problem {
	s.jobs.remove(j)
	s.Oracle.note(j.tag, func(c *Counts) { c.Cancels++ })
	w.WriteHeader(204)
	return nil
}

func (s *OpenEO) modify(w http.ResponseWriter, c call, j *job) *problem {
	body, p := readBody(c)
	if p != nil {
		return p
	}
	now := nowFrom(s.Now)
	if at := j.at(now); at == queued || at == running {
		return &problem{400, "JobLocked", "Job is locked due to a queued or running batch computation."}
	}
	change := struct {
		Title *string `json:"title"`
	}{&j.title}
	if err := json.Unmarshal(body, &change); err != nil {
		return &problem{400, "Internal", "400 Bad Request: " + err.Error()}
	}
	j.updated = now
	w.WriteHeader(204)
	return nil
}

func (s *OpenEO) describe(w http.ResponseWriter, c call, j *job) *problem {
	var sent struct {
		Process json.RawMessage `json:"process"`
	}
	json.Unmarshal(j.body, &sent)
	doc := s.metadata(j)
	doc["process"] = sent.Process
	if end := j.ended(nowFrom(s.Now)); !end.IsZero() {
		ran := end.Sub(j.course.run).Seconds()
		doc["usage"] = object{"duration": object{"value": ran, "unit": "seconds"}, "cpu": object{"value": 4 * ran,
			"unit": "cpu-seconds"}, "memory": object{"value": 8 * ran, "unit": "gb-seconds"},
			"input_pixel": object{"value": 1.5, "unit": "mega-pixel"}}
	}
	writeJSON(w, 200, doc)
	return nil
}

// metadata returns a job as listings show it: without its usage, like those of real back-ends. s.mu is held.
func (s *OpenEO) metadata(j *job) object {
	now := nowFrom(s.Now)
	at := j.seen(now, s.Life)
	doc := object{"id": j.id, "created": stamp(j.created), "updated": stamp(j.updated), "status": openEOWords[at],
		"progress": j.progress(now.Add(-s.Life.Lag))}
	if j.title != "" {
		doc["title"] = j.title
	}
	if end := j.ended(now.Add(-s.Life.Lag)); at.final() && !end.IsZero() {
		doc["updated"] = stamp(end)
		if !end.Add(s.Life.Billing).After(now) {
			doc["costs"] = costs[at]
		}
	}
	if j.word != "" {
		doc["status"] = j.word
	}
	return doc
}

// costs are what a run costs, however long it took.
var costs = map[phase]int{finished: 2, failed: 1, canceled: 1}

// list returns all jobs, newest first, or with a limit a page of them.
func (s *OpenEO) list(w http.ResponseWriter, c call) *problem {
	query := c.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	if query.Has("limit") && limit < 1 {
		return &problem{400, "ParameterInvalid", "The value of 'limit' must be a positive integer."}
	}
	if s.PageMax > 0 && (limit == 0 || limit > s.PageMax) {
		limit = s.PageMax
	}
	if s.Unpaged {
		limit = 0
	}
	before, _ := strconv.ParseUint(query.Get("search_after"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	since := nowFrom(s.Now).Add(-s.Life.Unlisted)
	page, more := s.jobs.page(c.account, before, limit, func(j *job) bool { return !j.created.After(since) })
	jobs, links := make([]object, len(page)), []object{}
	for i, j := range page {
		jobs[i] = s.metadata(j)
	}
	if more {
		next := url.Values{"limit": {strconv.Itoa(limit)},
			"search_after": {strconv.FormatUint(page[len(page)-1].number, 10)}}
		links = append(links, object{"rel": "next", "href": s.api(c.Request) + "/jobs?" + next.Encode()})
	}
	writeJSON(w, 200, object{"jobs": jobs, "links": links})
	return nil
}

// results follows openEO 1.2: 400 before the end, 424 with the last error for a job in error.
func (s *OpenEO) results(w http.ResponseWriter, c call, j *job) *problem {
	at := j.seen(nowFrom(s.Now), s.Life)
	if s.Stubs && !at.final() {
		stub := stac{id: j.id, scene: scene{box{-180, -90, 180, 90}, j.created, j.updated}, assets: object{},
			links: []object{}, status: openEOWords[running]}
		writeJSON(w, 200, stub.collection())
		return nil
	}
	for known, word := range openEOWords {
		if j.word == word {
			at = known
		}
	}
	switch {
	case at == failed:
		return &problem{424, "Internal", failureText}
	case at == finished && j.course != nil, c.URL.Query().Get("partial") == "true":
		w.Header().Set("OpenEO-Costs", "0")
		writeJSON(w, 200, s.resultDocument(c.Request, j, openEOWords[at]))
		return nil
	}
	return &problem{400, "JobNotFinished",
		"Batch job has not finished computing the results yet. Please try again later or contact our support."}
}

const failureText = "Process 'load_collection' found no data: simulated failure."

// resultDocument describes a job's file, which exists only once the job has finished. s.mu is held.
func (s *OpenEO) resultDocument(r *http.Request, j *job, status string) object {
	expires := nowFrom(s.Now).Add(s.LinkLife).Truncate(time.Second)
	signed := fmt.Sprintf("%s/signed/%s/%d/%s", s.api(r), j.id, expires.Unix(), s.signature(j.id, expires.Unix()))
	doc := stac{
		id: j.id, title: j.title, scene: sceneOf(j.body), status: status, assets: object{},
		links: []object{
			{"rel": "self", "href": s.api(r) + "/jobs/" + j.id + "/results", "type": "application/json"},
			{"rel": "canonical", "href": signed, "type": "application/json", "expires": stamp(expires)},
		},
	}
	if status == openEOWords[finished] {
		f := s.fileOf(j)
		asset := f.asset(signed)
		asset["file:size"], asset["expires"] = f.size, stamp(expires)
		doc.assets[f.name] = asset
	}
	if s.Items {
		return doc.item()
	}
	return doc.collection()
}

func (s *OpenEO) fileOf(j *job) product {
	var sent struct {
		Process struct {
			Graph map[string]node `json:"process_graph"`
		} `json:"process"`
	}
	json.Unmarshal(j.body, &sent)
	return produce(graph{nodes: sent.Process.Graph}.format(), sceneOf(j.body))
}

func (s *OpenEO) signature(id string, expires int64) string {
	mac := hmac.New(sha256.New, fmt.Appendf(nil, "signing key %d", s.Seed))
	fmt.Fprintf(mac, "%s %d", id, expires)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signedJob returns the job of a signed URL, whose signature stands for a token until it expires. s.mu is held.
func (s *OpenEO) signedJob(c call) (*job, *problem) {
	expires, _ := strconv.ParseInt(c.PathValue("expires"), 10, 64)
	j := s.jobs.byID[c.PathValue("id")]
	switch {
	case j == nil || !hmac.Equal([]byte(c.PathValue("signature")), []byte(s.signature(j.id, expires))):
		return nil, &problem{403, "CredentialsInvalid", "Credentials are not correct."}
	case !nowFrom(s.Now).Before(time.Unix(expires, 0)):
		return nil, &problem{410, "ResultLinkExpired",
			"The link to the batch job result has expired. Please request the results again."}
	case j.at(nowFrom(s.Now)) != finished:
		return nil, &problem{404, "NotFound", "There is no such file."}
	}
	return j, nil
}

func (s *OpenEO) canonical(w http.ResponseWriter, c call, j *job) *problem {
	writeJSON(w, 200, s.resultDocument(c.Request, j, openEOWords[finished]))
	return nil
}

func (s *OpenEO) asset(w http.ResponseWriter, c call, j *job) *problem {
	f := s.fileOf(j)
	if f.name != c.PathValue("file") {
		return &problem{404, "NotFound", "There is no such file."}
	}
	f.serve(w, c.Request)
	return nil
}

// logs returns a job's log so far, beginning after the entry named offset.
func (s *OpenEO) logs(w http.ResponseWriter, c call, j *job) *problem {
	query, now := c.URL.Query(), nowFrom(s.Now)
	level := query.Get("level")
	if level == "" {
		level = "debug"
	}
	offset, err := strconv.Atoi(query.Get("offset"))
	if err != nil {
		offset = -1
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	entries := []object{}
	for i, e := range j.log(now) {
		if i > offset && severity[e.level] <= severity[level] && (limit < 1 || len(entries) < limit) {
			entries = append(entries, object{"id": strconv.Itoa(i), "level": e.level, "message": e.message,
				"time": stamp(e.time)})
		}
	}
	writeJSON(w, 200, object{"level": level, "logs": entries, "links": []object{}})
	return nil
}

var severity = map[string]int{"error": 0, "warning": 1, "info": 2, "debug": 3}

type logLine struct {
	time           time.Time
	level, message string
}

// log returns what j has logged until now, as a function of its course.
func (j *job) log(now time.Time) []logLine {
	lines := []logLine{{j.created, "info", "job created"}}
	if j.course == nil {
		return lines
	}
	end := logLine{j.course.end, "info", "job finished"}
	if j.course.fails {
		end = logLine{j.course.end, "error", failureText}
	}
	if !j.course.stopped.IsZero() && j.course.stopped.Before(j.course.end) {
		end = logLine{j.course.stopped, "warning", "job canceled"}
	}
	for _, l := range []logLine{{j.course.start, "debug", "job queued"}, {j.course.run, "info", "loading data"}, end} {
		if !l.time.After(now) && !l.time.After(end.time) {
			lines = append(lines, l)
		}
	}
	return lines
}

// result runs a graph while the client waits, and responds with the file.
func (s *OpenEO) result(w http.ResponseWriter, c call) *problem {
	body, p := readBody(c)
	if p != nil {
		return p
	}
	g, p := s.readGraph(c.Context(), body)
	if p != nil {
		return p
	}
	s.mu.Lock()
	course := s.Life.begin(nowFrom(s.Now), s.Seed, 0)
	s.mu.Unlock()
	if !sleep(c.Context(), course.end.Sub(course.run)) {
		return &problem{408, "RequestTimeout", "The request took too long."}
	}
	if course.fails {
		return &problem{500, "Internal", failureText}
	}
	w.Header().Set("OpenEO-Costs", "2")
	if sum, ok := g.sum(); ok {
		writeJSON(w, 200, sum)
		return nil
	}
	f := produce(g.format(), sceneOf(body))
	w.Header().Set("Content-Type", f.media)
	w.Write(f.content())
	return nil
}

// sum computes a graph that consists of one addition.
func (g graph) sum() (float64, bool) {
	n := g.nodes[g.result]
	var x, y float64
	ok := n.Process == "add" && json.Unmarshal(n.Arguments["x"], &x) == nil &&
		json.Unmarshal(n.Arguments["y"], &y) == nil
	return x + y, ok
}
