package simulator_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestOracle_CountsConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulator.OpenEO{}
		s.Faults.Add(simulator.Fault{Latency: time.Second})
		c := ann(t, s)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.must(200, "GET /jobs", "") })
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if got := s.Oracle.Tally().Accounts["ann"]; got != (simulator.Traffic{Requests: 3, Now: 3, Peak: 3}) {
			t.Errorf("in the middle %+v", got)
		}
		wg.Wait()
		c.must(200, "GET /jobs", "")
		if got := s.Oracle.Tally().Accounts["ann"]; got != (simulator.Traffic{Requests: 4, Now: 0, Peak: 3}) {
			t.Errorf("at the end %+v", got)
		}
	})
}
