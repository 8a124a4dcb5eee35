package cli

import "time"

// SetAreaTime sets how long a file with an area is read, until the returned function is called.
func SetAreaTime(d time.Duration) (restore func()) {
	before := areaWithin
	areaWithin = d
	return func() { areaWithin = before }
}
