package dispatch

import "time"

// ReadWithin is how long reads wait for fresher statuses.
const ReadWithin = 5 * time.Second

// EnterWithin is how long a call waits for others to end, or for a send time.
const EnterWithin = 10 * time.Second

const tokenWithin = 10 * time.Second

// CheckWithin is how long a submitting client waits for the check of its parameters. Parameters that cannot be checked
// in that time are checked when the job is submitted to the platform.
const CheckWithin = 5 * time.Second
