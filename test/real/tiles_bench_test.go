package real

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/metrics"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkPerformanceOfTiles measures POST /tiles, JSON included, and prints a table.
func BenchmarkPerformanceOfTiles(b *testing.B) {
	h := api.New(api.Config{Log: slog.New(slog.DiscardHandler)})
	countries := outlines(b)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tmeasured\taim")

	for _, name := range []string{"United Kingdom", "Norway", "Brazil"} {
		bare := measure(b, 25, func() { cells(b, countries[name]) })
		fmt.Fprintf(table, "tiles of %s, %d positions, %d cells, checked, over HTTP: median\t%v\t\n", name,
			positions(b, countries[name]), cells(b, countries[name]), splitting(b, h, countries[name], 25))
		fmt.Fprintf(table, "the same without HTTP and the JSON of the tiles\t%v\t< 60 ms for 10,000 positions\n", bare)
	}
	africa := splitting(b, h, countries["Africa"], 5)
	fmt.Fprintf(table,
		"tiles of Africa, %d positions, %d cells: median; maximum heap growth\t%v; %.0f MB\t< 1 s; 100 MB\n",
		positions(b, countries["Africa"]), cells(b, countries["Africa"]), africa, float64(africa.heap)/1e6)
	box := json.RawMessage(
		`{"type":"Polygon","coordinates":[[[4.03,49.05],[11.1,49.05],[11.1,52.05],[4.03,52.05],[4.03,49.05]]]}`)
	fmt.Fprintf(table, "areas of %d cells\t%.0f/s\t> 178/s\n", cells(b, box),
		float64(time.Second)/float64(splitting(b, h, box, 200).median))
}

// cost is the time and memory that splitting an area takes.
type cost struct {
	median    time.Duration // wall-clock time, which other load on the machine lengthens
	processor time.Duration // mean CPU time, including garbage collection
	heap      uint64        // maximum growth in bytes
}

func (c cost) String() string {
	return fmt.Sprintf("%v; processor %v", c.median.Round(time.Millisecond/10), c.processor.Round(time.Millisecond/10))
}

// splitting posts an area to /tiles the given number of times, and returns what that costs.
func splitting(b *testing.B, h http.Handler, outline json.RawMessage, times int) cost {
	b.Helper()
	body := fmt.Appendf(nil, `{"grid":"20x20km","aoi":%s}`, outline)
	return measure(b, times, func() {
		r := httptest.NewRequestWithContext(b.Context(), "POST", "/tiles", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		a := &counter{header: http.Header{}}
		h.ServeHTTP(a, r)
		if a.status != http.StatusCreated || a.bytes == 0 {
			b.Fatalf("status %d", a.status)
		}
	})
}

// measure calls do the given number of times, and measures time and heap.
func measure(b *testing.B, times int, do func()) cost {
	b.Helper()
	var took []time.Duration
	before, used := heapBytes(), conformance.CPU(b)
	done, peak := make(chan struct{}), make(chan uint64)
	go func() { peak <- highest(done) }()
	for range times {
		begin := time.Now()
		do()
		took = append(took, time.Since(begin))
	}
	close(done)
	slices.Sort(took)
	return cost{took[len(took)/2], (conformance.CPU(b) - used) / time.Duration(times), max(<-peak, before) - before}
}

// highest samples the heap every millisecond until done is closed, and returns the maximum in bytes.
func highest(done <-chan struct{}) (peak uint64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			peak = max(peak, heapBytes())
		}
	}
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// counter is an http.ResponseWriter that counts the bytes of a response and discards them.
type counter struct {
	header http.Header
	status int
	bytes  int
}

func (c *counter) Header() http.Header         { return c.header }
func (c *counter) WriteHeader(status int)      { c.status = status }
func (c *counter) Write(p []byte) (int, error) { c.bytes += len(p); return len(p), nil }

func cells(b *testing.B, outline json.RawMessage) (n int) {
	b.Helper()
	g, _ := grid.Named("20x20km")
	area, err := grid.ParseWithin(nil, outline)
	if err != nil {
		b.Fatal(err)
	}
	for range g.Tiles(area) {
		n++
	}
	return n
}

func positions(b *testing.B, outline json.RawMessage) (n int) {
	b.Helper()
	var o struct{ Coordinates [][][][2]float64 }
	if err := json.Unmarshal(outline, &o); err != nil {
		b.Fatal(err)
	}
	for _, polygon := range o.Coordinates {
		for _, ring := range polygon {
			n += len(ring)
		}
	}
	return n
}
