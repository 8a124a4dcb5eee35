package apex

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

const issuer = "https://id.example.org/realms/apex"

// oldTables are the tables of the deployed service, in PostgreSQL's words.
const oldTables = `CREATE TYPE status AS ENUM ('CREATED', 'QUEUED', 'RUNNING', 'FINISHED', 'CANCELED', 'FAILED', 'UNKNOWN');
CREATE TABLE upscaling_tasks (id SERIAL PRIMARY KEY, title VARCHAR(255), label VARCHAR(20), status status, user_id VARCHAR(255), service TEXT, created TIMESTAMP, updated TIMESTAMP);
CREATE TABLE processing_jobs (id SERIAL PRIMARY KEY, title VARCHAR(255), label VARCHAR(20), status status, user_id VARCHAR(255), platform_job_id VARCHAR(255),
	parameters TEXT, service TEXT, created TIMESTAMP, updated TIMESTAMP, upscaling_task_id INTEGER REFERENCES upscaling_tasks);`

// keeper stores in memory what is taken over, and fails once after some calls.
type keeper struct {
	jobs  map[dispatch.JobID]dispatch.Draft
	tasks map[dispatch.TaskID]dispatch.Task
	fails int
}

func (k *keeper) Import(_ context.Context, t *dispatch.Task, jobs []dispatch.Draft) (r dispatch.Imported, err error) {
	if k.fails--; k.fails == 0 {
		return r, fmt.Errorf("interrupted")
	}
	if t != nil {
		_, known := k.tasks[t.ID]
		k.tasks[t.ID], r.Task = *t, !known
	}
	for _, j := range jobs {
		if _, known := k.jobs[j.ID]; known {
			r.Present = append(r.Present, j.ID)
			continue
		}
		k.jobs[j.ID] = j
		r.New = append(r.New, j.ID)
	}
	return r, nil
}

// platform is a dispatch.Platform of which only Base is called.
type platform struct {
	dispatch.Platform
	base string
}

func (p platform) Base(s dispatch.Service) (string, error) {
	if s.Namespace != nil && p.base != "" {
		return p.base + "/" + *s.Namespace, nil
	}
	return p.base, nil
}

func importer(k Keeper) Import {
	b := broker.New(nil, dispatch.Setup{Backends: []*dispatch.Backend{
		{Name: "cdse", Label: dispatch.OpenEO, Endpoint: "https://openeo.example.org", Access: dispatch.AccessUser,
			Platform: platform{}},
		{Name: "gep", Label: dispatch.OGCProcess, Endpoint: "https://gep.example.org", Access: dispatch.AccessShared,
			Platform: platform{base: "https://gep.example.org"}}}})
	return Import{Issuer: issuer, Adopt: b.Adopt, Keeper: k}
}

const (
	openEO = `{"endpoint": "https://openeo.example.org/", "namespace": null, "application": "ndvi"}`
	ogc    = `{"endpoint": "https://gep.example.org", "namespace": "eo", "application": "water"}`
)

// fill inserts a task with jobs, and single jobs of all kinds.
func fill(t *testing.T, db *sql.DB) {
	t.Helper()
	task := func(id int, service string) {
		t.Helper()
		run(t, db, "INSERT INTO upscaling_tasks VALUES ($1, 'T', 'OPENEO', 'RUNNING', 'ann', $2, '2026-01-01 "+
			"10:00:00', '2026-01-02 10:00:00')", id, service)
	}
	job := func(id int, title, label string, status, user, ref any, parameters, service string, of any) {
		t.Helper()
		run(t, db, "INSERT INTO processing_jobs VALUES ($1, $2, $3, CAST($4 AS status), $5, $6, $7, $8, '2026-01-01 "+
			"10:00:00.25', '2026-01-02 10:00:00', $9)", id, title, label, status, user, ref, parameters, service, of)
	}
	task(1, openEO)
	task(2, openEO)
	task(3, openEO)
	job(1, "T - Processing Job 2", "OPENEO", "FINISHED", "ann", "o1", `{"year": 2024, "tile": {"a": 1.50}}`, openEO, 1)
	job(2, "T - Processing Job 1", "OPENEO", "RUNNING", "ann", "o2", `{"year": 2024, "tile": {"a": 2}}`, openEO, 1)
	job(3, "T - Processing Job 3", "OPENEO", "CREATED", "ann", nil, `{"year": 2024, "tile": {"a": 3}}`, openEO, 1)
	job(4, "U", "OPENEO", "FINISHED", "ann", "o4", `{"year": 2024, "tile": 1}`, openEO, 2)
	job(5, "U", "OPENEO", "FAILED", "ann", "o5", `{"year": 2025, "tile": 2}`, openEO, 2)
	task(4, ogc)
	job(6, "of ann", "OGC_API_PROCESS", "FINISHED", "ann", "eo:o6", `{"tile": 1}`, ogc, 4)
	job(7, "of bob", "OGC_API_PROCESS", "FINISHED", "bob", "eo:o7", `{"tile": 2}`, ogc, 4)
	job(10, "single", "OGC_API_PROCESS", "QUEUED", "bob", "eo:x:1", `{}`, ogc, nil)
	job(11, "single", "OPENEO", "UNKNOWN", "bob", "o11", `{"a": null}`, openEO, nil)
	job(12, "single", "OPENEO", "CANCELED", "bob", "o12", `{}`, openEO, nil)
	job(13, "elsewhere", "OPENEO", "FINISHED", "bob", "o13", `{}`,
		`{"endpoint": "https://other.example.org", "application": "x"}`, nil)
	job(14, "broken", "OPENEO", "FINISHED", "bob", "o14", `[1]`, openEO, nil)
	job(15, "no status", "OPENEO", nil, "bob", "o15", `{}`, openEO, nil)
	job(16, "no user", "OPENEO", "FINISHED", nil, "o16", `{}`, openEO, nil)
}

func run(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatal(err)
	}
}

// TestImport_FromPostgreSQL: what can be taken over comes as it is, what cannot is named with the reason, and an
// interrupted import that is repeated ends like one that was not interrupted.
func TestImport_FromPostgreSQL(t *testing.T) {
	url := postgres.Database(t)
	postgres.Exec(t, url, oldTables)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(t, db)
	from, err := Open(t.Context(), dispatch.Secret(strings.Replace(url, "postgres://", "postgresql+psycopg2://", 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	k := &keeper{jobs: map[dispatch.JobID]dispatch.Draft{}, tasks: map[dispatch.TaskID]dispatch.Task{}, fails: 3}
	if _, err := importer(k).Run(t.Context(), from, func(Report) {}); err == nil || len(k.jobs) == 0 ||
		len(k.jobs) == 10 {
		t.Fatalf("interrupted with %d jobs: %v", len(k.jobs), err)
	}
	before := len(k.jobs)
	r, err := importer(k).Run(t.Context(), from, func(Report) {})
	if err != nil || r.Present != before || r.Records() != 10 || len(k.jobs) != 10 || len(k.tasks) != 1 {
		t.Fatalf("%+v: %v", r, err)
	}
	for what, reason := range map[string]string{"task 2": "differ in several parameters: tile, year",
		"task 3": "None of the jobs", "task 4": "several users",
		"job 13": "not one of the platforms", "job 14": "not a JSON object",
		"job 15": `The status "" is not known`, "job 16": "It belongs to no user"} {
		if !refuses(r, what, reason) {
			t.Errorf("%s is not refused because of %q: %v", what, reason, r.Refused)
		}
	}
	checkTask(t, k)
	checkSingles(t, k)
}

func refuses(r Report, what, reason string) bool {
	for text, all := range r.Refused {
		if strings.Contains(text, reason) && strings.Contains(strings.Join(all, " ")+" ", what+" ") {
			return true
		}
	}
	return false
}

func checkTask(t *testing.T, k *keeper) {
	t.Helper()
	task := k.tasks[1]
	if task.Dimension != "tile" || string(task.Request.Parameters) != `{"year":2024}` || task.Request.Title != "T" ||
		task.Owner != issuer+" ann" || !task.Created.Equal(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("task %+v", task)
	}
	first, second, third := k.jobs[1], k.jobs[2], k.jobs[3]
	if first.Number != 2 || first.Task != 1 || string(first.Body) != `{"a":1.50}` || first.Phase != dispatch.Ended ||
		first.Status != dispatch.Finished || first.Ref.ID != "o1" ||
		first.Account != "cdse/"+issuer+" ann" || !first.Created.Equal(time.Date(2026, 1, 1, 10, 0, 0, 250_000_000,
		time.UTC)) {
		t.Errorf("job 1: %+v", first)
	}
	if second.Number != 1 || second.Phase != dispatch.Started || second.Status != dispatch.Running {
		t.Errorf("job 2: %+v", second)
	}
	if third.Phase != dispatch.Ended || third.Status != dispatch.Failed || third.Failure != dispatch.NeverSubmitted {
		t.Errorf("job 3: %+v", third)
	}
	if k.jobs[4].Task != 0 || !strings.Contains(string(k.jobs[4].Body), `"parameters":{"year":2024,"tile":1}`) {
		t.Errorf("job 4: %s", k.jobs[4].Body)
	}
}

func checkSingles(t *testing.T, k *keeper) {
	t.Helper()
	ogc, unknown, canceled := k.jobs[10], k.jobs[11], k.jobs[12]
	if ogc.Ref != (dispatch.Ref{Base: "https://gep.example.org/eo", ID: "x:1"}) || ogc.Account != "gep/shared" ||
		ogc.Phase != dispatch.Started || ogc.Status != dispatch.Queued {
		t.Errorf("job 10: %+v", ogc)
	}
	if unknown.Phase != dispatch.Started || unknown.Status != dispatch.Unknown ||
		!strings.Contains(string(unknown.Body), `"parameters":{"a":null}`) {
		t.Errorf("job 11: %+v", unknown)
	}
	if canceled.Phase != dispatch.Ended || canceled.Desired != dispatch.WantCancel {
		t.Errorf("job 12: %+v", canceled)
	}
}

// TestOpen_RefusesOthers: addresses of other forms, databases of other programs, and servers that do not answer are
// refused, and no error contains the password.
func TestOpen_RefusesOthers(t *testing.T) {
	for address, want := range map[string]string{
		"sqlite:///x.db":                          "has the form mysql://",
		"mysql://u:canary@h/":                     "has the form mysql://",
		"mysql://u:canary@h/db?tls=perhaps":       "has the form mysql://",
		"://canary":                               "has the form mysql://",
		"mysql+pymysql://u:canary@127.0.0.1:1/db": "cannot be read",
		postgres.Database(t):                      "This is not the database of the APEx Dispatch API",
	} {
		_, err := Open(t.Context(), dispatch.Secret(address))
		if !strings.Contains(dispatch.TextFor(err), want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
