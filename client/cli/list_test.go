package cli

import (
	"iter"
	"testing"
)

// A list that is cut at its limit says so, of tasks as of jobs; one that ends there does not.
func TestFirstOf_TellsThatThereAreMore(t *testing.T) {
	var all iter.Seq2[int, error] = func(yield func(int, error) bool) {
		for n := range 3 {
			if !yield(n, nil) {
				return
			}
		}
	}
	for most, want := range map[int]struct {
		n    int
		more bool
	}{0: {3, false}, 2: {2, true}, 3: {3, false}, 4: {3, false}} {
		n := 0
		more, err := firstOf(all, most, func(int) error { n++; return nil })
		if n != want.n || more != want.more || err != nil {
			t.Errorf("%d at most: %d, more %v, %v", most, n, more, err)
		}
	}
}
