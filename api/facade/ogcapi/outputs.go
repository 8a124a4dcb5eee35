package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// wantedOutput is how a client wants an output (output.yaml).
type wantedOutput struct {
	Transmission string          `json:"transmissionMode"`
	Format       json.RawMessage `json:"format"`
}

// mediaType returns the media type of the format.
func (o wantedOutput) mediaType() string {
	var format struct {
		MediaType string `json:"mediaType"`
	}
	_ = json.Unmarshal(o.Format, &format) // checkOutputs has checked it
	return format.MediaType
}

// outputs returns the outputs of the broker for a process. What the result of a platform consists of stands in one STAC
// Collection, whatever the protocol.
func (f *Facade) outputs(s catalogue.Service) map[string]outputDescription {
	if f.isEcho(s) {
		return map[string]outputDescription{
			outputEcho: {Title: "The message", Schema: map[string]any{"type": "string"}}}
	}
	return map[string]outputDescription{outputSTAC: {Title: "Results",
		Description: "A STAC Collection whose assets are the files of the results. The result of an execution with " +
			"the input " + inputTiles + " is a link to a Collection with an Item for each tile.",
		Schema: map[string]any{"type": "object", "contentMediaType": mediaJSON}}}
}

// ownOutputs returns the outputs that the platform describes for a process; none for a service of another protocol.
func (f *Facade) ownOutputs(ctx context.Context, in *request, s catalogue.Service) ([]dispatch.ProcessOutput, error) {
	if s.Label != dispatch.OGCProcess || f.isEcho(s) {
		return nil, nil
	}
	d, err := f.Broker.Process(ctx, in.user, s.Service, s.Label)
	return d.Outputs, platformLacks(err)
}

// ownOutput returns an output of the platform in the form of OpenAPI 3.0.
func ownOutput(o dispatch.ProcessOutput) outputDescription {
	var d struct {
		Title       string
		Description string
		Schema      any
	}
	_ = json.Unmarshal(o.Document, &d) // what has another form is left out
	return outputDescription{Title: cmp.Or(d.Title, o.Name), Description: d.Description,
		Schema: openAPISchema(d.Schema, 0)}
}

// checkOutputs checks the outputs that an execution names, and notes those that its platform is asked for. Only
// outputs of the platform need its description.
func (f *Facade) checkOutputs(in *request, s catalogue.Service, e *execution) error {
	var own []dispatch.ProcessOutput
	known := f.outputs(s)
	for _, name := range slices.Sorted(maps.Keys(e.Outputs)) {
		if _, brokers := known[name]; !brokers && own == nil {
			var err error
			if own, err = f.ownOutputs(in.Context(), in, s); err != nil {
				return err
			}
		}
		if err := f.checkOutput(s, name, e.Outputs[name], known, own); err != nil {
			return err
		}
	}
	e.passed = passedOn(e.Outputs, own)
	return nil
}

func (f *Facade) checkOutput(s catalogue.Service, name string, o wantedOutput, known map[string]outputDescription,
	own []dispatch.ProcessOutput) error {
	_, brokers := known[name]
	if !brokers && !slices.ContainsFunc(own, func(p dispatch.ProcessOutput) bool { return p.Name == name }) {
		return exception{Type: typeNoOutput, Status: http.StatusBadRequest,
			Detail: fmt.Sprintf("The process has no output %q.", dispatch.Shortened(name))}
	}
	if o.Transmission != "" && o.Transmission != byValue && (o.Transmission != byReference || f.isEcho(s)) {
		return badRequest("outputs.%s.transmissionMode %q is not offered.", dispatch.Shortened(name),
			dispatch.Shortened(o.Transmission))
	}
	var format struct {
		MediaType string `json:"mediaType"`
	}
	if len(o.Format) > 0 && json.Unmarshal(o.Format, &format) != nil {
		return badRequest("outputs.%s.format must be an object whose mediaType is a text.", dispatch.Shortened(name))
	}
	return nil
}

// passedOn returns the member outputs of the execute request to the platform. Where a client wants the output stac
// beside outputs of the platform, these are all: the Collection has them all. Bytes are asked for as links, unless the
// client wants them by value. nil: the client named no output of the platform.
func passedOn(wanted map[string]wantedOutput, own []dispatch.ProcessOutput) map[string]any {
	if own == nil {
		return nil
	}
	_, whole := wanted[outputSTAC]
	passed := map[string]any{}
	for _, o := range own {
		w, named := wanted[o.Name]
		if !named && !whole || o.Name == outputSTAC {
			continue
		}
		wish := map[string]any{}
		if len(w.Format) > 0 && string(w.Format) != "null" {
			wish["format"] = w.Format
		}
		switch {
		case w.Transmission == byValue:
			wish["transmissionMode"] = byValue
		case o.Linkable:
			wish["transmissionMode"] = byReference
		}
		passed[o.Name] = wish
	}
	return passed
}

// withOutputs returns the options of a request with the outputs that the platform is asked for.
func (e execution) withOutputs(options json.RawMessage, format string) (json.RawMessage, error) {
	if e.passed == nil {
		return options, nil
	}
	if format != "" {
		return nil, badRequest("The format is that of each output that is named: use outputs.NAME.format, "+
			"not inputs.%s or outputs.%s.format.", inputFormat, outputSTAC)
	}
	all := map[string]any{}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &all); err != nil {
			return nil, err
		}
	}
	all["outputs"] = e.passed
	return dispatch.Encode(all)
}

// delivery returns how the results are wanted.
func (e execution) delivery(in *request) delivery {
	d := delivery{Response: cmp.Or(e.Response, raw), Transmission: e.Outputs[outputSTAC].Transmission,
		Own: !in.view.whole()}
	preferred := facade.PreferencesIn(in.Header).Return
	d.Transmission = cmp.Or(d.Transmission, transmissions[preferred])
	for name, o := range e.Outputs {
		dispatch.SetInMap(&d.Outputs, name, cmp.Or(o.Transmission, transmissions[preferred]))
	}
	return d
}

// transmissions are what clients of version 2.0 prefer (RFC 7240) in the words of version 1.0.
var transmissions = map[string]string{"minimal": byReference, "representation": byValue}
