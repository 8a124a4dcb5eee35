package ogcapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// qualified is a value in a results document. The standard allows objects only in this form.
type qualified struct {
	Value json.RawMessage `json:"value"`
	Media string          `json:"mediaType"`
}

// deliveryOf returns how the client that submitted a job wants its results. Jobs of other interfaces have all in one
// document.
func deliveryOf(r dispatch.Request) delivery {
	d := delivery{Response: document, Transmission: byValue}
	_ = json.Unmarshal(r.Facade, &d) // empty for jobs of other interfaces
	return d
}

func (f *Facade) readResults(in *request) (*answer, error) {
	id, err := parseJobID(in.PathValue("jobID"))
	if err != nil {
		return nil, err
	}
	if id.task != 0 {
		return f.taskResults(in, id.task)
	}
	r, err := f.Broker.Read(in.Context(), in.user, id.job, f.Freshness)
	if err != nil {
		return nil, err
	}
	return f.jobResults(in, r)
}

// jobResults returns the results of a job in the form that its client asked for.
func (f *Facade) jobResults(in *request, r dispatch.Record) (*answer, error) {
	return f.resultsAs(in, r, deliveryOf(r.Request))
}

func (f *Facade) resultsAs(in *request, r dispatch.Record, d delivery) (*answer, error) {
	output, value, err := f.outputOf(in, r)
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("%s/jobs/%d/results/%s", in.root, r.ID, output)
	switch {
	case d.Transmission == byReference:
		return referred(d, output, at), nil
	case d.Response == raw:
		return &answer{body: value}, nil
	}
	return &answer{body: map[string]any{output: inDocument(value)}}, nil
}

// referred returns results that consist of a link.
func referred(d delivery, output, href string) *answer {
	if d.Response == raw {
		return &answer{links: []string{fmt.Sprintf(`<%s>; rel="%s"; type="%s"`, href, output, mediaJSON)}}
	}
	return &answer{body: map[string]any{output: link{Href: href, Type: mediaJSON}}}
}

func inDocument(value json.RawMessage) any {
	if len(value) > 0 && value[0] == '{' {
		return qualified{value, mediaJSON}
	}
	return value
}

// outputOf returns the output of a successful job and its value.
func (f *Facade) outputOf(in *request, r dispatch.Record) (output string, value json.RawMessage, err error) {
	if status := f.jobInfo(in, r).Status; status != successful {
		return "", nil, unended(status, r.Failure)
	}
	if process, _ := f.Services.Identify(r.Request.Label, r.Request.Service); f.isEcho(process) {
		return outputEcho, messageOf(r.Request.Parameters), nil
	}
	read := f.Broker.Results
	if in.repeated {
		read = f.Broker.RecentResults
	}
	value, err = read(in.Context(), in.user, r.ID)
	if err == nil && value == nil {
		err = errNotReady
	}
	return outputSTAC, value, err
}

// readOutput returns the value of one output.
func (f *Facade) readOutput(in *request) (*answer, error) {
	id, err := parseJobID(in.PathValue("jobID"))
	if err != nil {
		return nil, err
	}
	if id.task != 0 {
		return nil, exception{Type: typeNoOutput, Status: http.StatusNotFound,
			Detail: "The results of a task are a link in its results document."}
	}
	r, err := f.Broker.Read(in.Context(), in.user, id.job, f.Freshness)
	if err != nil {
		return nil, err
	}
	output, value, err := f.outputOf(in, r)
	switch {
	case err != nil:
		return nil, err
	case output != in.PathValue("outputID"):
		return nil, exception{Type: typeNoOutput, Status: http.StatusNotFound, Detail: "The job has only the output " +
			output + "."}
	}
	return &answer{body: value}, nil
}

// taskResults returns a link to the Collection of a task, whose Items may be thousands.
func (f *Facade) taskResults(in *request, id dispatch.TaskID) (*answer, error) {
	t, err := f.Broker.Task(in.Context(), in.user, id)
	if err != nil {
		return nil, err
	}
	if status := f.taskInfo(in, t).Status; status != successful && (status != dismissed ||
		t.Counts[dispatch.Finished] == 0) {
		return nil, unended(status, "all its jobs failed.")
	}
	return referred(deliveryOf(t.Request), outputSTAC, collectionOf(in, id)), nil
}

// collectionOf returns the address of the Collection of a task.
func collectionOf(in *request, id dispatch.TaskID) string {
	return fmt.Sprintf("%s/upscale_tasks/%d/results", strings.TrimSuffix(in.root, root), id)
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
			return nil, badRequest("The process has no input %q.", clip(name))
		}
	}
	pause, err := pauseOf(e.Inputs[inputPause])
	if err != nil {
		return nil, err
	}
	if err := in.pause(pause); err != nil {
		return nil, err
	}
	if e.Response == raw {
		return &answer{body: message}, nil
	}
	return &answer{body: map[string]any{outputEcho: message}}, nil
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "ogcapi.pause",
			Text: "The request was ended because the server stops. Repeat it.", Err: ctx.Err()}
	}
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
