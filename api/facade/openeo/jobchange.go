package openeo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// createJob stores a batch job that its client will start.
func (f *Facade) createJob(r *request) (*answer, error) {
	members, err := r.newJob()
	if err != nil {
		return nil, err
	}
	backend, err := f.backendFor(r, members)
	if err != nil {
		return nil, err
	}
	if err := f.checkJob(r, backend, members); err != nil {
		return nil, err
	}
	body, err := dispatch.Encode(members)
	if err != nil {
		return nil, err
	}
	n, err := f.Broker.CreateUnstarted(r.Context(), r.user, backend.Name, asksForTask(members), titleOf(members), body,
		dispatch.Key{})
	if err != nil {
		return nil, err
	}
	id := facade.WriteID(n.ID)
	return &answer{Status: http.StatusCreated, Header: http.Header{"Location": {r.root + "/jobs/" + id},
		"Openeo-Identifier": {id}}}, nil
}

// newJob reads the members of a batch job, or of a synchronous run. A member that is null is absent.
func (r *request) newJob() (map[string]json.RawMessage, error) {
	members, err := r.object()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(_ string, v json.RawMessage) bool { return isNull(v) })
	if err := gatherOptions(members); err != nil {
		return nil, err
	}
	return members, r.replaceAddresses(members, "process")
}

func titleOf(members map[string]json.RawMessage) (title string) {
	_ = json.Unmarshal(members["title"], &title)
	return title
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

// backendFor returns the platform that a batch job goes to.
func (f *Facade) backendFor(r *request, members map[string]json.RawMessage) (*dispatch.Backend, error) {
	if r.view.merged() {
		return f.choose(r, members)
	}
	return r.view.backend, nil
}

// modifyJob changes the members of a batch job that was not started. A member that is null is removed.
func (f *Facade) modifyJob(r *request) (*answer, error) {
	changes, err := r.object()
	if err != nil {
		return nil, err
	}
	e, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	n := e.Unstarted
	switch {
	case n == nil && len(changes) == 0:
		return &answer{Status: http.StatusNoContent}, nil
	case n == nil:
		return nil, refused(http.StatusBadRequest, "JobLocked",
			"This batch job was started and can no longer be changed. Create a new one.")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(n.Body, &members); err != nil {
		return nil, err
	}
	if err := change(members, changes); err != nil {
		return nil, err
	}
	if asksForTask(members) != (n.ID.Task != 0) {
		return nil, refused(http.StatusBadRequest, "PropertyNotEditable",
			"Whether a batch job is split into tiles cannot be changed. Create a new one.")
	}
	if err := r.replaceAddresses(members, "process"); err != nil {
		return nil, err
	}
	backend, err := f.platformOf(n)
	if err != nil {
		return nil, err
	}
	if err := f.checkJob(r, backend, members); err != nil {
		return nil, err
	}
	n.Title = titleOf(members)
	if n.Body, err = dispatch.Encode(members); err != nil {
		return nil, err
	}
	err = f.Broker.ChangeUnstarted(r.Context(), *n)
	if dispatch.Is(err, dispatch.Conflict) || dispatch.Is(err, dispatch.NotFound) {
		err = errChanged
	}
	return &answer{Status: http.StatusNoContent}, err
}

// platformOf returns the platform of a batch job that was not started.
func (f *Facade) platformOf(n *dispatch.Unstarted) (*dispatch.Backend, error) {
	if b := f.anyBackend(n.Account.Platform()); b != nil {
		return b, nil
	}
	return nil, refused(http.StatusServiceUnavailable, "InfrastructureMaintenance",
		"The platform of this batch job is no longer offered here.")
}

var errChanged = refused(http.StatusBadRequest, "JobLocked",
	"The batch job was changed, started or deleted by another request at the same time. Read it again.")

// jobMembers are the members of a batch job besides its process whose form is checked.
var jobMembers = map[string]func(json.RawMessage) bool{
	"title": isTextUpTo(mostTitle), "description": isTextUpTo(mostDescription), "plan": isTextUpTo(mostTitle),
	"log_level":    isLevel,
	"max_duration": isDuration,
	"budget":       func(v json.RawMessage) bool { var n float64; return json.Unmarshal(v, &n) == nil && n >= 0 },
	"job_options": func(v json.RawMessage) bool {
		var o map[string]json.RawMessage
		return json.Unmarshal(v, &o) == nil
	},
}

const (
	mostTitle       = 1_000 // characters, as in the broker's own interface
	mostDescription = 20_000
	longestJob      = 366 * 24 * time.Hour // as in the broker's own interface
)

func isTextUpTo(most int) func(json.RawMessage) bool {
	return func(v json.RawMessage) bool {
		var s string
		return json.Unmarshal(v, &s) == nil && utf8.RuneCountInString(s) <= most
	}
}

// isDuration reports whether a value is a number of seconds that a job can take.
func isDuration(v json.RawMessage) bool {
	var seconds int64
	return json.Unmarshal(v, &seconds) == nil && seconds >= 1 && seconds <= int64(longestJob.Seconds())
}

func isLevel(v json.RawMessage) bool {
	var s string
	return json.Unmarshal(v, &s) == nil && slices.Contains(levels, s)
}

// checkJob checks a batch job as far as it can be checked without its platform.
func (f *Facade) checkJob(r *request, backend *dispatch.Backend, members map[string]json.RawMessage) error {
	request, err := f.checkedRequest(r, backend, members)
	if err != nil {
		return err
	}
	request, d, err := f.whole(r, backend, members, request)
	if err != nil {
		return err
	}
	return requestError(request, f.Broker.CheckRequest(r.Context(), r.user, request, d))
}

// checkedRequest returns the broker's request for a batch job, or for a synchronous run, whose members are checked.
func (f *Facade) checkedRequest(r *request, backend *dispatch.Backend, members map[string]json.RawMessage) (
	request dispatch.Request, err error) {
	if err := checkMembers(backend, members); err != nil {
		return request, err
	}
	sent, err := decoded(members["process"])
	if err != nil {
		return request, err
	}
	nodes, err := nodesIn(sent, false)
	if err != nil {
		return request, err
	}
	if err := checkPin(members, nodes); err != nil {
		return request, err
	}
	if request, err = f.requestFor(backend, members); err != nil {
		return request, err
	}
	return request, f.checkKnown(r, backend, nodes)
}

// checkMembers checks the form of the members of a batch job or of a synchronous run.
func checkMembers(backend *dispatch.Backend, members map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(jobMembers)) {
		if v, there := members[name]; there && !jobMembers[name](v) {
			return refused(http.StatusBadRequest, "ProcessParameterInvalid",
				fmt.Sprintf("The member %s has the wrong form, or is too large. Titles and plans have at most "+
					"%d characters, descriptions %d.", name, mostTitle, mostDescription))
		}
	}
	if err := checkOptions(members); err != nil {
		return err
	}
	if err := checkPlatform(backend, members); err != nil {
		return err
	}
	var process map[string]json.RawMessage
	if json.Unmarshal(members["process"], &process) != nil || process == nil {
		return refused(http.StatusBadRequest, "ProcessInvalid",
			"The request needs a process: an object with the member process_graph.")
	}
	if g := process["process_graph"]; g == nil || isNull(g) || string(g) == "{}" {
		return refused(http.StatusBadRequest, "ProcessGraphMissing", "The process has no process graph.")
	}
	return nil
}

// requestError gives the error of a request the code of what is wrong: its process graph, or the parameters of its
// service.
func requestError(r dispatch.Request, err error) error {
	if r.Process == nil {
		return callError(err)
	}
	return graphError(err)
}

// withDimension returns the request of a batch job and, if it is to become a task, its dimension.
func (f *Facade) withDimension(r *request, members map[string]json.RawMessage,
	request dispatch.Request) (dispatch.Request, *dispatch.Dimension, error) {
	switch {
	case !asksForTask(members):
		return request, nil, nil
	case request.Process == nil:
		return f.serviceTaskFor(r, members, request)
	}
	return f.taskFor(r, members, request)
}

// graphError gives the error of a process graph its code.
func graphError(err error) error {
	if dispatch.Is(err, dispatch.DocumentInvalid) || dispatch.Is(err, dispatch.Invalid) {
		return refused(http.StatusBadRequest, "ProcessGraphInvalid", dispatch.TextFor(err))
	}
	return err
}

// requestFor returns the broker's request for a batch job: for the service that it calls or, with its process as it is,
// with all other members as options, without the broker's own options.
func (f *Facade) requestFor(backend *dispatch.Backend, members map[string]json.RawMessage) (r dispatch.Request,
	err error) {
	options, own := optionsIn(members)
	labels, err := labelsIn(members)
	if err != nil {
		return r, err
	}
	if c, ok := f.callAt(backend, members["process"]); ok {
		maps.Copy(options, own)
		r, err = c.request(members, options)
		r.Annotations = labels
		return r, err
	}
	if err := f.checkServices(backend, members); err != nil {
		return r, err
	}
	if backend.Label != dispatch.OpenEO {
		return r, noGraphs(backend)
	}
	r = dispatch.Request{Label: backend.Label, Service: dispatch.Service{Endpoint: backend.Endpoint},
		Process: members["process"], Title: titleOf(members), Annotations: labels}
	rest := maps.Clone(members)
	for _, name := range []string{"title", "process", "job_options"} {
		delete(rest, name)
	}
	maps.Copy(rest, own)
	if len(options) > 0 {
		if rest["job_options"], err = dispatch.Encode(options); err != nil {
			return r, err
		}
	}
	if len(rest) > 0 {
		r.Options, err = dispatch.Encode(rest)
	}
	return r, err
}

// startJob starts a batch job. One that was started and has not ended goes on.
func (f *Facade) startJob(r *request) (*answer, error) {
	e, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	started := &answer{Status: http.StatusAccepted}
	switch {
	case e.Unstarted == nil && ended(e.status()):
		return nil, refused(http.StatusBadRequest, "JobLocked",
			"This batch job was started before and has ended. A batch job runs once: create a new one with the same "+
				"process.")
	case e.Unstarted == nil:
		return started, nil
	}
	request, d, err := f.requestToStart(r, e.Unstarted)
	if err != nil {
		return nil, err
	}
	err = f.Broker.Start(r.Context(), *e.Unstarted, request, d)
	if dispatch.Is(err, dispatch.Conflict) {
		err = errChanged
	}
	return started, notFound(requestError(request, err), "JobNotFound")
}

// requestToStart returns the request that starts a batch job and, if it is to become a task, its dimension.
func (f *Facade) requestToStart(r *request, n *dispatch.Unstarted) (request dispatch.Request, d *dispatch.Dimension,
	err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(n.Body, &members); err != nil {
		return request, nil, err
	}
	backend, err := f.platformOf(n)
	if err != nil {
		return request, nil, err
	}
	if request, err = f.requestFor(backend, members); err != nil {
		return request, nil, err
	}
	if request, d, err = f.whole(r, backend, members, request); err != nil {
		return request, d, err
	}
	request.Facade, err = asSent(members, request)
	return request, d, err
}

// whole returns the request of a batch job as it runs: split if it is to become a task, with its dimension, and with
// the processes that it calls.
func (f *Facade) whole(r *request, b *dispatch.Backend, members map[string]json.RawMessage,
	request dispatch.Request) (dispatch.Request, *dispatch.Dimension, error) {
	request, d, err := f.withDimension(r, members, request)
	if err != nil || request.Process == nil {
		return request, d, err
	}
	request, err = f.withProcesses(r, b, request, "default_job_options")
	return request, d, err
}

// withProcesses returns a request for a process graph with the processes that it calls, and with the job options that
// they propose in a member of their definitions.
func (f *Facade) withProcesses(r *request, b *dispatch.Backend, request dispatch.Request, member string) (
	dispatch.Request, error) {
	process, proposed, err := f.inlined(r, b, request.Process, member)
	if err != nil {
		return request, err
	}
	if request.Process = process; len(proposed) > 0 {
		request.Options, err = withProposed(request.Options, proposed)
	}
	return request, err
}

// withProposed returns the members of a batch job with job options that the processes which it calls propose. Those of
// its client count first.
func withProposed(members json.RawMessage, proposed map[string]json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(members, &all) // absent, or an object
	options := maps.Clone(proposed)
	maps.Copy(options, optionsOf(all))
	var err error
	if all["job_options"], err = dispatch.Encode(options); err != nil {
		return nil, err
	}
	return dispatch.Encode(all)
}

// cancelJob stops a batch job. It does nothing if the job has ended.
func (f *Facade) cancelJob(r *request) (*answer, error) {
	e, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Unstarted != nil:
		return nil, refused(http.StatusBadRequest, "JobNotStarted", "This batch job was not started.")
	case ended(e.status()):
	case e.Task != nil:
		_, err = f.Broker.CancelTask(r.Context(), r.user, e.Task.ID, dispatch.Choice{})
	default:
		_, err = f.Broker.Cancel(r.Context(), r.user, e.Job.ID)
	}
	return &answer{Status: http.StatusNoContent}, notFound(err, "JobNotFound")
}
