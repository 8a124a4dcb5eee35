package crashes

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// backup is a database that can be copied and restored while no program has it open.
type backup struct {
	dsn           string
	take, putBack func()
}

func sqliteBackup(t *testing.T) backup {
	file := filepath.Join(t.TempDir(), "fire.db")
	return backup{"sqlite:" + file, func() { restore(t, file, file+".copy") },
		func() { restore(t, file+".copy", file) }}
}

// postgresBackup stores the copy as another database of the server.
func postgresBackup(t *testing.T) backup {
	dsn := postgres.Database(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	server, copied := u.String(), name+"_copy"
	t.Cleanup(func() { postgres.Exec(t, server, "DROP DATABASE IF EXISTS "+copied) })
	return backup{dsn, func() { postgres.Exec(t, server, "CREATE DATABASE "+copied+" TEMPLATE "+name) }, func() {
		postgres.Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)")
		postgres.Exec(t, server, "CREATE DATABASE "+name+" TEMPLATE "+copied)
		// as in a copy that is two minutes old, so that the command restored need not wait
		postgres.Exec(t, dsn, "UPDATE served SET seen = seen - 120000000")
	}}
}

// TestRestored_Database copies the database while jobs wait, lets them and later jobs run, and restores the copy. After
// the command restored no job runs twice, a job that waited in the copy adopts what it ran since, jobs accepted after
// the copy are left running and reported by doctor, and no id is assigned again.
func TestRestored_Database(t *testing.T) {
	for name, newBackup := range map[string]func(*testing.T) backup{"SQLite": sqliteBackup,
		"PostgreSQL": postgresBackup} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workPastABackup(t, newBackup(t))
		})
	}
}

func workPastABackup(t *testing.T, b backup) {
	s := crash{life: simulator.Life{Run: 40 * time.Second}}.scene(t)
	environ := environment(t, b.dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open",
		"limits": map[string]any{"jobs": 1}}})
	p := launch(t, released, environ)
	post := func(p *program, n int) {
		s.overMany(n)
		if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
			t.Fatal(err)
		}
	}
	post(p, 2) // one runs, one waits
	before := database(t, b.dsn)
	if !until(2*time.Minute, func() bool { return slices.ContainsFunc(rowsOf(t, before), started) }) {
		t.Fatal("no job runs")
	}
	p.stop(t)
	before.Close()
	b.take()

	more := slices.Clone(environ)
	for i, v := range more {
		more[i] = strings.Replace(v, `"jobs":1`, `"jobs":10`, 1)
	}
	p = launch(t, released, more)
	post(p, 2)
	if !until(3*time.Minute, func() bool { return s.oracle.Sum().Runs == 4 }) {
		t.Fatalf("at the platform: %+v", s.oracle.Sum())
	}
	later := database(t, b.dsn)
	last := rowsOf(t, later)[3].id
	p.stop(t)
	later.Close()

	b.putBack()
	if output := command(t, more, "restored"); !strings.Contains(output, "1 accounts submit no jobs") {
		t.Fatalf("output of restored: %s", output)
	}
	p = launch(t, released, more)
	post(p, 1)
	db := database(t, b.dsn)
	if !until(3*time.Minute, func() bool { return s.oracle.Sum().Runs == 5 }) {
		t.Fatalf("a job submitted after the restore does not run: %+v", rowsOf(t, db))
	}
	if !until(5*time.Minute, func() bool {
		return !slices.ContainsFunc(rowsOf(t, db), func(r row) bool { return r.phase != dispatch.Ended })
	}) {
		t.Errorf("not all jobs end: %+v", rowsOf(t, db))
	}
	p.stop(t)
	checkRestored(t, s, rowsOf(t, db), last)
	if output := command(t, more, "doctor"); strings.Count(output, "is not in the restored database") != 2 {
		t.Errorf("output of doctor: %s", output)
	}
}

// checkRestored checks the jobs after a restore: the first has finished, the second has adopted what it ran since the
// copy and finished, and the third has an id that was not assigned before.
func checkRestored(t *testing.T, s scene, rows []row, last dispatch.JobID) {
	t.Helper()
	if len(rows) != 3 || rows[0].status != dispatch.Finished || rows[1].status != dispatch.Finished ||
		rows[2].id <= last {
		t.Errorf("last id before the restore: %d, jobs after it: %+v", last, rows)
	}
	if n := s.oracle.Sum(); n.Runs != 5 || n.Starts != 5 || n.Cancels != 0 {
		t.Errorf("at the platform: %+v", n)
	}
}

func started(r row) bool { return r.phase == dispatch.Started }

// restore replaces a database file with a copy, and removes its write-ahead log.
func restore(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(to + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command of the released program to its end, and returns its output.
func command(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	path, err := released()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env, c.Dir = environ, t.TempDir()
	// doctor fails because the issuer is a simulator without a key; the tests check its output
	output, _ := c.CombinedOutput()
	return string(output)
}
