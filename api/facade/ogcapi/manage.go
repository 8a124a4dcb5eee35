package ogcapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Job management is Part 4 of the standard (24-051, a draft): jobs that are created by one request and started by
// another, and what a job consists of.

const (
	typeLocked = "http://www.opengis.net/def/exceptions/ogcapi-processes-4/1.0/locked"

	memberProcess = "process" // of an execution that creates a job
	memberStatus  = "status"
)

// unstarted is the body of a job that was not started. Its first members are shown in lists.
type unstarted struct {
	View    string  `json:"view"` // path of the view in which it was created
	Process string  `json:"process"`
	Prefer  string  `json:"prefer,omitempty"`
	Request members `json:"request"` // the execute request, as the client sent it
}

func (u unstarted) encode() ([]byte, error) {
	return dispatch.Encode(struct {
		Kept unstarted `json:"ogcapi"` // facade.ProcessesUnstarted
	}{u})
}

// keptIn reads the body of an unstarted job, of which lists have only the beginning; false: it is one of another
// interface.
func keptIn(body []byte) (u unstarted, own bool) {
	rest, own := bytes.CutPrefix(body, []byte(facade.ProcessesUnstarted))
	if !own || json.Unmarshal(bytes.TrimSuffix(rest, []byte("}")), &u) == nil {
		return u, own
	}
	var begin []string // an object that begins with the members view and process
	for d := json.NewDecoder(bytes.NewReader(rest)); len(begin) < 5; {
		token, err := d.Token()
		if err != nil {
			return unstarted{}, true
		}
		begin = append(begin, fmt.Sprint(token))
	}
	return unstarted{View: begin[2], Process: begin[4]}, true
}

// shownIn reports whether a view shows the job: the one in which it was created, and that of the catalogue.
func (u unstarted) shownIn(v view) bool { return v.whole() || u.View == v.path }

// unstarted returns a job of the user that was not started.
func (f *Facade) unstarted(in *request, id facade.ID) (n dispatch.Unstarted, kept unstarted, found bool) {
	n, err := f.Broker.Unstarted(in.Context(), in.user, id)
	if err != nil {
		return n, kept, false
	}
	kept, own := keptIn(n.Body)
	return n, kept, own && kept.shownIn(in.view)
}

// unstartedInfo returns the status of a job that was not started.
func (f *Facade) unstartedInfo(in *request, n dispatch.Unstarted, kept unstarted) statusInfo {
	info := newInfo(in, n.ID, waiting)
	info.Created, info.Updated = n.Created.UTC(), n.Updated.UTC()
	info.Message = "The job was not started: POST its results."
	if kept.View == in.view.path {
		info.ProcessID = kept.Process
	}
	return info
}

// createJob creates a job. It is started at once, as by an execution, unless the client prefers the status created.
func (f *Facade) createJob(in *request) (*answer, error) {
	body, err := in.ReadBody(in.w, in.Request)
	if err != nil {
		return nil, err
	}
	var m members
	if json.Unmarshal(body, &m) != nil || m == nil {
		return nil, badRequest("The body must be an execute request with the member process.")
	}
	process, err := processOfRequest(m)
	if err != nil {
		return nil, err
	}
	s, err := f.processIn(in.view, process)
	if err != nil {
		return nil, err
	}
	var status string
	_ = json.Unmarshal(m[memberStatus], &status) // Weaver's clients write it into the body
	prefers := facade.PreferencesIn(in.Header).Status
	if prefers != waiting && status != "create" {
		return f.executeBody(in, s, body)
	}
	delete(m, memberProcess)
	delete(m, memberStatus)
	kept := unstarted{View: in.view.path, Process: process, Prefer: strings.Join(in.Header.Values("Prefer"), ", "),
		Request: m}
	if _, _, err := f.requestOf(in, kept, true); err != nil {
		return nil, err
	}
	text, err := kept.encode()
	if err != nil {
		return nil, err
	}
	_, isTask := m.inputs()[inputTiles]
	key, err := in.Key(in.Request, append(bytes.Clone(body), waiting...)) // the preference may be in a header
	if err != nil {
		return nil, err
	}
	n, err := f.Broker.CreateUnstarted(in.Context(), in.user, s.Platform, isTask, s.Title, text, key)
	if err != nil {
		return nil, err
	}
	info := f.unstartedInfo(in, n, kept)
	if n.Version == 0 { // created before
		if info, err = f.anyInfo(in, n.ID); err != nil {
			return nil, err
		}
	}
	return &answer{Status: http.StatusCreated, Body: info, Header: http.Header{
		"Location": {in.root + "/jobs/" + info.JobID}, "Preference-Applied": {"status=created"}}}, nil
}

// inputs returns the inputs of an execute request. One that is null is absent.
func (m members) inputs() members {
	inputs := members{}
	_ = json.Unmarshal(m["inputs"], &inputs) // checked where it is used
	maps.DeleteFunc(inputs, func(_ string, v json.RawMessage) bool { return isNull(v) })
	return inputs
}

func isNull(v json.RawMessage) bool { return string(bytes.TrimSpace(v)) == "null" }

// processOfRequest returns the id of the process that an execute request names, by its id or by its URI.
func processOfRequest(m members) (string, error) {
	var uri string
	if json.Unmarshal(m[memberProcess], &uri) != nil || uri == "" {
		return "", badRequest("process must be the URI of a process of this server, or its id.")
	}
	if _, last, isURI := strings.Cut(uri, "/processes/"); isURI {
		id, err := url.PathUnescape(last)
		if err != nil {
			return "", badRequest("process is no URI.")
		}
		return id, nil
	}
	return uri, nil
}

// requestOf returns the request of a job that was not started and, if it is split into tiles, its dimension.
func (f *Facade) requestOf(in *request, kept unstarted, check bool) (r dispatch.Request, d *dispatch.Dimension,
	err error) {
	at := *in
	if at.view, _ = f.viewAt(kept.View); at.view.path != kept.View { // another view may have a process of the same id
		return r, nil, exception{Status: http.StatusServiceUnavailable,
			Detail: "The platform of this job is no longer offered here."}
	}
	at.root = strings.TrimSuffix(in.root, in.view.path) + at.view.path
	at.Request = in.Request.Clone(in.Context())
	at.Header.Set("Prefer", kept.Prefer)
	s, err := f.processIn(at.view, kept.Process)
	if err != nil {
		return r, nil, err
	}
	body, err := dispatch.Encode(kept.Request)
	if err != nil {
		return r, nil, err
	}
	e, err := f.parseExecution(&at, s, body)
	if err != nil {
		return r, nil, err
	}
	if r, d, err = f.wholeRequest(&at, s, e); err != nil {
		return r, d, err
	}
	if check { // before kept is stored
		if slices.ContainsFunc(r.Notify, func(n dispatch.Notify) bool { return n.Secret != "" }) {
			return r, d, badRequest("A job that was not started is stored as it was sent, and cannot have " +
				"eodispatch:secret. Start the job when you create it, or make a hook: its messages are signed.")
		}
		err = platformLacks(f.Broker.CheckRequest(in.Context(), in.user, r, d))
	}
	return r, d, err
}

// changeJob changes a job that was not started (RFC 7396): a member that is null is removed.
func (f *Facade) changeJob(in *request, id facade.ID) (*answer, error) {
	body, err := in.ReadBody(in.w, in.Request)
	if err != nil {
		return nil, err
	}
	var changes members
	if json.Unmarshal(body, &changes) != nil || changes == nil {
		return nil, badRequest("The body must be an object with the members of an execute request that change.")
	}
	n, kept, found := f.unstarted(in, id)
	if !found {
		return nil, f.locked(in, id)
	}
	if changes[memberProcess] != nil {
		process, err := processOfRequest(changes)
		if err != nil {
			return nil, err
		}
		if process != kept.Process {
			return nil, badRequest("The process of a job cannot be changed. Create another job.")
		}
	}
	if kept.Request, err = kept.Request.merged(changes); err != nil {
		return nil, err
	}
	if _, isTask := kept.Request.inputs()[inputTiles]; isTask != (n.ID.Task != 0) {
		return nil, badRequest("Whether a job is split into tiles cannot be changed. Create another job.")
	}
	if _, _, err := f.requestOf(in, kept, true); err != nil {
		return nil, err
	}
	if n.Body, err = kept.encode(); err != nil {
		return nil, err
	}
	err = f.Broker.ChangeUnstarted(in.Context(), n)
	if dispatch.Is(err, dispatch.Conflict) || dispatch.Is(err, dispatch.NotFound) {
		return nil, f.locked(in, id)
	}
	if err != nil {
		return nil, err
	}
	if n, kept, found = f.unstarted(in, id); !found {
		return nil, f.locked(in, id)
	}
	return &answer{Body: f.unstartedInfo(in, n, kept)}, nil
}

// merged returns an execute request with changes; inputs and outputs are merged by name.
func (m members) merged(changes members) (members, error) {
	all := maps.Clone(m)
	for name, change := range changes {
		var part members
		nested := name == "inputs" || name == "outputs"
		switch {
		case name == memberProcess, name == memberStatus:
		case isNull(change):
			delete(all, name)
		case nested && json.Unmarshal(change, &part) != nil:
			return nil, badRequest("%s must be an object.", name)
		case nested:
			before := members{}
			_ = json.Unmarshal(all[name], &before) // absent, or an object
			maps.Copy(before, part)
			maps.DeleteFunc(before, func(_ string, v json.RawMessage) bool { return isNull(v) })
			all.set(name, before)
		default:
			all[name] = change
		}
	}
	return all, nil
}

// locked returns the error for a change of a job that was started, or that does not exist.
func (f *Facade) locked(in *request, id facade.ID) error {
	if _, err := f.infoOf(in, id); err != nil {
		return err
	}
	return exception{Type: typeLocked, Status: http.StatusLocked,
		Detail: "The job was started, or changed by another request, and cannot be changed. Create another job."}
}

// startJob starts a job. One that was started goes on.
func (f *Facade) startJob(in *request, id facade.ID) (*answer, error) {
	if n, kept, found := f.unstarted(in, id); found {
		r, d, err := f.requestOf(in, kept, false)
		if err != nil {
			return nil, err
		}
		err = f.Broker.Start(in.Context(), n, r, d)
		if dispatch.Is(err, dispatch.Conflict) {
			return nil, f.locked(in, id)
		}
		if err != nil {
			return nil, platformLacks(err)
		}
	}
	info, err := f.infoOf(in, id)
	if err != nil {
		return nil, err
	}
	return &answer{Body: info, Header: http.Header{"Location": {in.root + "/jobs/" + info.JobID}}}, nil
}

// definition is what a job consists of (jobDefinition.yaml).
type definition struct {
	Entity  string          `json:"entity,omitempty"` // the URI of its process
	Inputs  json.RawMessage `json:"inputs"`
	Outputs any             `json:"outputs,omitempty"`
}

// definitionOf returns what a job or a task consists of, also if it was not started.
func (f *Facade) definitionOf(in *request, id facade.ID) (d definition, err error) {
	if _, kept, found := f.unstarted(in, id); found {
		d.Inputs, err = dispatch.Encode(kept.Request.inputs())
		if outputs := kept.Request["outputs"]; outputs != nil {
			d.Outputs = outputs
		}
		if v, _ := f.viewAt(kept.View); err == nil {
			d.Entity = strings.TrimSuffix(in.root, in.view.path) + v.path + "/processes/" + url.PathEscape(kept.Process)
		}
		return d, err
	}
	r, err := f.requestIn(in, id)
	if err != nil {
		return d, err
	}
	if _, path, known := f.processOf(in.view, r); known {
		d.Entity = in.root + path
	}
	d.Inputs = r.Parameters
	wanted := map[string]wantedOutput{}
	for name, transmission := range deliveryOf(in, r).Outputs {
		wanted[name] = wantedOutput{Transmission: transmission}
	}
	if len(wanted) > 0 {
		d.Outputs = wanted
	}
	return d, nil
}

// requestIn returns the request of a job or a task.
func (f *Facade) requestIn(in *request, id facade.ID) (dispatch.Request, error) {
	if id.Task != 0 {
		t, err := f.ownTask(in, id.Task)
		return t.Request, err
	}
	r, err := f.ownJob(in, id.Job, broker.AsKnown)
	if err == nil && r.Pruned {
		err = exception{Status: http.StatusGone,
			Detail: "The inputs of the job were deleted because of their age."}
	}
	return r.Request, err
}

// readDefinition returns the definition of a job.
func (f *Facade) readDefinition(in *request, id facade.ID) (*answer, error) {
	d, err := f.definitionOf(in, id)
	return &answer{Body: d}, err
}

// readInputs returns the inputs of a job, and the outputs that it names.
func (f *Facade) readInputs(in *request, id facade.ID) (*answer, error) {
	d, err := f.definitionOf(in, id)
	d.Entity = ""
	return &answer{Body: d}, err
}

// readProvenance returns how the results of a job came about. That of a task, which may be long, is streamed by the
// server's own interface.
func (f *Facade) readProvenance(in *request, id facade.ID) (*answer, error) {
	if id.Task != 0 {
		if _, err := f.ownTask(in, id.Task); err != nil {
			return nil, err
		}
		return &answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {fmt.Sprintf(
			"%s/upscale_tasks/%d/provenance", strings.TrimSuffix(in.root, in.view.path), id.Task)}}}, nil
	}
	r, err := f.ownJob(in, id.Job, f.Freshness)
	if err != nil {
		return nil, err
	}
	p, err := in.Provenance(in.Context(), r)
	return &answer{Body: p}, err
}
