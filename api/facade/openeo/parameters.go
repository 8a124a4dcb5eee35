package openeo

import (
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// parameterLists are the lists of the processing parameters extension.
var parameterLists = []string{"create_job_parameters", "create_synchronous_parameters", "create_service_parameters"}

// processingParameters lists the job options of the view's platforms and of the broker.
func (f *Facade) processingParameters(r *request) (*answer, error) {
	lists, seen := map[string][]json.RawMessage{}, map[string]bool{}
	for _, name := range parameterLists {
		lists[name] = []json.RawMessage{}
	}
	lists[parameterLists[0]] = append(lists[parameterLists[0]], jobParameters()...)
	if r.view.merged() && !f.withoutGraphs(r.view) {
		option, err := f.platformParameter()
		if err != nil {
			return nil, err
		}
		for _, name := range parameterLists[:2] {
			lists[name] = append(lists[name], option)
		}
	}
	for _, one := range f.readAll(r, f.backendsOf(r.view), "/processing_parameters") {
		var offered map[string][]json.RawMessage
		if one.err != nil || json.Unmarshal(one.At(r.root), &offered) != nil {
			continue // the broker's own options are there all the same
		}
		for _, name := range parameterLists {
			for _, parameter := range offered[name] {
				var named struct{ Name string }
				if json.Unmarshal(parameter, &named) == nil && !seen[name+" "+named.Name] {
					seen[name+" "+named.Name] = true
					lists[name] = append(lists[name], parameter)
				}
			}
		}
	}
	return &answer{Body: lists}, nil
}

// platformParameter describes the job option that names a platform.
func (f *Facade) platformParameter() (json.RawMessage, error) {
	var names []string
	for _, b := range f.backends() {
		names = append(names, b.Name)
	}
	return dispatch.Encode(map[string]any{"name": platformOptions[0], "schema": map[string]any{"type": "string",
		"enum": names}, "optional": true,
		"description": "The platform that runs the process. Without it, the first that has all that the process " +
			"graph uses."})
}

// validationFailure returns an error of a process as the result of its validation; any other error stays an error.
func validationFailure(err error) (*answer, error) {
	if own, ok := errors.AsType[refusal](err); ok && own.status == 400 {
		return &answer{Body: map[string]any{"errors": []map[string]string{{"code": own.code, "message": own.message}}}},
			nil
	}
	return nil, err
}
