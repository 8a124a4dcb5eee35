package crashes

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// atRandom is a broker that is killed at random moments of its work, and its owner, who repeats requests until they are
// answered.
type atRandom struct {
	*testing.T
	scene   scene
	environ []string
	dsn     string
	moment  *rand.Rand
	p       *program
	id      int64 // of the task
}

// kills is how often a test kills the broker, after which it works on until its end.
func kills() int {
	if *full {
		return 15
	}
	return 2
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	for name, dsn := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "killed.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dsn(t))
		})
	}
}

func newAtRandom(t *testing.T, dsn string, life simulator.Life) *atRandom {
	seed := rand.Uint64()
	t.Logf("the moments are those of seed %d", seed)
	c := crash{life: life}
	return &atRandom{T: t, scene: c.scene(t), dsn: dsn, moment: rand.New(rand.NewPCG(seed, 0))}
}

// launch starts the broker, with settings of its platform.
func (o *atRandom) launch(settings map[string]any) {
	o.Helper()
	platform := map[string]any{"name": "p", "protocol": "openeo", "endpoint": o.scene.url, "access": "open"}
	maps.Copy(platform, settings)
	o.environ = environment(o.T, o.dsn, []map[string]any{platform})
	o.p = launch(o.T, mortal, o.environ)
}

func (o *atRandom) until(what string, ok func() bool) {
	o.Helper()
	if !until(3*time.Minute, ok) {
		o.Fatalf("not reached: %s; jobs %+v, platform %+v", what, rowsOf(o.T, database(o.T, o.dsn)),
			o.scene.oracle.Sum())
	}
}

// kill kills the broker n times, each time at a moment after the platform began a further run, and starts it again. It
// ends before if there are most runs.
func (o *atRandom) kill(n, most int) {
	o.Helper()
	for range n {
		had := o.scene.oracle.Sum().Runs
		if had >= most {
			return
		}
		o.until("a further run", func() bool { return o.scene.oracle.Sum().Runs > had })
		if o.p.EndsWithin(time.Duration(o.moment.IntN(1500)) * time.Millisecond) {
			o.Fatalf("the program ended by itself:\n%s", o.p.Log)
		}
		o.p.Send(o.T, syscall.SIGKILL)
		o.p.AwaitEnd(o.T, time.Minute)
		o.p = launch(o.T, mortal, o.environ)
	}
}

func (o *atRandom) send(path, key string, body, into any) {
	o.Helper()
	o.until("an answer to "+path, func() bool {
		err := o.p.ask(o.Context(), http.MethodPost, path, key, body, into)
		if err != nil {
			o.Log(err)
		}
		return err == nil
	})
}

// limitedTask is a task with a budget as its owner sees it.
type limitedTask struct {
	Paused    bool
	Counts    map[dispatch.Status]int
	Attention struct{ Code string }
	Budget    struct{ Spent float64 }
}

func (o *atRandom) task() (is limitedTask) {
	if err := o.p.ask(o.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", o.id), "", nil, &is); err != nil {
		o.Log(err)
	}
	return is
}

// ran waits until n jobs of the task have finished and the others wait for the reason. Each has run once, and cost what
// the simulated platform charges.
func (o *atRandom) ran(n int, why string) {
	o.Helper()
	o.until(fmt.Sprint(n, " jobs finished, then ", why), func() bool {
		is := o.task()
		return is.Counts[dispatch.Finished] == n && is.Attention.Code == why && is.Paused == (why != "")
	})
	if sum := o.scene.oracle.Sum(); sum.Runs != n || sum.Starts != n {
		o.Errorf("%d jobs finished, and the platform had %+v", n, sum)
	}
	for tag, count := range o.scene.oracle.Tally().Tags {
		if count.Runs > 1 {
			o.Errorf("attempt %s ran %d times", tag, count.Runs)
		}
	}
}

// costOfRun is what the simulated platform charges for a finished job.
const costOfRun = 2

// TestBudget_OfAKilledBroker kills the program at random moments while it submits the jobs of a task with a budget.
// What runs never costs more than the budget, nothing runs twice, and in the end exactly the jobs have run that the
// budget pays for; then, with a higher one and without one, the others.
func TestBudget_OfAKilledBroker(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		const jobs, first, second = 24, 9, 15
		o := newAtRandom(t, dsn, simulator.Life{Run: time.Second, Spread: 0.5})
		o.launch(map[string]any{"limits": map[string]any{"send": "5s", "jobs": 4}})
		parameters := maps.Clone(o.scene.job["parameters"].(map[string]any))
		var values []any
		for range jobs {
			values = append(values, parameters["spatial_extent"])
		}
		delete(parameters, "spatial_extent")
		task := maps.Clone(o.scene.job)
		task["parameters"], task["dimension"] = parameters, map[string]any{"name": "spatial_extent", "values": values}
		task["options"] = map[string]any{"budget": map[string]any{"amount": first*costOfRun + 1, "unit": "credits"}}
		var kept struct{ ID int64 }
		o.send("/upscale_tasks", "once", task, &kept)
		o.id = kept.ID
		resume := fmt.Sprintf("/upscale_tasks/%d/resume", o.id)

		o.kill(kills(), first)
		o.ran(first, "budget_reached")
		if spent := o.task().Budget.Spent; spent != first*costOfRun {
			t.Errorf("%g were spent", spent)
		}
		o.send(resume, "", map[string]any{"budget": second * costOfRun}, nil)
		o.kill(1, second)
		o.ran(second, "budget_reached")
		o.send(resume, "", map[string]any{"budget": nil}, nil)
		o.ran(jobs, "")
		o.p.stop(t)
	})
}

// overlaps serves a platform, and fails the test if an attempt of a job starts while another one of the same job runs.
func overlaps(t *testing.T, platform http.Handler) http.Handler {
	jobOf := func(title string) string { // of the tag in brackets: installation, job, attempt
		_, tag, _ := strings.Cut(title, "[")
		parts := strings.Split(strings.TrimSuffix(tag, "]"), ".")
		if len(parts) < 3 {
			t.Errorf("the title %q has no tag", title)
			return title
		}
		return parts[1]
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, is := strings.CutSuffix(r.URL.Path, "/results"); is && r.Method == http.MethodPost {
			listing := httptest.NewRecorder()
			platform.ServeHTTP(listing, httptest.NewRequestWithContext(r.Context(), http.MethodGet,
				id[:strings.LastIndexByte(id, '/')], nil))
			var all struct {
				Jobs []struct{ ID, Title, Status string }
			}
			if err := json.Unmarshal(listing.Body.Bytes(), &all); err != nil || len(all.Jobs) == 0 {
				t.Errorf("%s: %v", listing.Body, err)
			}
			of := ""
			for _, j := range all.Jobs {
				if strings.HasSuffix(id, "/"+j.ID) {
					of = jobOf(j.Title)
				}
			}
			for _, j := range all.Jobs {
				if runs := j.Status == "running" || j.Status == "queued"; runs && !strings.HasSuffix(id, "/"+j.ID) &&
					jobOf(j.Title) == of {
					t.Errorf("job %s starts again as %s while %s is %s", of, id, j.Title, j.Status)
				}
			}
		}
		platform.ServeHTTP(w, r)
	})
}

// TestRetries_OfAKilledBroker kills the program at random moments while jobs fail because of the platform and are
// retried. Each has as many attempts as it may have, one after the other, and then failed.
func TestRetries_OfAKilledBroker(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		const jobs, retries = 3, 3
		o := newAtRandom(t, dsn, simulator.Life{Run: 500 * time.Millisecond, Fail: 1})
		o.scene.behind(t, overlaps(t, o.scene.handler))
		o.launch(map[string]any{"limits": map[string]any{"send": "5s"},
			"failures": []any{map[string]any{"matches": "simulated", "cause": "platform"}}})
		job := maps.Clone(o.scene.job)
		job["options"] = map[string]any{"retries": retries}
		var paths []string
		for i := range jobs {
			var kept struct{ ID int64 }
			o.send("/unit_jobs", fmt.Sprint("once ", i), job, &kept)
			paths = append(paths, fmt.Sprintf("/unit_jobs/%d", kept.ID))
		}
		o.kill(kills(), jobs*(retries+1))
		for i, path := range paths {
			var is struct {
				Status  dispatch.Status
				Retries struct{ Done int }
			}
			o.until("the end of "+path, func() bool {
				err := o.p.ask(t.Context(), http.MethodGet, path, "", nil, &is)
				return err == nil && is.Status == dispatch.Failed
			})
			if is.Retries.Done != retries {
				t.Errorf("job %d: %+v", i, is)
			}
		}
		runs := map[string]int{}
		for tag, count := range o.scene.oracle.Tally().Tags {
			runs[strings.Split(tag, ".")[1]] += count.Runs
			if count.Runs > 1 {
				t.Errorf("attempt %s ran %d times", tag, count.Runs)
			}
		}
		for job, n := range runs {
			if n != retries+1 {
				t.Errorf("job %s ran %d times", job, n)
			}
		}
		if len(runs) != jobs {
			t.Errorf("%v", runs)
		}
		o.p.stop(t)
	})
}
