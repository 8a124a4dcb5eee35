package store

import (
	"database/sql"
	"time"
)

// Pool is the state of a pool of connections to the database.
type Pool struct {
	Name            string
	Used, Idle, Max int
	Waited          time.Duration
}

// Pools returns the state of all pools.
func (s *Store) Pools() (all []Pool) {
	if s.pools == nil {
		return append(poolOf("write", s.write), poolOf("read", s.read)...)
	}
	for i, p := range s.pools.all {
		n := p.Stat()
		all = append(all, Pool{Name: postgresPools[i], Used: int(n.AcquiredConns()), Idle: int(n.IdleConns()),
			Max: int(n.MaxConns()), Waited: n.EmptyAcquireWaitTime()})
	}
	return all
}

// poolOf returns the state of a pool of connections to an SQLite file.
func poolOf(name string, db *sql.DB) []Pool {
	n := db.Stats()
	return []Pool{{Name: name, Used: n.InUse, Idle: n.Idle, Max: n.MaxOpenConnections, Waited: n.WaitDuration}}
}
