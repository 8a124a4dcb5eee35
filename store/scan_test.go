package store

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scans are the queries that read a table, or an index of all of its rows, from end to end, each with the reason why it may. No other query does.
var scans = map[string]string{
	"censusBooked":         "a row for each platform",
	"censusEnded":          "a row for each owner at an account; one process in 15 s",
	"censusUnfinished":     "a row for each account; one process in 15 s",
	"claimCensus":          "one row",
	"correctAccountCounts": "doctor --repair counts anew",
	"correctLineCounts":    "doctor --repair counts anew",
	"correctOwnerCounts":   "doctor --repair counts anew",
	"correctPeriodCounts":  "doctor --repair counts anew",
	"correctTaskCounts":    "doctor --repair counts anew",
	"countAged":            "an operator asks what retention would delete; no transaction that writes",
	"countAgedTasks":       "an operator asks what retention would delete; no transaction that writes",
	"countQueues":          "a row for each account",
	"endCensus":            "one row",
	"eraseRevocations":     "a row for each grant that could not be revoked yet",
	"getInstallation":      "one row",
	"listAccounts":         "an operator exports or forgets a user",
	"listLivePlatforms":    "a row for each owner at an account; at the start, and when operators ask",
	"listMarkedTasks":      "ends at its limit; the marks of these tasks are then deleted",
	"listOperatorHolds":    "a row for each hold of an operator",
	"listPlatforms":        "a row for each platform",
	"listRevocations":      "a row for each grant that could not be revoked yet",
	"listServed":           "a row for each platform",
	"listSourceStates":     "a row for each source of the catalogue",
	"listTaskChanges":      "a row for each change of a task under way",
	"listTurnAccounts":     "the accounts of the turns, which have a row for each line; hourly, no transaction that writes",
	"listUnrecognized":     "jobs at platforms that no restored job is",
	"listWorking":          "a row for each account; when an operator asks",
	"markRestored":         "once after a restore",
	"moveAccounts":         "the clock was set back by hours",
	"moveJobs":             "the clock was set back by hours",
	"moveServed":           "a row for each platform",
	"purgeRunTimes":        "a row for each service",
	"purgeSources":         "a row for each source of the catalogue",
	"skipIDs":              "one row for each sequence",
	"voidBookings":         "the clock was set back",
	"countFailingHooks":    "doctor alone counts them",
	"wakeHeld":             "an operator ended a hold",
}

// unfinished are the indexes of what is not finished or needs somebody: their size does not grow with the years. Queries may read all of them.
var unfinished = []string{"accounts_due", "accounts_held", "accounts_leased", "accounts_of_platform", "deliveries_due", "deliveries_waiting", "hooks_held", "jobs_held", "jobs_line",
	"jobs_open", "jobs_queue", "jobs_set_aside", "jobs_started", "jobs_troubled", "tasks_hidden", "tasks_limited", "tasks_spread"}

// No query reads rows that it does not return, unless a reason is given: a new query that does is noticed here. SQLite plans without counting rows, so
// that its plan says whether there is an index. PostgreSQL's plans of important queries are those of TestPlan_PostgreSQLUsesTheSmallIndex.
func TestPlan_SQLiteScansNothing(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tables, err := s.read.Query("SELECT name FROM sqlite_schema WHERE type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var known []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		known = append(known, name)
	}
	checkScans(t, func(query string) []string {
		var scanned []string
		for _, m := range liteScan.FindAllStringSubmatch(planOf(t, s, query), -1) {
			if table := tableOf(query, m[1]); slices.Contains(known, table) && !slices.Contains(unfinished, m[2]) {
				scanned = append(scanned, strings.TrimSpace(m[0]))
			}
		}
		return scanned
	})
}

var liteScan = regexp.MustCompile(`(?m)^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?.*$`)

// checkScans compares what each query scans with what it may.
func checkScans(t *testing.T, scanned func(query string) []string) {
	t.Helper()
	text, err := os.ReadFile("query/query.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("(?m)^const (\\w+) = `").FindAllStringSubmatch(string(text), -1)
	if len(names) < 280 {
		t.Fatalf("only %d queries were found", len(names))
	}
	all := map[string]bool{}
	for _, m := range names {
		name := m[1]
		all[name] = true
		if found := scanned(queryNamed(t, name)); len(found) > 0 && scans[name] == "" {
			t.Errorf("%s reads more than it returns: %q", name, found)
		}
	}
	for name := range scans {
		if !all[name] {
			t.Errorf("there is no query %s", name)
		}
	}
}

// tableOf returns the table that an alias stands for in a query.
func tableOf(query, alias string) string {
	if m := regexp.MustCompile(`(?:FROM|JOIN|UPDATE|INTO) (\w+)(?: AS)? ` + alias + `\b`).FindStringSubmatch(query); m != nil {
		return m[1]
	}
	return alias
}
