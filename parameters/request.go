package parameters

import (
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mostFaults are told at once.
const mostFaults = 100

// Check says what is wrong with the parameters of a request, and with the values of a dimension if there is one: an error
// of kind Invalid that names every place, or nil.
func (s *Set) Check(r dispatch.Request, d *dispatch.Dimension) error {
	except := ""
	if d != nil {
		except = d.Name
	}
	_, faults := s.Arguments(r.Parameters, except)
	if d != nil {
		faults = append(faults, s.dimension(*d)...)
	}
	return invalid(faults)
}

func (s *Set) dimension(d dispatch.Dimension) (faults []dispatch.Fault) {
	if _, known := s.parameters[d.Name]; !known {
		_, faults = s.Argument(d.Name, nil, "body", "dimension", "name")
		return faults
	}
	for i, value := range d.Values {
		_, found := s.Argument(d.Name, value, "body", "dimension", "values", i)
		if faults = append(faults, found...); len(faults) >= mostFaults {
			break
		}
	}
	return faults
}

// Shape gives the parameters of a request in the form that is asked for. What is wrong with them is an error, unless the
// client wants them submitted as they are.
func (s *Set) Shape(r dispatch.Request) (json.RawMessage, error) {
	shaped, faults := s.Arguments(r.Parameters, "")
	if !r.Checked() {
		return shaped, nil
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
