package store_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// jobsWithCosts are two jobs of a task with 2 and 3 credits.
const jobsWithCosts = `
INSERT INTO accounts (id) VALUES ('p/shared');
INSERT INTO tasks (id, owner, account, request, dimension, created) VALUES (1, 'ann', 'p/shared', '{}', 'd', 1);
INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, attention, due, awaited, created, updated, moved, costs, unit)
	SELECT n, 1, n, 'ann', 'p/shared', '', 'run', 'ended', 'finished', '', 0, FALSE, 1, 1, 1, n + 1, 'credits' FROM generate_series(1, 2) AS n;`

// stopBooking makes a transaction that books what is known wait for whoever has the advisory lock 4711.
const stopBooking = `
CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
	IF NEW.shard = 0 THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NEW; END $body$;
CREATE TRIGGER wait_for_test BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION wait_for_test();`

// TestLedger_IsFilledWhileOthersWrite: the migration that adds up the costs of all jobs keeps nobody from changing jobs meanwhile, and what changes
// meanwhile is booked once.
func TestLedger_IsFilledWhileOthersWrite(t *testing.T) {
	url := postgres.Database(t)
	store.MigrateTo(t, url, 59)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	holder, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for _, text := range []string{jobsWithCosts, stopBooking, "SELECT pg_advisory_lock(4711)"} {
		if _, err := holder.ExecContext(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	migrated := make(chan struct{})
	go func() {
		defer close(migrated)
		store.MigrateTo(t, url, 60)
	}()
	awaitWaiter(t, url)
	if _, err := db.ExecContext(ctx, "UPDATE jobs SET costs = 7 WHERE id = 1"); err != nil {
		t.Errorf("a job cannot be changed meanwhile: %v", err)
	}
	if _, err := holder.ExecContext(ctx, "SELECT pg_advisory_unlock(4711)"); err != nil {
		t.Fatal(err)
	}
	<-migrated
	for _, table := range []string{"ledger", "task_costs"} {
		var costs, runs float64
		if err := db.QueryRowContext(ctx, "SELECT sum(costs), sum(runs) FROM "+table).Scan(&costs, &runs); err != nil || costs != 10 || runs != 2 {
			t.Errorf("%s: %v in %v runs, %v", table, costs, runs, err)
		}
	}
}
