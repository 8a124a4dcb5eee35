package store

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/detector"
)

// scans are the tables that methods read, or an index of all of whose rows, from end to end, each with the reason why
// they may. No other statement does.
var scans = map[string]string{
	"AccountInfo account_counts":   "a row for each account",
	"AccountInfo platforms":        "a row for each platform",
	"AccountsWithJobs accounts":    "a row for each account; when an operator asks",
	"Aged jobs":                    "an operator asks what retention would delete; no transaction that writes",
	"Aged results":                 "an operator asks what retention would delete; no transaction that writes",
	"Stats account_counts":         "a row for each account; one process in 15 s",
	"Stats stats_lease":            "one row",
	"Stats owner_counts":           "a row for each owner at an account; one process in 15 s",
	"Stats platforms":              "a row for each platform",
	"Dequeue served":               "a row for each platform",
	"EndStats stats_lease":         "one row",
	"Export accounts":              "an operator exports what belongs to a user",
	"Export definitions":           "an operator exports what belongs to a user",
	"FindItems items":              "those with a label, of which there are few",
	"Export items":                 "an operator exports what belongs to a user",
	"Export queue_counts":          "an operator exports what belongs to a user",
	"Export revocations":           "an operator exports what belongs to a user",
	"Export tasks":                 "an operator exports what belongs to a user",
	"FinishChanges task_changes":   "a row for each change of a task under way",
	"Forget accounts":              "an operator forgets a user",
	"Forget definitions":           "an operator forgets a user",
	"Forget items":                 "an operator forgets a user",
	"Forget queue_counts":          "an operator forgets a user",
	"Forget tasks":                 "an operator forgets a user",
	"HoldScope accounts":           "an operator begins a hold",
	"HookTroubles hooks":           "doctor alone counts them",
	"KeepGrant revocations":        "a row for each grant that could not be revoked yet",
	"MarkRestored accounts":        "once after a restore",
	"MarkRestored ids":             "one row for each sequence",
	"MarkRestored owners":          "once after a restore",
	"MarkRestored task_numbers":    "once after a restore",
	"NoteServed accounts":          "the clock was set back by hours",
	"NoteServed jobs":              "the clock was set back by hours",
	"NoteServed served":            "a row for each platform",
	"OperatorHolds operator_holds": "a row for each hold of an operator",
	"Purge queue_counts":           "a row for each queue with unfinished jobs; hourly",
	"PurgeSources sources":         "a row for each source of the catalogue",
	"ReleaseScope accounts":        "an operator ended a hold",
	"ReserveSendTime accounts":     "the clock was set back",
	"Revocations revocations":      "a row for each grant that could not be revoked yet",
	"SealedCounts grants":          "doctor alone counts them",
	"SealedCounts hooks":           "doctor alone counts them",
	"SealedCounts revocations":     "doctor alone counts them",
	"SealedCounts sessions":        "doctor alone counts them",
	"SealedCounts tokens":          "doctor alone counts them",
	"SourceStates sources":         "a row for each source of the catalogue",
	"Unrecognized unrecognized":    "jobs at platforms that no restored job is",
	"WrongCounts account_counts":   "doctor counts anew",
	"WrongCounts jobs":             "doctor counts anew",
	"WrongCounts queue_counts":     "doctor counts anew",
	"WrongCounts owner_counts":     "doctor counts anew",
	"WrongCounts task_counts":      "doctor counts anew",
}

// unfinished are the indexes of what is not finished or needs somebody: their size does not grow with the years.
// Queries may read all of them.
var unfinished = []string{"accounts_due", "accounts_held", "accounts_leased", "accounts_of_platform", "deliveries_due",
	"deliveries_waiting", "hooks_held", "jobs_open", "jobs_queue", "jobs_set_aside", "jobs_started", "jobs_troubled",
	"tasks_hidden", "tasks_limited", "tasks_spread"}

// No statement reads rows that it does not return, unless a reason is given: a new one that does is noticed here.
// SQLite plans without counting rows, so that its plan says whether there is an index. PostgreSQL's plans of
// important statements are those of TestPlan_PostgreSQLUsesTheSmallIndex.
func TestPlan_SQLiteScansNothing(t *testing.T) {
	detector.Skip(t)
	s := openLite(t)
	tables, err := list(t.Context(), s.on(s.read), single[string],
		"SELECT name FROM sqlite_schema WHERE type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(scans)
	for _, each := range recordStatements(t) {
		for _, m := range liteScan.FindAllStringSubmatch(planOf(t, s, each.text), -1) {
			table := tableOf(each.text, m[1])
			if !slices.Contains(tables, table) || slices.Contains(unfinished, m[2]) {
				continue
			}
			key := each.op + " " + table
			if delete(unused, key); scans[key] == "" {
				t.Errorf("%s: more is read than is returned: %s in\n%s", key, strings.TrimSpace(m[0]), each.text)
			}
		}
	}
	for key := range unused {
		t.Errorf("no statement scans %s", key)
	}
}

var liteScan = regexp.MustCompile(`(?m)^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?.*$`)
