package parameters

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// mostFaults bounds the faults that are reported at once.
const mostFaults = 100

// Check checks the parameters of a request, and the values of its dimensions if there are any. It returns nil or an
// error of kind Invalid that lists every fault. The error is also Invalid if the check costs more than
// budget.CheckSteps, and Unavailable if ctx ends.
func (s *Set) Check(ctx context.Context, r dispatch.Request, d *dispatch.Dimension) error {
	m := meter(ctx, r, d)
	_, faults := s.Arguments(m, r.Parameters, d)
	for i := range d.All() {
		faults = append(faults, s.dimension(m, d, i)...)
	}
	if err := m.Err(); err != nil {
		return unfinished(err)
	}
	return invalid(faults)
}

func (s *Set) dimension(m *bounds.Meter, d *dispatch.Dimension, k int) (faults []dispatch.Fault) {
	one := d.All()[k]
	at := func(below ...any) []any { return append([]any{"body"}, d.Place(k, below...)...) }
	if _, known := s.parameters[one.Name]; !known {
		_, faults = s.Argument(m, one.Name, nil, at("name")...)
		return faults
	}
	for i, value := range one.Values {
		_, found := s.Argument(m, one.Name, value, at("values", i)...)
		if faults = append(faults, found...); len(faults) >= mostFaults || m.Err() != nil {
			break
		}
	}
	return faults
}

// Shape returns the parameters of a request in the form that the service asks for. Faults are an error, unless the
// client wants the parameters submitted unchecked.
func (s *Set) Shape(ctx context.Context, r dispatch.Request) (json.RawMessage, error) {
	m := meter(ctx, r, nil)
	shaped, faults := s.Arguments(m, r.Parameters, nil)
	if !r.Checked() {
		return shaped, nil
	}
	if err := m.Err(); err != nil {
		return shaped, unfinished(err)
	}
	return shaped, invalid(faults)
}

func invalid(faults []dispatch.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "parameters.Check",
		Text:   "The parameters do not fit the service: " + faults[0].Msg,
		Faults: faults[:min(len(faults), mostFaults)]}
}

// mostUnchecked bounds the list of names in a warning, in bytes.
const mostUnchecked = 300

// Warning describes the unsupported parts of a parameter's schema; "" if there are none, or no such parameter.
func (s *Set) Warning(name string) string { return s.parameters[name].Warning }

// Unchecked returns a plain text of at most 500 bytes that names the parameters of a request, and of its dimension,
// whose schemas are not fully supported; "" if there are none.
func (s *Set) Unchecked(r dispatch.Request, d *dispatch.Dimension) string {
	var odd []string
	for _, name := range s.names {
		if s.Warning(name) != "" {
			odd = append(odd, name)
		}
	}
	if len(odd) == 0 {
		return ""
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(r.Parameters, &given) // Check reports a value that is not an object
	var names []string
	for _, name := range odd {
		if _, shared := given[name]; shared || d.Varies(name) {
			names = append(names, strconv.Quote(short(name)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Not checked in full, because the broker does not support their schemas in full: " +
		cut(strings.Join(names, ", "), mostUnchecked) + ". POST /params names the unsupported parts."
}
