package openeo

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// runOperations returns the operations on synchronous runs.
func (f *Facade) runOperations() []operation {
	return []operation{
		{method: "POST", path: "/result", access: signedIn, serve: f.run, passed: true, streams: true},
		{method: "GET", path: "/result/{run_id}/logs", access: signedIn, serve: f.readRunLog, unlisted: true},
	}
}

// run runs a process graph, or the service that it calls, while its client waits, and passes on the file that it makes.
func (f *Facade) run(r *request) (*answer, error) {
	run, err := f.requestToRun(r)
	if err != nil {
		return nil, err
	}
	result, err := r.RunSync(r.w, r.Request, run)
	if err != nil {
		return nil, runError(run, err)
	}
	id := facade.WriteID(facade.ID{Job: result.Run})
	// a file that is a page must not act as a page of this service
	header := http.Header{"Content-Type": {facade.InertType(result.ContentType)},
		"Content-Security-Policy": {facade.Sandbox},
		"Openeo-Identifier":       {id}, "Link": {"<" + r.root + "/result/" + id + `/logs>; rel="monitor"`}}
	if result.Costs != nil {
		header.Set("OpenEO-Costs", strconv.FormatFloat(*result.Costs, 'f', -1, 64))
	}
	return &answer{Header: header, Write: func(w http.ResponseWriter) error {
		defer result.Body.Close()
		return r.Stream(w, r.Request, http.StatusOK, result.Body)
	}}, nil
}

// requestToRun returns the broker's request for a synchronous run. Only the run may take longer than other requests.
func (f *Facade) requestToRun(whole *request) (run dispatch.Request, err error) {
	ctx, cancel := facade.WithDeadline(whole.Context())
	defer cancel()
	r := *whole
	r.Request = whole.WithContext(ctx)
	members, err := r.newJob()
	if err != nil {
		return run, err
	}
	for _, name := range ownOptions(members) {
		if name != platformOptions[0] {
			return run, badOption("The job option " + name + " is for batch jobs. " + asBatchJob)
		}
	}
	backend, err := f.backendFor(&r, members)
	if err != nil {
		return run, err
	}
	if run, err = f.checkedRequest(&r, backend, members); err != nil || run.Process == nil {
		return run, err
	}
	return f.withProcesses(&r, backend, run, "default_synchronous_options")
}

// asBatchJob says how a client runs a process graph that cannot be run while it waits.
const asBatchJob = `Run it as a batch job: in the Python client, cube.execute_batch("result.tiff") in place of ` +
	`cube.download("result.tiff") and cube.execute().`

// runError returns the error of a synchronous run.
func runError(run dispatch.Request, err error) error {
	text := dispatch.TextFor(err) + " " + asBatchJob
	switch {
	case errors.Is(err, dispatch.ErrTooLong):
		// Not 408 RequestTimeout: a browser that gets it on a connection in use sends the request again by itself.
		return refused(http.StatusBadRequest, "ProcessGraphComplexity", text)
	case dispatch.Is(err, dispatch.Unsupported):
		return refused(http.StatusNotImplemented, "FeatureUnsupported", text)
	}
	return requestError(run, err)
}

// runsWithLog is how many of a user's runs have a log, the newest ones: clients read it when the result arrives.
const runsWithLog = 100

// readRunLog returns what is known of a synchronous run: when it began, and how it ended.
func (f *Facade) readRunLog(r *request) (*answer, error) {
	runs, err := f.Broker.SyncRuns(r.Context(), r.user, dispatch.Page{Limit: runsWithLog})
	if err != nil {
		return nil, err
	}
	id, _ := facade.ParseID(r.PathValue("run_id"))
	i := slices.IndexFunc(runs, func(run dispatch.Record) bool {
		return run.ID == id.Job && (r.view.merged() || run.Account.Platform() == r.view.name())
	})
	if i < 0 {
		return nil, refused(http.StatusNotFound, "JobNotFound",
			fmt.Sprintf("There is no such run among your last %d.", runsWithLog))
	}
	return &answer{Body: logPage{Level: "debug", Logs: entriesOf(runs[i]), Links: []link{}}}, nil
}

func entriesOf(run dispatch.Record) (all []logEntry) {
	add := func(level, message string, at time.Time) {
		all = append(all, logEntry{ID: strconv.Itoa(len(all) + 1), Level: level, Message: message, Time: known(at)})
	}
	add("info", "The run at "+run.Account.Platform()+" began.", run.Created)
	if run.Request.Warning != "" {
		add("warning", run.Request.Warning, run.Created)
	}
	switch run.Status {
	case dispatch.Finished:
		add("info", "The run ended, and its result was sent.", run.Moved)
	case dispatch.Failed:
		add("error", cmp.Or(run.Failure, "The run failed."), run.Moved)
	case dispatch.Canceled:
		add("warning", "The client left before it had the whole result, so the run was ended.", run.Moved)
	case dispatch.Unknown:
		add("error", "The broker was stopped during the run. It is not known whether the platform ended it.", run.Moved)
	}
	return all
}
