package store_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkCountOwned accepts a job of a user with 100,000 jobs, without a quota and with different quotas.
func BenchmarkCountOwned(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 10)
		analyze()
		for name, within := range map[string][]dispatch.Quota{"none": nil, "jobs": {{Live: 1 << 40}},
			"day": {{Daily: 1 << 40}}, "jobs and bytes": {{Live: 1 << 40, Bytes: 1 << 40}}} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, drafts(1), within...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}
