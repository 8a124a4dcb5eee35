package parameters

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

// mostFaults are told at once.
const mostFaults = 100

// Check says what is wrong with the parameters of a request, and with the values of a dimension if there is one: an error
// of kind Invalid that names every place, or nil. It is Invalid as well where checking costs more than budget.CheckSteps,
// and Unavailable where ctx ended.
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
		return tooMuch(err)
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

// Shape gives the parameters of a request in the form that is asked for. What is wrong with them is an error, unless the
// client wants them submitted as they are.
func (s *Set) Shape(ctx context.Context, r dispatch.Request) (json.RawMessage, error) {
	m := meter(ctx, r, nil)
	shaped, faults := s.Arguments(m, r.Parameters, "")
	if !r.Checked() {
		return shaped, nil
	}
	if err := m.Err(); err != nil {
		return shaped, tooMuch(err)
	}
	return shaped, invalid(faults)
}

func invalid(faults []dispatch.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "parameters.Check", Text: "The parameters are not what the service takes: " + faults[0].Msg,
		Faults: faults[:min(len(faults), mostFaults)]}
}
