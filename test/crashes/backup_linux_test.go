package crashes

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestBackup_UnderLoad copies an SQLite database by the command backup while the broker submits and reads jobs, kills
// the broker when all have run, restores the copy as docs/operations.md says, and starts the broker again: no job runs
// a second time.
func TestBackup_UnderLoad(t *testing.T) {
	t.Parallel()
	const values = 30
	s := crash{life: simulator.Life{Run: 10 * time.Second}}.scene(t)
	folder := t.TempDir()
	file, copied := filepath.Join(folder, "fire.db"), filepath.Join(folder, "copy.db")
	environ := environment(t, "sqlite:"+file, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open",
		"limits": map[string]any{"jobs": 3, "min_poll": "100ms"}}})
	p := launch(t, released, environ)
	s.overMany(values)
	if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
		t.Fatal(err)
	}
	if !until(3*time.Minute, func() bool { return s.oracle.Sum().Runs >= 3 }) {
		t.Fatalf("at the platform: %+v", s.oracle.Sum())
	}
	s.setLife(simulator.Life{Run: 100 * time.Millisecond})
	s.overMany(5)
	stop, tasks := submitting(t, p, s.job)
	if said := command(t, environ, "backup", copied); !strings.Contains(said, "verified") {
		t.Fatalf("output of backup: %s", said)
	}
	stop()
	jobs := values + 5*int(tasks.Load())
	if said := command(t, environ, "backup", copied); !strings.Contains(said, "exists already") {
		t.Errorf("output of a second backup: %s", said)
	}
	waiting := 0
	kept := database(t, "sqlite:"+copied)
	for _, r := range rowsOf(t, kept) {
		if r.phase == dispatch.Waiting {
			waiting++
		}
	}
	kept.Close()
	if waiting == 0 {
		t.Error("no job waits in the copy")
	}
	if !until(5*time.Minute, func() bool { return s.oracle.Sum().Runs == jobs }) {
		t.Fatalf("at the platform: %+v", s.oracle.Sum())
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.AwaitEnd(t, time.Minute)

	restore(t, copied, file)
	if said := command(t, environ, "restored"); !strings.Contains(said, "1 accounts submit no jobs") {
		t.Fatalf("output of restored: %s", said)
	}
	p = launch(t, released, environ)
	db := database(t, "sqlite:"+file)
	rest := func() bool { return !slices.ContainsFunc(rowsOf(t, db), func(r row) bool { return !r.rests() }) }
	if !until(5*time.Minute, rest) {
		t.Errorf("not all jobs rest: %+v", rowsOf(t, db))
	}
	p.stop(t)
	if n := s.oracle.Sum(); n.Runs != jobs || n.Starts != jobs {
		t.Errorf("at the platform: %+v", n)
	}
}

// submitting submits tasks, 20 at most, until stop is called. It counts them.
func submitting(t *testing.T, p *program, task map[string]any) (stop func(), tasks *atomic.Int64) {
	t.Helper()
	tasks = new(atomic.Int64)
	ending := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for range 20 {
			if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", task, nil); err != nil {
				t.Error(err)
				return
			}
			tasks.Add(1)
			select {
			case <-ending:
				return
			default:
			}
		}
	})
	return func() {
		close(ending)
		done.Wait()
	}, tasks
}

// TestBackup_OntoAFullDisk: the command says that the disk is full, and leaves no file.
func TestBackup_OntoAFullDisk(t *testing.T) {
	t.Parallel()
	s := crash{}.scene(t)
	environ := environment(t, "sqlite:"+filepath.Join(t.TempDir(), "fire.db"),
		[]map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url, "access": "open"}})
	launch(t, released, environ).stop(t)
	d := newDisk(t, true)
	to, want := filepath.Join(d.folder, "copy.db"), "The disk is full"
	run := func() string { return command(t, environ, "backup", to) }
	if d.mounted {
		d.fill(nil)
		if err := os.Truncate(d.filler(), 16<<20-64<<10); err != nil { // room for a part of the copy
			t.Fatal(err)
		}
	} else { // no disk may be mounted here: files that are too large are the next best
		want = "cannot be written"
		run = func() string { return limited(t, environ, "backup", to) }
	}
	if said := run(); !strings.Contains(said, want) {
		t.Errorf("output of backup: %s", said)
	}
	left, err := os.ReadDir(d.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if f.Name() != filepath.Base(d.filler()) {
			t.Errorf("%s is left", f.Name())
		}
	}
}

// limited runs a command that cannot write files of more than 32 KiB.
func limited(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	path, err := released()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -f 64; exec "$0" "$@"`, path},
		args...)...)
	c.Env, c.Dir = environ, t.TempDir()
	said, _ := c.CombinedOutput() // it fails
	return string(said)
}
