package store

import (
	"slices"
	"testing"
)

// TestIn_HasFewTexts: statements whose lists of values differ in length are few, because each is kept prepared.
func TestIn_HasFewTexts(t *testing.T) {
	texts := map[string]bool{}
	for n := 1; n <= 100; n++ {
		values := make([]int64, n)
		for i := range values {
			values[i] = int64(i)
		}
		var w where
		in(&w, "id", values)
		texts[w.String()] = true
		kept := slices.Compact(slices.Clone(w.args))
		if len(kept) != n || kept[n-1] != int64(n-1) {
			t.Errorf("%d values became %v", n, w.args)
		}
	}
	if len(texts) > 3 {
		t.Errorf("%d texts", len(texts))
	}
}
