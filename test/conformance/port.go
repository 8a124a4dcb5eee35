package conformance

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// Store is all that a broker stores: for itself, its parts and its engine, and what commands for operators do with it.
type Store interface {
	broker.Stores
	engine.Store

	// Installation returns a text of letters and digits that is unique to this store, chosen when the store was
	// created.
	Installation(context.Context) (string, error)
	// Purge deletes hidden jobs that ended longer than keep ago and have no orphans, unstarted jobs that have expired,
	// keys older than [dispatch.KeyLife], synchronous runs older than [dispatch.SyncRunLife],
	// and the turns of queues of which no job waits, unless it is paused, or holds a slot.
	Purge(ctx context.Context, keep time.Duration) error
	// Ping returns nil when the store answers.
	Ping(context.Context) error
	// MarkRestored records that the database was set back, and wakes all accounts with jobs. Jobs that have not ended
	// are not retried by themselves any more, because an attempt that the database does not know may be under way. They
	// must be compared before they submit, as r specifies. Unstarted jobs are deleted: they may have been started. Ids
	// skip ahead by [dispatch.SkippedIDs], so that no id is assigned twice. It returns the number of accounts.
	MarkRestored(ctx context.Context, r dispatch.Restored) (accounts int, err error)
	// Unrecognized returns all unrecognized jobs that were found, by account and ref.
	Unrecognized(context.Context) ([]dispatch.Unrecognized, error)
}
