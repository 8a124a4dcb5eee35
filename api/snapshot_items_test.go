package api

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// Items that share what has not changed are those of a map in which all of it is replaced, and earlier ones stay as
// they were.
func TestItems_ShareWhatHasNotChanged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	is, want := newItems(), map[itemID]item{}
	for id := range int64(1000) {
		is.put(itemID{id: id}, item{digest: uint64(id)})
		want[itemID{id: id}] = item{digest: uint64(id)}
	}
	shared := 0
	for n := range 500 {
		was, before := is, maps.Clone(want)
		changed := newItems()
		for range 1 + random.IntN(3) {
			id := itemID{id: random.Int64N(1000)}
			changed.put(id, item{digest: uint64(1000 + n)})
			want[id] = item{digest: uint64(1000 + n)}
		}
		if is = was.with(changed); is.newer != nil {
			shared++
		}
		if !maps.Equal(maps.Collect(is.all()), want) || !maps.Equal(maps.Collect(was.all()), before) {
			t.Fatalf("change %d: the items differ", n)
		}
		if d := compare(was, is); len(d.jobs) != len(changed.most) || len(d.removedJobs) > 0 {
			t.Fatalf("change %d: %v changed, not %v", n, d.jobs, changed.most)
		}
	}
	if shared < 450 {
		t.Errorf("%d of 500 changes shared the items", shared)
	}
}

// BenchmarkItems replaces one of 10,000 items.
func BenchmarkItems(b *testing.B) {
	is := newItems()
	for id := range int64(10_000) {
		is.put(itemID{id: id}, item{digest: uint64(id)})
	}
	b.ReportAllocs()
	for n := range int64(b.N) {
		changed := newItems()
		changed.put(itemID{id: n % 10_000}, item{digest: uint64(n)})
		is = is.with(changed)
	}
}
