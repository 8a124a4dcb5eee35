package ogcapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// deliveryOf returns how the client that submitted a job wants its results. Jobs of other interfaces have all in one
// document.
func deliveryOf(in *request, r dispatch.Request) delivery {
	d := delivery{Response: document, Own: !in.view.whole()}
	_ = json.Unmarshal(r.Facade, &d) // empty for jobs of other interfaces
	return d
}

func (f *Facade) readResults(in *request, id facade.ID) (*answer, error) {
	a, err := f.startedResults(in, id)
	if dispatch.Is(err, dispatch.NotFound) {
		if _, _, found := f.unstarted(in, id); found {
			err = errNotReady
		}
	}
	return a, err
}

func (f *Facade) startedResults(in *request, id facade.ID) (*answer, error) {
	if id.Task != 0 {
		return f.taskResults(in, id.Task)
	}
	r, err := f.ownJob(in, id.Job, f.Freshness)
	if err != nil {
		return nil, err
	}
	return f.jobResults(in, r)
}

// jobResults returns the results of a job in the form that its client asked for, or asks for now.
func (f *Facade) jobResults(in *request, r dispatch.Record) (*answer, error) {
	d := deliveryOf(in, r.Request)
	if names := listOf(in.URL.Query(), "outputs"); len(names) > 0 {
		d.Outputs = map[string]string{}
		for _, name := range names {
			d.Outputs[name] = ""
		}
	}
	if now := transmissions[facade.PreferencesIn(in.Header).Return]; now != "" {
		d.Transmission = now
		for name := range d.Outputs {
			d.Outputs[name] = now
		}
	}
	all, err := f.outcomes(in, r, d)
	if err != nil {
		return nil, err
	}
	return written(in, r.ID, d.Response, all)
}

// outcomes returns the outputs of a successful job that are wanted.
func (f *Facade) outcomes(in *request, r dispatch.Record, d delivery) ([]outcome, error) {
	if status := f.jobInfo(in, r).Status; status != successful {
		return nil, unended(status, r.Failure)
	}
	if f.Echo != "" && r.Account.Platform() == f.Echo {
		return echoed(messageOf(r.Request.Parameters)), nil
	}
	whole, own := d.parts(r.Request.Label, in.message)
	var all []outcome
	var reading sync.WaitGroup
	var collection json.RawMessage
	var failed error
	if whole {
		reading.Go(func() { collection, failed = f.collection(in, r.ID) })
	}
	if own {
		values, err := f.Broker.Outputs(in.Context(), in.user, r.ID)
		if err != nil {
			reading.Wait()
			return nil, err
		}
		for _, v := range values {
			if d.wants(v.Name) && (v.Name != outputSTAC || d.Own && len(d.Outputs) == 0) {
				all = append(all, outcome{OutputValue: v, link: d.transmission(v.Name) == byReference, raw: d.Own})
			}
		}
	}
	reading.Wait()
	if whole && failed == nil {
		all = append(all, outcome{OutputValue: dispatch.OutputValue{Name: outputSTAC, Media: mediaJSON,
			Data: collection}, link: d.transmission(outputSTAC) == byReference})
	}
	return all, failed
}

// collection returns the results of a job as a STAC Collection.
func (f *Facade) collection(in *request, id dispatch.JobID) (json.RawMessage, error) {
	read := f.jobs.Results
	if in.repeated {
		read = f.jobs.RecentResults
	}
	c, err := read(in.Context(), in.user, id)
	if err == nil && c == nil {
		err = errNotReady
	}
	return c, err
}

// parts reports whether the Collection of the results is wanted, and whether outputs of the platform are. A client that
// names none gets all in a document. As they are, or in a message, it gets the Collection, which has them all: several
// outputs have no common form, and a message may be repeated often.
func (d delivery) parts(l dispatch.Label, message bool) (whole, own bool) {
	if len(d.Outputs) == 0 {
		return !d.Own, l == dispatch.OGCProcess && (d.Own || d.Response == document && !message)
	}
	_, whole = d.Outputs[outputSTAC]
	return whole, len(d.Outputs) > 1 || !whole
}

func (d delivery) wants(output string) bool {
	_, named := d.Outputs[output]
	return named || len(d.Outputs) == 0
}

func (d delivery) transmission(output string) string {
	if len(d.Outputs) == 0 || output == outputSTAC && d.Outputs[output] == "" {
		return d.Transmission
	}
	return d.Outputs[output]
}

// readOutput returns the value of one output in a form that the client accepts. A file that only the platform has is a
// link: a redirect would give the client's token to its server.
func (f *Facade) readOutput(in *request, id facade.ID) (*answer, error) {
	if id.Task != 0 {
		return nil, exception{Type: typeNoOutput, Status: http.StatusNotFound,
			Detail: "The results of a task are a link in its results document."}
	}
	r, err := f.ownJob(in, id.Job, f.Freshness)
	if err != nil {
		return nil, err
	}
	name := in.PathValue("outputID")
	all, err := f.outcomes(in, r, delivery{Response: raw, Outputs: map[string]string{name: ""}, Own: !in.view.whole()})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(o outcome) bool { return o.Name == name })
	switch {
	case at < 0:
		return nil, exception{Type: typeNoOutput, Status: http.StatusNotFound,
			Detail: fmt.Sprintf("The job has no output %q.", dispatch.Shortened(name))}
	case all[at].Link != "" && facade.PassesFiles(f.Backends, r.Account):
		return f.passFile(in, r.ID, all[at])
	}
	return negotiated(in, r.ID, all[at])
}

// passFile passes on the file of an output as its server sends it.
func (f *Facade) passFile(in *request, id dispatch.JobID, o outcome) (*answer, error) {
	file, err := f.Broker.OpenOutput(in.endless, in.user, id, o.OutputValue, facade.FileRequestOf(in.Request))
	if err != nil {
		return nil, err
	}
	return &answer{Write: func(w http.ResponseWriter) error {
		return facade.PassFile(in.Server, w, in.Request.WithContext(in.endless), file)
	}}, nil
}

// taskResults returns a link to the Collection of a task, whose Items may be thousands.
func (f *Facade) taskResults(in *request, id dispatch.TaskID) (*answer, error) {
	t, err := f.ownTask(in, id)
	if err != nil {
		return nil, err
	}
	if status := f.taskInfo(in, t).Status; status != successful && (status != dismissed ||
		t.Counts[dispatch.Finished] == 0) {
		return nil, unended(status, "all its jobs failed.")
	}
	return written(in, 0, deliveryOf(in, t.Request).Response, []outcome{tiles(in, id)})
}

// tiles returns the output of a task.
func tiles(in *request, id dispatch.TaskID) outcome {
	return outcome{OutputValue: dispatch.OutputValue{Name: outputSTAC, Media: mediaJSON,
		Link: fmt.Sprintf("%s/upscale_tasks/%d/results", strings.TrimSuffix(in.root, in.view.path), id)}}
}

const inputPause = "pause"

// longestEcho bounds the pause of a synchronous echo.
const longestEcho = 30 * time.Second

// echo runs the echo process while the client waits.
func (f *Facade) echo(in *request, e execution) (*answer, error) {
	message, err := plainValue(outputEcho, e.Inputs[outputEcho])
	if err != nil {
		return nil, err
	}
	if len(message) == 0 || message[0] != '"' {
		return nil, badRequest("inputs.%s must be a string.", outputEcho)
	}
	for name := range e.Inputs {
		if name != outputEcho && name != inputPause {
			return nil, badRequest("The process has no input %q.", dispatch.Shortened(name))
		}
	}
	pause, err := pauseOf(e.Inputs[inputPause])
	if err != nil {
		return nil, err
	}
	if err := in.pause(pause); err != nil {
		return nil, err
	}
	return written(in, 0, e.delivered.Response, echoed(message))
}

// echoed returns the output of the echo process.
func echoed(message json.RawMessage) []outcome {
	return []outcome{{OutputValue: dispatch.OutputValue{Name: outputEcho, Media: mediaJSON, Data: message}}}
}

// pause waits.
func (in *request) pause(d time.Duration) error {
	if d == 0 {
		return nil
	}
	ctx, end, err := in.BeginWait(in.Context())
	if err != nil {
		return err
	}
	defer end()
	if err := dispatch.Sleep(ctx, d); err != nil {
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "ogcapi.pause",
			Text: "The request was ended because the server stops. Repeat it.", Err: err}
	}
	return nil
}

// pauseOf reads the pause of an echo in seconds.
func pauseOf(value json.RawMessage) (time.Duration, error) {
	text := cmp.Or(string(value), "0")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= longestEcho.Seconds()) {
		return 0, badRequest("inputs.pause must be a number of seconds up to %.0f.", longestEcho.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// messageOf returns the value of the echo's input; nil if there is none.
func messageOf(inputs json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(inputs, &m) // what is not an object has no message
	return m[outputEcho]
}
