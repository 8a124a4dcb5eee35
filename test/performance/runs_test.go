package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// BenchmarkPerformanceOfRuns compares a synchronous run through the openEO API with one of the broker's own interface,
// on SQLite with the real program.
func BenchmarkPerformanceOfRuns(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings
		{"name": "openeo", "protocol": "openeo", "endpoint": w.OpenEOURL, "access": "open"}})
	known := w.Credentials
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_DATABASE=sqlite:"+filepath.Join(b.TempDir(), "f.db"),
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID, "EODISPATCH_PLATFORMS="+string(platforms))
	b.Cleanup(func() { p.Stop(b) })
	signed := program.SignIn(b, w, p.Address)
	own, d := door{b, signed, ""}, door{b, signed, "/openeo/openeo/1.3"}
	row := newTable(b, "synchronous runs", "measured", "aim")

	arguments := string(program.OpenEO(w).Parameters)
	named := fmt.Sprintf(`{"title": "run", "label": "openeo", "format": "gtiff", "parameters": %s, "service": `+
		`{"endpoint": %q, "application": "ndvi_composite"}}`, arguments, w.OpenEOURL)
	graph := `{"process": {"process_graph": {"run": {"process_id": "ndvi_composite", "arguments": ` + arguments + `},
		"save": {"process_id": "save_result", "arguments": {"data": {"from_node": "run"}, "format": "GTiff"}, "result": true}}}}`
	var through, plain []time.Duration
	for range 200 { // in turn, so that both have the same machine
		plain = append(plain, took(func() { own.send("POST", "/sync_jobs", named, http.StatusOK) }))
		through = append(through, took(func() { d.send("POST", "/result", graph, http.StatusOK) }))
	}
	row("openEO's POST /result, to POST /sync_jobs", fmt.Sprintf("%.2f", ratio(median(through), median(plain))),
		"<= 1.1")
}
