package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Document is the document that defines a service, as it was when a task or job was accepted.
type Document struct {
	Origin
	Body []byte
}

// Origin identifies a document: a service at a platform.
type Origin struct {
	Platform string
	Service  Service
}

// Sent returns the bytes of a process that was sent with a request, which is a part of the request; 0 for any other
// document, and for nil.
func (d *Document) Sent() int64 {
	if d == nil || !d.Service.Inline() {
		return 0
	}
	return int64(len(d.Body))
}

// Hash returns the SHA-256 of the body, in hexadecimal. It identifies the content of the document.
func (d Document) Hash() string {
	sum := sha256.Sum256(d.Body)
	return hex.EncodeToString(sum[:])
}

// Document returns the document that defines a service; nil if there is none or it cannot be read now.
func (b *Backend) Document(ctx context.Context, s Service) *Document {
	documenter, can := b.Platform.(Documenter)
	if !can {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CheckWithin)
	defer cancel()
	body, err := documenter.Document(ctx, s)
	if err != nil || body == nil {
		return nil
	}
	return &Document{Origin{b.Name, s}, body}
}
