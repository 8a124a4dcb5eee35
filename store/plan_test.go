package store

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SQLite chooses an index without counting rows. The queries of each read of a user must not walk all that the user ever had.
func TestPlan_SQLiteUsesTheSmallIndex(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text, err := os.ReadFile("query/query.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"awaitAll":           "jobs USING INDEX jobs_started (owner=? AND phase=?)",
		"countAwaited":       "jobs USING INDEX jobs_started (owner=? AND phase=?)",
		"countOwned":         "SEARCH d USING COVERING INDEX jobs_owner (owner=? AND created>? AND created<?)",
		"countBytes":         "SEARCH b USING COVERING INDEX jobs_bytes (owner=? AND task>?)",
		"countShared":        "jobs USING COVERING INDEX jobs_bytes (owner=? AND task=?)",
		"listRecords":        "jobs USING INDEX jobs_single (owner=? AND created<?)",
		"listAttentions":     "INDEX jobs_attention (task=? AND attention>?)",
		"listTasks":          "tasks USING INDEX tasks_owner (owner=? AND created<?)",
		"countTasks":         "SEARCH c USING INDEX sqlite_autoindex_task_counts_1 (task=?)",
		"listTaskJobs":       "jobs USING INDEX jobs_number (task=? AND number>?)",
		"listChangedJobs":    "jobs USING INDEX jobs_changed (task=? AND updated>?)",
		"listFinished":       "jobs USING INDEX jobs_finished (task=? AND moved>?)",
		"listLines":          "SEARCH t USING INDEX sqlite_autoindex_turns_1 (account=? AND line=?)",
		"getTask":            "SEARCH j USING INDEX jobs_changed (task=?)",
		"sumTask":            "task_counts USING INDEX sqlite_autoindex_task_counts_1 (task=?",
		"countTimeDependent": "jobs USING INDEX jobs_started (owner=? AND phase=? AND task=?)",
		"countAccount":       "account_counts USING INDEX sqlite_autoindex_account_counts_1 (account=?)",
		"countOwner":         "owner_counts USING INDEX sqlite_autoindex_owner_counts_1 (owner=? AND account=?)",
		"countLines":         "line_counts USING INDEX sqlite_autoindex_line_counts_1 (account=?)",
		"countWaitingBefore": "jobs USING INDEX jobs_line (account=? AND line=? AND (due,id)<(?,?))",
		"listRunning":        "jobs USING INDEX jobs_step (account=? AND step=?)",
		"nextDue":            "SEARCH j USING INDEX jobs_unprepared (account=? AND step=? AND attention=?)",
		"listUnprepared":     "jobs USING INDEX jobs_unprepared (account=? AND step=? AND attention=? AND due<?)",
	} {
		_, query, _ := strings.Cut(string(text), "const "+name+" = `")
		query, _, _ = strings.Cut(query, "`")
		if plan := planOf(t, s, query); !strings.Contains(plan, want) || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") != (name == "listChangedJobs") {
			t.Errorf("%s: want %s in\n%s", name, want, plan)
		}
	}
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
