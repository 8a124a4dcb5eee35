package dispatch

import "context"

// Pinner is a [Platform] that can run requests with the definition of their service at the time of their acceptance,
// see [Request].Pin.
type Pinner interface {
	// Pin returns an identification of the definition with which r will run, even if the document at its origin
	// changes: the hash of the given document, which then comes with each [Submission], or a text of the adapter, which
	// the adapter compares before it submits r. "": r runs with the definition at the time of its submission. If r must
	// be pinned and cannot be, the error is Invalid; other errors may be temporary.
	Pin(ctx context.Context, t Token, r Request, d *Dimension, document *Document) (string, error)
}

// IsHash reports whether a pin is the hash of a document.
func IsHash(pin string) bool { return len(pin) == hashLength }

const hashLength = 64 // of a SHA-256 in hexadecimal

// PinnedToDocument reports whether the request runs with a document that is stored with it, so that nothing has to be
// fetched to submit it.
func (r Request) PinnedToDocument() bool { return IsHash(r.Pin) }
