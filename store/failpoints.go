//go:build failpoints

package store

import "context"

// ChangeInRanges sets how many jobs of a task one transaction changes at most, and what is called before each
// transaction after the first. Call it before the store is used.
func ChangeInRanges(s *Store, jobs int, before func(context.Context)) {
	s.changeRange, s.beforeRange = jobs, before
}
