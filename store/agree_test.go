package store_test

import (
	"context"
	"flag"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

func TestStore_SQLiteAgreesWithTheModel(t *testing.T) {
	detector.Skip(t)
	histories(t, "6")
	conformance.TestAgreement(t, memory, model)
}

// TestStore_AgreesWithTheModelWhenChangesAreInterrupted: a change of a task whose caller gives up between two of its
// transactions is finished by another one, and changes then what it would have changed at once.
func TestStore_AgreesWithTheModelWhenChangesAreInterrupted(t *testing.T) {
	detector.Skip(t)
	histories(t, "6")
	conformance.TestAgreement(t, func(t *testing.T) conformance.Database {
		c := conformance.NewStillClock(start)
		s := open(t, "sqlite::memory:", c)
		within := newInterrupted(s)
		same := func() conformance.Store { return within }
		return conformance.Database{Open: same, Restart: same, Pass: c.Pass}
	}, model)
}

func TestStore_PostgreSQLAgreesWithTheModel(t *testing.T) {
	detector.Skip(t)
	histories(t, "8") // each creates a database
	conformance.TestAgreement(t, postgresql, model)
}

// interrupted is a store with transactions of one job each, in which every other change of a task stops after its first
// transaction.
type interrupted struct {
	*store.Store
	changes int
	leave   context.CancelFunc
}

func newInterrupted(s *store.Store) *interrupted {
	i := &interrupted{Store: s, leave: func() {}}
	s.ChangeInRanges(1, func(context.Context) { i.leave() })
	return i
}

func (i *interrupted) change(ctx context.Context, f func(context.Context) error) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if i.changes++; i.changes%2 == 0 {
		i.leave = leave
	}
	err := f(ctx)
	i.leave = func() {}
	if ctx.Err() == nil {
		return err
	}
	_, err = i.Store.FinishChanges(context.WithoutCancel(ctx), 0)
	return err
}

func (i *interrupted) CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	hide bool) (a dispatch.Account, err error) {
	err = i.change(ctx, func(ctx context.Context) error { a, err = i.Store.CancelTask(ctx, u, id, hide); return err })
	return a, err
}

func (i *interrupted) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (a dispatch.Account,
	err error) {
	err = i.change(ctx, func(ctx context.Context) error { a, err = i.Store.PauseTask(ctx, u, id); return err })
	return a, err
}

func (i *interrupted) ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (a dispatch.Account, err error) {
	err = i.change(ctx, func(ctx context.Context) error { a, err = i.Store.ResumeTask(ctx, u, id, budget); return err })
	return a, err
}

// histories sets how many random histories a test tries.
func histories(t *testing.T, n string) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

func model(*testing.T) conformance.Database {
	c := conformance.NewStillClock(start)
	s := conformance.NewMemStore(c)
	same := func() conformance.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.Pass}
}

// memory is SQLite without a disk, which would make a hundred histories slow.
func memory(t *testing.T) conformance.Database {
	c := conformance.NewStillClock(start)
	s := open(t, "sqlite::memory:", c)
	same := func() conformance.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.Pass}
}
