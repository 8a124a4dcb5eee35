package store_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestDurability_SaysWhatCommitsOutlive(t *testing.T) {
	t.Parallel()
	primary := postgres.NewServer(t)
	// The servers of tests run without fsync, so a crash of the machine loses commits.
	for _, step := range []struct {
		name string
		do   func()
		want store.Durability
	}{
		{"alone", func() {}, store.Durability{Known: true, Failover: true}},
		{"with a standby that confirms nothing", func() { primary.NewStandby(t) }, store.Durability{Known: true,
			Standbys: 1}},
		{"with one that confirms commits", func() { primary.Synchronous(t) },
			store.Durability{Known: true, Failover: true, Standbys: 1}},
		{"with sessions that do not wait for it",
			func() { postgres.Exec(t, primary.URL, "ALTER ROLE postgres SET synchronous_commit = local") },
			store.Durability{Known: true, Standbys: 1}},
	} {
		step.do()
		s := open(t, primary.URL, nil) // a role's settings are those of new sessions
		got, err := s.Durability(t.Context())
		if err != nil || got != step.want {
			t.Errorf("%s: %+v, %v, want %+v", step.name, got, err, step.want)
		}
	}
}
