package store_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkPerformanceOfPages reads the first page of 100 of 1,000,000 ended jobs of a user: all, and those selected by
// a status, a label, a platform, or two of these. 1 in 100 failed, 1 in 1,000 has the label, and 1 in 10 ran at the
// platform.
func BenchmarkPerformanceOfPages(b *testing.B) {
	const jobs, atOnce = 1_000_000, 10_000
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		for range jobs / atOnce / 10 {
			for platform := range 10 {
				endAtOnce(b, s, dispatch.Account(fmt.Sprintf("p%d/shared", platform)), atOnce)
			}
		}
		analyze()
		label := dispatch.LabelMatch{Key: "project", Value: "alps"}
		failed, at := []dispatch.Status{dispatch.Failed}, []dispatch.Account{"p3/shared"}
		for name, page := range map[string]dispatch.Page{
			"all": {}, "status": {Statuses: failed}, "label": {Label: label}, "platform": {Accounts: at},
			"status and platform": {Statuses: failed, Accounts: at},
			"label and status":    {Label: label, Statuses: failed},
		} {
			page.Limit, page.Most = 101, dispatch.PartMost
			var times []time.Duration
			before := conformance.CPU(b)
			for range 21 {
				begun := time.Now()
				if _, err := s.Records(b.Context(), "ann", page); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begun))
			}
			slices.Sort(times)
			fmt.Fprintf(os.Stdout, "%s, first page of 100 of %d jobs by %s: %v (median of 21), %v of CPU\n", b.Name(),
				jobs, name, times[10].Round(10*time.Microsecond), ((conformance.CPU(b) - before) / 21).Round(10*
					time.Microsecond))
		}
	})
}

// endAtOnce accepts jobs of no task that have ended at an account.
func endAtOnce(b *testing.B, s conformance.Store, a dispatch.Account, n int) {
	b.Helper()
	jobs := drafts(n)
	for i := range jobs {
		j := &jobs[i]
		j.Owner, j.Account, j.Phase, j.Status = "ann", a, dispatch.Ended, dispatch.Finished
		j.Body = []byte(`{"title":"NDVI, June","label":"openeo","format":"gtiff","parameters":{}}`)
		if i%100 == 0 {
			j.Status = dispatch.Failed
		}
		if i%1000 == 0 {
			j.Annotations.Labels = map[string]string{"project": "alps"}
		}
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, jobs); err != nil {
		b.Fatal(err)
	}
}
