package api

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// logBroker reads the logs of jobs.
type logBroker interface {
	// Logs returns what the platform logged about a job, oldest entry first.
	Logs(context.Context, dispatch.UserID, dispatch.JobID) ([]dispatch.LogEntry, error)
}

type logs struct {
	Link string `header:"Link" doc:"Address of the next page, if there is one"`
	Body wire.LogPage
}

func (a *api) readLogs(ctx context.Context, in *openapi.Request, id dispatch.JobID) (*logs, error) {
	limit, offset := openapi.Integer(in.Query(), "limit", openapi.ManyLogs), openapi.Integer(in.Query(), "offset", 0)
	entries, err := a.Broker.Logs(ctx, call.User(ctx), id)
	if err != nil {
		return nil, err
	}
	page := &logs{Body: wire.LogPage{Logs: []wire.LogEntry{}}}
	from, to := min(offset, len(entries)), min(offset+limit, len(entries))
	for _, e := range entries[from:to] {
		page.Body.Logs = append(page.Body.Logs,
			wire.LogEntry{Time: live.Known(e.Time), Level: e.Level, Message: e.Message})
	}
	if to < len(entries) {
		page.Link = fmt.Sprintf(`<%s/unit_jobs/%d/logs?limit=%d&offset=%d>; rel="next"`, a.PublicURL, id, limit, to)
	}
	return page, nil
}
