package store

import (
	"database/sql"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/detector"
)

// plan says which index statements use that match a regular expression: what SQLite's plan contains, and the name of
// the index on PostgreSQL, a regular expression; none for small tables, which PostgreSQL may read as a whole. Some
// sort what they read: changes, which are found by when they happened, and what returns each of several once.
type plan struct {
	text           string
	lite, postgres string
	sorts          bool
}

// plans has the plans of the recorded statements that must not walk all that a user or an account ever had. For
// statuses that owners wait for PostgreSQL rates two indexes as about equal; both have unfinished jobs only and begin
// with the owner. Likewise for jobs of one line.
var plans = []plan{
	{`^UPDATE jobs SET awaited .* AND \(task`,
		"jobs USING INDEX jobs_started (owner=? AND phase=?", "jobs_(started|open)", false},
	{`AND phase = 'started' AND awaited AND \(task`,
		"jobs USING INDEX jobs_started (owner=? AND phase=?", "jobs_(started|open)", false},
	{`jobs d WHERE d\.owner`,
		"SEARCH d USING COVERING INDEX jobs_owner (owner=? AND created>? AND created<?)", "jobs_owner", false},
	{`hop \(task\)`, "SEARCH b USING INDEX jobs_open (owner=? AND task>?)", "jobs_open", false},
	{`tasks\.sent END`, "jobs USING INDEX jobs_open (owner=? AND task=?)", "jobs_open", false},
	{`FROM jobs JOIN requests .* WHERE jobs\.owner = \S+ AND jobs\.task = 0 .* jobs\.created <=`,
		"jobs USING INDEX jobs_single (owner=? AND created<?)", "jobs_single", false},
	{`FROM jobs JOIN requests .* WHERE jobs\.owner = \S+ AND jobs\.task = 0 .* jobs\.created >=`,
		"jobs USING INDEX jobs_single (owner=? AND created>?)", "jobs_single", false},
	{`AND j\.created <= .* j\.account = `,
		"SEARCH j USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created<?)",
		"Index Only Scan Backward using jobs_filtered", true},
	{`AND j\.created >= .* j\.account = `,
		"SEARCH j USING INDEX jobs_filtered (owner=? AND account=? AND status=? AND created>?)",
		"Index Only Scan using jobs_filtered", true},
	{`WHERE j\.owner = .* \+j\.created <=`,
		"SEARCH j USING INDEX jobs_updated (owner=? AND updated>?)", "jobs_updated", true},
	{`WHERE j\.owner = .* \+j\.created >=`,
		"SEARCH j USING INDEX jobs_updated (owner=? AND updated>?)", "jobs_updated", true},
	{`FROM job_labels l .* l\.created <=`,
		"SEARCH l USING COVERING INDEX job_labels_found (owner=? AND name=? AND value=? AND created<?)",
		"job_labels_found", false},
	{`FROM job_labels l .* l\.created >=`,
		"SEARCH l USING COVERING INDEX job_labels_found (owner=? AND name=? AND value=? AND created>?)",
		"job_labels_found", false},
	{`FROM task_labels l .* l\.created <=`,
		"SEARCH l USING COVERING INDEX task_labels_found (owner=? AND name=? AND value=? AND created<?)",
		"task_labels_found", false},
	{`FROM task_labels l .* l\.created >=`,
		"SEARCH l USING COVERING INDEX task_labels_found (owner=? AND name=? AND value=? AND created>?)",
		"task_labels_found", false},
	{`FROM tasks JOIN accounts .* WHERE tasks\.owner = .* tasks\.created <=`,
		"tasks USING INDEX tasks_owner (owner=? AND created<?)", "tasks_owner", false},
	{`FROM tasks JOIN accounts .* WHERE tasks\.owner = .* tasks\.created >=`,
		"tasks USING INDEX tasks_owner (owner=? AND created>?)", "tasks_owner", false},
	{`FROM task_counts WHERE jobs <> 0 AND task (?:IN|=)`,
		"SEARCH task_counts USING INDEX sqlite_autoindex_task_counts_1 (task=?)", "task_counts_pkey", false},
	{
		`FROM jobs JOIN requests .* WHERE jobs\.task = \S+ AS BIGINT\) AND jobs\.task <> 0 AND NOT jobs.hidden AND jobs.number`,
		"jobs USING INDEX jobs_number (task=? AND number>?)", "jobs_number", false},
	{`j\.status = CAST\(\S+ AS TEXT\) ORDER BY j\.number, j\.id LIMIT CAST\(\$4 AS BIGINT\)\) AS p\) AS f`,
		"SEARCH j USING INDEX jobs_task_status (task=? AND status=? AND number>?)", "jobs_task_status", false},
	{`UNION ALL SELECT p\.id, p\.place FROM \( SELECT j\.id, j\.number AS place`,
		"SEARCH j USING INDEX jobs_task_status (task=? AND status=? AND number>?)", "jobs_task_status", true},
	{`AND \+j\.number >`, "SEARCH j USING INDEX jobs_changed (task=? AND updated>?)", "jobs_changed", true},
	{`jobs\.owner = \S+ AND jobs\.task = 0 AND jobs\.changed >= `,
		"jobs USING INDEX jobs_numbers (owner=? AND changed>?)", "jobs_numbers", false},
	{`jobs\.task <> 0 AND jobs\.changed >= `,
		"jobs USING INDEX jobs_numbers_of_task (task=? AND changed>?)", "jobs_numbers_of_task", false},
	{`FROM task_numbers n JOIN tasks t .* n\.change >= `,
		"SEARCH n USING COVERING INDEX task_numbers_owner (owner=? AND change>?)", "task_numbers_owner", false},
	{`tasks\.dimension, .* WHERE tasks\.id IN `,
		"SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)", "tasks_pkey", false},
	{`FROM owner_counts c JOIN accounts ON accounts.id = c.account LEFT JOIN`,
		"SEARCH c USING INDEX sqlite_autoindex_owner_counts_1 (owner=?)", "owner_counts_pkey", false},
	{`ORDER BY jobs\.moved, jobs\.id`, "jobs USING INDEX jobs_finished (task=? AND moved>?)", "jobs_finished", false},
	{`^SELECT DISTINCT task, attention`, "INDEX jobs_attention (task=? AND attention>?)", "jobs_attention", false},
	{`hop \(platform\)`,
		"SEARCH c USING INDEX accounts_of_platform (platform=? AND due>? AND due<?)", "accounts_of_platform", true},
	{`WITH free AS`,
		"SEARCH a USING INDEX accounts_of_platform (platform=? AND due>? AND due<?)", "accounts_of_platform", false},
	{`SELECT due FROM accounts WHERE due > .* ORDER BY due, id LIMIT 1`,
		"accounts USING INDEX accounts_due (due>?)", "accounts_due", false},
	{`hop \(head\)`, "SEARCH d USING INDEX jobs_queue (account=? AND owner=? AND task>?)", "jobs_queue", false},
	{`\(due, id\) >= `, "jobs USING INDEX jobs_queue (account=? AND owner=? AND task=? AND (due,id)>(?,?)",
		"jobs_queue", false},
	{`AND task = CAST\(\S+ AS BIGINT\) AND phase = 'waiting' AND NOT paused AND due <=`,
		"jobs USING INDEX jobs_queue (account=? AND owner=? AND task=? AND due<?)", "jobs_queue", false},
	{`WHERE j\.hidden AND j\.phase = 'ended'`, "SEARCH j USING INDEX jobs_hidden (moved<?)", "jobs_hidden", false},
	{`FROM tasks WHERE hidden AND (?:tasks\.)?id >`, "tasks USING INDEX tasks_hidden (id>?)", "", false},
	{`DELETE FROM keys WHERE \(owner`, "SEARCH keys USING INDEX keys_created (created<?)", "", false},
	{`DELETE FROM tokens WHERE \(name\) IN`, "SEARCH tokens USING INDEX tokens_by_end (expires<?)", "", false},
	{`DELETE FROM sessions WHERE \(id\) IN`, "SEARCH sessions USING INDEX sessions_by_end (ends<?)", "", false},
	{`DELETE FROM sync_runs WHERE \(id\) IN`, "SEARCH sync_runs USING INDEX sync_runs_created (created<?)", "", false},
	{`FROM sync_runs WHERE account = \S+ AND ref_id`,
		"sync_runs USING COVERING INDEX sync_runs_refs (account=? AND ref_base=? AND ref_id=?)", "sync_runs_refs",
		false},
	{`UPDATE sync_runs SET ref_base`, "SEARCH j USING INDEX jobs_refs (ref_id=?)", "jobs_refs", false},
	{`DELETE FROM period_counts WHERE \(`,
		"SEARCH period_counts USING INDEX period_counts_by_period (period<?)", "period_counts_by_period", false},
	{`tasks\.dimension, .* WHERE tasks\.id = `,
		"SEARCH j USING INDEX jobs_stopped (task=?)", "(?s)jobs_changed.*jobs_finished.*jobs_stopped", false},
	{`^SELECT hold, hold_attention, .* FROM account_counts c WHERE c\.account = accounts\.id`,
		"SEARCH c USING INDEX sqlite_autoindex_account_counts_1 (account=?)", "account_counts_pkey", false},
	{`FROM queue_counts l WHERE l\.account = \S+ AND l\.owner = \S+\), 0`,
		"SEARCH l USING INDEX sqlite_autoindex_queue_counts_1 (account=? AND owner=?)", "queue_counts_pkey", false},
	{`\(due, id\) < `,
		"jobs USING INDEX jobs_queue (account=? AND owner=? AND task=? AND (due,id)<(?,?)", "jobs_queue", false},
	{`max\(id\) FROM jobs WHERE account = .* ref_id`, "jobs USING INDEX jobs_refs (ref_id=?)", "jobs_refs", false},
	{`SELECT d\.platform, d\.service FROM jobs`, "j USING INDEX jobs_open", "", true},
	{`SELECT DISTINCT d\.task, d\.job`, "j USING INDEX jobs_open", "", false},
	{`step = 'poll' ORDER BY due, id`, "jobs USING INDEX jobs_step (account=? AND step=?)", "jobs_step", false},
	{`SELECT a\.wakes, a\.hold`,
		"SEARCH j USING INDEX jobs_unprepared (account=? AND step=? AND attention=?)", "jobs_unprepared", false},
	{`meter_due <= \S+ ORDER BY meter_due`,
		"jobs USING INDEX jobs_meter (account=? AND meter_due>? AND meter_due<?)", "jobs_meter", false},
	{`removal_due <= \S+ ORDER BY removal_due`,
		"jobs USING INDEX jobs_removal (account=? AND removal_due>? AND removal_due<?)", "jobs_removal", false},
	{`FROM ledger .* AND month = `,
		"ledger USING INDEX sqlite_autoindex_ledger_1 (owner=? AND account=? AND month=?)", "", true},
	{`UPDATE deliveries SET due = .* tries = tries \+ 1`,
		"SEARCH e USING INDEX sqlite_autoindex_deliveries_1 (hook=? AND job=? AND task=? AND epoch<?)", "", false},
	{`UPDATE deliveries SET due = .* tries = tries \+ 1`,
		"SEARCH p USING INDEX deliveries_of_job (job=? AND task=?)", "", false},
	{`SELECT d\.queued FROM deliveries d`, "SCAN d USING INDEX deliveries_waiting", "", false},
	{`FROM hooks WHERE owner = \S+ AND NOT gone AND job IN`,
		"hooks USING INDEX hooks_of_job (owner=? AND job=? AND task=?)", "", false},
	{`FROM hooks WHERE hold > 0`, "hooks USING INDEX hooks_held (hold>?)", "", false},
	{`service = \S+ AND status = 'finished' ORDER BY moved`,
		"jobs USING INDEX jobs_finished_runs (owner=? AND account=? AND service=?)", "jobs_finished_runs", false},
	{`jobs\.service = \S+ .* ORDER BY jobs\.moved DESC`,
		"jobs USING INDEX jobs_finished_runs (owner=? AND account=? AND service=?)", "jobs_finished_runs", false},
	{`status = 'finished' AND NOT hidden ORDER BY moved DESC, id DESC`,
		"jobs USING INDEX jobs_finished (task=?)", "jobs_finished", false},
	{`SELECT tasks\.id, tasks\.owner, tasks\.moves`,
		"SEARCH j USING INDEX jobs_attention (task=? AND attention=?)", "", false},
	{`\(j\.attention = 'retrying'\) =`,
		"SEARCH j USING INDEX jobs_queue (account=? AND owner=? AND task=?)", "", false},
	{`SELECT send_by FROM jobs`, "jobs USING INDEX jobs_task_status (task=? AND status=?)", "jobs_task_status", false},
	{`SELECT tasks\.id, jobs\.owner, jobs\.account, jobs\.service`,
		"SEARCH j USING INDEX jobs_number (task=?)", "jobs_number", false},
	{`attention = 'application_unreachable' AND due <= `,
		"jobs USING INDEX jobs_unprepared (account=? AND step=? AND attention=? AND due<?)", "jobs_unprepared", false},
	{`^SELECT id, number, status FROM jobs WHERE id IN`,
		"SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)", "jobs_pkey", false},
	{`AND budgeted AND .* GROUP BY task`, "SEARCH jobs USING INDEX jobs_budgeted (task=?)", "", false},
	{`FROM task_costs WHERE .* ORDER BY task, unit`,
		"SEARCH task_costs USING INDEX sqlite_autoindex_task_costs_1 (task=?)", "", false},
	{`WITH RECURSIVE reading`, "SEARCH n USING COVERING INDEX items_due (platform>?)", "items_due", false},
	{`ORDER BY i\.due LIMIT CAST`,
		"SEARCH i USING INDEX items_due (platform=? AND due>? AND due<?)", "items_due", false},
	{`FROM items WHERE items\.owner = \S+ AND items\.place IN .* ORDER BY`,
		"SEARCH items USING INDEX items_place (owner=? AND place=?)", "items_place", true},
	{`FROM items WHERE items\.owner = \S+ AND items\.period IN .* ORDER BY`,
		"SEARCH items USING INDEX items_period (owner=? AND period=?)", "items_period", true},
	{`FROM items WHERE items\.owner = \S+ AND items\.service IN .* ORDER BY`,
		"SEARCH items USING INDEX items_service (owner=? AND service=?)", "", true},
	{`FROM items WHERE items\.task IN .* ORDER BY`, "SEARCH items USING INDEX items_task (task=?)", "items_task", true},
	{`FROM items WHERE items\.task = \S+ AS BIGINT\) AND items\.owner .* -items\.job > `,
		"SEARCH items USING INDEX items_task (task=? AND <expr>>?)", "items_task", false},
	{`FROM items b WHERE b\.task IN .* ORDER BY`, "SEARCH b USING INDEX items_task (task=?)", "items_task", true},
	{`^SELECT count.* FROM items b WHERE b\.task IN`, "SEARCH b USING INDEX items_task (task=?)", "items_task", false},
	{`FROM items WHERE items\.job IN .* ORDER BY 0 - items\.job`,
		"SEARCH items USING INTEGER PRIMARY KEY (rowid=?)", "items_pkey", true},
	{`FROM items WHERE items\.owner = \S+ AND -items\.job > `,
		"SEARCH items USING INDEX items_newest (owner=? AND <expr>>?)", "items_newest", false},
	{`^SELECT count.* items\.place IN `,
		"SEARCH items USING INDEX items_place (owner=? AND place=?)", "items_place", false},
	{`^SELECT count.* items\.period IN `,
		"SEARCH items USING INDEX items_period (owner=? AND period=?)", "items_period", false},
	{`^SELECT count.* AND items\.task IN `, "SEARCH items USING INDEX items_task (task=?)", "items_task", false},
	{`^SELECT l\.job FROM job_labels l`,
		"SEARCH l USING COVERING INDEX job_labels_found (owner=? AND name=? AND value=?)", "job_labels_found", false},
	{`^SELECT l\.task FROM task_labels l`,
		"SEARCH l USING COVERING INDEX task_labels_found (owner=? AND name=? AND value=?)", "task_labels_found", false},
	{`^WITH RECURSIVE first`, "SEARCH n USING INDEX items_service (owner=? AND service>?)", "items_service", false},
	{`^WITH RECURSIVE first`, "SEARCH items USING INTEGER PRIMARY KEY (rowid=?)", "items_pkey", false},
	{`GROUP BY items\.task`, "SEARCH items USING INDEX items_task (task=?)", "items_task", false},
	{`FROM items JOIN results .* WHERE items\.job`,
		"SEARCH items USING INTEGER PRIMARY KEY (rowid=?)", "items_pkey", false},
}

// each calls f with each recorded statement of the plan, in one form of white space.
func (p plan) each(t *testing.T, f func(text string)) {
	t.Helper()
	matches := regexp.MustCompile(p.text)
	known := map[string]bool{}
	for _, s := range recordStatements(t) {
		if text := oneLine(s.text); !known[text] && matches.MatchString(text) {
			known[text] = true
			f(text)
		}
	}
	if len(known) == 0 {
		t.Errorf("no recorded statement matches %s", p.text)
	}
}

// SQLite chooses an index without counting rows. The queries of each read of a user must not walk all that the user
// ever had.
func TestPlan_SQLiteUsesTheSmallIndex(t *testing.T) {
	detector.Skip(t)
	s := openLite(t)
	for _, want := range plans {
		want.each(t, func(text string) {
			found := planOf(t, s, text)
			if !strings.Contains(found, want.lite) || strings.Contains(found,
				"TEMP B-TREE FOR ORDER BY") != want.sorts {
				t.Errorf("%s: want %s in\n%s\nof %s", want.text, want.lite, found, text)
			}
		})
	}
}

func openLite(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// PostgreSQL chooses by its statistics. It must use the same indexes, and read no table as a whole, for a statement
// that is prepared for any arguments, as those of pooled connections are. The connection of the store sees to that:
// the arguments, NULL, would give other plans.
func TestPlan_PostgreSQLUsesTheSmallIndex(t *testing.T) {
	detector.Skip(t)
	url, c := eagerServer(t)
	postgres.Exec(t, url, newRows)
	for i, s := range recordStatements(t) { // statements of visits must not read all jobs of a new table either
		if !slices.Contains([]string{"Agenda", "Ready", "Request"}, s.op) {
			continue
		}
		found := genericPlanOf(t, c, fmt.Sprintf("fresh%d", i), s.text)
		lines := strings.Contains(s.text, "hop (head)")
		if strings.Contains(found, "Seq Scan on jobs") || lines && !strings.Contains(found, "jobs_queue") {
			t.Errorf("a statement of %s reads all jobs of a new table, or all that wait:\n%s\n%s", s.op, s.text, found)
		}
	}
	postgres.Exec(t, url, "TRUNCATE jobs CASCADE;"+fmt.Sprintf(manyRows, *planRows, 1000))
	eachPostgres(t, c, func(want plan, text, found string) {
		if !regexp.MustCompile(`\b` + want.postgres + `\b`).MatchString(found) {
			t.Errorf("%s: want %s in\n%s", text, want.postgres, found)
		}
		// Nor is it compiled or run by several processes, which takes longer than to read a page.
		for _, wrong := range []string{"Seq Scan on", "JIT:", "Workers Planned"} {
			if strings.Contains(small.Replace(found), wrong) {
				t.Errorf("%s: %s in\n%s", text, wrong, found)
			}
		}
	})
}

// TestPlan_PostgreSQLReadsLargeTasks: with tasks of thousands of jobs, of which PostgreSQL expects that a third has
// changed, it reads no others for their changes.
func TestPlan_PostgreSQLReadsLargeTasks(t *testing.T) {
	detector.Skip(t)
	url, c := eagerServer(t)
	postgres.Exec(t, url, fmt.Sprintf(manyRows, 100_000, 10))
	eachPostgres(t, c, func(_ plan, text, found string) {
		if strings.Contains(found, "Seq Scan on jobs") || strings.Contains(found, "Seq Scan on requests") {
			t.Errorf("%s reads all jobs or all requests:\n%s", text, found)
		}
	})
}

// eachPostgres calls f with each statement that has a plan on PostgreSQL, and with the plan.
func eachPostgres(t *testing.T, c *sql.Conn, f func(want plan, text, found string)) {
	t.Helper()
	n := 0
	for _, want := range plans {
		if want.postgres == "" {
			continue
		}
		want.each(t, func(text string) {
			n++
			f(want, text, genericPlanOf(t, c, fmt.Sprintf("planned%d", n), text))
		})
	}
}

// small removes the scans of tables that are small in any broker, which PostgreSQL prefers to an index.
var small = strings.NewReplacer("Seq Scan on platforms", "", "Seq Scan on operator_holds", "",
	"Seq Scan on task_changes", "", "Seq Scan on hooks", "", "Seq Scan on unstarted", "") // the last two are empty here

// eagerServer returns a new database, and a connection of its store to it, on which PostgreSQL compiles statements
// and runs them in parallel if the store does not keep it from that.
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

// planRows is the number of jobs for which PostgreSQL plans. With 1,100,000 that takes minutes.
var planRows = flag.Int("rows", 30_000, "number of jobs in the tests of PostgreSQL's plans")

// seemsExpensive makes PostgreSQL compile statements and run them in parallel wherever it may, as it does by itself
// for lists of millions.
const seemsExpensive = `SET jit_above_cost = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;
	SET min_parallel_index_scan_size = 0`

// newRows makes a database whose jobs were just submitted, so that PostgreSQL has no statistics on them.
const newRows = `
INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, due, awaited, created, updated,
		moved)
	SELECT n, 1, n, 'user', 'p/user', '', 'run', 'waiting', 'created', n, FALSE, n, n,
		n FROM generate_series(1, 1000) AS n;`

// manyRows fills a database with jobs, of 20 users, of which nine of ten have ended; two thirds of them are those of
// so many tasks.
const manyRows = `
INSERT INTO accounts (id, platform) SELECT 'p/' || n, 'p' FROM generate_series(0, 4999) AS n;
INSERT INTO accounts (id, platform, due) SELECT 'p' || n %% 10 || '/' || n, 'p' || n %% 10, n FROM generate_series(1, 10000) AS n;
INSERT INTO tasks (id, owner, account, request, dimension, created)
	SELECT n, 'user ' || n %% 20, 'p/' || n %% 50, repeat('x', 1000), 'd', n * 1000 FROM generate_series(1, 10000) AS n;
INSERT INTO documents (hash, body) VALUES ('h', '{}');
INSERT INTO definitions (task, job, owner, platform, service, document) SELECT id, 0, owner, 'p', '{}',
		'h' FROM tasks;
INSERT INTO task_placements (task, account, number, platform, base, hash) SELECT id, 'q/' || n, n, 'q', '',
		1 FROM tasks, generate_series(1, 2) AS n;
INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, attention, paused, due, awaited,
		created, updated, moved)
	SELECT n, task, n / 20, 'user ' || task %% 20 + n %% 20 * CASE task WHEN 0 THEN 1 ELSE 0 END, 'p/' || n %% 50,
		'', 'run', phase, CASE phase WHEN 'ended' THEN 'finished' WHEN 'waiting' THEN 'created' ELSE 'running' END,
		CASE WHEN n %% 500 = 1 THEN 'application_unreachable' ELSE '' END,
		phase = 'waiting' AND n %% 2 = 0, CASE WHEN phase = 'waiting' AND n %% 2 = 0 THEN 0 ELSE n END, FALSE, n * 100, n * 100 + 50,
		n * 100 + 50
	FROM (SELECT n, CASE WHEN n %% 3 = 0 THEN 0 ELSE 1 + n %% %[2]d END AS task,
		CASE WHEN n <= %[1]d / 10 * 9 THEN 'ended' WHEN n <= %[1]d / 30 * 29 THEN 'waiting' ELSE 'started' END AS phase
		FROM generate_series(1,
		%[1]d) AS n) AS j;
INSERT INTO requests (job, body) SELECT id, '{}' FROM jobs;
INSERT INTO items (job, owner, task, account, platform, service, due, place, period, west, south, east, north, begins,
		ends)
	SELECT id, owner, task, account, 'p' || id %% 10, id %% 7, CASE WHEN id %% 100 = 0 THEN moved ELSE 0 END,
		id * 1000, id * 2000, 5, 50, 6, 51, moved, moved FROM jobs WHERE status = 'finished';
INSERT INTO results (job, body, head, until) SELECT id, '{}', '{}', 0 FROM jobs WHERE status = 'finished';
INSERT INTO job_labels (job, owner, name, value, created) SELECT id, owner, 'project', 'p' || id %% 7,
		created FROM jobs WHERE task = 0;
INSERT INTO task_labels (task, owner, name, value, created) SELECT id, owner, 'project', 'p' || id %% 7,
		created FROM tasks;
INSERT INTO definitions (task, job, owner, platform, service, document) SELECT 0, id, owner, 'p', '{}',
		'h' FROM jobs WHERE task = 0;
INSERT INTO sync_runs (id, owner, account, request, status, lapses, created, ended) SELECT n, 'user ' || n %% 20,
		'p/' || n %% 50, '{}', 'finished', n, n, n
	FROM generate_series(%[1]d + 1, %[1]d + 2000) AS n;
INSERT INTO period_counts (owner, account, period, jobs) SELECT owner, account, created / 1000,
		count(*) FROM jobs GROUP BY owner, account, created / 1000;
UPDATE jobs SET changed = updated;
INSERT INTO task_numbers (task, owner, change, floor) SELECT id, owner, created, 0 FROM tasks;
INSERT INTO task_counts (task, status, jobs, progress) SELECT task, status, count(*), 0 FROM jobs WHERE task <> 0 GROUP BY task, status;
INSERT INTO queue_counts (account, owner, task, waiting, held) SELECT account, owner, task, count(*),
		0 FROM jobs GROUP BY account, owner, task;
INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced) SELECT owner, 'q/' || n, 0,
		0, 0, 1, 0, 0
	FROM (SELECT DISTINCT owner FROM jobs) AS o, generate_series(1, 50) AS n;
INSERT INTO account_counts (account, waiting, held, started) SELECT 'q/' || n, 0, 0, 0 FROM generate_series(1,
		2000) AS n;
ANALYZE`

// genericPlanOf returns PostgreSQL's plan of a query, for any arguments.
func genericPlanOf(t *testing.T, c *sql.Conn, name, query string) string {
	t.Helper()
	query = liteList.ReplaceAllString(query, "= ANY($1)")
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

// liteList is how a column is compared with a list on SQLite, where statements are recorded, see isAny.
var liteList = regexp.MustCompile(`IN \(SELECT value FROM json_each\((\$\d+)\)\)`)

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

var numbered = regexp.MustCompile(`\$(\d+)`)

// planOf returns SQLite's plan of a query, for any arguments.
func planOf(t *testing.T, s *Store, query string) string {
	t.Helper()
	names := map[string]bool{}
	args := make([]any, strings.Count(query, "?"))
	for _, m := range numbered.FindAllString(query, -1) {
		if !names[m] {
			names[m], args = true, append(args, 1)
		}
	}
	rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, args...)
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
