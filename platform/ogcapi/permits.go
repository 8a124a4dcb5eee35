package ogcapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

var _ dispatch.Permitter = (*Platform)(nil)

// harmless are the members of an execute request that options may set under any account. A shared one must permit the others: subscriber
// makes the server call addresses of the user's, and servers have members of their own.
var harmless = []string{"inputs", "mode", "outputs", "response"}

// Permitted checks the options of a request.
func (p *Platform) Permitted(r dispatch.Request) error {
	var members map[string]json.RawMessage
	options := r.PlatformOptions()
	if p.permits == nil || options == nil || json.Unmarshal(options, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(harmless, name) {
			continue
		}
		if err := p.permits.Check(opSubmit, name, "options", name); err != nil {
			return err
		}
	}
	return nil
}
