package real

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const peersJobs = 100

// BenchmarkPerformanceOfPeers starts 100 jobs at an openEO platform 40 ms away over TLS: as a task of the broker, and
// directly by the job manager of openEO's Python client and by a loop over a session of requests.
func BenchmarkPerformanceOfPeers(b *testing.B) {
	python := filepath.Join(environment(b, "openeo-0.53"), "bin", "python")
	platform := &simulator.OpenEO{Open: true, Life: simulator.Life{Run: 10 * time.Minute}}
	server := httptest.NewTLSServer(platform)
	b.Cleanup(server.Close)
	far, err := simulator.Distant(server.Listener.Addr().String(), 40*time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { far.Close() })
	url, authority := "https://"+far.Addr().String(), filepath.Join(b.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		b.Fatal(err)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "100 jobs at an openEO platform 40 ms away\tuntil all have started")
	started := func() int { return platform.Oracle.Sum().Starts }
	until := func(n int) {
		for end := time.Now().Add(5 * time.Minute); started() < n; <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				b.Fatalf("%d of %d jobs started", started(), n)
			}
		}
	}
	for _, peer := range []struct {
		name  string
		begin func()
	}{
		{"a task of the broker", brokersTask(b, url, authority)},
		{"a loop over a session of requests", script(b, python, "peers_session.py", url, authority)},
		{"MultiBackendJobManager", script(b, python, "peers_manager.py", url, authority)},
	} {
		before, begin := started(), time.Now()
		peer.begin()
		if peer.name != "a task of the broker" {
			begin = time.Now() // without the imports of Python
		}
		until(before + peersJobs)
		fmt.Fprintf(table, "%s\t%v\n", peer.name, time.Since(begin).Round(time.Millisecond))
	}
}

// brokersTask starts a broker, and returns what submits the task.
func brokersTask(b *testing.B, url, authority string) (begin func()) {
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	p := executable.Start(b, executable.Released, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+
		w.Credentials.Issuer, "EODISPATCH_IDENTITY_AUDIENCE="+w.Credentials.BrokerID, "SSL_CERT_FILE="+authority,
		fmt.Sprintf(
			`EODISPATCH_PLATFORMS=[{"name": "far", "protocol": "openeo", "endpoint": %q, "access": "open", "limits": {"jobs": 1000}}]`, url))
	box := json.RawMessage(`{"west": 5, "south": 51, "east": 5.1, "north": 51.1}`)
	// cannot fail: only strings
	body, _ := json.Marshal(map[string]any{"title": "peers", "label": "openeo", "format": "json",
		"service":    map[string]any{"endpoint": url, "application": "ndvi_composite"},
		"parameters": map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"}},
		"dimension": map[string]any{"name": "spatial_extent",
			"values": slices.Repeat([]json.RawMessage{box}, peersJobs)}})
	token := w.IdP.Mint(simulator.BrokerRealm, "alice", w.Credentials.Client, simulator.TokenFaults{})
	return func() {
		r, err := http.NewRequest(http.MethodPost, p.Address+"/upscale_tasks", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusCreated {
			b.Fatal(response.Status)
		}
	}
}

// script returns what starts a script of clients, and returns once it has said that it begins. It is killed at the end.
func script(b *testing.B, python, name, url, authority string) (begin func()) {
	path, err := filepath.Abs(filepath.Join("clients", name))
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		cmd := exec.Command(python, path, url, fmt.Sprint(peersJobs))
		cmd.Dir, cmd.Stderr = b.TempDir(), os.Stderr
		cmd.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+authority, "PYTHONDONTWRITEBYTECODE=1")
		said, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill() // fails if it has ended
			_ = cmd.Wait()
		})
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "begin\n" {
			b.Fatal(line, err)
		}
	}
}
