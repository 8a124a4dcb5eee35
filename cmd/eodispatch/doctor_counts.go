package main

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// counts compares the counts of jobs that the database keeps with its jobs, and corrects them with --repair. It has no
// time limit then: of 1,000,000 jobs it takes some seconds.
func (d *doctorCommand) counts(ctx context.Context, settings *config.Config) finding {
	f := finding{name: "counts of jobs", advice: "run `eodispatch doctor --repair`"}
	s, err := openDatabase(ctx, settings)
	switch {
	case dispatch.Is(err, dispatch.Conflict) && !d.repair:
		f.unproven, f.advice = "a broker uses the file", "stop it to check them"
		return f
	case err != nil:
		f.err, f.advice = err, "see the check of the database; on SQLite no broker may use the file"
		return f
	}
	defer s.Close()
	if d.repair {
		return corrected(ctx, s, f)
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	wrong, err := s.WrongCounts(ctx)
	switch {
	case err != nil:
		f.err, f.advice = err, "if the database has very many jobs, raise `--timeout`"
	case wrong > 0:
		f.err = fmt.Errorf("%d counts differ from the jobs, so limits and quotas may be exceeded or not used up", wrong)
	}
	return f
}

func corrected(ctx context.Context, s *store.Store, f finding) finding {
	n, err := s.CorrectCounts(ctx)
	if f.err = err; n > 0 {
		f.name = fmt.Sprintf("%s, %d of them corrected", f.name, n)
	}
	return f
}
