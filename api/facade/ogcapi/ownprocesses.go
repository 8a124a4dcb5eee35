package ogcapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// members are those of a JSON object.
type members map[string]json.RawMessage

func (m members) set(name string, value any) {
	m[name], _ = dispatch.Encode(value) // cannot fail: values of this package and of JSON
}

// listOwnProcesses lists the processes of the view's platform.
func (f *Facade) listOwnProcesses(in *request, limit int, cursor string) (*answer, error) {
	from, err := strconv.Atoi(cursor)
	if cursor != "" && (err != nil || from < 0) {
		return nil, badQuery("cursor is not one of a next link of this list.")
	}
	ctx, cancel := context.WithTimeout(in.Context(), describeWithin)
	defer cancel()
	all, err := f.Broker.Processes(ctx, in.user, in.view.service(""), in.view.backend.Label)
	if dispatch.Is(err, dispatch.NotFound) {
		err = errNoPath
	}
	if err != nil {
		return nil, err
	}
	part, next := all[min(from, len(all)):], ""
	if len(part) > limit {
		part, next = part[:limit], strconv.Itoa(from+limit)
	}
	processes := []members{}
	for _, document := range part {
		var m members
		if json.Unmarshal(document, &m) != nil || m == nil {
			continue
		}
		var modes []string
		_ = json.Unmarshal(m["jobControlOptions"], &modes) // none: a job
		m.rewrite(in, slices.Contains(modes, "sync-execute"))
		processes = append(processes, m)
	}
	return listed(in, "processes", processes, url.Values{"limit": {strconv.Itoa(limit)}}, next), nil
}

// rewrite makes a process of a platform one of this server.
func (m members) rewrite(in *request, sync bool) {
	var id string
	_ = json.Unmarshal(m["id"], &id) // a process without an id has links that lead nowhere
	m.set("links", processLinks(in, id))
	m.set("outputTransmission", []string{byValue, byReference})
	modes := []string{"async-execute", "dismiss"}
	if sync {
		modes = append([]string{"sync-execute"}, modes...)
	}
	m.set("jobControlOptions", modes)
}

// describeOwnProcess describes a process of the view's platform as the platform does, with the inputs and the output of
// the broker besides.
func (f *Facade) describeOwnProcess(in *request, s catalogue.Service) (*answer, error) {
	ctx, cancel := context.WithTimeout(in.Context(), describeWithin)
	defer cancel()
	d, err := f.Broker.Process(ctx, in.user, s.Service, s.Label)
	if err != nil {
		return nil, platformLacks(err)
	}
	var m members
	if err := json.Unmarshal(d.Document, &m); err != nil {
		return nil, err
	}
	m.rewrite(in, d.Sync)
	inputs := map[string]any{}
	var given members
	if json.Unmarshal(m["inputs"], &given) != nil { // an old draft has a list
		given = nil
	}
	for name, input := range given {
		inputs[name] = input
	}
	parameters, err := f.parameters(ctx, in, s)
	if err != nil {
		return nil, err
	}
	for _, p := range parameters {
		if given == nil {
			inputs[p.Name] = inputOf(p)
		}
	}
	for name, input := range f.ownInputs(ctx, in, s) {
		inputs[name] = input
	}
	if area := facade.AreaOf(parameters); area != "" {
		inputs[inputTiles] = tilesInput(area)
	}
	outputs := map[string]any{}
	for name, output := range f.outputs(s) {
		outputs[name] = output
	}
	for _, o := range d.Outputs {
		outputs[o.Name] = o.Document
	}
	m.set("inputs", inputs)
	m.set("outputs", outputs)
	return &answer{Body: m}, nil
}

// runsAtOnce reports whether a process runs while its client waits unless the client wants a job: in the view of a
// platform as at the platform itself, whose clients may know nothing else.
func (f *Facade) runsAtOnce(in *request, s catalogue.Service) (bool, error) {
	if in.view.whole() {
		return false, nil
	}
	d, err := f.Broker.Process(in.Context(), in.user, s.Service, s.Label)
	return d.Sync, platformLacks(err)
}

// needsJob reports whether the client prefers a job, or an execution has what only jobs have.
func (e execution) needsJob(in *request, want facade.Preferences) bool {
	return want.Async || want.Wait > 0 || len(e.notify) > 0 || e.has(inputLabels) || e.has(inputPin) || e.stac() ||
		in.Header.Get("Idempotency-Key") != ""
}

// stac reports whether an execution wants the output stac, which only jobs have.
func (e execution) stac() bool {
	_, named := e.Outputs[outputSTAC]
	return named
}

// runSync runs a process while the client waits, and passes on what the platform returns.
func (f *Facade) runSync(in *request, s catalogue.Service, e execution) (*answer, error) {
	r, err := f.request(in, s, e)
	if err != nil {
		return nil, err
	}
	options := members{}
	if len(r.Options) > 0 {
		if err := json.Unmarshal(r.Options, &options); err != nil {
			return nil, err
		}
	}
	options.set("response", e.delivered.Response)
	if r.Options, err = dispatch.Encode(options); err != nil {
		return nil, err
	}
	result, err := in.RunSync(in.w, in.Request.WithContext(in.endless), r)
	if err != nil {
		return nil, platformLacks(err)
	}
	return &answer{Write: func(w http.ResponseWriter) error {
		defer result.Body.Close()
		h := w.Header()
		h.Set("Content-Type", result.ContentType)
		h.Set("Content-Security-Policy", facade.Sandbox)
		return in.Stream(w, in.Request.WithContext(in.endless), http.StatusOK, result.Body)
	}}, nil
}
