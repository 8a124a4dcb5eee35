package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// querier runs statements: on a database, or in a transaction.
//
// One text serves both databases, in PostgreSQL's grammar; SQLite matches $n by number. A parameter is cast where
// PostgreSQL cannot infer its type. That of a LIMIT is always cast: SQLite inspects a bare one while it plans, and then
// plans again at each execution.
type querier interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// exec runs a statement, and returns how many rows it changed.
func exec(ctx context.Context, q querier, text string, args ...any) (int64, error) {
	result, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// run runs a statement, however many rows it changes.
func run(ctx context.Context, q querier, text string, args ...any) error {
	_, err := q.ExecContext(ctx, text, args...)
	return err
}

// runFound is run for a statement that must change a row; sql.ErrNoRows if it found none.
func runFound(ctx context.Context, q querier, text string, args ...any) error {
	n, err := exec(ctx, q, text, args...)
	if err == nil && n == 0 {
		return sql.ErrNoRows
	}
	return err
}

// list returns the rows of a query. to returns where the columns of a row are scanned to.
func list[T any](ctx context.Context, q querier, to func(*T) []any, text string, args ...any) ([]T, error) {
	return listAs(ctx, q, to, func(row *T) (T, error) { return *row, nil }, text, args...)
}

// listAs returns what convert makes of each row of a query.
func listAs[R, T any](
	ctx context.Context, q querier, to func(*R) []any, convert func(*R) (T, error), text string, args ...any,
) (all []T, err error) {
	err = eachRow(ctx, q, to, func(row *R) error {
		one, err := convert(row)
		all = append(all, one)
		return err
	}, text, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachRow calls use with each row of a query. All rows are scanned into one variable, so that the places of its columns
// are made once.
func eachRow[R any](
	ctx context.Context, q querier, to func(*R) []any, use func(*R) error, text string, args ...any,
) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := new(R)
	for columns := to(row); rows.Next(); {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		if err := use(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one returns the row of a query that has one; sql.ErrNoRows if there is none.
func one[T any](ctx context.Context, q querier, to func(*T) []any, text string, args ...any) (row T, err error) {
	err = q.QueryRowContext(ctx, text, args...).Scan(to(&row)...)
	return row, err
}

// value returns the value of a query with one row of one column; sql.ErrNoRows if there is no row.
func value[T any](ctx context.Context, q querier, text string, args ...any) (v T, err error) {
	err = q.QueryRowContext(ctx, text, args...).Scan(&v)
	return v, err
}

// firstOf returns the first of some rows; sql.ErrNoRows if there is none.
func firstOf[T any](all []T, err error) (first T, _ error) {
	if err == nil && len(all) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return first, err
	}
	return all[0], nil
}

// single is where a row of one column is scanned to.
func single[T any](v *T) []any { return []any{v} }

// where collects the conditions of a query, and the arguments to which they refer.
type where struct {
	conditions []string
	args       []any
	most       int // rows; 0: all
}

// arg adds an argument, and returns the parameter that refers to it.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

// and adds a condition.
func (w *where) and(condition string) { w.conditions = append(w.conditions, condition) }

// anyOf adds the condition that a column has one of some values. No values: it may have any.
func anyOf[T ~string | ~int64](q tx, w *where, column string, values []T) {
	if len(values) > 0 {
		w.and(isAny(q, w, column, values))
	}
}

// whereAny begins with the condition that a column has one of some values.
func whereAny[T ~string | ~int64](q tx, column string, values []T) (w where) {
	w.and(isAny(q, &w, column, values))
	return w
}

// isAny is the condition that a column has one of some values. They are one argument, so that the statement, which is
// kept prepared, is the same for any number of them.
func isAny[T ~string | ~int64](q tx, w *where, column string, values []T) string {
	if q.locks {
		return column + " = ANY(" + w.arg(values) + ")"
	}
	texts, _ := encode(values) // cannot fail: texts and numbers only
	return column + " IN (SELECT value FROM json_each(" + w.arg(texts) + "))"
}

func (w *where) String() string { return strings.Join(w.conditions, " AND ") }

// text is where a text is scanned to, whatever its Go type.
func text[T ~string](to *T) sql.Scanner {
	return scanned[T, string]{to, func(s string) T { return T(s) }}
}

// number is where an integer is scanned to.
func number[T ~int | ~int64](to *T) sql.Scanner {
	return scanned[T, int64]{to, func(n int64) T { return T(n) }}
}

// instant is where a time is scanned to; 0 is the zero time.
func instant(to *time.Time) sql.Scanner { return scanned[time.Time, int64]{to, at} }

// duration is where a span of microseconds is scanned to.
func duration(to *time.Duration) sql.Scanner { return scanned[time.Duration, int64]{to, span} }

// scanned is where a value is scanned to. database/sql itself uses reflection for all but a few types.
type scanned[T, V any] struct {
	to      *T
	convert func(V) T
}

// Scan implements [sql.Scanner].
func (s scanned[T, V]) Scan(from any) error {
	v, err := given[V](from)
	*s.to = s.convert(v)
	return err
}

// given returns the value that a driver gives: int64 for all integers, string for texts.
func given[V any](from any) (v V, err error) {
	v, ok := from.(V)
	if !ok {
		err = fmt.Errorf("%T is not %T", from, v)
	}
	return v, err
}
