package dispatch

import "fmt"

// Permits lists what requests may do under an account that users share beside running processes on public data: members of
// options and names of processes that may spend the account's money, make the platform call other servers, or read and
// write what the account stores there. Nil permits everything: the account is the requesting user's own, or none.
type Permits map[string]bool

// NewPermits is the Permits of a shared account with what its operator allows.
func NewPermits(allowed []string) Permits {
	p := Permits{}
	for _, name := range allowed {
		p[name] = true
	}
	return p
}

// Check is Invalid at a place of the request's body, unless what is permitted.
func (p Permits) Check(op, what string, path ...any) error {
	if p == nil || p[what] {
		return nil
	}
	return InvalidBody(op, fmt.Sprintf("%s is not permitted under the account that users of this platform share: it may cost money, call other "+
		"servers, or reach what others stored. The operator of this service permits it by service_account.allow.", short(what)), path...)
}

// Permitter says, without asking anybody, which options of a request are not permitted under the platform's account: Invalid.
type Permitter interface{ Permitted(Request) error }

// permitted checks what a request may do at a backend, as far as that can be told without its service's document.
func (b *Backend) permitted(r Request) error {
	if p, can := b.Platform.(Permitter); can {
		return p.Permitted(r)
	}
	return nil
}
