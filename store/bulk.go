package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// rowsAtOnce is how many rows one statement inserts or writes.
const rowsAtOnce = 20

// bulk inserts many rows with few statements.
type bulk struct {
	q       tx
	into    string
	columns int
	full    *sql.Stmt // for rowsAtOnce rows
	args    []any
}

func newBulk(q tx, table string, columns ...string) *bulk {
	return &bulk{q: q, columns: len(columns), into: fmt.Sprintf("INSERT INTO %s (%s) VALUES ", table, strings.Join(columns, ", "))}
}

// add adds one row, and inserts the collected rows when they fill a statement.
func (b *bulk) add(ctx context.Context, row ...any) (err error) {
	b.args = append(b.args, row...)
	if len(b.args) < rowsAtOnce*b.columns {
		return nil
	}
	if b.full == nil {
		if b.full, err = b.q.PrepareContext(ctx, b.text()); err != nil {
			return err
		}
	}
	_, err = b.full.ExecContext(ctx, b.args...)
	b.args = b.args[:0]
	return err
}

// flush inserts the remaining rows.
func (b *bulk) flush(ctx context.Context) error {
	if len(b.args) == 0 {
		return nil
	}
	_, err := b.q.ExecContext(ctx, b.text(), b.args...)
	return err
}

func (b *bulk) close() {
	if b.full != nil {
		_ = b.full.Close() // it ends with its transaction in any case
	}
}

// text returns the statement for the collected rows.
func (b *bulk) text() string {
	return b.into + strings.TrimPrefix(b.q.rows(0, b.columns, len(b.args)/b.columns), ", ")
}

// rows returns the parameter list of n more rows of VALUES, after others.
func (q tx) rows(others, columns, n int) string {
	var b strings.Builder
	for range n {
		separator := ", ("
		for range columns {
			others++
			b.WriteString(separator + q.parameter(others))
			separator = ", "
		}
		b.WriteString(")")
	}
	return b.String()
}
