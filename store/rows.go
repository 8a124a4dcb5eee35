package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// collect returns what each row of a generated query stands for. list calls the query once, for its text and its arguments: the generated function
// keeps all rows, of a kilobyte for a job, and scans names and numbers by way of reflection and text. as gets the same variable for each row, and runs
// no query. without says which columns of jobs are not read.
func collect[R, T any](ctx context.Context, q tx, without *unread, list func(*query.Queries) ([]R, error), as func(*R) (T, error)) (all []T, err error) {
	asked := &asking{DBTX: q.DBTX}
	if _, err := list(query.New(asked)); !errors.Is(err, errAsked) {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, without.columns.Replace(asked.text), asked.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	row := new(R)
	columns := columnsOf(reflect.ValueOf(row).Elem(), without, nil)
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return nil, err
		}
		one, err := as(row)
		if err != nil {
			return nil, err
		}
		if len(all) == few { // a job is more than a kilobyte, which is copied each time that the slice grows
			all = slices.Grow(all, many-few)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// unread are fields of a row of a job that a list leaves out, with their columns.
type unread struct {
	fields  []string
	columns *rewriting
}

func newUnread(fields ...string) *unread {
	var columns []string
	for _, name := range fields {
		columns = append(columns, "jobs."+columnOf(name)+", ", "")
	}
	return &unread{fields, newRewriting(columns...)}
}

// columnOf returns the column of a field of a generated row.
func columnOf(field string) string {
	var column []byte
	for i, c := range []byte(field) {
		if c >= 'A' && c <= 'Z' {
			if c += 'a' - 'A'; i > 0 {
				column = append(column, '_')
			}
		}
		column = append(column, c)
	}
	return string(column)
}

// ofQueries are what no job is made of: they serve queries only.
var ofQueries = []string{"Line", "Step", "Bytes", "Counted", "MeterDue"}

// ofWholeJobs leaves out what no job is made of, ofListed also what lists do not have, see [dispatch.Job.Listed].
var (
	ofWholeJobs = newUnread(ofQueries...)
	ofListed    = newUnread(append([]string{"Base", "Hidden", "Turn", "Attempt", "SendBy", "RefBase", "Strays", "Past", "Refused", "MaxDuration",
		"Deadline", "IntentLease", "Nonces", "Unmoved", "Begun", "ServiceHash", "Paused", "Unmetered", "Traceparent", "Budgeted", "RemovalDue", "Removal"}, ofQueries...)...)
)

// notOf returns what is left out of the jobs of a page.
func notOf(p dispatch.Page) *unread {
	if p.Most == 0 {
		return ofWholeJobs
	}
	return ofListed
}

// asking notes a query instead of running it.
type asking struct {
	query.DBTX
	text string
	args []any
}

var errAsked = errors.New("the query is noted")

func (a *asking) QueryContext(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	a.text, a.args = text, args
	return nil, errAsked
}

// columnsOf appends where the columns of a generated row, whose fields are in their order, are scanned to.
func columnsOf(row reflect.Value, without *unread, to []any) []any {
	for i := range row.NumField() {
		field := row.Field(i)
		if row.Type() == reflect.TypeFor[query.Job]() && slices.Contains(without.fields, row.Type().Field(i).Name) {
			continue
		}
		kind := reflect.Type(nil)
		switch field.Kind() {
		case reflect.Struct:
			to = columnsOf(field, without, to)
			continue
		case reflect.String:
			kind = reflect.TypeFor[*string]()
		case reflect.Int:
			kind = reflect.TypeFor[*wholeNumber]()
		case reflect.Int64:
			kind = reflect.TypeFor[*bigNumber]()
		default:
			kind = field.Addr().Type()
		}
		to = append(to, field.Addr().Convert(kind).Interface())
	}
	return to
}

// wholeNumber and bigNumber are scanned without reflection.
type (
	wholeNumber int
	bigNumber   int64
)

// Scan implements [sql.Scanner].
func (n *wholeNumber) Scan(v any) error {
	i, err := numberOf(v)
	*n = wholeNumber(i)
	return err
}

// Scan implements [sql.Scanner].
func (n *bigNumber) Scan(v any) error {
	i, err := numberOf(v)
	*n = bigNumber(i)
	return err
}

func numberOf(v any) (int64, error) {
	i, ok := v.(int64) // as drivers give all integers
	if !ok {
		return 0, fmt.Errorf("%T is not an integer", v)
	}
	return i, nil
}
