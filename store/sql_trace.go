package store

import (
	"context"
	"database/sql"
	"strings"
)

// TraceFunc is called when a transaction or a statement begins, with its name. It returns a context for what belongs
// to it, and what is called at its end, with what failed.
type TraceFunc func(ctx context.Context, name string) (context.Context, func(error))

// Trace has begin called with each transaction and each statement; nil: nothing is traced. Call it before the store
// is used.
func (s *Store) Trace(begin TraceFunc) {
	s.trace = begin
	if now, beginTx := s.now, s.beginTx; begin != nil && s.remote { // elsewhere the time comes from no statement
		s.now = func(ctx context.Context, on querier) (int64, error) {
			_, end := begin(ctx, "Now")
			us, err := now(ctx, on)
			end(err)
			return us, err
		}
		s.beginTx = func(ctx context.Context, db *sql.DB, o *sql.TxOptions) (transaction, int64, error) {
			_, end := begin(ctx, "Now")
			begun, us, err := beginTx(ctx, db, o)
			end(err)
			return begun, us, err
		}
	}
}

// begin reports the begin of a transaction.
func (s *Store) begin(ctx context.Context, op string) (context.Context, func(error)) {
	if s.trace == nil {
		return ctx, func(error) {}
	}
	return s.trace(ctx, op)
}

// traced runs queries and reports them. That of a row, or of rows, ends before these are read.
type traced struct {
	querier
	trace TraceFunc
}

// tracedWithin returns queries that are reported as parts of a transaction, whose context is within.
func (s *Store) tracedWithin(within context.Context, on querier) querier {
	if s.trace == nil {
		return on
	}
	return traced{on, func(_ context.Context, name string) (context.Context, func(error)) {
		return s.trace(within, name)
	}}
}

// traced returns queries that are reported as parts of what the contexts of their calls belong to.
func (s *Store) traced(on querier) querier {
	if s.trace == nil {
		return on
	}
	return traced{on, s.trace}
}

// tracedBatch reports statements that are sent together as one.
func (s *Store) tracedBatch(within context.Context, send func(context.Context, []command) error,
) func(context.Context, []command) error {
	if s.trace == nil {
		return send
	}
	return func(ctx context.Context, all []command) error {
		_, end := s.trace(within, "Batch")
		err := send(ctx, all)
		end(err)
		return err
	}
}

func (t traced) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	_, end := t.trace(ctx, nameOf(q))
	result, err := t.querier.ExecContext(ctx, q, args...)
	end(err)
	return result, err
}

func (t traced) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	_, end := t.trace(ctx, nameOf(q))
	rows, err := t.querier.QueryContext(ctx, q, args...)
	end(err)
	return rows, err
}

func (t traced) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	_, end := t.trace(ctx, nameOf(q))
	row := t.querier.QueryRowContext(ctx, q, args...)
	end(row.Err())
	return row
}

// nameOf returns the name of a statement: what it does and to which table, such as "UPDATE ids".
func nameOf(q string) string {
	verb, before := "", ""
	for word := range strings.FieldsSeq(q) {
		if verb == "" {
			verb = word
		}
		if (before == "FROM" || before == "INTO" || before == "UPDATE") && word[0] != '(' {
			return verb + " " + strings.TrimRight(word, "),")
		}
		before = word
	}
	return verb
}
