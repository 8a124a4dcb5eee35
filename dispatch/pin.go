package dispatch

import "context"

// OptionPin is the option that runs a request with the definition of its service at the time of its acceptance.
const OptionPin = "pin"

// Pinner is a [Platform] that can run requests with the definition of their service at the time of their acceptance,
// see [Request].Pin.
type Pinner interface {
	// Pin returns an identification of the definition with which r will run, even if the document at its origin changes:
	// the hash of the given document, which then comes with each [Submission], or a text of the adapter, which the adapter
	// compares before it submits r. "": r runs with the definition at the time of its submission. If r must be pinned and
	// cannot be, the error is Invalid; other errors may be temporary.
	Pin(ctx context.Context, t Token, r Request, d *Dimension, document *Document) (string, error)
}

// MustPin reports whether the client wants r to be pinned. It is refused if that cannot be.
func (r Request) MustPin() bool { return string(r.options()[OptionPin]) == "true" }

// MayPin reports whether r is pinned if that does not change what its platform is sent: requests for tasks are, so that
// all jobs of a task run the same definition, unless the client set the option pin to false.
func (r Request) MayPin(d *Dimension) bool {
	return d != nil && string(r.options()[OptionPin]) != "false"
}

// IsHash reports whether a pin is the hash of a document.
func IsHash(pin string) bool { return len(pin) == hashLength }

const hashLength = 64 // of a SHA-256 in hexadecimal

// PinnedToDocument reports whether the request runs with a document that is stored with it, so that nothing has to be
// fetched to submit it.
func (r Request) PinnedToDocument() bool { return IsHash(r.Pin) }
