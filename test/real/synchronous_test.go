package real

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestOGC_OnlySynchronous runs a process of pygeoapi that only runs synchronously as a job and as a task, and kills the
// broker while some of its requests are under way. Every other job finishes; those whose responses were lost are
// unknown, and none runs twice.
func TestOGC_OnlySynchronous(t *testing.T) {
	for name, dsn := range map[string]func(*testing.T) string{"PostgreSQL": func(t *testing.T) string {
		return postgres.Database(t)
	}, "SQLite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "jobs.db") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onlySynchronous(t, dsn(t))
		})
	}
}

func onlySynchronous(t *testing.T, dsn string) {
	folder := t.TempDir()
	server, _ := startPygeoapiIn(t, folder, "0.24.0", "manager:")
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	environ := []string{"EODISPATCH_DATABASE=" + dsn, "EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_IDENTITY_ISSUER=" + w.Credentials.Issuer, "EODISPATCH_IDENTITY_AUDIENCE=" + w.Credentials.BrokerID,
		fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name":"p","protocol":"ogc-api-processes","endpoint":%q,"access":"open",`+
			`"limits":{"jobs":3,"send":"5s"}}]`, server)}
	broker := executable.Start(t, executable.Mortal, environ...)
	c := program.SignIn(t, w, broker.Address)
	quick, failing := runCounted(t, c, server, "2.5"), runCounted(t, c, server, "-3")
	for quick.Status != "finished" || failing.Status != "failed" {
		quick, failing = jobOf(t, c, quick.ID), jobOf(t, c, failing.ID)
		<-time.After(100 * time.Millisecond)
	}
	if !strings.Contains(failing.Failure, "backwards") {
		t.Errorf("it failed with %q", failing.Failure)
	}
	if _, err := c.Submit(t.Context(), counted(server, "-0.1")); err == nil ||
		!strings.Contains(err.Error(), "backwards") {
		t.Errorf("one that failed at once: %v", err)
	}
	task, err := c.Upscale(t.Context(), counted(server, ""), dispatch.Dimension{Name: "seconds",
		Values: raw(`1`, `1`, `20`, `20`, `20`, `1`, `1`)})
	if err != nil {
		t.Fatal(err)
	}
	task = awaitCounts(t, c, task, program.Counts{"finished": 2, "running": 3, "created": 2})
	_ = broker.Process.Kill()
	<-broker.Ended
	broker = executable.Start(t, executable.Mortal, environ...)
	c.Broker = broker.Address
	task = awaitCounts(t, c, task, program.Counts{"finished": 2, "unknown": 3, "created": 2})
	for _, j := range task.Jobs { // those that are unknown keep their slots
		if j.Status != "unknown" {
			continue
		}
		if err := c.Call(t.Context(), "POST", fmt.Sprintf("/unit_jobs/%d/cancel", j.ID), nil, &j); err != nil {
			t.Error(err)
		}
	}
	awaitCounts(t, c, task, program.Counts{"finished": 4, "canceled": 3})
	var results struct {
		Assets map[string]struct{ Href string }
	}
	if err := c.Call(t.Context(), "GET", fmt.Sprintf("/unit_jobs/%d/results", quick.ID), nil, &results); err != nil ||
		len(results.Assets) == 0 {
		t.Errorf("results: %+v, %v", results, err)
	}
	if runs, err := os.ReadFile(filepath.Join(folder, "runs.txt")); err != nil || len(runs) != 10 {
		t.Errorf("%d runs of 10 jobs, %v", len(runs), err)
	}
}

// counted returns a request for the process, which sleeps.
func counted(server, seconds string) dispatch.Request {
	r := dispatch.Request{Title: "counted", Label: dispatch.OGCProcess, Format: "json",
		Service: dispatch.Service{Endpoint: server, Application: "counted"}, Parameters: json.RawMessage(`{}`)}
	if seconds != "" {
		r.Parameters = json.RawMessage(`{"seconds":` + seconds + `}`)
	}
	return r
}

func raw(values ...string) (all []json.RawMessage) {
	for _, v := range values {
		all = append(all, json.RawMessage(v))
	}
	return all
}

func runCounted(t *testing.T, c program.Client, server, seconds string) program.Job {
	t.Helper()
	j, err := c.Submit(t.Context(), counted(server, seconds))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func jobOf(t *testing.T, c program.Client, id int64) program.Job {
	t.Helper()
	j, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// awaitCounts waits until a task has the given numbers of jobs, and returns it.
func awaitCounts(t *testing.T, c program.Client, task program.Job, want program.Counts) program.Job {
	t.Helper()
	for begun := time.Now(); !maps.Equal(task.Counts, want); {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%+v, want %v", task.Counts, want)
		}
		<-time.After(200 * time.Millisecond)
		var err error
		if task, err = c.Task(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	return task
}
