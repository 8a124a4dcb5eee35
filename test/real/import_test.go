package real

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// records is how many jobs TestImport_FromMariaDB takes over.
var records = flag.Int("records", 2000, "jobs that the import takes over")

// The tables of the deployed service.
const (
	oldTasks = `CREATE TABLE upscaling_tasks (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(255), label ENUM('OPENEO', 'OGC_API_PROCESS'),
		status ENUM('CREATED', 'QUEUED', 'RUNNING', 'FINISHED', 'CANCELED', 'FAILED', 'UNKNOWN'), user_id VARCHAR(255), service TEXT, created DATETIME, updated DATETIME)`
	oldJobs = `CREATE TABLE processing_jobs (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(255), label ENUM('OPENEO', 'OGC_API_PROCESS'),
		status ENUM('CREATED', 'QUEUED', 'RUNNING', 'FINISHED', 'CANCELED', 'FAILED', 'UNKNOWN'), user_id VARCHAR(255), platform_job_id VARCHAR(255), parameters TEXT, service TEXT,
		created DATETIME, updated DATETIME, upscaling_task_id INT NULL, FOREIGN KEY (upscaling_task_id) REFERENCES upscaling_tasks (id))`
)

// startMariaDB starts a MariaDB server with an empty database, and returns its address. It has no tables of users:
// whoever asks is root.
func startMariaDB(t *testing.T) string {
	t.Helper()
	const program = "/usr/sbin/mariadbd"
	if _, err := os.Stat(program); err != nil {
		installed.Missing(t, "MariaDB's server", "make ready")
	}
	folder, err := os.MkdirTemp("/tmp", "mariadb") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	self := "--user=" + os.Getenv("USER")
	if os.Getuid() == 0 {
		self = "--user=root"
	}
	data := "--datadir=" + filepath.Join(folder, "data")
	if err := os.Mkdir(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server := exec.Command(program, "--no-defaults", data, "--port="+port, "--bind-address=127.0.0.1", "--socket="+
		filepath.Join(folder, "s"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--skip-grant-tables", self)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.Logger = "root", "tcp", "127.0.0.1:"+port, &mysql.NopLogger{}
	awaitMariaDB(t, c, log.Name())
	return "mysql+pymysql://root@127.0.0.1:" + port + "/apex"
}

// awaitMariaDB creates the database as soon as the server answers.
func awaitMariaDB(t *testing.T, c *mysql.Config, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		_, err = db.ExecContext(ctx, "CREATE DATABASE apex CHARACTER SET utf8mb4")
		_ = db.Close()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(log)
			t.Fatalf("MariaDB does not answer: %v\n%s", err, tail(said, 2000))
		}
	}
}

var oldStatuses = []string{"CREATED", "QUEUED", "RUNNING", "FINISHED", "CANCELED", "FAILED", "UNKNOWN"}

// fillMariaDB inserts n jobs of all statuses, half of them in tasks of 100, and returns how many there are of each
// status. The first jobs that run are those with the given ids at the platform; all others have ended.
func fillMariaDB(t *testing.T, address, service string, n int, running []string) map[string]int {
	t.Helper()
	at, name, _ := strings.Cut(strings.TrimPrefix(address, "mysql+pymysql://root@"), "/")
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", at, name
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(oldTasks)
	exec(oldJobs)
	counts := map[string]int{}
	const inTask, atOnce = 100, 500
	for task := 1; task <= n/2/inTask; task++ {
		exec("INSERT INTO upscaling_tasks VALUES (?, ?, 'OPENEO', 'RUNNING', ?, ?, '2026-01-01 10:00:00', '2026-01-02 "+
			"10:00:00')", task, fmt.Sprintf("Åsk %d", task), fmt.Sprintf("user-%d", task%50), service)
	}
	for first := 1; first <= n; first += atOnce {
		var rows []string
		var args []any
		for id := first; id < first+atOnce && id <= n; id++ {
			status, ref := oldStatuses[3+id%3], any(fmt.Sprintf("ended-%d", id))
			switch {
			case id <= len(running):
				status, ref = []string{"QUEUED", "RUNNING", "UNKNOWN"}[id%3], running[id-1]
			case id%1000 == 0:
				status, ref = "CREATED", nil
			}
			counts[status]++
			task, title, user := any(nil), "Single", fmt.Sprintf("user-%d", id%50)
			if id <= n/2 {
				number := (id-1)/inTask + 1
				task, title, user = number, fmt.Sprintf("Åsk %d - Processing Job %d", number, (id-1)%inTask+1),
					fmt.Sprintf("user-%d", number%50)
			}
			rows = append(rows, "(?, ?, 'OPENEO', ?, ?, ?, ?, ?, '2026-01-01 10:00:00', '2026-01-02 10:00:00', ?)")
			args = append(args, id, title, status, user, ref,
				fmt.Sprintf(`{"year": 2024, "tile": {"n": %d, "x": 1.50}}`, id), service, task)
		}
		exec("INSERT INTO processing_jobs VALUES "+strings.Join(rows, ", "), args...)
	}
	return counts
}

// TestImport_FromMariaDB takes over the jobs of a real MariaDB with jobs of all statuses by the real program: the dry
// run changes nothing and counts what then comes; the import is killed and repeated; and the broker, started on the
// result, reads the jobs that run to their ends.
func TestImport_FromMariaDB(t *testing.T) {
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	platform := httptest.NewServer(&simulator.OpenEO{Open: true})
	t.Cleanup(platform.Close)
	running := startAtPlatform(t, platform.URL, 6)
	address := startMariaDB(t)
	counts := fillMariaDB(t, address, fmt.Sprintf(
		`{"endpoint": %q, "namespace": null, "application": "ndvi_composite"}`, platform.URL), *records, running)

	folder := t.TempDir()
	file := filepath.Join(folder, "broker.db")
	environ := []string{"OLD=" + address, "EODISPATCH_DATABASE=sqlite:" + file, "EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_IDENTITY_ISSUER=" + w.Credentials.Issuer, "EODISPATCH_IDENTITY_AUDIENCE=" + w.Credentials.BrokerID,
		fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "p", "protocol": "openeo", "endpoint": %q, "access": "open"}]`,
			platform.URL)}
	said := importing(t, environ, "--dry-run")
	if !strings.Contains(said, fmt.Sprintf("%d tasks and %d jobs would be imported; %d of the jobs are followed",
		*records/200, *records, len(running))) {
		t.Errorf("dry run: %s", said)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the dry run made a database: %v", err)
	}
	killImport(t, environ, file)
	begun := time.Now()
	if said = importing(t, environ); strings.Contains(said, "not imported") || strings.Contains(said, "not complete") {
		t.Errorf("import: %s", said)
	}
	t.Logf("the rest of %d records in %v", *records, time.Since(begun).Round(time.Millisecond))
	if said = importing(t, environ); !strings.Contains(said,
		fmt.Sprintf("0 tasks and 0 jobs imported; 0 of the jobs are followed at their platforms\n%d jobs had been "+
			"imported before", *records)) {
		t.Errorf("repeated: %s", said)
	}
	if said = importing(t, environ, "--dry-run"); !strings.Contains(said, "0 tasks and 0 jobs would be imported") {
		t.Errorf("dry run afterwards: %s", said)
	}
	want := map[string]int{"finished": counts["FINISHED"], "canceled": counts["CANCELED"], "failed": counts["FAILED"] +
		counts["CREATED"], "queued": counts["QUEUED"], "running": counts["RUNNING"], "unknown": counts["UNKNOWN"]}
	if got := statusesIn(t, file); !maps.Equal(got, want) {
		t.Errorf("statuses %v, not %v", got, want)
	}
	if said = commanding(t, environ, "doctor"); !strings.Contains(said, "ok      counts of jobs ") {
		t.Errorf("doctor: %s", said)
	}
	readToTheirEnds(t, environ, file, want["finished"]+len(running))
}

// startAtPlatform creates and starts jobs at a platform, as the deployed service did, and returns their ids.
func startAtPlatform(t *testing.T, platform string, n int) (ids []string) {
	t.Helper()
	const graph = `{"title": "old", "process": {"process_graph": {"load": {"process_id": "load_collection", "arguments": {"id": "S2", "spatial_extent": {"west": 4, "south": 51, "east": 4.2, "north": 51.1}, "temporal_extent": null}},
		"save": {"process_id": "save_result", "arguments": {"data": {"from_node": "load"}, "format": "gtiff"}, "result": true}}}}`
	post := func(path, body string) http.Header {
		t.Helper()
		response, err := http.Post(platform+"/openeo/1.2"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode >= 300 {
			t.Fatalf("%s: %s", path, response.Status)
		}
		return response.Header
	}
	for range n {
		id := post("/jobs", graph).Get("OpenEO-Identifier")
		post("/jobs/"+id+"/results", "")
		ids = append(ids, id)
	}
	return ids
}

// importing runs the import to its end, and returns what it said.
func importing(t *testing.T, environ []string, more ...string) string {
	t.Helper()
	return commanding(t, environ, append([]string{"import", "--from", "env:OLD"}, more...)...)
}

// commanding runs a command that must succeed, and returns what it said.
func commanding(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env, c.Dir = environ, t.TempDir()
	said, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", args, err, said)
	}
	return string(said)
}

// killImport kills the command as soon as it has stored a job, if it has not ended before.
func killImport(t *testing.T, environ []string, file string) {
	t.Helper()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, "import", "--from", "env:OLD")
	c.Env = environ
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // it is killed
	}()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ended:
			t.Log("the import ended before it was killed")
			return
		case <-look.C:
			if stored(file) > 0 {
				_ = c.Process.Kill() // it may have ended
				<-ended
				t.Logf("killed after %d jobs", stored(file))
				return
			}
		}
	}
}

// stored returns how many jobs a database has; 0 if it is not there yet.
func stored(file string) (n int) {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return 0
	}
	defer db.Close()
	_ = db.QueryRow("SELECT count(*) FROM jobs").Scan(&n) // the table may be missing
	return n
}

func statusesIn(t *testing.T, file string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT status, count(*) FROM jobs GROUP BY status")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var status string
		var n int
		if err := rows.Scan(&status, &n); err != nil {
			t.Fatal(err)
		}
		counts[status] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// readToTheirEnds starts the broker, and waits until that many jobs have finished and none runs.
func readToTheirEnds(t *testing.T, environ []string, file string, finished int) {
	t.Helper()
	p := executable.Start(t, executable.Released, environ...)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	for end := time.Now().Add(3 * time.Minute); ; {
		got := statusesIn(t, file)
		if got["finished"] == finished && got["running"]+got["queued"]+got["unknown"] == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v; %d were to finish", got, finished)
		}
		<-time.After(100 * time.Millisecond)
	}
}
