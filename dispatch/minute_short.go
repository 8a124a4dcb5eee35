//go:build failpoints

package dispatch

import "time"

// minute in a build that dies on demand.
const minute = time.Second
