package crashes

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// taskOwner owns a task of three jobs at a platform that runs one at once, and sends its requests until a broker
// confirms them.
type taskOwner struct {
	*testing.T
	scene   scene
	environ []string
	dsn     string
	p       *program
	task    map[string]any
	id      int64
}

// newTaskOwner starts a program that kills itself at a point, and submits the task.
func newTaskOwner(t *testing.T, dsn, dies string) *taskOwner {
	c := crash{life: slow}
	s := c.scene(t)
	o := &taskOwner{T: t, scene: s, dsn: dsn, task: maps.Clone(s.job)}
	o.environ = environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open",
		"limits": map[string]any{"send": send.String(), "jobs": 1}}})
	parameters := maps.Clone(s.job["parameters"].(map[string]any))
	values := []any{parameters["spatial_extent"], parameters["spatial_extent"], parameters["spatial_extent"]}
	delete(parameters, "spatial_extent")
	o.task["parameters"], o.task["dimension"] = parameters, map[string]any{"name": "spatial_extent", "values": values}
	o.launch(dies)
	var kept struct{ ID int64 }
	o.send("/upscale_tasks", "once", o.task, &kept)
	o.id = kept.ID
	o.until("the first job runs", func() bool { return o.scene.oracle.Sum().Runs == 1 })
	return o
}

func (o *taskOwner) launch(dies string) {
	o.p = launch(o.T, mortal, o.environ, "EODISPATCH_DIE="+dies)
}

func (o *taskOwner) until(what string, ok func() bool) {
	o.Helper()
	if !until(3*time.Minute, ok) {
		o.Fatalf("not reached: %s; jobs %+v, platform %+v", what, rowsOf(o.T, database(o.T, o.dsn)),
			o.scene.oracle.Sum())
	}
}

// send repeats a request until the broker answers it.
func (o *taskOwner) send(path, key string, body, into any) {
	o.Helper()
	o.until("an answer to "+path, func() bool {
		err := o.p.ask(o.Context(), http.MethodPost, path, key, body, into)
		if err != nil {
			o.Log(err)
		}
		return err == nil
	})
}

// changeKilled sends a change of the task to the running program, which kills itself, and again to the next one, which
// kills itself at dies.
func (o *taskOwner) changeKilled(action, dies string) {
	o.Helper()
	path := fmt.Sprintf("/upscale_tasks/%d/%s", o.id, action)
	if err := o.p.ask(o.Context(), http.MethodPost, path, "", nil, nil); err == nil {
		o.Errorf("%s was answered before the kill", path)
	}
	if !o.p.dies(o.T, 3*time.Minute) {
		o.Fatalf("the program was not killed during %s", path)
	}
	o.launch(dies)
	if !strings.HasPrefix(dies, action) {
		o.send(path, "", nil, nil)
	}
}

// runAlone submits a job that belongs to no task, and waits for its end.
func (o *taskOwner) runAlone(key string) {
	o.Helper()
	var kept struct{ ID int64 }
	o.send("/unit_jobs", key, o.scene.job, &kept)
	o.until("the end of a job that is not paused", func() bool {
		var job struct{ Status dispatch.Status }
		err := o.p.ask(o.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d", kept.ID), "", nil, &job)
		return err == nil && job.Status == dispatch.Finished
	})
}

// statuses returns how many jobs of the task have each status.
func (o *taskOwner) statuses() (counts map[dispatch.Status]int) {
	var task struct{ Counts map[dispatch.Status]int }
	if err := o.p.ask(o.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", o.id), "", nil, &task); err != nil {
		o.Log(err)
	}
	return task.Counts
}

// TestPauseTask_OfAKilledBroker kills the program before and after it stores a pause, and its end. Between them nothing
// of the task starts while jobs of the same user get the slot, and in the end each job has run once.
func TestPauseTask_OfAKilledBroker(t *testing.T) {
	for name, dsn := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "pause.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newTaskOwner(t, dsn(t), "pause before")
			o.changeKilled("pause", "pause after")
			o.changeKilled("pause", "resume before")
			o.scene.setLife(simulator.Life{Run: 100 * time.Millisecond})
			// its slot is free
			o.send(fmt.Sprintf("/unit_jobs/%d/cancel", rowsOf(t, database(t, o.dsn))[0].id), "", nil, nil)
			// the turn would have come to the task
			for i := range 3 {
				o.runAlone(fmt.Sprint("alone ", i))
			}
			if sum, counts := o.scene.oracle.Sum(), o.statuses(); sum.Runs > 4 || counts[dispatch.Accepted] != 2 {
				t.Errorf("%+v ran while the task was paused: %v", sum, counts)
			}
			o.changeKilled("resume", "resume after")
			o.changeKilled("resume", "")
			o.until("the task runs to its end", func() bool { return o.statuses()[dispatch.Finished] == 2 })
			if sum := o.scene.oracle.Sum(); sum.Runs != 6 || sum.Starts != 6 {
				t.Errorf("%+v, want 6 runs", sum)
			}
			o.p.stop(t)
		})
	}
}

// TestCancelTask_OfAKilledBroker kills the program when it has canceled the first of three jobs, and the next one after
// the second: the last one cancels the third. The client does not ask again. The job that ran is stopped, no other is
// started, and the task is kept.
func TestCancelTask_OfAKilledBroker(t *testing.T) {
	t.Parallel()
	o := newTaskOwner(t, "sqlite:"+filepath.Join(t.TempDir(), "cancel.db"), "range before")
	if err := o.p.ask(t.Context(), http.MethodPost, fmt.Sprintf("/upscale_tasks/%d/cancel", o.id), "", nil,
		nil); err == nil {
		t.Error("the cancel was answered before the kill")
	}
	for _, dies := range []string{"range before 2", ""} {
		if !o.p.dies(t, 3*time.Minute) {
			t.Fatal("the program was not killed during the cancel")
		}
		o.launch(dies)
	}
	o.until("all jobs are canceled", func() bool { return o.statuses()[dispatch.Canceled] == 3 })
	if sum := o.scene.oracle.Sum(); sum.Runs != 1 || sum.Cancels != 1 {
		t.Errorf("%+v, want one run and its cancel", sum)
	}
	o.p.stop(t)
}
