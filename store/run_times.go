package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AddRunTimes adds run times of a service, and returns all that are stored.
func (s *Store) AddRunTimes(
	ctx context.Context, platform string, service dispatch.ServiceHash, seen ...dispatch.RunTime,
) (all dispatch.RunTimes, err error) {
	if len(seen) == 0 {
		text, err := value[string](ctx, s.on(s.look), `
			SELECT spans
			FROM run_times
			WHERE platform = $1 AND service = $2`,
			platform, service)
		if err = missing(err); err != nil || text == "" {
			return nil, fail("AddRunTimes", err)
		}
		all, err = runTimesOf(text)
		return all, fail("AddRunTimes", err)
	}
	err = s.inVisit(ctx, "AddRunTimes", 1, func(q tx, now int64) error {
		// Locks the run times of the service: other additions come before or after.
		text, err := value[string](ctx, q, `
			INSERT INTO run_times (platform, service, spans, updated)
			VALUES ($1, $2, '[]', $3)
			ON CONFLICT (platform, service) DO UPDATE SET updated = excluded.updated
			RETURNING spans`,
			platform, service, now)
		if err != nil {
			return err
		}
		if all, err = runTimesOf(text); err != nil {
			return err
		}
		all = all.Add(seen...)
		_, err = q.ExecContext(ctx, `
			UPDATE run_times
			SET spans = $3
			WHERE platform = $1 AND service = $2`,
			platform, service, textOfRunTimes(all))
		return err
	})
	return all, err
}

// runTimesOf is the inverse of textOfRunTimes.
func runTimesOf(text string) (dispatch.RunTimes, error) {
	var pairs [][2]int64
	err := json.Unmarshal([]byte(text), &pairs)
	all := make(dispatch.RunTimes, len(pairs))
	for i, p := range pairs {
		all[i] = dispatch.RunTime{After: time.Duration(p[0]) * time.Millisecond, By: time.Duration(p[1]) * time.Millisecond}
	}
	return all, err
}

func textOfRunTimes(all dispatch.RunTimes) string {
	pairs := make([][2]int64, len(all))
	for i, r := range all {
		pairs[i] = [2]int64{r.After.Milliseconds(), r.By.Milliseconds()}
	}
	text, _ := json.Marshal(pairs) // cannot fail: numbers only
	return string(text)
}
