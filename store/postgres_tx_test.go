package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestTransaction_OfWhichAStatementFailed: the server rolls it back at the commit, which must not pass for a success.
func TestTransaction_OfWhichAStatementFailed(t *testing.T) {
	s := open(t, postgres.Database(t), nil)
	err := store.Transact(t.Context(), s, func(q store.Querier) error {
		if _, err := q.ExecContext(t.Context(), "SELECT 1/0"); err == nil {
			t.Error("no error")
		}
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("the commit: %v", err)
	}
}

// TestTransaction_ReturnsItsConnection: a transaction that ends in any way leaves no connection that is taken or within
// a transaction.
func TestTransaction_ReturnsItsConnection(t *testing.T) {
	s := open(t, postgres.Database(t), nil)
	refused := errors.New("refused")
	for range 100 { // more than there are connections
		if err := store.Transact(t.Context(), s, func(q store.Querier) error { return refused }); !errors.Is(err,
			refused) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := store.Transact(ctx, s, func(q store.Querier) error {
			cancel()
			_, err := q.ExecContext(ctx, "SELECT 1")
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		err = store.Transact(t.Context(), s, func(q store.Querier) error {
			var within bool
			if err := q.QueryRowContext(t.Context(), "SELECT now() < statement_timestamp()").Scan(&within); err != nil {
				return err
			}
			if !within {
				t.Error("the statement does not run in the transaction")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
