package openeo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// call is a process graph that runs one service of the catalogue: a node that calls it with values only, and at most a
// save_result of what it returns. It becomes a request for the service, on a platform of any protocol.
type call struct {
	service   catalogue.Service
	arguments json.RawMessage // an object
	format    string          // of the save_result; "": there is none
}

// node is a node of a process graph.
type node struct {
	Process   string          `json:"process_id"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"`
}

// calledService returns the service of the catalogue that a node calls.
func (f *Facade) calledService(n node) (catalogue.Service, bool) {
	if n.Namespace != servicesNamespace {
		return catalogue.Service{}, false
	}
	return f.Services.Find(n.Process)
}

// callIn returns the call that a process consists of; ok is false for any other process.
func (f *Facade) callIn(process json.RawMessage) (c call, ok bool) {
	var p struct {
		Graph map[string]node `json:"process_graph"`
	}
	if json.Unmarshal(process, &p) != nil || len(p.Graph) > 2 {
		return c, false
	}
	caller := ""
	for id, n := range p.Graph {
		if s, ok := f.calledService(n); ok {
			caller, c.service, c.arguments = id, s, n.Arguments
		}
	}
	if caller == "" || !isPlainObject(c.arguments) {
		return c, false
	}
	for id, n := range p.Graph {
		if id == caller {
			continue
		}
		if c.format, ok = n.saves(caller); !ok {
			return c, false
		}
	}
	return c, true
}

// callAt returns the call that a process consists of, if the service runs on the given platform.
func (f *Facade) callAt(b *dispatch.Backend, process json.RawMessage) (call, bool) {
	if !mayCallServices(process) {
		return call{}, false
	}
	c, ok := f.callIn(process)
	return c, ok && c.service.Platform == b.Name
}

// checkServices refuses a graph that calls services of other platforms than its own.
func (f *Facade) checkServices(b *dispatch.Backend, members map[string]json.RawMessage) error {
	if !mayCallServices(members["process"]) {
		return nil
	}
	u := newUses()
	u.walk(graphOf(members))
	for _, id := range slices.Sorted(maps.Keys(u.services)) {
		if s, known := f.Services.Find(id); known && s.Platform != b.Name {
			return refused(http.StatusBadRequest, "ProcessUnsupported",
				"The service "+quoted(id)+" is at the platform "+s.Platform+", and this batch job at "+b.Name+
					". Create a new one at the back-end of all platforms.")
		}
	}
	return nil
}

// noGraphs returns the error of a graph for a platform that runs its services only.
func noGraphs(b *dispatch.Backend) error {
	return refused(http.StatusBadRequest, "ProcessUnsupported", "The platform "+b.Name+
		" does not run process graphs. Its services can be called by a graph that "+
		"has no other nodes, but for one "+processSave+" without options; their arguments must be values.")
}

// isPlainObject reports whether arguments are an object of values: they refer to no node and no parameter.
func isPlainObject(arguments json.RawMessage) bool {
	var v map[string]any
	return json.Unmarshal(arguments, &v) == nil && v != nil && !refers(v)
}

// saves returns the format in which a node saves the data of another, if it does nothing else.
func (n node) saves(from string) (format string, ok bool) {
	var a map[string]json.RawMessage
	if n.Process != processSave || !hasPredefined(n.Namespace) || json.Unmarshal(n.Arguments, &a) != nil {
		return "", false
	}
	var data struct {
		Node string `json:"from_node"`
	}
	if json.Unmarshal(a["data"], &data) != nil || data.Node != from || json.Unmarshal(a["format"], &format) != nil {
		return "", false
	}
	var options map[string]any
	if a["options"] != nil && (json.Unmarshal(a["options"], &options) != nil || len(options) > 0) {
		return "", false
	}
	return format, true
}

// mayCallServices reports whether the text of a process can contain a call of a service.
func mayCallServices(process json.RawMessage) bool {
	return strings.Contains(string(process), servicesNamespace)
}

// jobDetails are the members of a batch job that are shown to its owner again. The options of a request for a service
// have another form, and those for a platform of another protocol no place for them.
var jobDetails = []string{"description", "plan", "budget", "log_level", "job_options"}

// asSent returns what a batch job shows of the members that its client sent and that its request does not have as they
// were sent; nil: nothing. These are the job options if some are the broker's own, the process if it is not the
// request's, and all details of a job that calls a service. A warning may come with them.
func asSent(members map[string]json.RawMessage, r dispatch.Request) (json.RawMessage, error) {
	shown := map[string]json.RawMessage{}
	show := func(names ...string) {
		for _, name := range names {
			if members[name] != nil {
				shown[name] = members[name]
			}
		}
	}
	if len(ownOptions(members)) > 0 {
		show("job_options")
	}
	if !bytes.Equal(r.Process, members["process"]) {
		show("process")
	}
	if r.Process == nil {
		show(jobDetails...)
	}
	if warning := crossing(r); warning != "" {
		text, err := dispatch.Encode(warning)
		if err != nil {
			return nil, err
		}
		shown[memberWarning] = text
	}
	if len(shown) == 0 {
		return nil, nil
	}
	return dispatch.Encode(shown)
}

// memberWarning is the member of what asSent returns that has a warning for the log.
const memberWarning = "eodispatch:warning"

// request returns the broker's request for the service, for a batch job with the given members and options.
func (c call) request(members, options map[string]json.RawMessage) (r dispatch.Request, err error) {
	r = dispatch.Request{Title: titleOf(members), Label: c.service.Label, Service: c.service.Service,
		Parameters: c.arguments, Format: c.formatName()}
	for _, name := range jobDetails {
		if v := members[name]; v != nil && name != "job_options" && c.service.Label == dispatch.OpenEO {
			options[name] = v
		}
	}
	if len(options) > 0 {
		r.Options, err = dispatch.Encode(options)
	}
	return r, err
}

// formatName returns the format of the request: that of save_result, if there is one. An openEO platform gets the
// client's own word, others the word that requests commonly use.
func (c call) formatName() string {
	if c.service.Label == dispatch.OpenEO {
		return c.format
	}
	return strings.ToLower(c.format)
}

// serviceTaskFor returns the request and the dimension of a task that calls a service: without the argument that has
// the area. Unless an option names it, it is spatial_extent or the service's first parameter that is an area.
func (f *Facade) serviceTaskFor(r *request, members map[string]json.RawMessage,
	request dispatch.Request) (dispatch.Request, *dispatch.Dimension, error) {
	g, parameter, err := splitOptions(members)
	if err != nil {
		return request, nil, err
	}
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(request.Parameters, &arguments); err != nil {
		return request, nil, err
	}
	if parameter == "" && arguments[usualParameter] == nil {
		described, err := f.Broker.Parameters(r.Context(), r.user, request.Service, request.Label)
		if err != nil {
			return request, nil, err
		}
		parameter = facade.AreaOf(described)
	}
	parameter = cmp.Or(parameter, usualParameter)
	area := arguments[parameter]
	if area == nil || isNull(area) {
		return request, nil, refused(http.StatusBadRequest, "ProcessParameterRequired",
			"The service is called without the argument "+quoted(parameter)+". Name the one with the area in the job "+
				"option "+optionParameter+".")
	}
	delete(arguments, parameter)
	if request.Parameters, err = dispatch.Encode(arguments); err != nil {
		return request, nil, err
	}
	d, err := split(r, g, parameter, area)
	return request, d, err
}

// callOfService returns the process of a request for a service of the catalogue: the graph that a client writes to run
// it.
func callOfService(id string, r dispatch.Request) (json.RawMessage, error) {
	run := map[string]any{"process_id": id, "namespace": servicesNamespace, "arguments": r.Parameters}
	graph := map[string]any{"run": run}
	if r.Format == "" {
		run["result"] = true
	} else {
		saved := map[string]any{"data": map[string]string{"from_node": "run"}, "format": r.Format}
		graph["save"] = map[string]any{"process_id": processSave, "arguments": saved, "result": true}
	}
	return dispatch.Encode(map[string]any{"process_graph": graph})
}

// textWithFaults returns the text of an error, followed by what is wrong with each parameter.
func textWithFaults(err error) string {
	text := dispatch.TextFor(err)
	if e, ok := errors.AsType[*dispatch.Error](err); ok {
		for _, fault := range e.Faults {
			if !strings.Contains(text, fault.Msg) {
				text += " " + fault.Msg
			}
		}
	}
	return text
}

// callError gives an error in the parameters of a service the code and the texts that clients show.
func callError(err error) error {
	if !dispatch.Is(err, dispatch.Invalid) {
		return graphError(err)
	}
	return refused(http.StatusBadRequest, "ProcessParameterInvalid", textWithFaults(err))
}
