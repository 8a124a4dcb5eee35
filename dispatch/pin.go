package dispatch

import (
	"bytes"
	"context"
	"unicode/utf8"
)

// optionPin is the option that runs a request with the definition of its service at the time of its acceptance.
const optionPin = "pin"

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
func (r Request) MustPin() bool { return string(r.options()[optionPin]) == "true" }

// mayPin reports whether r is pinned if that does not change what its platform is sent: requests for tasks are, so that
// all jobs of a task run the same definition, unless the client set the option pin to false.
func (r Request) mayPin(d *Dimension) bool {
	return d != nil && string(r.options()[optionPin]) != "false"
}

// pin returns what the request is pinned to, see [Pinner].
func (b *Broker) pin(ctx context.Context, u UserID, backend *Backend, r Request, d *Dimension,
	document *Document) (string, error) {
	// a process that was sent is a part of the request
	if r.Process != nil || !r.MustPin() && (document == nil || !r.mayPin(d)) {
		return "", nil
	}
	pinner, can := backend.Platform.(Pinner)
	if !can {
		if r.MustPin() {
			return "", InvalidBody("dispatch.pin",
				"This platform cannot pin services to their present definition. Leave out the option pin.", "options", optionPin)
		}
		return "", nil
	}
	if document != nil && (!utf8.Valid(document.Body) || bytes.IndexByte(document.Body, 0) >= 0) {
		document = nil // databases do not keep it byte for byte
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	pin, err := pinner.Pin(ctx, Token{}, r, d, document)
	if Is(err, SignInRequired) || Is(err, Forbidden) {
		pin, err = withToken(ctx, b, backend, backend.Account(u), func(ctx context.Context, t Token) (string, error) {
			return pinner.Pin(ctx, t, r, d, document)
		})
	}
	if err != nil && !r.MustPin() {
		return "", nil
	}
	return pin, err
}

// isHash reports whether a pin is the hash of a document.
func isHash(pin string) bool { return len(pin) == hashLength }

const hashLength = 64 // of a SHA-256 in hexadecimal

// PinnedToDocument reports whether the request runs with a document that is stored with it, so that nothing has to be
// fetched to submit it.
func (r Request) PinnedToDocument() bool { return isHash(r.Pin) }
