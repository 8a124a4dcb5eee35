package parameters

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

// mostFaults bounds the faults that are reported at once.
const mostFaults = 100

// Check checks the parameters of a request, and the values of its dimension if there is one. It returns nil or an error
// of kind Invalid that lists every fault. The error is also Invalid if the check costs more than budget.CheckSteps, and
// Unavailable if ctx ends.
func (s *Set) Check(ctx context.Context, r dispatch.Request, d *dispatch.Dimension) error {
	m := meter(ctx, r, d)
	except := ""
	if d != nil {
		except = d.Name
	}
	_, faults := s.Arguments(m, r.Parameters, except)
	if d != nil {
		faults = append(faults, s.dimension(m, *d)...)
	}
	if err := m.Err(); err != nil {
		return unfinished(err)
	}
	return invalid(faults)
}

func (s *Set) dimension(m *budget.Meter, d dispatch.Dimension) (faults []dispatch.Fault) {
	if _, known := s.parameters[d.Name]; !known {
		_, faults = s.Argument(m, d.Name, nil, "body", "dimension", "name")
		return faults
	}
	for i, value := range d.Values {
		_, found := s.Argument(m, d.Name, value, "body", "dimension", "values", i)
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
	shaped, faults := s.Arguments(m, r.Parameters, "")
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
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "parameters.Check", Text: "The parameters do not fit the service: " + faults[0].Msg,
		Faults: faults[:min(len(faults), mostFaults)]}
}
