package api

import (
	"encoding/json"
	"fmt"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mostDimensions bounds the dimensions of a task.
const mostDimensions = 8

// combinations are the ways in which dimensions make jobs, see [UpscalingTaskRequest].
var combinations = []string{"product", "zip"}

// dimensions reads the dimension of a task, or its dimensions.
func (a *api) dimensions(f *form) dispatch.Dimension {
	if !f.has("dimensions") {
		if f.has("combine") && f.choice("combine", combinations) == "zip" { // generated clients send product, the default
			f.fault("combine", "value_error", "Give it with dimensions")
		}
		if one := f.nested("dimension"); one != nil {
			return a.dimension(one)
		}
		return dispatch.Dimension{}
	}
	if f.has("dimension") {
		f.fault("dimensions", "value_error", "Give dimension or dimensions, not both")
	}
	all := []dispatch.Dimension{}
	for _, one := range f.forms("dimensions", mostDimensions) {
		all = append(all, a.dimension(one))
	}
	if len(all) == 0 {
		return dispatch.Dimension{} // a fault is recorded
	}
	d := all[0]
	d.With = all[1:]
	d.Zipped = f.has("combine") && f.choice("combine", combinations) == "zip"
	if n := d.Jobs(); n > a.Limits.Values {
		f.fault("dimensions", "too_long", fmt.Sprintf("The dimensions should have at most %d combinations of values, not %s",
			a.Limits.Values, product(d)))
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

// dimension reads the values of one dimension, or the interval to split.
func (a *api) dimension(f *form) dispatch.Dimension {
	d := dispatch.Dimension{Name: f.text("name", a.Limits.Text)}
	if !f.has("split") && !f.has("interval") {
		d.Values = f.list("values", a.Limits.Values)
		if f.has("names") {
			d.Names = f.names(a.Limits.Values)
		}
		return d
	}
	if f.has("values") {
		f.fault("values", "value_error", "Give values, or an interval and how to split it, not both")
		return d
	}
	if f.has("names") {
		f.fault("names", "value_error", "Give names with values, not with an interval")
	}
	d.Values = a.splitInterval(f)
	return d
}

// names reads the names of the values of a dimension.
func (f *form) names(limit int) []string {
	names := []string{}
	for i, raw := range f.list("names", limit) {
		var name string
		if json.Unmarshal(raw, &name) != nil || raw[0] != '"' {
			f.faultAt("string_type", "Input should be a valid string", "names", i)
		}
		names = append(names, name)
	}
	return names
}

// splitInterval returns the parts of an interval of time.
func (a *api) splitInterval(f *form) []json.RawMessage {
	before := len(*f.faults)
	text, raw := f.text("split", a.Limits.Text), f.required("interval")
	step, ok := parseStep(text)
	if len(*f.faults) == before && !ok {
		f.fault("split", "value_error",
			"Input should be day, week, month, quarter, year, or a number of days or weeks as in ISO 8601, such as P10D")
	}
	span, err := parseInterval(raw)
	if len(*f.faults) == before && err != nil {
		f.fault("interval", "value_error", "Input should be "+err.Error())
	}
	if len(*f.faults) > before {
		return nil
	}
	parts, whole := span.split(step, a.Limits.Values)
	if !whole {
		f.fault("interval", "too_long", fmt.Sprintf("The interval should have at most %d parts", a.Limits.Values))
	}
	return parts
}

// has reports whether a member is given and not null.
func (f *form) has(name string) bool {
	raw := f.members[name]
	return raw != nil && raw[0] != 'n'
}

// forms returns a form for each element of a member that must be an array of 1 to limit objects.
func (f *form) forms(name string, limit int) (all []*form) {
	for i, raw := range f.list(name, limit) {
		one := &form{at: append(append([]any{}, f.at...), name, i), faults: f.faults}
		if json.Unmarshal(raw, &one.members) != nil || one.members == nil {
			one.faultAt("model_attributes_type", "Input should be a valid dictionary or object to extract fields from")
			continue
		}
		all = append(all, one)
	}
	return all
}
