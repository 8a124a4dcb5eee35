package documents

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// pinnedBytes bounds the documents that a broker holds for submissions. Each has at most a few megabytes.
const pinnedBytes = 32 << 20

// pinnedDocuments are documents by their hash, so that each is read once for the many jobs that are pinned to it.
type pinnedDocuments struct {
	mu    sync.Mutex
	known map[string]json.RawMessage
	bytes int
}

func (p *pinnedDocuments) get(hash string) json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[hash]
}

// keep keeps a document. It forgets all others if they would take too much memory.
func (p *pinnedDocuments) keep(hash string, body json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[hash] != nil || len(body) > pinnedBytes {
		return
	}
	if p.bytes+len(body) > pinnedBytes {
		p.known, p.bytes = nil, 0
	}
	dispatch.SetInMap(&p.known, hash, body)
	p.bytes += len(body)
}

// Definition returns the document that a job is pinned to; nil if it is not pinned to a document.
func (d *Documents) Definition(ctx context.Context, j dispatch.Job, r dispatch.Request) (json.RawMessage, error) {
	if !dispatch.IsHash(r.Pin) {
		return nil, nil
	}
	if body := d.pinned.get(r.Pin); body != nil {
		return body, nil
	}
	body, err := d.Store.Definition(ctx, j.ID)
	if err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return nil, &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.definition",
			Text: "The definition of the service could not be read from the database.", Err: err}
	}
	if err != nil || (dispatch.Document{Body: body}).Hash() != r.Pin {
		return nil, &dispatch.Error{Kind: dispatch.DocumentInvalid, Op: "dispatch.definition",
			Text: "The definition that the job is pinned to is no longer kept. Submit it again.", Err: err}
	}
	d.pinned.keep(r.Pin, body)
	return body, nil
}
