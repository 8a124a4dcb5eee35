package ogcapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

var _ dispatch.Permitter = (*Platform)(nil)

// permittedMembers lists the members of an execute request that options may set under any account. On a shared account
// all others need a permission: subscriber makes the server call URLs of the user, and servers have members of their
// own.
var permittedMembers = []string{"inputs", "mode", "outputs", "response"}

// Permitted checks the options of a request against the permissions of the shared account.
func (p *Platform) Permitted(r dispatch.Request) error {
	var members map[string]json.RawMessage
	options := r.PlatformOptions()
	if p.Permits == nil || options == nil || json.Unmarshal(options, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(permittedMembers, name) {
			continue
		}
		if err := p.Permits.Check(opSubmit, name, "options", name); err != nil {
			return err
		}
	}
	return nil
}
