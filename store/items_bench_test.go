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

// BenchmarkPerformanceOfItems reads the first page of 100 of searches beside 1,000,000 Items of a user.
func BenchmarkPerformanceOfItems(b *testing.B) {
	const n = 1_000_000
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		store.FillItems(b, s.(*store.Store), "ann", n)
		analyze()
		day := time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
		tile, country := []float64{10.01, 50.01, 10.05, 50.05}, []float64{5, 45, 15, 55}
		month := day.AddDate(0, 1, 0)
		for name, q := range map[string]dispatch.ItemQuery{
			"nothing": {}, "tile": {Box: tile}, "country": {Box: country}, "day": {From: day, To: day},
			"month": {From: day, To: month}, "tile and month": {Box: tile, From: day, To: month},
			"country and month":   {Box: country, From: day, To: month},
			"country and day":     {Box: country, From: day, To: day},
			"south and day":       {Box: []float64{-180, -80, 180, -5}, From: day, To: day},
			"task":                {Tasks: []dispatch.TaskID{50}},
			"task and tile":       {Tasks: []dispatch.TaskID{50}, Box: tile},
			"service and country": {Services: []dispatch.ServiceHash{3}, Box: country},
			"label":               {Labels: map[string]string{"project": "alps"}},
		} {
			q.Limit = 100
			var times []time.Duration
			found := 0
			for range 11 {
				begun := time.Now()
				page, err := s.FindItems(b.Context(), "ann", q)
				if err != nil {
					b.Fatal(err)
				}
				times, found = append(times, time.Since(begun)), len(page.Items)
			}
			slices.Sort(times)
			fmt.Fprintf(os.Stdout, "%s, first page of %d of %d Items by %s: %v (median of 11)\n", b.Name(), found, n,
				name, times[5].Round(10*time.Microsecond))
		}
	})
}
