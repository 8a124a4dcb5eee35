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
	// Parts are the pieces of the document. Where two of them meet, a link began with the address of the platform's
	// API.
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

// Publisher is a platform that publishes what it offers, and validates process graphs.
type Publisher interface {
	// Published returns the document at a path below the address of the platform's API, which may have a query, from a
	// cache, or a process that the user stored there. The zero token is enough if the document is public. The error is
	// NotFound if there is no such document, and Unsupported if the path is not one of documents that are published.
	Published(ctx context.Context, t Token, path string) (Publication, error)

	// Validate returns the platform's response to a process, a JSON object with the member errors. Nothing runs, and
	// nothing is stored.
	Validate(ctx context.Context, t Token, process []byte) ([]byte, error)
}
