package store

import (
	"context"
	"fmt"
	"strings"
)

// rowsAtOnce is how many rows one statement inserts or writes. Where rows can be copied, that many more are.
const rowsAtOnce, copiedAtOnce = 20, 1000

// bulk inserts many rows with few statements.
type bulk struct {
	q       tx
	table   string
	columns []string
	args    []any
}

func newBulk(q tx, table string, columns ...string) *bulk {
	return &bulk{q: q, table: table, columns: columns}
}

// add adds one row, and inserts the collected rows when they fill a statement.
func (b *bulk) add(ctx context.Context, row ...any) error {
	b.args = append(b.args, row...)
	if n := len(b.args) / len(b.columns); n < rowsAtOnce || b.q.copy != nil && n < copiedAtOnce {
		return nil
	}
	return b.flush(ctx)
}

// flush inserts the remaining rows.
func (b *bulk) flush(ctx context.Context) (err error) {
	switch n := len(b.args) / len(b.columns); {
	case n == 0:
		return nil
	case b.q.copy != nil && n > rowsAtOnce:
		err = b.q.copy(ctx, b.table, b.columns, b.args)
	default:
		_, err = b.q.ExecContext(ctx, b.text(), b.args...)
	}
	b.args = b.args[:0]
	return err
}

// text returns the statement for the collected rows.
func (b *bulk) text() string {
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", b.table, strings.Join(b.columns, ", "),
		b.q.values(len(b.columns), len(b.args)/len(b.columns)))
}

// values returns the parameters of some rows of VALUES.
func (d *dialect) values(columns, rows int) string {
	var b strings.Builder
	for n := range rows * columns {
		switch {
		case n == 0:
			b.WriteString("(")
		case n%columns == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteString(d.parameter(n + 1))
	}
	return b.String() + ")"
}
