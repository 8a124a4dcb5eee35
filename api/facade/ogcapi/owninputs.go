package ogcapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// ownInput begins the names of the inputs that the broker evaluates. Services do not get them.
const ownInput = "eodispatch:"

const (
	inputTiles  = ownInput + "tiles"  // makes a task: the name of a grid
	inputFormat = ownInput + "format" // of the files of the results
	inputPin    = ownInput + "pin"    // runs the process with its present definition
	inputLabels = ownInput + "labels" // of the job
)

// ownInputs describes the inputs of all services that the broker evaluates, besides the one that makes a task.
func (f *Facade) ownInputs(ctx context.Context, in *request, s catalogue.Service) map[string]inputDescription {
	listed, _ := f.Broker.Formats(ctx, in.user, s.Service, s.Label) // without them the description is still right
	format := formatSchema(listed, s.Formats)
	return map[string]inputDescription{
		inputFormat: {Title: "Format", Description: "Format of the files of the results. A media type in outputs." +
			outputSTAC + ".format.mediaType names it, too.", Schema: format},
		inputPin: {Title: "Pin",
			Description: "Runs the process with its definition at the time of the execution. The execution is " +
				"refused if the platform cannot do that.",
			Schema: map[string]any{"type": "boolean", "default": false}},
		inputLabels: {Title: "Labels",
			Description: "Labels by which the job is found in the other interfaces and on the page: texts by their " +
				"keys.",
			Schema: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string",
				"maxLength": dispatch.LongestLabel}, "maxProperties": dispatch.MostLabels}},
	}
}

// formatSchema returns the schema of a format's name. Those that the platform lists for a service are the only ones
// that an execution can have. Those of the service's record are examples: nothing says that the platform has no others.
func formatSchema(listed []dispatch.OutputFormat, record []string) map[string]any {
	schema := map[string]any{"type": "string"}
	switch {
	case len(listed) > 0:
		names := make([]string, len(listed))
		for i, one := range listed {
			names[i] = one.Name
		}
		schema["enum"] = names
	case len(record) > 0:
		schema["examples"] = record
	}
	return schema
}

// own is what the broker's inputs of an execution say.
type own struct {
	format  string          // "": none is named
	options json.RawMessage // of the request; nil: none
	labels  map[string]string
}

// ownOf reads the inputs that the broker evaluates.
func (e execution) ownOf() (o own, err error) {
	for name := range e.Inputs {
		if strings.HasPrefix(name, ownInput) && !slices.Contains(
			[]string{inputTiles, inputFormat, inputPin, inputLabels}, name) {
			return o, badRequest("There is no input %q. Those of this server are %s, %s, %s and %s.",
				dispatch.Shortened(name), inputFormat, inputLabels, inputPin, inputTiles)
		}
	}
	if e.has(inputFormat) && (json.Unmarshal(e.Inputs[inputFormat], &o.format) != nil || o.format == "" ||
		len(o.format) > dispatch.LongestFormat) {
		return o, badRequest("inputs.%s must be the name of a format.", inputFormat)
	}
	if e.has(inputPin) {
		var pin bool
		if json.Unmarshal(e.Inputs[inputPin], &pin) != nil {
			return o, badRequest("inputs.%s must be true or false.", inputPin)
		}
		if o.options, err = dispatch.Encode(map[string]bool{"pin": pin}); err != nil {
			return o, err
		}
	}
	if e.has(inputLabels) {
		if json.Unmarshal(e.Inputs[inputLabels], &o.labels) != nil {
			return o, badRequest("inputs.%s must be an object whose members are texts.", inputLabels)
		}
		if err := (dispatch.Annotations{Labels: o.labels}).Check(); err != nil {
			return o, badRequest("inputs.%s: %s", inputLabels, dispatch.TextFor(err))
		}
	}
	return o, nil
}
