package dispatch

import (
	"bytes"
	"context"
	"io"
	"time"
)

// Publication is a document in which a platform says what it offers, such as the list of its collections. It is a JSON
// object.
type Publication struct {
	// Parts are the pieces of the document. Where two of them meet, a link began with the address of the platform's API.
	Parts   [][]byte
	Version string    // differs between two documents, for example a hash
	Read    time.Time // when the platform sent it
	Stale   bool      // the platform has not responded since, although it was asked again
}

// At returns the document with links that begin with the given address.
func (p Publication) At(address string) []byte { return bytes.Join(p.Parts, []byte(address)) }

// Size returns the length of the document with links that begin with the given address, in bytes.
func (p Publication) Size(address string) (n int) {
	for _, part := range p.Parts {
		n += len(part) + len(address)
	}
	return n - min(n, len(address))
}

// Write writes the document with links that begin with the given address, without collecting it.
func (p Publication) Write(w io.Writer, address string) error {
	for i, part := range p.Parts {
		if i > 0 {
			if _, err := io.WriteString(w, address); err != nil {
				return err
			}
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Publisher is a platform that publishes what it offers.
type Publisher interface {
	// Published returns the document at a path below the address of the platform's API, which may have a query, from a
	// cache, or a process that the user stored there. The zero token is enough if the document is public. The error is
	// NotFound if there is no such document, and Unsupported if the path is not one of documents that are published.
	Published(ctx context.Context, t Token, path string) (Publication, error)
}

// Validator is a platform that validates process graphs.
type Validator interface {
	// Validate returns the platform's response to a process, a JSON object with the member errors. Nothing runs, and
	// nothing is stored.
	Validate(ctx context.Context, t Token, process []byte) ([]byte, error)
}

// Published returns a document that a platform publishes. The user need not be signed in to the platform if the
// document is public there. User "", who has not signed in, gets no others.
func (b *Broker) Published(ctx context.Context, u UserID, platform, path string) (Publication, error) {
	backend := b.backendNamed(platform)
	if backend == nil {
		return Publication{}, &Error{Kind: NotFound, Op: "dispatch.Published", Text: "There is no such platform."}
	}
	publisher, can := backend.Platform.(Publisher)
	if !can {
		return Publication{}, &Error{Kind: Unsupported, Op: "dispatch.Published",
			Text: "This platform does not publish what it offers."}
	}
	defer idleIfSlow(ctx)()
	limited, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	public, err := publisher.Published(limited, Token{}, path)
	if u == "" || !Is(err, SignInRequired) && !Is(err, Forbidden) {
		return public, err
	}
	if err := backend.checkEntitled(ctx); err != nil {
		return Publication{}, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ Platform, t Token) (Publication, error) {
		return publisher.Published(ctx, t, path)
	})
}

// Validate returns what a platform says about a process, which it does not run: a JSON object with the member errors.
// For user "", who has not signed in, the platform is asked without a token.
func (b *Broker) Validate(ctx context.Context, u UserID, platform string, process []byte) ([]byte, error) {
	backend := b.backendNamed(platform)
	if backend == nil {
		return nil, &Error{Kind: NotFound, Op: "dispatch.Validate", Text: "There is no such platform."}
	}
	v, can := backend.Platform.(Validator)
	if !can {
		return nil, &Error{Kind: Unsupported, Op: "dispatch.Validate",
			Text: "This platform does not validate process graphs."}
	}
	if u == "" {
		return b.validateOpenly(ctx, backend, v, process)
	}
	if err := backend.checkEntitled(ctx); err != nil {
		return nil, err
	}
	if err := backend.permittedProcess(ctx, process); err != nil {
		return nil, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ Platform, t Token) ([]byte,
		error) {
		return v.Validate(ctx, t, process)
	})
}

// permittedProcess checks a process that is sent with the token of an account that users share, as if it were to be
// run: to validate it, a platform may read what the process refers to.
func (b *Backend) permittedProcess(ctx context.Context, process []byte) error {
	runner, can := b.Platform.(GraphRunner)
	if !can || b.Access != AccessShared {
		return nil
	}
	r := Request{Label: b.Label, Service: Service{Endpoint: b.Endpoint}, Process: process}.complete()
	return runner.CheckGraph(ctx, r, nil)
}

// validateOpenly validates a process without a token. All strangers together have the limit of one user.
func (b *Broker) validateOpenly(ctx context.Context, backend *Backend, v Validator, process []byte) ([]byte, error) {
	defer idle(ctx)()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	release, err := b.ownCalls.acquire(ctx, backend.Name+"/", callsOfUser)
	if err != nil {
		return nil, err
	}
	defer release()
	return v.Validate(ctx, Token{}, process)
}
