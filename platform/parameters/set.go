package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Set is the parameters of one service, prepared for checking and converting many values. Several goroutines can use it
// at once.
type Set struct {
	// Unwrap, if not nil, recognizes values of a parameter that stand for others and are not converted. It returns the
	// values to check instead: of an array each of its elements. One that cannot be checked here is nil.
	Unwrap func(name string, value json.RawMessage) (inner []json.RawMessage, wrapped bool)

	parameters map[string]parameter
	names      []string
}

type parameter struct {
	dispatch.Parameter
	box     boxFormat // of a bounding box
	geoJSON bool      // GeoJSON is accepted
	schema  *compiled // nil if the schema cannot be used: then every value is accepted, and the parameter has a Warning
}

// NewSet prepares described parameters.
func (r *Reader) NewSet(described []dispatch.Parameter) *Set {
	s := &Set{parameters: map[string]parameter{}}
	for _, p := range described {
		d := r.document(p.Schema)
		check, faults := r.compile(p.Schema)
		p.Warning = warning(p.Name, faults)
		alternatives := d.schema(d.root).alternatives(0)
		geoJSON := slices.ContainsFunc(alternatives, schema.isGeoJSON)
		s.parameters[p.Name] = parameter{p, newBoxFormat(alternatives), geoJSON, check}
		s.names = append(s.names, p.Name)
	}
	return s
}

// Arguments checks the arguments of a request, a JSON object, and returns them in the form that the service asks for.
// It reports all faults, up to mostFaults, each with a location below "body", "parameters". The dimensions of a task
// must be absent because their values are given elsewhere. It also stops when the meter does.
func (s *Set) Arguments(m *bounds.Meter, raw json.RawMessage, d *dispatch.Dimension) (json.RawMessage,
	[]dispatch.Fault) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return raw, []dispatch.Fault{{Loc: []any{"body", "parameters"}, Msg: "The parameters must be a JSON object.",
			Type: "dict_type"}}
	}
	var faults []dispatch.Fault
	changed := false
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if len(faults) >= mostFaults || m.Err() != nil {
			return raw, faults
		}
		shaped, found := s.Argument(m, name, arguments[name], "body", "parameters", name)
		faults = append(faults, found...)
		changed = changed || !bytes.Equal(shaped, arguments[name])
		arguments[name] = shaped
	}
	for _, name := range s.names {
		if _, given := arguments[name]; !given && !s.parameters[name].Optional && !d.Varies(name) {
			faults = append(faults, dispatch.Fault{Loc: []any{"body", "parameters", name}, Type: "missing",
				Msg: fmt.Sprintf("The parameter %q (%s) is required.", name, s.parameters[name].Type)})
		}
	}
	if !changed || faults != nil {
		return raw, faults
	}
	shaped, err := dispatch.Encode(arguments)
	if err != nil {
		return raw, []dispatch.Fault{{Loc: []any{"body", "parameters"}, Msg: err.Error(), Type: "value_error"}}
	}
	return shaped, nil
}

// Argument checks and converts one value. The locations of faults begin with loc.
func (s *Set) Argument(m *bounds.Meter, name string, value json.RawMessage, loc ...any) (json.RawMessage,
	[]dispatch.Fault) {
	p, known := s.parameters[name]
	if !known {
		return value, []dispatch.Fault{{Loc: loc, Type: "extra_forbidden",
			Msg: fmt.Sprintf("There is no parameter %q. There are: %s.", short(name), s.list())}}
	}
	if s.Unwrap != nil {
		if inner, wrapped := s.Unwrap(name, value); wrapped {
			return value, p.checkAll(m, value, inner, loc)
		}
	}
	return p.checkAndConvert(m, value, loc)
}

// checkAll checks the values inside a value: one, or of an array each of its elements.
func (p parameter) checkAll(m *bounds.Meter, value json.RawMessage, inner []json.RawMessage,
	loc []any) []dispatch.Fault {
	var faults []dispatch.Fault
	isArray := bytes.HasPrefix(bytes.TrimSpace(value), []byte("["))
	for i, one := range inner {
		if one == nil {
			continue
		}
		at := loc
		if isArray {
			at = append(slices.Clone(loc), i)
		}
		_, found := p.checkAndConvert(m, one, at)
		if faults = append(faults, found...); len(faults) >= mostFaults || m.Err() != nil {
			break
		}
	}
	return faults
}

// list returns the names of the parameters for a message, shortened if there are many.
func (s *Set) list() string {
	const most = 50
	text := strings.Join(s.names[:min(len(s.names), most)], ", ")
	if len(s.names) > most {
		text += ", …"
	}
	return text
}

// checkAndConvert returns the first form of a value that is valid. If none is, it returns the value, and the faults of
// its most likely form.
func (p parameter) checkAndConvert(m *bounds.Meter, value json.RawMessage, loc []any) (json.RawMessage,
	[]dispatch.Fault) {
	if equal(value, p.Default) || p.Nullable && isNull(value) {
		// a default, and null where the schema allows it, are accepted even if the rest of the schema does not allow
		// them
		return value, nil
	}
	var faults []dispatch.Fault
	for candidate := range p.shapes(value) {
		found := p.check(m, candidate, loc)
		if found == nil {
			return candidate, p.implausible(m, candidate, loc)
		}
		if faults == nil {
			faults = found
		}
	}
	if p.cannotCross(value) {
		faults = []dispatch.Fault{{Loc: loc, Type: "value_error",
			Msg: fmt.Sprintf("The parameter %q takes a bounding box, which cannot describe an area "+
				"across the antimeridian or with a side longer than half the globe. Cut the area there, and submit "+
				"each part.", p.Name)}}
	}
	return value, faults
}

// equal compares two JSON texts by value.
func equal(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return false
	}
	var ca, cb bytes.Buffer
	return json.Compact(&ca, a) == nil && json.Compact(&cb, b) == nil && bytes.Equal(ca.Bytes(), cb.Bytes())
}

var english = message.NewPrinter(language.English)

func (p parameter) check(m *bounds.Meter, value json.RawMessage, loc []any) (faults []dispatch.Fault) {
	if p.schema == nil {
		return nil
	}
	if err := bounds.Numbers(value); err != nil {
		return []dispatch.Fault{{Loc: loc, Msg: "The value has a number of " + err.Error() + ".", Type: "value_error"}}
	}
	if !m.Spend(1 + len(value)/bytesPerStep) {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []dispatch.Fault{{Loc: loc, Msg: "The value is not valid JSON.", Type: "json_invalid"}}
	}
	err = p.schema.validate(v, m)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil // also if the meter stopped, which its owner checks
	}
	for _, leaf := range innermost(invalid, mostFaults) {
		faults = append(faults, dispatch.Fault{
			Loc: slices.Concat(loc, asAny(leaf.InstanceLocation)),
			Msg: fmt.Sprintf("The value of the parameter %q (%s) is not valid: %s.", p.Name, p.Type,
				shorter(textOf(leaf.ErrorKind))),
			Type: "value_error",
		})
	}
	return faults
}

// textOf says what a value violates.
func textOf(violated jsonschema.ErrorKind) string {
	format, ok := violated.(*kind.Format)
	switch {
	case !ok:
		return violated.LocalizedString(english)
	case format.Want == "date":
		return fmt.Sprintf("%q is not a date such as 2024-06-01", format.Got)
	case format.Want == "date-time":
		return fmt.Sprintf("%q is not a time such as 2024-06-01T12:00:00Z", format.Got)
	}
	return fmt.Sprintf("%q does not have the form %q", format.Got, format.Want)
}

// bytesPerStep is how many bytes of a value cost one step to decode.
const bytesPerStep = 32

// innermost returns up to most causes that explain a failure. Of several alternatives it returns those of the one that
// matched furthest; otherwise the error might ask a user for null.
func innermost(e *jsonschema.ValidationError, most int) (all []*jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	switch e.ErrorKind.(type) {
	case *kind.AnyOf:
		return innermost(deepestOf(e.Causes), most)
	}
	for _, c := range e.Causes {
		if len(all) >= most {
			break
		}
		all = append(all, innermost(c, most-len(all))...)
	}
	return all
}

// deepestOf returns the cause that matched furthest, the first one of equals.
func deepestOf(causes []*jsonschema.ValidationError) *jsonschema.ValidationError {
	best, most := causes[0], -1
	for _, c := range causes {
		if d := depth(c); d > most {
			best, most = c, d
		}
	}
	return best
}

func depth(e *jsonschema.ValidationError) int {
	d := len(e.InstanceLocation)
	for _, c := range e.Causes {
		d = max(d, depth(c))
	}
	return d
}
