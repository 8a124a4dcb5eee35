package api

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// logBroker reads the logs of jobs.
type logBroker interface {
	// Logs returns what the platform logged about a job, oldest entry first.
	Logs(context.Context, dispatch.UserID, dispatch.JobID) ([]dispatch.LogEntry, error)
}

const (
	manyLogs = 1_000 // entries of a page by default
	mostLogs = 10_000
)

type logs struct {
	Link string `header:"Link" doc:"Address of the next page, if there is one"`
	Body wire.LogPage
}

func (a *api) readLogs(ctx context.Context, in *request) (*logs, error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	limit, badLimit := in.number("limit", manyLogs, 1, mostLogs)
	offset, badOffset := in.number("offset", 0, 0, math.MaxInt32)
	if faults := append(badLimit, badOffset...); len(faults) > 0 {
		return nil, invalid(faults)
	}
	entries, err := a.Broker.Logs(ctx, user(ctx), id)
	if err != nil {
		return nil, err
	}
	page := &logs{Body: wire.LogPage{Logs: []wire.LogEntry{}}}
	from, to := min(offset, len(entries)), min(offset+limit, len(entries))
	for _, e := range entries[from:to] {
		page.Body.Logs = append(page.Body.Logs, wire.LogEntry{Time: known(e.Time), Level: e.Level, Message: e.Message})
	}
	if to < len(entries) {
		page.Link = fmt.Sprintf(`<%s/unit_jobs/%d/logs?limit=%d&offset=%d>; rel="next"`, a.PublicURL, id, limit, to)
	}
	return page, nil
}

// number reads an integer between least and most from the query; otherwise is its default.
func (r *request) number(name string, otherwise, least, most int) (int, []dispatch.Fault) {
	u := r.http.URL()
	texts, given := u.Query()[name]
	if !given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(texts[0])
	if err != nil || n < least || n > most || len(texts) > 1 {
		return 0, []dispatch.Fault{{Loc: []any{"query", name}, Type: "int_range",
			Msg: fmt.Sprintf("Input should be one integer from %d to %d", least, most)}}
	}
	return n, nil
}
