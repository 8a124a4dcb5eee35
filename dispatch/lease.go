package dispatch

import "time"

// ClockJump is how far a store's clock must have been set back before plans are moved. Plans that lie less far ahead
// are not moved.
const ClockJump = 5 * time.Minute

// SkippedIDs is by how many ids a restored store skips ahead: more than can have been assigned since a backup.
const SkippedIDs = 10_000_000

// Room is how many accounts a process can visit now.
type Room struct {
	Platforms map[string]int // accounts of each platform that the process has configured
	Others    int            // accounts of all other platforms together
	// accounts of other platforms are leased only if no process has served the platform for this long
	Unserved time.Duration
}

// Lease is the exclusive right to act for an account until it runs out. The generation changes whenever the account is
// leased or released, so that an old lease renews and releases nothing.
type Lease struct {
	Account    Account
	Generation int64
	Until      time.Time // on the monotonic clock of the process that took it; zero: not known

	// Lapses is how many leases of the account were not released but ran out, each within [LapsesCount] of the one
	// before; 0: the last one ran out longer ago.
	Lapses int
}

// LapsesCount is for how long a lease that ran out counts in [Lease].Lapses.
const LapsesCount = 2 * time.Hour
