package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestPatiently_RepeatsWhatOthersPrevented: a migration that did not get its locks, or was the victim of a deadlock
// with brokers at work, is repeated; one that fails by itself is not.
func TestPatiently_RepeatsWhatOthersPrevented(t *testing.T) {
	for code, calls := range map[string]int{stateLocked: 3, "40P01": 3, "42601": 1} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			err := patiently(t.Context(), func(context.Context) error {
				if n++; n == 3 {
					return nil
				}
				return errors.Join(errors.New("version 48"), &pgconn.PgError{Code: code})
			})
			if n != calls || (err == nil) != (calls == 3) {
				t.Errorf("%s: %d calls, %v", code, n, err)
			}
		})
	}
}
