package store

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// plans says which index each query uses: what SQLite's plan contains, and the name of the index on PostgreSQL, a regular expression; none for small
// tables, which PostgreSQL may read as a whole. For
// awaitAll, countAwaited and countTimeDependent PostgreSQL rates two indexes as about equal; both have unfinished jobs only and begin with the owner.
// Likewise for jobs of one line.
var plans = map[string]struct{ lite, postgres string }{
	"awaitAll":             {"jobs USING INDEX jobs_started (owner=? AND phase=?)", "jobs_(started|open)"},
	"countAwaited":         {"jobs USING INDEX jobs_started (owner=? AND phase=?)", "jobs_(started|open)"},
	"countOwned":           {"SEARCH d USING COVERING INDEX jobs_owner (owner=? AND created>? AND created<?)", "jobs_owner"},
	"countBytes":           {"SEARCH b USING INDEX jobs_open (owner=? AND task>?)", "jobs_open"},
	"countShared":          {"jobs USING INDEX jobs_open (owner=? AND task=?)", "jobs_open"},
	"listRecords":          {"jobs USING INDEX jobs_single (owner=? AND created<?)", "jobs_single"},
	"duePlatforms":         {"SEARCH c USING INDEX accounts_of_platform (<expr>=? AND due>? AND due<?)", "accounts_of_platform"},
	"dequeue":              {"SEARCH a USING INDEX accounts_of_platform (<expr>=? AND due>? AND due<?)", "accounts_of_platform"},
	"nextFree":             {"accounts USING INDEX accounts_due (due>?)", "accounts_due"},
	"listRecordsOf":        {"jobs USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created<?)", "jobs_filtered"},
	"listPlacesOf":         {"jobs USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created<?)", "Index Only Scan Backward using jobs_filtered"},
	"listChangedRecords":   {"SEARCH j USING INDEX jobs_updated (owner=? AND updated>?)", "jobs_updated"},
	"listLabeledRecords":   {"SEARCH l USING COVERING INDEX job_labels_found (owner=? AND name=? AND value=? AND created<?)", "job_labels_found"},
	"listLabeledTasks":     {"SEARCH l USING COVERING INDEX task_labels_found (owner=? AND name=? AND value=? AND created<?)", "task_labels_found"},
	"listTaskJobsOf":       {"jobs USING INDEX jobs_task_status (task=? AND status=? AND number>?)", "jobs_task_status"},
	"listNumbersOf":        {"jobs USING INDEX jobs_task_status (task=? AND status=? AND number>?)", "Index Only Scan using jobs_task_status"},
	"listAttentions":       {"INDEX jobs_attention (task=? AND attention>?)", "jobs_attention"},
	"listTasks":            {"tasks USING INDEX tasks_owner (owner=? AND created<?)", "tasks_owner"},
	"countTasks":           {"SEARCH c USING INDEX sqlite_autoindex_task_counts_1 (task=?)", "task_counts_pkey"},
	"listTaskJobs":         {"jobs USING INDEX jobs_number (task=? AND number>?)", "jobs_number"},
	"listChangedJobs":      {"SEARCH j USING INDEX jobs_changed (task=? AND updated>?)", "jobs_changed"},
	"listFinished":         {"jobs USING INDEX jobs_finished (task=? AND moved>?)", "jobs_finished"},
	"listLines":            {"SEARCH d USING INDEX jobs_queue (account=? AND phase=? AND line>?)", "jobs_next"},
	"listWaiting":          {"jobs USING INDEX jobs_queue (account=? AND phase=? AND line=? AND (due,id)>(?,?) AND due<?)", "jobs_(line|next)"},
	"listReady":            {"jobs USING INDEX jobs_queue (account=? AND phase=? AND line=? AND due<?)", "jobs_(line|next)"},
	"purgeJobs":            {"SEARCH j USING INDEX jobs_hidden (moved<?)", "jobs_hidden"},
	"listEmptyTasks":       {"tasks USING INDEX tasks_hidden (id>?)", ""},
	"listEmptyLines":       {"line_counts USING INDEX sqlite_autoindex_line_counts_1 ((account,owner,task)>(?,?,?))", "line_counts_pkey"},
	"listEmptyStatuses":    {"task_counts USING INDEX sqlite_autoindex_task_counts_1 ((task,status)>(?,?))", "task_counts_pkey"},
	"purgeKeys":            {"SEARCH k USING INDEX keys_created (created<?)", ""},
	"purgeTokens":          {"SEARCH t USING INDEX tokens_by_end (expires<?)", ""},
	"purgeSessions":        {"SEARCH s USING INDEX sessions_by_end (ends<?)", ""},
	"purgeSyncRuns":        {"SEARCH r USING INDEX sync_runs_created (created<?)", ""},
	"purgePeriodCounts":    {"SEARCH c USING INDEX period_counts_by_period (period<?)", "period_counts_by_period"},
	"reviseTask":           {"SEARCH j USING INDEX jobs_changed (task=?)", "jobs_changed"},
	"getTask":              {"SEARCH j USING INDEX jobs_stopped (task=?)", "(?s)jobs_changed.*jobs_finished.*jobs_stopped"},
	"sumTask":              {"task_counts USING INDEX sqlite_autoindex_task_counts_1 (task=?", "task_counts_pkey"},
	"countTimeDependent":   {"jobs USING INDEX jobs_started (owner=? AND phase=? AND task=?)", "jobs_(started|open)"},
	"countHeld":            {"account_counts USING INDEX sqlite_autoindex_account_counts_1 (account=?)", "account_counts_pkey"},
	"countOwner":           {"line_counts USING INDEX sqlite_autoindex_line_counts_1 (account=? AND owner=?)", "line_counts_pkey"},
	"countWaitingBefore":   {"jobs USING INDEX jobs_queue (account=? AND phase=? AND line=? AND due<?)", "jobs_(line|next)"},
	"refHolder":            {"jobs USING INDEX jobs_refs (account=? AND ref_id=?)", "jobs_refs"},
	"listOrigins":          {"j USING INDEX jobs_line", ""},
	"listOutdated":         {"j USING INDEX jobs_line", ""},
	"listRunning":          {"jobs USING INDEX jobs_step (account=? AND step=?)", "jobs_step"},
	"getAgenda":            {"SEARCH j USING INDEX jobs_unprepared (account=? AND step=? AND attention=?)", "jobs_unprepared"},
	"listUnmetered":        {"jobs USING INDEX jobs_meter (account=? AND meter_due>? AND meter_due<?)", "jobs_meter"},
	"listToRemove":         {"jobs USING INDEX jobs_removal (account=? AND removal_due>? AND removal_due<?)", "jobs_removal"},
	"listMonth":            {"ledger USING INDEX sqlite_autoindex_ledger_1 (owner=? AND account=? AND month=?)", ""},
	"claimDeliveries":      {"SEARCH e USING INDEX sqlite_autoindex_deliveries_1 (hook=? AND job=? AND epoch<?)", ""},
	"oldestDelivery":       {"SCAN d USING INDEX deliveries_waiting", ""},
	"countPausedHooks":     {"hooks USING INDEX hooks_held (hold>?)", ""},
	"listFinishedRuns":     {"jobs USING INDEX jobs_finished_runs (owner=? AND account=? AND service_hash=?)", "jobs_finished_runs"},
	"listFinishedRequests": {"jobs USING INDEX jobs_finished_runs (owner=? AND account=? AND service_hash=?)", "jobs_finished_runs"},
	"listRunsOfTask":       {"jobs USING INDEX jobs_finished (task=?)", "jobs_finished"},
	"listSpread":           {"SEARCH j USING INDEX jobs_attention (task=? AND attention=?)", ""},
	"moveToHome":           {"SEARCH j USING INDEX jobs_queue (account=? AND phase=? AND line=? AND due<?)", ""},
	"listUnderway":         {"jobs USING INDEX jobs_task_status (task=? AND status=?)", "jobs_task_status"},
	"getTaskService":       {"jobs USING INDEX jobs_number (task=?)", "jobs_number"},
	"listUnprepared":       {"jobs USING INDEX jobs_unprepared (account=? AND step=? AND attention=? AND due<?)", "jobs_unprepared"},
}

// backwards says which index each query of a list uses that begins with the oldest element, as plans does.
var backwards = map[string]struct{ lite, postgres string }{
	"listRecords":        {"jobs USING INDEX jobs_single (owner=? AND created>?)", "jobs_single"},
	"listRecordsOf":      {"jobs USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created>?)", "jobs_filtered"},
	"listPlacesOf":       {"jobs USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created>?)", "Index Only Scan using jobs_filtered"},
	"listChangedRecords": {"SEARCH j USING INDEX jobs_updated (owner=? AND updated>?)", "jobs_updated"},
	"listLabeledRecords": {"SEARCH l USING COVERING INDEX job_labels_found (owner=? AND name=? AND value=? AND created>?)", "job_labels_found"},
	"listLabeledTasks":   {"SEARCH l USING COVERING INDEX task_labels_found (owner=? AND name=? AND value=? AND created>?)", "task_labels_found"},
	"listTasks":          {"tasks USING INDEX tasks_owner (owner=? AND created>?)", "tasks_owner"},
}

// sorts lists the queries that sort what they read: those of changes, which are found by when they happened, that of platforms, and that of origins, which
// returns each once.
var sorts = map[string]bool{"listChangedJobs": true, "listChangedRecords": true, "duePlatforms": true, "listOrigins": true}

// small removes the scans of tables that are small in any broker, which PostgreSQL prefers to an index.
var small = strings.NewReplacer("Seq Scan on platforms", "", "Seq Scan on operator_holds", "", "Seq Scan on task_changes", "")

// SQLite chooses an index without counting rows. The queries of each read of a user must not walk all that the user ever had.
func TestPlan_SQLiteUsesTheSmallIndex(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range plans {
		if plan := planOf(t, s, queryNamed(t, name)); !strings.Contains(plan, want.lite) || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") != sorts[name] {
			t.Errorf("%s: want %s in\n%s", name, want.lite, plan)
		}
	}
	for name, want := range backwards {
		if plan := planOf(t, s, reversed.Replace(queryNamed(t, name))); !strings.Contains(plan, want.lite) || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") != sorts[name] {
			t.Errorf("%s, oldest first: want %s in\n%s", name, want.lite, plan)
		}
	}
}

// PostgreSQL chooses by its statistics. It must use the same indexes, and read no table as a whole, for a statement that is prepared for any
// arguments, as those of pooled connections are. The connection of the store sees to that: the arguments, NULL, would give other plans.
func TestPlan_PostgreSQLUsesTheSmallIndex(t *testing.T) {
	url, c := eagerServer(t)
	postgres.Exec(t, url, newRows)
	for _, name := range []string{"getAgenda", "listLines", "listReady", "listDue", "getRequest"} { // of visits. They must not read all jobs of a new table either
		if plan := genericPlanOf(t, c, name+"New", queryNamed(t, name)); strings.Contains(plan, "Seq Scan on jobs") || name == "listLines" && !strings.Contains(plan, "jobs_next") {
			t.Errorf("%s of a new table reads all jobs, or all that wait:\n%s", name, plan)
		}
	}
	postgres.Exec(t, url, "TRUNCATE jobs CASCADE;"+fmt.Sprintf(manyRows, *planRows, 1000))
	for name, want := range plans {
		if want.postgres != "" {
			checkPlan(t, name, genericPlanOf(t, c, name, queryNamed(t, name)), want.postgres)
		}
	}
	for name, want := range backwards {
		checkPlan(t, name+", oldest first", genericPlanOf(t, c, name+"Oldest", reversed.Replace(queryNamed(t, name))), want.postgres)
	}
}

// TestPlan_PostgreSQLReadsLargeTasks: with tasks of thousands of jobs, of which PostgreSQL expects that a third has changed, it reads no others for
// their changes.
func TestPlan_PostgreSQLReadsLargeTasks(t *testing.T) {
	url, c := eagerServer(t)
	postgres.Exec(t, url, fmt.Sprintf(manyRows, 100_000, 10))
	for name, want := range plans {
		if want.postgres == "" {
			continue
		}
		if plan := genericPlanOf(t, c, name, queryNamed(t, name)); strings.Contains(plan, "Seq Scan on jobs") || strings.Contains(plan, "Seq Scan on requests") {
			t.Errorf("%s reads all jobs or all requests:\n%s", name, plan)
		}
	}
}

// eagerServer returns a new database, and a connection of its store to it, on which PostgreSQL compiles statements and runs them in parallel if the
// store does not keep it from that.
func eagerServer(t *testing.T) (url string, c *sql.Conn) {
	t.Helper()
	url = postgres.Database(t)
	s, err := Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if c, err = s.read.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.ExecContext(t.Context(), seemsExpensive); err != nil {
		t.Fatal(err)
	}
	return url, c
}

// checkPlan checks that a plan of PostgreSQL uses an index, reads no table as a whole, and is neither compiled nor run by several processes, which takes
// longer than to read a page.
func checkPlan(t *testing.T, query, plan, index string) {
	t.Helper()
	if !regexp.MustCompile(`\b` + index + `\b`).MatchString(plan) {
		t.Errorf("%s: want %s in\n%s", query, index, plan)
	}
	for _, wrong := range []string{"Seq Scan on", "JIT:", "Workers Planned"} {
		if strings.Contains(small.Replace(plan), wrong) {
			t.Errorf("%s: %s in\n%s", query, wrong, plan)
		}
	}
}

// planRows is the number of jobs for which PostgreSQL plans. With 1,100,000 that takes minutes.
var planRows = flag.Int("rows", 30_000, "number of jobs in the tests of PostgreSQL's plans")

// seemsExpensive makes PostgreSQL compile statements and run them in parallel wherever it may, as it does by itself for lists of millions.
const seemsExpensive = `SET jit_above_cost = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	SET min_parallel_index_scan_size = 0`

// newRows makes a database whose jobs were just submitted, so that PostgreSQL has no statistics on them.
const newRows = `
INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, due, awaited, created, updated, moved, counted)
	SELECT n, 1, n, 'user', 'p/user', '', 'run', 'waiting', 'created', n, FALSE, n, n, n, TRUE FROM generate_series(1, 1000) AS n;`

// manyRows fills a database with jobs, of 20 users, of which nine of ten have ended; two thirds of them are those of so many tasks.
const manyRows = `
INSERT INTO accounts (id) SELECT 'p/' || n FROM generate_series(0, 4999) AS n;
INSERT INTO accounts (id, due) SELECT 'p' || n %% 10 || '/' || n, n FROM generate_series(1, 10000) AS n;
INSERT INTO tasks (id, owner, account, request, dimension, created)
	SELECT n, 'user ' || n %% 20, 'p/' || n %% 50, repeat('x', 1000), 'd', n * 1000 FROM generate_series(1, 10000) AS n;
INSERT INTO documents (hash, body) VALUES ('h', '{}');
INSERT INTO definitions (task, job, owner, platform, service, document) SELECT id, 0, owner, 'p', '{}', 'h' FROM tasks;
INSERT INTO task_homes (task, account, number, platform, base, service_hash) SELECT id, 'q/' || n, n, 'q', '', 1 FROM tasks, generate_series(1, 2) AS n;
INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, attention, due, awaited, created, updated, moved, counted)
	SELECT n, task, n / 20, 'user ' || task %% 20 + n %% 20 * CASE task WHEN 0 THEN 1 ELSE 0 END, 'p/' || n %% 50, '', 'run', phase, CASE phase WHEN 'ended' THEN 'finished' WHEN 'waiting' THEN 'created' ELSE 'running' END,
		CASE WHEN n %% 500 = 1 THEN 'application_unreachable' ELSE '' END, CASE WHEN phase = 'waiting' AND n %% 2 = 0 THEN 253370764800000000 ELSE n END, FALSE, n * 100, n * 100 + 50, n * 100 + 50, TRUE
	FROM (SELECT n, CASE WHEN n %% 3 = 0 THEN 0 ELSE 1 + n %% %[2]d END AS task,
		CASE WHEN n <= %[1]d / 10 * 9 THEN 'ended' WHEN n <= %[1]d / 30 * 29 THEN 'waiting' ELSE 'started' END AS phase FROM generate_series(1, %[1]d) AS n) AS j;
INSERT INTO requests (job, body) SELECT id, '{}' FROM jobs;
INSERT INTO job_labels (job, owner, name, value, created) SELECT id, owner, 'project', 'p' || id %% 7, created FROM jobs WHERE task = 0;
INSERT INTO task_labels (task, owner, name, value, created) SELECT id, owner, 'project', 'p' || id %% 7, created FROM tasks;
INSERT INTO definitions (task, job, owner, platform, service, document) SELECT 0, id, owner, 'p', '{}', 'h' FROM jobs WHERE task = 0;
INSERT INTO sync_runs (id, owner, account, request, status, lapses, created, ended) SELECT n, 'user ' || n %% 20, 'p/' || n %% 50, '{}', 'finished', n, n, n
	FROM generate_series(%[1]d + 1, %[1]d + 2000) AS n;
INSERT INTO period_counts (owner, account, period, jobs) SELECT owner, account, created / 1000, count(*) FROM jobs GROUP BY owner, account, created / 1000;
INSERT INTO turns (account, line, served) SELECT DISTINCT account, line, 1 FROM jobs;
INSERT INTO task_counts (task, status, jobs, progress, first, second, epochs) SELECT task, status, count(*), 0, 0, 0, 0 FROM jobs WHERE task <> 0 GROUP BY task, status;
INSERT INTO line_counts (account, owner, task, waiting, held) SELECT account, owner, task, count(*), 0 FROM jobs GROUP BY account, owner, task;
INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced) SELECT owner, 'q/' || n, 0, 0, 0, 1, 0, 0
	FROM (SELECT DISTINCT owner FROM jobs) AS o, generate_series(1, 50) AS n;
INSERT INTO account_counts (account, waiting, held, started) SELECT 'q/' || n, 0, 0, 0 FROM generate_series(1, 2000) AS n;
ANALYZE`

// genericPlanOf returns PostgreSQL's plan of a query, for any arguments.
func genericPlanOf(t *testing.T, c *sql.Conn, name, query string) string {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), "PREPARE "+name+" AS "+query); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range numbered.FindAllStringSubmatch(query, -1) {
		last, _ := strconv.Atoi(m[1])
		n = max(n, last)
	}
	return linesOf(t, c, "EXPLAIN EXECUTE "+name+"("+strings.TrimSuffix(strings.Repeat("NULL,", n), ",")+")")
}

// linesOf returns the rows of a query with one column.
func linesOf(t *testing.T, c *sql.Conn, query string) string {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines.String()
}

// queryNamed returns the text of a generated query.
func queryNamed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("query/query.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	_, query, found := strings.Cut(string(text), "const "+name+" = `")
	if !found {
		t.Fatalf("there is no query %s", name)
	}
	query, _, _ = strings.Cut(query, "`")
	return query
}

var numbered = regexp.MustCompile(`\$(\d+)`)

// planOf returns SQLite's plan of a query, for any arguments.
func planOf(t *testing.T, s *Store, query string) string {
	t.Helper()
	names := map[string]bool{}
	var args []any
	for _, m := range numbered.FindAllString(query, -1) {
		if !names[m] {
			names[m], args = true, append(args, 1)
		}
	}
	rows, err := s.read.Query("EXPLAIN QUERY PLAN "+inSQLite.Replace(query), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(step + "\n")
	}
	return plan.String()
}
