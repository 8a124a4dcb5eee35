package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Logs returns the platform's log entries about a job, oldest first.
func (b *Broker) Logs(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]dispatch.LogEntry, error) {
	r, err := b.Records.Record(ctx, u, id)
	if err != nil || r.Ref == (dispatch.Ref{}) {
		return nil, err
	}
	entries, err := call(ctx, b, u, r.Account, func(ctx context.Context, p dispatch.Platform,
		t dispatch.Token) ([]dispatch.LogEntry, error) {
		l, can := p.(dispatch.Logger)
		if !can {
			return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Logs",
				Text: "This platform does not provide logs."}
		}
		return l.Logs(ctx, t, r.Ref)
	})
	for i, e := range entries {
		entries[i].Message = string(b.untagged([]byte(e.Message)))
	}
	return entries, err
}
