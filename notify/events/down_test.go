package events_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// outcome is what became of a receiver that was down for an hour.
type outcome struct {
	tries  int   // while it was down
	growth int64 // of the heap meanwhile, in bytes
}

// downForAnHour ends all jobs, some twice, while their receiver is down, and has it up again after an hour: every
// message must arrive, those of one job in their order. The hour passes in steps of a clock.
func (o *outbox) downForAnHour(steps int) (found outcome) {
	o.Helper()
	r := newReceiver(o)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	h := o.hook("ann", r.URL)
	twice := o.jobs[:len(o.jobs)/10]
	o.end(twice, dispatch.Failed)
	for i := range twice {
		twice[i] = twice[i].Retry(o.clock.Now())
	}
	saved, err := o.kept.Save(o.Context(), twice)
	if err != nil || len(saved) != len(twice) {
		o.Fatal(len(saved), err)
	}
	copy(twice, saved)
	before := heap()
	o.end(o.jobs, dispatch.Finished)
	stop := o.run()
	for n := range steps {
		o.awaitFailures(h, n+1)
		o.clock.pass(time.Hour / time.Duration(steps))
	}
	o.awaitFailures(h, steps+1)
	found = outcome{tries: len(r.received()), growth: int64(heap()) - int64(before)}
	stop()
	r.answers(nil)
	o.clock.pass(2 * time.Hour)
	o.run()
	want := len(o.jobs) + len(twice)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	arrived := map[string]int{}
	for end := time.Now().Add(5 * time.Minute); len(arrived) < want; <-again.C {
		if arrived = arrivedSince(r, found.tries); time.Now().After(end) {
			o.Fatalf("%d of %d arrived", len(arrived), want)
		}
	}
	o.awaitState(h, dispatch.DeliveryDone)
	for _, j := range twice {
		failed, finished := arrived[firstWith(arrived, fmt.Sprintf("job-%d-", j.ID), "-failed")],
			arrived[firstWith(arrived, fmt.Sprintf("job-%d-", j.ID), "-finished")]
		if failed == 0 || finished == 0 || failed > finished {
			o.Fatalf("job %d: failed at %d, finished at %d", j.ID, failed, finished)
		}
	}
	return found
}

// awaitFailures waits until so many rounds to a hook have failed.
func (o *outbox) awaitFailures(h dispatch.Hook, n int) {
	o.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		now, err := o.kept.Hook(o.Context(), h.Owner, h.ID)
		switch {
		case err != nil || time.Now().After(end):
			o.Fatal(now.Failures, err)
		case now.Failures >= n:
			return
		}
	}
}

// arrivedSince returns the place of the first arrival of each message after so many requests, from 1 on.
func arrivedSince(r *receiver, requests int) map[string]int {
	all := map[string]int{}
	for i, id := range r.received()[requests:] {
		if all[id] == 0 {
			all[id] = i + 1
		}
	}
	return all
}

// firstWith returns a message whose id begins and ends with a text.
func firstWith(arrived map[string]int, prefix, suffix string) string {
	for id := range arrived {
		if strings.HasPrefix(id, prefix) && strings.HasSuffix(id, suffix) {
			return id
		}
	}
	return ""
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSender_DownForAnHour: see downForAnHour; make bench does it with 10,000 ends.
func TestSender_DownForAnHour(t *testing.T) {
	found := newOutbox(t, 150).downForAnHour(3)
	if found.tries > round+10 {
		t.Errorf("a receiver that is down got %d messages", found.tries)
	}
}

// round is how many deliveries are sent at most before the sender notices that a receiver is down.
const round = 64

// BenchmarkPerformanceOfHooks prints what 10,000 messages cost: to a receiver that is down for an hour, and to a fast
// one.
func BenchmarkPerformanceOfHooks(b *testing.B) {
	const n = 10_000
	b.Run("SQLite, down for an hour", func(b *testing.B) {
		found := newOutbox(b, n).downForAnHour(12)
		b.ReportMetric(float64(found.tries), "tries-while-down")
		b.ReportMetric(float64(found.growth)/1e6, "MB-growth")
	})
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(b.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(b) },
	} {
		b.Run(name+", a fast receiver", func(b *testing.B) { newOutboxIn(b, database(), n).fast(b) })
	}
}

// fast measures deliveries to a receiver that answers at once. The CPU time includes that of the receiver.
func (o *outbox) fast(b *testing.B) {
	r := newReceiver(b)
	o.hook("ann", r.URL)
	for some := range slices.Chunk(o.jobs, 1000) {
		o.end(some, dispatch.Finished)
	}
	begun, used := time.Now(), conformance.CPU(b)
	stop := o.run()
	r.await(b, len(o.jobs))
	stop()
	took := time.Since(begun)
	b.ReportMetric(float64(len(o.jobs))/took.Seconds(), "deliveries/s")
	b.ReportMetric((conformance.CPU(b)-used).Seconds()*1e6/float64(len(o.jobs)), "CPU-us/delivery")
	if all := strings.Join(r.received(), " "); strings.Count(all, "finished") != len(o.jobs) {
		b.Errorf("%d messages", strings.Count(all, "finished"))
	}
}
