package openeo

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// jobOperations returns the operations on jobs.
func (f *Facade) jobOperations() []operation {
	return []operation{
		{method: "GET", path: "/jobs", access: signedIn, serve: f.listJobs},
		{method: "POST", path: "/jobs", access: signedIn, serve: f.createJob},
		{method: "GET", path: "/jobs/{job_id}", access: signedIn, serve: f.describeJob},
		{method: "PATCH", path: "/jobs/{job_id}", access: signedIn, serve: f.modifyJob},
		{method: "DELETE", path: "/jobs/{job_id}", access: signedIn, serve: f.deleteJob},
		{method: "GET", path: "/jobs/{job_id}/estimate", access: signedIn, serve: f.estimateJob},
		{method: "GET", path: "/jobs/{job_id}/logs", access: signedIn, serve: f.readLogs},
		{method: "POST", path: "/jobs/{job_id}/results", access: signedIn, serve: f.startJob},
		{method: "GET", path: "/jobs/{job_id}/results", access: signedIn, serve: f.readResults},
		{method: "DELETE", path: "/jobs/{job_id}/results", access: signedIn, serve: f.cancelJob},
		{method: "GET", path: "/results/{link}", access: open, serve: f.followResults, unlisted: true},
	}
}

// fresh is the maximum age of a status that clients get, unless its platform does not respond.
const fresh = 10 * time.Second

var errNoJob = refused(http.StatusNotFound, "JobNotFound",
	"There is no such batch job. It was deleted, or its creation was too long ago and it was never started.")

// entry is what the id of a batch job stands for.
type entry broker.Entry

// find returns the batch job of the path. Its status is no older than fresh.
func (f *Facade) find(r *request, fresh time.Duration) (entry, error) {
	id, ok := facade.ParseID(r.PathValue("job_id"))
	if !ok {
		return entry{}, errNoJob
	}
	e, account, err := f.lookUp(r, id, fresh)
	if dispatch.Is(err, dispatch.NotFound) { // it may have been started between the two reads
		e, account, err = f.lookUp(r, id, fresh)
	}
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return entry{}, errNoJob
	case err != nil:
		return entry{}, err
	case !r.view.merged() && account.Platform() != r.view.name():
		return entry{}, errNoJob
	}
	return e, nil
}

func (f *Facade) lookUp(r *request, id facade.ID, fresh time.Duration) (e entry, a dispatch.Account, err error) {
	ctx := r.Context()
	if id.Task != 0 {
		if err = f.Broker.Freshen(ctx, r.user, dispatch.Scope{Task: id.Task}, fresh); err != nil {
			return e, a, err
		}
		var t dispatch.TaskRecord
		if t, err = f.Broker.Task(ctx, r.user, id.Task); err == nil {
			return entry{Task: &t}, t.Account, nil
		}
	} else {
		var j dispatch.Record
		if j, err = f.Broker.Read(ctx, r.user, id.Job, fresh); err == nil && j.Task == 0 {
			return entry{Job: &j}, j.Account, nil
		}
	}
	if err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return e, a, err
	}
	u, err := f.Broker.Unstarted(ctx, r.user, id)
	if err == nil && !isOwn(u) {
		err = errNoJob
	}
	return entry{Unstarted: &u}, u.Account, err
}

// id returns the id of the batch job.
func (e entry) id() string {
	switch {
	case e.Unstarted != nil:
		return facade.WriteID(e.Unstarted.ID)
	case e.Task != nil:
		return facade.WriteID(facade.ID{Task: e.Task.ID})
	}
	return facade.WriteID(facade.ID{Job: e.Job.ID})
}

// status returns the status of the batch job in the words of openEO.
func (e entry) status() string {
	switch {
	case e.Unstarted != nil:
		return "created"
	case e.Task != nil:
		return words[e.Task.Counts.AsOneJob()]
	case e.Job.Status == dispatch.Unknown && e.Job.Seen != "":
		return words[e.Job.Seen] // clients stop at a word that they do not know
	}
	return words[e.Job.Status]
}

// words are openEO's words for the statuses of jobs that were started. A job that the broker has accepted is queued:
// clients would offer to start a created one.
var words = map[dispatch.Status]string{dispatch.Accepted: "queued", dispatch.Submitted: "queued",
	dispatch.Queued:  "queued",
	dispatch.Running: "running", dispatch.Finished: "finished", dispatch.Failed: "error", dispatch.Canceled: "canceled",
	dispatch.Unknown: "running"}

// ended reports whether a status is final.
func ended(word string) bool { return word == "finished" || word == "error" || word == "canceled" }

func (f *Facade) describeJob(r *request) (*answer, error) {
	e, err := f.find(r, fresh)
	if err != nil {
		return nil, err
	}
	j := f.batchJob(r, e)
	if j.Process, err = f.processOf(r, e); err != nil {
		return nil, err
	}
	if e.Task != nil && ended(j.Status) {
		all, err := f.taskTotal(r, *e.Task)
		if err != nil {
			return nil, err
		}
		j.Costs, j.Usage = all.costs, all.usage()
	}
	return &answer{Body: j}, nil
}

// deleteJob deletes a batch job, which stops it.
func (f *Facade) deleteJob(r *request) (*answer, error) {
	e, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	err = f.remove(r, e)
	if e.Unstarted != nil && dispatch.Is(err, dispatch.NotFound) { // another request started or deleted it meanwhile
		if e, err = f.find(r, broker.AsKnown); err != nil {
			return nil, err
		}
		err = f.remove(r, e)
	}
	return &answer{Status: http.StatusNoContent}, notFound(err, "JobNotFound")
}

func (f *Facade) remove(r *request, e entry) error {
	switch {
	case e.Unstarted != nil:
		return f.Broker.DeleteUnstarted(r.Context(), r.user, e.Unstarted.ID)
	case e.Task != nil:
		return f.Broker.DeleteTask(r.Context(), r.user, e.Task.ID)
	}
	return f.Broker.Delete(r.Context(), r.user, e.Job.ID)
}

// batchJob is the metadata of a batch job.
type batchJob struct {
	ID          string          `json:"id"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Process     json.RawMessage `json:"process,omitempty"`
	Status      string          `json:"status"`
	Progress    *float64        `json:"progress,omitempty"`
	Created     time.Time       `json:"created"`
	Updated     time.Time       `json:"updated"`
	Queued      time.Time       `json:"queued,omitzero"`  // since 1.3
	Started     time.Time       `json:"started,omitzero"` // since 1.3
	Plan        string          `json:"plan,omitempty"`
	Costs       *float64        `json:"costs,omitempty"`
	Budget      *float64        `json:"budget,omitempty"`
	Usage       *usage          `json:"usage,omitempty"`
	LogLevel    string          `json:"log_level,omitempty"`
	JobOptions  json.RawMessage `json:"job_options,omitempty"`
	Links       []link          `json:"links,omitempty"`
}

// batchJob returns the metadata of a batch job, without its process.
func (f *Facade) batchJob(r *request, e entry) batchJob {
	j := batchJob{ID: e.id(), Status: e.status()}
	switch {
	case e.Unstarted != nil:
		j.Title, j.Created, j.Updated = e.Unstarted.Title, e.Unstarted.Created, e.Unstarted.Updated
		j.describe(e.Unstarted.Body)
	case e.Task != nil:
		j.Title, j.Created, j.Updated = e.Task.Request.Title, e.Task.Created, cmp.Or(e.Task.Ended, e.Task.Updated)
		j.Progress = progress(j.Status, &e.Task.Progress)
		j.describe(e.Task.Request.Options, e.Task.Request.Facade)
	default:
		j.Title, j.Created, j.Updated = e.Job.Request.Title, e.Job.Created, e.Job.Updated
		if e.Job.Status.Final() {
			j.Updated = e.Job.EndTime() // costs and notes may come later
		}
		j.Queued, j.Started = e.Job.Created, e.Job.Started
		j.Progress, j.Costs = progress(j.Status, e.Job.Progress), e.Job.AllCosts()
		j.Usage = usageOf(e.Job.Job)
		j.describe(e.Job.Request.Options, e.Job.Request.Facade)
	}
	if e.Unstarted == nil {
		j.Links = []link{{Rel: "monitor", Href: r.root + "/jobs/" + j.ID + "/logs", Type: "application/json"}}
	}
	if j.Status == "finished" {
		j.Links = append(j.Links, link{Rel: "result", Href: r.root + "/jobs/" + j.ID + "/results",
			Type: "application/json"})
	}
	return j
}

// progress returns the percentage that openEO allows with a status.
func progress(status string, known *float64) *float64 {
	switch status {
	case "queued":
		return new(0.0)
	case "finished":
		return new(100.0)
	}
	return known
}

// describe takes over what a client wrote about a batch job besides its process. The last of several objects that has a
// member counts.
func (j *batchJob) describe(objects ...[]byte) {
	var written struct {
		Description, Plan string
		Budget            *float64
		LogLevel          string          `json:"log_level"`
		JobOptions        json.RawMessage `json:"job_options"`
	}
	for _, members := range objects {
		_ = json.Unmarshal(members, &written) // a job of another door may have options of these names and other types
	}
	j.Description, j.Plan, j.Budget = written.Description, written.Plan, written.Budget
	j.LogLevel, j.JobOptions = written.LogLevel, written.JobOptions
}

// sentProcess returns the process that the façade stored with a request, see asSent; nil if it stored none.
func sentProcess(r dispatch.Request) json.RawMessage {
	var sent struct{ Process json.RawMessage }
	_ = json.Unmarshal(r.Facade, &sent) // empty for jobs of other interfaces
	return sent.Process
}

// processOf returns the process of a batch job: as its client sent it or, for a job of another interface that names a
// service, a graph that calls the service.
func (f *Facade) processOf(r *request, e entry) (json.RawMessage, error) {
	if e.Unstarted != nil {
		var body struct{ Process json.RawMessage }
		err := json.Unmarshal(e.Unstarted.Body, &body)
		return body.Process, err
	}
	request, first, err := f.requestOf(r, e)
	if err != nil {
		return nil, err
	}
	if sent := sentProcess(request); sent != nil {
		return sent, nil
	}
	d, err := f.Broker.Document(r.Context(), r.user, first)
	if err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return nil, err
	}
	if d != nil && request.Service.Inline() {
		return d.Body, nil
	}
	if s, ok := f.identified(request); ok && r.view.merged() {
		return callOfService(s.ID, request)
	}
	return callOf(request, d)
}

// requestOf returns the request of a job or a task, and the job, or one of the task's.
func (f *Facade) requestOf(r *request, e entry) (dispatch.Request, dispatch.JobID, error) {
	if e.Job != nil {
		return e.Job.Request, e.Job.ID, nil
	}
	for j, err := range f.Broker.TaskJobs(r.Context(), r.user, e.Task.ID, dispatch.Page{Limit: 1, Most: -1}) {
		return e.Task.Request, j.ID, err
	}
	return e.Task.Request, 0, nil
}

// callOf returns the process of a request that names a service: one node that calls it. The document that defines the
// service, if there is one, contains its id.
func callOf(r dispatch.Request, d *dispatch.Document) (json.RawMessage, error) {
	node := map[string]any{"process_id": r.Service.Application, "arguments": r.Parameters, "result": true}
	if r.Service.Namespace != nil {
		node["namespace"] = *r.Service.Namespace
	}
	var defined struct{ ID string }
	if d != nil && json.Unmarshal(d.Body, &defined) == nil && defined.ID != "" && r.Service.Application != defined.ID {
		node["process_id"], node["namespace"] = defined.ID, r.Service.Application
	}
	return dispatch.Encode(map[string]any{"process_graph": map[string]any{"run": node}})
}
