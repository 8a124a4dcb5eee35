package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/eodispatch/eodispatch/store/query"
)

// rowsAtOnce is how many rows a statement inserts. SQLite looks every parameter's name up among those before it, so that
// long statements are slow.
const rowsAtOnce = 20

// bulk inserts many rows with few statements, for which the generator of queries has no form that both databases know.
type bulk struct {
	db      query.DBTX
	into    string
	columns int
	full    *sql.Stmt // of rowsAtOnce rows
	args    []any
}

func newBulk(db query.DBTX, table string, columns ...string) *bulk {
	return &bulk{db: db, columns: len(columns), into: fmt.Sprintf("INSERT INTO %s (%s) VALUES ", table, strings.Join(columns, ", "))}
}

// add takes one row, and inserts all that it holds when it is enough for a statement.
func (b *bulk) add(ctx context.Context, row ...any) (err error) {
	b.args = append(b.args, row...)
	if len(b.args) < rowsAtOnce*b.columns {
		return nil
	}
	if b.full == nil {
		if b.full, err = b.db.PrepareContext(ctx, b.text()); err != nil {
			return err
		}
	}
	_, err = b.full.ExecContext(ctx, b.args...)
	b.args = b.args[:0]
	return err
}

// flush inserts what is left.
func (b *bulk) flush(ctx context.Context) error {
	if len(b.args) == 0 {
		return nil
	}
	_, err := b.db.ExecContext(ctx, b.text(), b.args...)
	return err
}

func (b *bulk) close() {
	if b.full != nil {
		_ = b.full.Close() // it ends with its transaction in any case
	}
}

// text is the statement for the rows that it holds.
func (b *bulk) text() string {
	var rows strings.Builder
	rows.WriteString(b.into)
	for i := range b.args {
		switch {
		case i == 0:
			rows.WriteString("(")
		case i%b.columns == 0:
			rows.WriteString("), (")
		default:
			rows.WriteString(", ")
		}
		fmt.Fprintf(&rows, "$%d", i+1)
	}
	rows.WriteString(")")
	return rows.String()
}
