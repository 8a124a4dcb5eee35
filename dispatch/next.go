package dispatch

import "time"

// SettleMargin is how long after its deadline a request is left alone before anyone finds out what became of it.
const SettleMargin = 5 * time.Second

// StalledAfter is how long a job that does not move still takes a slot.
const StalledAfter = 6 * time.Hour
