package ogcapi

import (
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
	return p.Permits.CheckOptions(opSubmit, r, func(name string) bool {
		return !slices.Contains(permittedMembers, name)
	})
}
