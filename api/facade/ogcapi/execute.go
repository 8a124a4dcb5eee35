package ogcapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	outputSTAC = "stac"
	outputEcho = "message" // as the input whose value it has

	byValue     = "value"
	byReference = "reference"

	raw      = "raw"
	document = "document"
)

// execution is an execute request (execute.yaml).
type execution struct {
	Inputs     map[string]json.RawMessage `json:"inputs"`
	Outputs    map[string]wantedOutput    `json:"outputs"`
	Response   string                     `json:"response"`
	Subscriber json.RawMessage            `json:"subscriber"`

	notify    []dispatch.Notify // of Subscriber
	delivered delivery
	passed    map[string]any // the outputs that the platform is asked for; nil: all
}

// delivery is how the client wants the results. It is stored with the job.
type delivery struct {
	Response     string `json:"response"`
	Transmission string `json:"transmission"` // of the output stac, or of all; "": as the platform gives them
	// the outputs that the client named, and how it wants each; none: all
	Outputs map[string]string `json:"outputs,omitempty"`
	Own     bool              `json:"own,omitempty"` // all are those of the platform, without stac
	// of the façade as the client reached it, for links in messages to its subscriber
	Root string `json:"root,omitempty"`
}

// execute runs a process.
func (f *Facade) execute(in *request) (*answer, error) {
	s, err := f.processIn(in.view, in.PathValue("processID"))
	if err != nil {
		return nil, err
	}
	body, err := in.ReadBody(in.w, in.Request)
	if err != nil {
		return nil, err
	}
	return f.executeBody(in, s, body)
}

// executeBody runs a process by an execute request.
func (f *Facade) executeBody(in *request, s catalogue.Service, body []byte) (*answer, error) {
	atOnce, err := f.runsAtOnce(in, s)
	if err != nil {
		return nil, err
	}
	e, err := f.parseExecution(in, s, body)
	if err != nil {
		return nil, err
	}
	want := facade.PreferencesIn(in.Header)
	if f.isEcho(s) && !want.Async {
		if len(e.notify) > 0 {
			return nil, badRequest(
				"Only jobs notify a subscriber. Send the header Prefer: respond-async, so that this execution " +
					"becomes a job.")
		}
		return f.echo(in, e)
	}
	key, err := in.Key(in.Request, body)
	if err != nil {
		return nil, err
	}
	switch {
	case e.has(inputTiles):
		return f.submitTask(in, s, e, key, want)
	case atOnce && !e.needsJob(in, want):
		return f.runSync(in, s, e)
	}
	return f.submitJob(in, s, e, key, want)
}

func (f *Facade) parseExecution(in *request, s catalogue.Service, body []byte) (e execution, err error) {
	if err := json.Unmarshal(body, &e); err != nil || len(body) == 0 {
		return e, badRequest("The body must be an execute request: an object with the member inputs.")
	}
	if e.Response != "" && e.Response != raw && e.Response != document {
		return e, badRequest("response must be raw or document.")
	}
	events := eventsOfJob
	if e.has(inputTiles) {
		events = eventsOfTask
	}
	if e.notify, err = parseSubscriber(e.Subscriber, events); err != nil {
		return e, err
	}
	e.delivered = e.delivery(in)
	return e, f.checkOutputs(in, s, &e)
}

// request returns the request for a service.
func (f *Facade) request(in *request, s catalogue.Service, e execution) (dispatch.Request, error) {
	inputs, err := inputsFor(e.Inputs, s.Label != dispatch.OGCProcess || f.isEcho(s))
	if err != nil {
		return dispatch.Request{}, err
	}
	o, err := e.ownOf()
	if err != nil {
		return dispatch.Request{}, err
	}
	format, err := formatOf(s, o.format, e.Outputs[outputSTAC].mediaType())
	if err != nil {
		return dispatch.Request{}, err
	}
	if o.options, err = e.withOutputs(o.options, format); err != nil {
		return dispatch.Request{}, err
	}
	d := e.delivered
	if len(e.notify) > 0 {
		d.Root = in.root
	}
	wanted, err := json.Marshal(d)
	return dispatch.Request{Title: s.Title, Label: s.Label, Service: s.Service, Parameters: inputs, Format: format,
		Options:     o.options,
		Annotations: dispatch.Annotations{Labels: o.labels}, Facade: wanted, Notify: e.notify}, err
}

// formatOf returns the format of the results: that of the input or of the media type; "": neither names one, and the
// service's own is used. A process of an OGC server offers media types of its own, and decides about them; openEO knows
// no media types.
func formatOf(s catalogue.Service, name, media string) (string, error) {
	media = strings.TrimSpace(media)
	format := dispatch.FormatName(media)
	switch {
	case name != "" && media != "":
		return "", badRequest("The format is named twice: by inputs.%s and by outputs.%s.format.mediaType. Leave one "+
			"out.", inputFormat, outputSTAC)
	case media == "":
		return name, nil
	case len(media) > dispatch.LongestFormat:
		return "", badRequest("outputs.%s.format.mediaType has at most %d characters.", outputSTAC,
			dispatch.LongestFormat)
	case !strings.Contains(format, "/"):
		return format, nil
	case s.Label == dispatch.OGCProcess:
		return media, nil
	}
	return "", badRequest("No format of openEO is known to have the media type %q. Name the format by inputs.%s.",
		dispatch.Shortened(media), inputFormat)
}

func (f *Facade) submitJob(in *request, s catalogue.Service, e execution, key dispatch.Key,
	want facade.Preferences) (*answer, error) {
	r, err := f.request(in, s, e)
	if err != nil {
		return nil, err
	}
	job, err := f.Broker.Accept(in.Context(), in.user, r, key)
	if err != nil {
		return nil, platformLacks(err)
	}
	if want.Wait > 0 {
		job = in.AwaitEnd(in.Context(), job, want.Wait)
	}
	if want.Wait > 0 && job.Status == dispatch.Finished {
		if results, err := f.jobResults(in, job); err == nil {
			return results, nil
		}
	}
	// also after an error, after which the client would run the job again
	return created(in, f.jobInfo(in, job), want), nil
}

// created returns the response to an execution that goes on. It says which preference was applied, of those that the
// client has (RFC 7240).
func created(in *request, info statusInfo, want facade.Preferences) *answer {
	header := http.Header{"Location": {in.root + "/jobs/" + info.JobID}}
	if want.Async {
		header.Set("Preference-Applied", "respond-async")
	}
	return &answer{Status: http.StatusCreated, Body: info, Header: header}
}

// has reports whether an execution has an input. An input that is null is absent.
func (e execution) has(input string) bool {
	return len(e.Inputs[input]) > 0 && string(e.Inputs[input]) != "null"
}
