package parameters

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

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
		if _, is := given[name]; is || d.Varies(name) {
			names = append(names, strconv.Quote(short(name)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Not checked in full, because the broker does not support their schemas in full: " +
		cut(strings.Join(names, ", "), mostUnchecked) + ". POST /params names the unsupported parts."
}
