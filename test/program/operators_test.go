package program

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const forgotten, remembered = "f:9e1d3a:jürgen", "subject-to-keep"

// fillForUsers fills a database with jobs, tasks, keys, grants, sessions and processes of two users. The jobs have
// ended, except waiting ones of both.
func fillForUsers(t *testing.T, w *simulator.World, dsn string) {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, subject := range []string{forgotten, remembered} {
		user := dispatch.UserID(w.Credentials.Issuer + " " + subject)
		draft := func(account string, phase dispatch.Phase, body string) dispatch.Draft {
			return dispatch.Draft{Body: []byte(body), Job: dispatch.Job{Identity: dispatch.Identity{Owner: user},
				Target: dispatch.Target{Account: dispatch.Account(account)},
				Wish:   dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: phase},
				Condition: dispatch.Condition{Status: dispatch.Accepted}},
				Document: &dispatch.Document{Origin: dispatch.Origin{Platform: "p"},
					Body: []byte(`{"by": "` + subject + `"}`)}}
		}
		own := "p/" + string(user)
		task := &dispatch.Task{Owner: user, Account: dispatch.Account(own), Dimension: "d",
			Request: dispatch.Request{Title: subject, Parameters: []byte(`{}`)}}
		each(t, func() error {
			_, err := s.Accept(t.Context(), dispatch.Key{Text: "key", Fingerprint: "print"}, nil,
				[]dispatch.Draft{draft(own, dispatch.Waiting, `{"title": "`+subject+`", "parameters": {}}`)})
			return err
		}, func() error {
			_, err := s.Accept(t.Context(), dispatch.Key{}, nil, []dispatch.Draft{draft("p/shared", dispatch.Waiting,
				`{"title": "`+subject+`", "parameters": {"area": [1, 2]}}`)})
			return err
		}, func() error {
			value := draft(own, dispatch.Waiting, `"`+subject+`"`)
			value.Number, value.Document = 1, nil
			_, err := s.Accept(t.Context(), dispatch.Key{}, task, []dispatch.Draft{value})
			return err
		}, func() error {
			return s.KeepToken(t.Context(), dispatch.SealedToken{Name: "exchange " + string(user), Owner: user,
				Sealed: dispatch.Sealed{Key: "1", Text: "sealed-secret"}, Expires: time.Now().Add(time.Hour)})
		}, func() error {
			return s.KeepGrant(t.Context(), dispatch.Grant{ID: user.Hash()[:8], Owner: user, Issuer: "i", Kind: "k",
				Sealed: dispatch.Sealed{Key: "1", Text: "sealed-secret"}, Expires: time.Now().Add(time.Hour)})
		})
	}
}

func each(t *testing.T, all ...func() error) {
	t.Helper()
	for _, do := range all {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

// mentions counts the texts of a database that contain a text, by table.
func mentions(t *testing.T, dsn, text string) map[string]int {
	t.Helper()
	driver, name, list := "pgx", dsn,
		"SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class "+
			"WHERE oid = 'jobs'::regclass)"
	if file, lite := strings.CutPrefix(dsn, "sqlite:"); lite {
		driver, name, list = "sqlite", file, "SELECT name FROM sqlite_master WHERE type = 'table'"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]int{}
	for _, row := range allRows(t, db, list) {
		table := fmt.Sprint(row[0])
		for _, values := range allRows(t, db, "SELECT * FROM "+table) {
			if strings.Contains(fmt.Sprintf("%s", values), text) {
				found[table]++
			}
		}
	}
	return found
}

func allRows(t *testing.T, db *sql.DB, text string) (all [][]any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		all = append(all, values)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestForget_LeavesNothing: export prints what a user has, without secrets; forget with --cancel deletes it, so that no
// text of the database names the user, also none of a permission that is to be revoked; and another user has what they
// had.
func TestForget_LeavesNothing(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			dsn := create(t)
			fillForUsers(t, w, dsn)
			environ := []string{"EODISPATCH_DATABASE=" + dsn}
			change(t, dsn, "INSERT INTO task_costs (task, unit, costs, runs) SELECT id, 'credits', 1, 1 FROM tasks")
			before := mentions(t, dsn, remembered)
			code, printed := try(t, environ, "export", "--config", file, "--user", forgotten)
			if code != exitDone || strings.Contains(printed, "sealed-secret") || strings.Contains(printed, remembered) {
				t.Errorf("exit %d:\n%s", code, printed)
			}
			tables := map[string]int{}
			for line := range strings.Lines(printed) {
				var o store.Owned
				if err := json.Unmarshal([]byte(line), &o); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				tables[o.Table]++
			}
			for table, want := range map[string]int{"jobs": 3, "requests": 3, "tasks": 1, "keys": 1, "grants": 1,
				"tokens": 1, "definitions": 2, "task_costs": 1} {
				if tables[table] != want {
					t.Errorf("%d rows of %s exported: %v", tables[table], table, tables)
				}
			}
			code, printed = try(t, environ, "forget", "--config", file, "--user", forgotten, "--cancel")
			if code != exitDone || !strings.Contains(printed, "3 jobs, ") ||
				!strings.Contains(printed, `"action":"forget"`) || !strings.Contains(printed, "1 permissions") ||
				strings.Contains(printed, forgotten) {
				t.Errorf("exit %d:\n%s", code, printed)
			}
			// docs/operations.md finds the line of the audit so: printf '%s' 'ISSUER SUB' | sha256sum
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(w.Credentials.Issuer+" "+forgotten))); !strings.Contains(
				printed, sum) {
				t.Errorf("%s is not in the audit:\n%s", sum, printed)
			}
			if left := mentions(t, dsn, "credits"); left["task_costs"] != 1 {
				t.Errorf("costs of tasks are left: %v", left)
			}
			if left := mentions(t, dsn, forgotten); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if left := mentions(t, dsn, dispatch.UserID(w.Credentials.Issuer+" "+forgotten).Hash()); len(left) != 1 ||
				left["revocations"] != 1 {
				t.Errorf("to be revoked: %v", left)
			}
			if after := mentions(t, dsn, remembered); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the other user had %v, and has %v", before, after)
			}
			if code, printed := try(t, environ, "doctor", "--config", file); !strings.Contains(printed,
				"ok      counts of jobs ") {
				t.Errorf("exit %d:\n%s", code, printed)
			}
			if code, printed := try(t, environ, "export", "--config", file, "--user", "nobody"); code != exitFailed ||
				!strings.Contains(printed, "holds nothing") {
				t.Errorf("exit %d:\n%s", code, printed)
			}
		})
	}
}

// TestForget_RefusesLiveJobs: a user of whom a job is at a platform is refused, with what to do; with --cancel the job
// is to be canceled.
func TestForget_RefusesLiveJobs(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	dsn := databases["SQLite"](t)
	fillForUsers(t, w, dsn)
	change(t, dsn, "UPDATE jobs SET phase = 'started', status = 'running', ref_id = 'x' WHERE id = 2")
	environ := []string{"EODISPATCH_DATABASE=" + dsn}
	before := mentions(t, dsn, forgotten)
	for _, row := range []struct{ flag, want string }{
		{"--wait=1s", "jobs of the user have not ended. Wait until they have, or cancel them with --cancel"},
		{"--cancel", "1 jobs of the user are at platforms. They are canceled there when the broker runs"},
	} {
		if code, printed := try(t, environ, "forget", "--config", file, "--user", forgotten,
			row.flag); code != exitFailed || !strings.Contains(printed, row.want) {
			t.Errorf("%s: exit %d:\n%s", row.flag, code, printed)
		}
	}
	if after := mentions(t, dsn, forgotten); after["jobs"] != before["jobs"] ||
		after["requests"] != before["requests"] {
		t.Errorf("%v are left of %v", after, before)
	}
}

// TestPurge_DryRunAndReal: the dry run counts beside a broker what would be deleted, and the command deletes that.
func TestPurge_DryRunAndReal(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	dsn := databases["SQLite"](t)
	fillForUsers(t, w, dsn)
	change(t, dsn, fmt.Sprintf("UPDATE jobs SET phase = 'ended', status = 'failed', moved = %d WHERE id <> 1",
		time.Now().Add(-90*24*time.Hour).UnixMicro()))
	change(t, dsn, "UPDATE tasks SET created = 1")
	environ := []string{"EODISPATCH_DATABASE=" + dsn, "EODISPATCH_RETENTION_REQUESTS=720h",
		"EODISPATCH_RETENTION_JOBS=1440h"}
	using, err := store.Open(t.Context(), dsn, conformance.WallClock{}) // as a broker does
	if err != nil {
		t.Fatal(err)
	}
	code, printed := try(t, environ, "purge", "--dry-run", "--config", file)
	if code != exitDone || !strings.Contains(printed, "results  are kept for ever") ||
		!strings.Contains(printed, "requests 5 would") || !strings.Contains(printed, "jobs     5 would") ||
		!strings.Contains(printed, "tasks    2 would") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
	if err := using.Close(); err != nil {
		t.Fatal(err)
	}
	code, printed = try(t, environ, "purge", "--config", file)
	if code != exitDone || !strings.Contains(printed, "requests 5 deleted") ||
		!strings.Contains(printed, "jobs     5 deleted") || !strings.Contains(printed, "tasks    2 deleted") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}

// TestMigrate_TwoAtOnce: of several processes that migrate an empty database at once each succeeds, and one reports
// what it did.
func TestMigrate_TwoAtOnce(t *testing.T) {
	t.Parallel()
	file := configuration(t, startWorld(t))
	dsn := databases["PostgreSQL"](t)
	var all sync.WaitGroup
	printed := make([]string, 2)
	for i := range printed {
		all.Go(func() {
			var code int
			if code, printed[i] = try(t, []string{"EODISPATCH_DATABASE=" + dsn}, "migrate", "--config",
				file); code != exitDone {
				t.Errorf("exit %d:\n%s", code, printed[i])
			}
		})
	}
	all.Wait()
	if code, said := try(t, []string{"EODISPATCH_DATABASE=" + dsn}, "migrate", "--config", file); code != exitDone ||
		!strings.Contains(said, "is up to date") {
		t.Errorf("exit %d: %s", code, said)
	}
	if !strings.Contains(strings.Join(printed, ""), "was migrated from schema 0 to schema") {
		t.Errorf("%q", printed)
	}
}

// TestDoctor_JSON: the same findings as JSON, and one about what should have been deleted.
func TestDoctor_JSON(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	dsn := databases["SQLite"](t)
	fillForUsers(t, w, dsn)
	change(t, dsn, "DELETE FROM grants") // which doctor reports, because no key is configured
	change(t, dsn, fmt.Sprintf("UPDATE jobs SET phase = 'ended', status = 'failed', moved = %d WHERE task = 0",
		time.Now().Add(-90*24*time.Hour).UnixMicro()))
	try(t, []string{"EODISPATCH_DATABASE=" + dsn}, "doctor", "--repair", "--config", file) // counts the jobs as changed
	for retention, want := range map[string]string{"": "ok", "720h": "failed"} {
		_, printed := try(t, []string{"EODISPATCH_DATABASE=" + dsn, "EODISPATCH_RETENTION_JOBS=" + retention}, "doctor",
			"--json", "--config", file)
		var all struct {
			Checks []struct{ Check, Result, Detail, Advice string }
			Notes  []string
		}
		if err := json.Unmarshal([]byte(printed), &all); err != nil {
			t.Fatalf("%v in %s", err, printed)
		}
		found := map[string]string{}
		for _, c := range all.Checks {
			name, _, _ := strings.Cut(c.Check, ":")
			found[name] = c.Result
			if c.Result == "failed" && (c.Detail == "" || c.Advice == "") {
				t.Errorf("%+v", c)
			}
		}
		if found["retention"] != want || found["configuration"] != "ok" || found["database"] != "ok" ||
			found["counts of jobs"] != "ok" {
			t.Errorf("retention.jobs %q: %v", retention, found)
		}
	}
}
