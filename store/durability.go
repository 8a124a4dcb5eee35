package store

import "context"

// Durability is what a commit of the database outlives, by the server's settings at present.
type Durability struct {
	Known    bool // false on SQLite, whose file is on one disk
	Crash    bool // of the server or its machine
	Failover bool // the loss of the server: a standby confirms each commit, or none is connected that could take over
	Standbys int  // servers that receive the changes at present
}

// askDurability asks for settings of PostgreSQL.
const askDurability = `SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off',
	current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply'),
	(SELECT count(*) FROM pg_stat_replication)`

// Durability asks the server what its commits outlive.
func (s *Store) Durability(ctx context.Context) (d Durability, err error) {
	if !s.remote {
		return d, nil
	}
	d.Known = true
	var synchronous bool
	err = s.read.QueryRowContext(ctx, askDurability).Scan(&d.Crash, &synchronous, &d.Standbys)
	d.Failover = synchronous || d.Standbys == 0
	return d, fail("Durability", err)
}
