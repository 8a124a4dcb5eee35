package api

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// dimensions returns the dimension of a task, or its dimensions.
func (a *api) dimensions(f *openapi.Faults, given wire.UpscalingTaskRequest) dispatch.Dimension {
	if given.Dimensions == nil {
		if given.Combine == "zip" { // generated clients send product, the default
			f.Add("value_error", "Give it with dimensions", "combine")
		}
		if given.Dimension == nil {
			if !f.Within("dimensions") {
				f.Add("missing", "Field required", "dimension")
			}
			return dispatch.Dimension{}
		}
		return a.dimension(f, *given.Dimension, "dimension")
	}
	if given.Dimension != nil {
		f.Add("value_error", "Give dimension or dimensions, not both", "dimensions")
	}
	all := []dispatch.Dimension{}
	for i, one := range given.Dimensions {
		all = append(all, a.dimension(f, one, "dimensions", i))
	}
	if len(all) == 0 {
		return dispatch.Dimension{} // a fault is recorded
	}
	d := all[0]
	d.With, d.Zipped = all[1:], given.Combine == "zip"
	if n := d.Jobs(); n > a.Limits.Values {
		f.Add("too_long", fmt.Sprintf("The dimensions should have at most %d combinations of values, not %s",
			a.Limits.Values, product(d)), "dimensions")
	}
	return d
}

// product writes how many combinations of values dimensions have.
func product(d dispatch.Dimension) (text string) {
	for i, one := range d.All() {
		if i > 0 {
			text += " × "
		}
		text += fmt.Sprint(len(one.Values))
	}
	return text
}

// dimension returns the values of one dimension, or the parts of its interval.
func (a *api) dimension(f *openapi.Faults, given wire.ParameterDimension, at ...any) dispatch.Dimension {
	d := dispatch.Dimension{Name: given.Name, Values: given.Values, Names: given.Names}
	member := func(name string) []any { return append(slices.Clone(at), name) }
	switch {
	case given.Split == "" && given.Interval == nil:
		if given.Values == nil {
			f.Add("missing", "Field required", member("values")...)
		}
		return d
	case given.Values != nil:
		f.Add("value_error", "Give values, or an interval and how to split it, not both", member("values")...)
		return d
	case given.Names != nil:
		f.Add("value_error", "Give names with values, not with an interval", member("names")...)
	}
	if given.Interval == nil {
		f.Add("missing", "Field required", member("interval")...)
	}
	if given.Split == "" {
		f.Add("missing", "Field required", member("split")...)
	}
	if f.Within(at...) {
		return d
	}
	d.Values = a.splitInterval(f, given, member)
	return d
}

// splitInterval returns the parts of an interval of time.
func (a *api) splitInterval(f *openapi.Faults, given wire.ParameterDimension,
	member func(string) []any) []json.RawMessage {
	step, known := parseStep(given.Split)
	if !known {
		f.Add("value_error",
			"Input should be day, week, month, quarter, year, or a number of days or weeks as in ISO 8601, such as "+
				"P10D", member("split")...)
	}
	span, err := parseInterval(given.Interval)
	if err != nil {
		f.Add("value_error", "Input should be "+err.Error(), member("interval")...)
	}
	if !known || err != nil {
		return nil
	}
	parts, whole := span.split(step, a.Limits.Values)
	if !whole {
		f.Add("too_long", fmt.Sprintf("The interval should have at most %d parts", a.Limits.Values),
			member("interval")...)
	}
	return parts
}
