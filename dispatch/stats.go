package dispatch

import "time"

// Stats is what metrics show of the database.
type Stats struct {
	Platforms []PlatformStats
	Hooks     HookStats
	// tasks whose unfinished jobs are not started for now, by reason; Paused: their owner paused them
	Limited map[Attention]int
}

// HookStats is what waits to be sent to hooks.
type HookStats struct {
	Waiting int           // deliveries that are not over
	Oldest  time.Duration // since the delivery that waits longest was to be sent; 0: none waits
	// since the delivery that waits longest for a process was due; 0: none waits. Those to paused receivers are not due
	Lag    time.Duration
	Paused int // hooks to which nothing is sent for a while, because their receiver accepts nothing
}

// PlatformStats is what the database holds of one platform.
type PlatformStats struct {
	Platform  string
	Waiting   int               // jobs that wait for a slot
	Held      map[Status]int    // jobs that hold a slot
	Ended     int               // jobs that have ended and are still stored
	Attention map[Attention]int // jobs that hold a slot and have an attention
	Holds     map[Attention]int // accounts that are held, by reason
	Accounts  int               // accounts with unfinished jobs
	Oldest    time.Duration     // since the acceptance of the waiting job that was accepted first; 0: none waits
	Lag       time.Duration     // since the account that waits longest for a visit was due; 0: none waits

	Answered, Failed time.Time // when the platform last answered, and when it last failed to answer
}
