package store

import (
	"context"
	"database/sql"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// statement is a text that a method of the Store executed.
type statement struct{ op, text string }

// recorder collects statements.
type recorder struct {
	mu  sync.Mutex
	all map[statement]bool
}

// recording runs statements and notes them.
type recording struct {
	querier
	to *recorder
}

func (r recording) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	r.to.note(q)
	return r.querier.ExecContext(ctx, q, args...)
}

func (r recording) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	r.to.note(q)
	return r.querier.QueryContext(ctx, q, args...)
}

func (r recording) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	r.to.note(q)
	return r.querier.QueryRowContext(ctx, q, args...)
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[statement{caller(), text}] = true
}

var exported = regexp.MustCompile(`/store\.\(\*Store\)\.([A-Z]\w*)`)

// caller returns the innermost exported method of the Store that is being called. A transaction may run in the
// goroutine of another caller: its own method is the innermost.
func caller() string {
	stack := make([]uintptr, 50)
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack)])
	for {
		frame, more := frames.Next()
		if m := exported.FindStringSubmatch(frame.Function); m != nil {
			return m[1]
		}
		if !more {
			return ""
		}
	}
}

// open opens a database in memory whose statements are recorded, those of Open as well.
func (r *recorder) open(t *testing.T, c dispatch.Clock) *Store {
	t.Helper()
	s, err := Open(t.Context(), "sqlite:"+memory, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	adapt := s.adapt
	s.adapt = func(db *sql.DB, on querier) querier { return recording{adapt(db, on), r} }
	return s
}

var recorded struct {
	sync.Once
	all []statement
}

// statementsOf returns the statements that the store executes while it is tested. They are recorded once.
func recordStatements(t *testing.T) []statement {
	t.Helper()
	recorded.Do(func() {
		r := &recorder{all: map[statement]bool{}}
		t.Run("recording", func(t *testing.T) {
			database := func(t *testing.T) conformance.Database {
				c := conformance.NewStillClock(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
				s := r.open(t, c)
				same := func() conformance.Store { return s }
				return conformance.Database{Open: same, Restart: same, Pass: c.Pass}
			}
			walk(t, r.open(t, conformance.WallClock{}))
			for _, suite := range []func(*testing.T, func(*testing.T) conformance.Database){conformance.TestStore,
				conformance.TestProcesses, conformance.TestSources, conformance.TestStats,
				conformance.TestOperations} {
				suite(t, database)
			}
		})
		recorded.all = slices.SortedFunc(maps.Keys(r.all), func(a, b statement) int {
			return strings.Compare(a.op+a.text, b.op+b.text)
		})
	})
	if len(recorded.all) < 200 {
		t.Fatalf("only %d statements were recorded", len(recorded.all))
	}
	return recorded.all
}

// elsewhere is SQL that is not recorded, by how it begins, with the reason.
var elsewhere = map[string]string{
	"SELECT current_setting('fsync')":      "PostgreSQL's settings",
	"SELECT pg_advisory_xact_lock":         "a lock of PostgreSQL",
	"SELECT set_config(":                   "a lock of PostgreSQL",
	"SET lock_timeout":                     "a lock of PostgreSQL",
	"SELECT pg_try_advisory_xact_lock":     "a lock of PostgreSQL",
	"SET LOCAL idle_in_transaction":        "a lock of PostgreSQL",
	"SELECT pg_backend_pid()":              "PostgreSQL's settings",
	"SET idle_in_transaction_session":      "PostgreSQL's settings",
	"SELECT least(":                        "PostgreSQL's settings",
	"SELECT CAST(extract(epoch FROM clock": "PostgreSQL's clock",
	"FOR UPDATE":                           "a lock of PostgreSQL, at the end of queries that are recorded without it",
	"INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE": "one row, after a migration",
	"SELECT COALESCE(max(version_id), 0)": "the table of goose, which has a " +
		"row for each version",
}

// TestStatements_AreAllRecorded: each piece of SQL in the source is part of a statement that is recorded, and so
// checked.
func TestStatements_AreAllRecorded(t *testing.T) {
	detector.Skip(t)
	all := recordStatements(t)
	isRecorded := func(piece string) bool {
		return slices.ContainsFunc(all, func(s statement) bool { return strings.Contains(s.text, piece) })
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(elsewhere)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil || !looksLikeSQL.MatchString(text) {
				return true
			}
			for begin := range elsewhere {
				if strings.HasPrefix(oneLine(text), begin) {
					delete(unused, begin)
					return true
				}
			}
			for _, piece := range formatted.Split(text, -1) {
				if looksLikeSQL.MatchString(piece) && !isRecorded(piece) {
					t.Errorf("%v: never recorded:\n%s", set.Position(literal.Pos()), piece)
				}
			}
			return true
		})
	}
	for begin := range unused {
		t.Errorf("there is no SQL that begins with %q", begin)
	}
}

var (
	looksLikeSQL = regexp.MustCompile(`(?:^|\s)(?:SELECT|FROM|WHERE|JOIN|EXISTS|UPDATE|INSERT|DELETE|CASE|AND|OR|SET|` +
		`VALUES|LIMIT)\s`)
	formatted = regexp.MustCompile(`%(?:\[\d+\])?[sd]`)
)

// TestStatements_CastWhatIsComparedWithIndexes: an index whose condition compares a column with a constant lets
// SQLite compare that constant with a bare parameter for the column. The plan then holds only for the values that it
// was made for, and each other value prepares the statement anew, which takes longer than most statements. So does a
// bare limit.
func TestStatements_CastWhatIsComparedWithIndexes(t *testing.T) {
	detector.Skip(t)
	compared := regexp.MustCompile(`\b(?:step|phase|attention|task) (?:=|<>) [$?]`)
	onJobs := regexp.MustCompile(`\b(?:FROM|JOIN|UPDATE) jobs\b`)
	limit := regexp.MustCompile(`(?:LIMIT|OFFSET) [$?]`)
	for _, s := range recordStatements(t) {
		found := limit.FindString(s.text)
		where := s.text // what an update sets is not compared
		if strings.HasPrefix(where, "UPDATE") {
			_, where, _ = strings.Cut(where, "WHERE")
		}
		if found == "" && onJobs.MatchString(s.text) { // other tables have no such indexes
			found = compared.FindString(where)
		}
		if found != "" {
			t.Errorf("%s: %q is not cast in:\n%s", s.op, found, s.text)
		}
	}
}

// oneLine returns a statement without its line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// tableOf returns the table that an alias stands for in a statement.
func tableOf(text, alias string) string {
	named := regexp.MustCompile(`(?:FROM|JOIN|UPDATE|INTO) (\w+)(?: AS)? ` + alias + `\b`)
	if m := named.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return alias
}
