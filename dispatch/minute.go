//go:build !failpoints

package dispatch

import "time"

// minute is the unit of all that is waited for long: looks at what is in doubt, pauses, what is given up. A build for
// tests shortens it, and nothing else: what a request, a lease and a margin take stays as it is.
const minute = time.Minute
