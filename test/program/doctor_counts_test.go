package program

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestDoctor_CorrectsCounts changes a count by hand. doctor reports it, and corrects it with --repair.
func TestDoctor_CorrectsCounts(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			dsn := create(t)
			s, err := store.Open(t.Context(), dsn, conformance.WallClock{})
			if err != nil {
				t.Fatal(err)
			}
			job := dispatch.Draft{Body: []byte("{}"), Job: dispatch.Job{Identity: dispatch.Identity{Owner: "ann"},
				Target: dispatch.Target{Account: "p/shared"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
				Handover:  dispatch.Handover{Phase: dispatch.Waiting},
				Condition: dispatch.Condition{Status: dispatch.Accepted}}}
			if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, []dispatch.Draft{job}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			doctor := func(want string, exit int, flags ...string) {
				t.Helper()
				code, printed := try(t, []string{"EODISPATCH_DATABASE=" + dsn},
					append([]string{"doctor", "--config", file}, flags...)...)
				if code != exit || !regexp.MustCompile(want).MatchString(printed) {
					t.Errorf("exit %d, want %q in:\n%s", code, want, printed)
				}
			}
			doctor(`ok +counts of jobs +-\n`, exitDone)
			change(t, dsn, "UPDATE account_counts SET waiting = 7")
			doctor("FAIL +counts of jobs +1 counts differ from the jobs, so limits and quotas may be exceeded or "+
				"not used up; run `eodispatch doctor --repair`\n", exitFailed)
			doctor("ok +counts of jobs, 1 of them corrected", exitDone, "--repair")
			doctor(`ok +counts of jobs +-\n`, exitDone)
		})
	}
}

// change runs a statement on a database that no program has open.
func change(t *testing.T, dsn, statement string) {
	t.Helper()
	file, lite := strings.CutPrefix(dsn, "sqlite:")
	if !lite {
		postgres.Exec(t, dsn, statement)
		return
	}
	db, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = db.Exec(statement)
		_ = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
