package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkReads reads ended jobs of a user from SQLite: one, a page of 100, and a page of a task.
func BenchmarkReads(b *testing.B) {
	s := open(b, "sqlite:"+filepath.Join(b.TempDir(), "d.db"), conformance.NewStillClock(start))
	ended := drafts(1000)
	for i := range ended {
		ended[i].Phase, ended[i].Status = dispatch.Ended, dispatch.Finished
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, ended); err != nil {
		b.Fatal(err)
	}
	owner := ended[0].Owner
	page := dispatch.Page{Limit: 101, Statuses: []dispatch.Status{dispatch.Finished}, Most: -1}
	whole := page
	whole.Most = dispatch.PartMost
	records, err := s.Records(b.Context(), owner, whole)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, s, 1) // its task is the first
	read := func(what string, f func() error) {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			before := conformance.CPU(b)
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((conformance.CPU(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
	read("one", func() error { _, err := s.Record(b.Context(), owner, records[0].ID); return err })
	read("places of 100", func() error { return enough(s.Records(b.Context(), owner, page)) })
	read("100", func() error { return enough(s.Records(b.Context(), owner, whole)) })
	read("task of 10,000", func() error { // in parts, as the broker reads it
		for after := int64(0); after < 10_000; after += 250 {
			if err := enough(s.TaskJobs(b.Context(), "ann", 1,
				dispatch.Page{After: dispatch.Place{ID: after}, Limit: 250, Most: dispatch.PartMost})); err != nil {
				return err
			}
		}
		return nil
	})
}

func enough(records []dispatch.Record, err error) error {
	if err == nil && len(records) < 100 {
		err = fmt.Errorf("%d records", len(records))
	}
	return err
}
