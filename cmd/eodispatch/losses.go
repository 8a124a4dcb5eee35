package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/store"
)

// lossesEvery is the interval at which the server is asked what its commits outlive: a cluster manager changes that as
// standbys come and go.
const lossesEvery = time.Minute

// Faults in the setup of the database, in words for operators.
const (
	lostByFailover = "the database's standbys do not confirm commits: when one takes over, accepted jobs may be lost " +
		"and started jobs may be started again; set synchronous_standby_names, with Patroni synchronous_mode"
	lostByCrash = "the database confirms commits before they are on its disk: when its machine crashes, accepted " +
		"jobs may be lost and started jobs may be started again; set synchronous_commit and fsync to on"
	poolerWithoutDirect = "the database is behind a pooler: migrations and notifications of other processes need the " +
		"server itself; set database_direct to its address"
)

// losses watches what the database may lose, and says so when it changes.
type losses struct {
	database *store.Store
	log      *slog.Logger
	known    atomic.Pointer[store.Durability]
}

// tooManyConnections says that the database allows fewer connections than a process opens at most.
func tooManyConnections(own, allowed int) string {
	return fmt.Sprintf("one process opens up to %d connections, and the database allows its user %d "+
		"for all processes together: raise max_connections "+
		"of the server, or the limit of the role or the database, or lower pool_max_conns in the address", own, allowed)
}

// watch asks the database until ctx is done.
func (l *losses) watch(ctx context.Context) {
	if pooled, direct := l.database.BehindPooler(); pooled && !direct {
		l.log.WarnContext(ctx, poolerWithoutDirect)
	}
	if own, allowed, err := l.database.Connections(ctx); err == nil && own > allowed { // an outage is logged elsewhere
		l.log.WarnContext(ctx, tooManyConnections(own, allowed))
	}
	again := time.NewTicker(lossesEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		if found, err := l.database.Durability(ctx); err == nil { // otherwise the outage is logged elsewhere
			l.note(ctx, found)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// note keeps what was found, and logs a risk that was not there before.
func (l *losses) note(ctx context.Context, found store.Durability) {
	before := l.known.Swap(&found)
	if !found.Known {
		return
	}
	if !found.Failover && (before == nil || before.Failover) {
		l.log.WarnContext(ctx, lostByFailover, "standbys", found.Standbys)
	}
	if !found.Crash && (before == nil || before.Crash) {
		l.log.WarnContext(ctx, lostByCrash)
	}
}

// last returns what the database may lose, for the metrics; nil where it was not asked yet, or has no server.
func (l *losses) last() *telemetry.Durability {
	found := l.known.Load()
	if found == nil || !found.Known {
		return nil
	}
	return &telemetry.Durability{Crash: found.Crash, Failover: found.Failover, Standbys: found.Standbys}
}

// lossesOf returns notes on what the database may lose. indirect: the settings have no address of the server itself.
func lossesOf(ctx context.Context, db *store.Store, indirect bool) (notes []string) {
	if pooled, _ := db.BehindPooler(); pooled && indirect {
		notes = append(notes, poolerWithoutDirect)
	}
	if own, allowed, err := db.Connections(ctx); err == nil && own > allowed {
		notes = append(notes, tooManyConnections(own, allowed))
	}
	found, err := db.Durability(ctx)
	if err != nil {
		return append(notes, "cannot read what the database may lose: "+explained(err))
	}
	if found.Known && !found.Failover {
		notes = append(notes, lostByFailover)
	}
	if found.Known && !found.Crash {
		notes = append(notes, lostByCrash)
	}
	return notes
}
