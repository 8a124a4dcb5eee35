package documents

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Definition returns the document that a job is pinned to; nil if it is not pinned to a document.
func (d *Documents) Definition(ctx context.Context, j dispatch.Job, r dispatch.Request) (json.RawMessage, error) {
	if !dispatch.IsHash(r.Pin) {
		return nil, nil
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
	return body, nil
}
