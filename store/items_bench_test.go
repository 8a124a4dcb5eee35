package store_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkPerformanceOfItems reads pages of 100 of searches beside 1,000,000 Items of a user: the first, and one after
// many.
func BenchmarkPerformanceOfItems(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		store.FillItems(b, s.(*store.Store), "ann", 1_000_000)
		analyze()
		day := time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
		tile, country := []float64{10.01, 50.01, 10.05, 50.05}, []float64{5, 45, 15, 55}
		month := day.AddDate(0, 1, 0)
		earth, alps := []float64{-180, -90, 180, 90}, map[string]string{"project": "alps"}
		yes := map[string]string{"all": "yes"}
		tasks := []dispatch.TaskID{50}
		for _, each := range []struct {
			name string
			q    dispatch.ItemQuery
		}{
			{"nothing", dispatch.ItemQuery{}}, {"tile", dispatch.ItemQuery{Box: tile}},
			{"country", dispatch.ItemQuery{Box: country}}, {"the Earth", dispatch.ItemQuery{Box: earth}},
			{"day", dispatch.ItemQuery{From: day, To: day}}, {"month", dispatch.ItemQuery{From: day, To: month}},
			{"tile and month", dispatch.ItemQuery{Box: tile, From: day, To: month}},
			{"country and month", dispatch.ItemQuery{Box: country, From: day, To: month}},
			{"country and day", dispatch.ItemQuery{Box: country, From: day, To: day}},
			{"south and day", dispatch.ItemQuery{Box: []float64{-180, -80, 180, -5}, From: day, To: day}},
			{"task", dispatch.ItemQuery{Tasks: tasks}}, {"task and tile", dispatch.ItemQuery{Tasks: tasks, Box: tile}},
			{"service and country", dispatch.ItemQuery{Services: []dispatch.ServiceHash{3}, Box: country}},
			{"label of few", dispatch.ItemQuery{Labels: alps}}, {"label of all", dispatch.ItemQuery{Labels: yes}},
			{"label of none", dispatch.ItemQuery{Labels: map[string]string{"project": "x"}}},
			{"label of few and country", dispatch.ItemQuery{Labels: alps, Box: country}},
			{"label of all and tile", dispatch.ItemQuery{Labels: yes, Box: tile}},
			{"label of few and day", dispatch.ItemQuery{Labels: alps, From: day, To: day}},
		} {
			each.q.Limit = 100
			measurePage(b, s, each.name, "first", each.q)
			each.q.Limit = 20_000
			page, err := s.FindItems(b.Context(), "ann", each.q)
			if err != nil {
				b.Fatal(err)
			}
			if each.q.Limit, each.q.After = 100, page.Next; page.Next != "" {
				measurePage(b, s, each.name, "a deep", each.q)
			}
		}
		measure(b, "what 20 tasks cover", func() int {
			twenty := make([]dispatch.TaskID, 20)
			for i := range twenty {
				twenty[i] = dispatch.TaskID(30 + i)
			}
			found, err := s.ItemExtents(b.Context(), "ann", twenty)
			if err != nil {
				b.Fatal(err)
			}
			return len(found)
		})
	})
}

func measurePage(b *testing.B, s conformance.Store, name, which string, q dispatch.ItemQuery) {
	b.Helper()
	measure(b, which+" page by "+name, func() int {
		page, err := s.FindItems(b.Context(), "ann", q)
		if err != nil {
			b.Fatal(err)
		}
		return len(page.Items)
	})
}

// measure prints how long f takes, which returns how much it has found.
func measure(b *testing.B, name string, f func() int) {
	b.Helper()
	var times []time.Duration
	found := 0
	for range 11 {
		begun := time.Now()
		found = f()
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	fmt.Fprintf(os.Stdout, "%s, %s, %d found: %v (median of 11)\n", b.Name(), name, found,
		times[5].Round(10*time.Microsecond))
}
