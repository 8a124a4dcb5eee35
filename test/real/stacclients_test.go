package real

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestSTAC_Clients: pystac-client, odc-stac and rclone read what a task of 500 made at a platform that needs the user's
// token, on both databases, and so do the requests of QGIS' STAC browser. Nothing leads them to the platform.
func TestSTAC_Clients(t *testing.T) {
	for name, database := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w, err := simulator.Start(simulator.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			w.OpenEO.SetLife(simulator.Life{Run: 100 * time.Millisecond})
			address, known := executable.FreeAddress(t), w.Credentials
			p := program.Start(t, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_LISTEN="+address,
				"EODISPATCH_PUBLIC_URL=http://"+address, "EODISPATCH_DATABASE="+database(t),
				"EODISPATCH_VAULT_KEYS=k:"+base64.StdEncoding.EncodeToString(make([]byte, 32)),
				"EODISPATCH_IDENTITY_ISSUER="+known.Issuer, "EODISPATCH_IDENTITY_CLIENT_ID="+known.BrokerID,
				"EODISPATCH_IDENTITY_CLIENT_SECRET="+known.BrokerSecret, fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "eo",
				"protocol": "openeo", "endpoint": %q, "access": "user", "assets": "proxy", "issuer": %q,
				"limits": {"jobs": 50, "requests": 8}, "exchange": {"driver": "keycloak-broker", "alias": %q}}]`,
					w.OpenEOURL, known.Platform, simulator.PlatformAlias))
			defer p.Stop(t)
			alice := program.SignIn(t, w, p.Address)
			task := taskOf500(t, w, alice)
			var found foundByClients
			judge(t, "stac-clients", "stac_clients.py", map[string]any{"address": p.Address, "token": alice.Token,
				"collection": fmt.Sprintf("task-%d", task), "box": []float64{5, 50, 7.5, 52}}, &found)
			found.check(t, task)
			for _, secret := range []string{w.OpenEOURL, "Bearer", alice.Token} {
				if strings.Contains(found.Text, secret) {
					t.Errorf("Items have %.40s", secret)
				}
			}
			for _, href := range found.Hrefs {
				if !strings.HasPrefix(href, p.Address+"/files/") {
					t.Fatalf("a link leads to %s", href)
				}
			}
			rclone(t, found.Hrefs[0])
		})
	}
}

// foundByClients is what the clients found: numbers of ids, and of different ones.
type foundByClients struct {
	Post, Get, Corner, Earlier, Collection, Label [2]int

	Collections []string
	Browsed     [2]int `json:"qgis items"`
	Searched    [2]int `json:"qgis search"`
	Queried     [2]int `json:"qgis query"`
	Cube        []float64
	Text        string
	Hrefs       []string
}

func (f foundByClients) check(t *testing.T, task int64) {
	t.Helper()
	all := [2]int{500, 500}
	for name, got := range map[string][2]int{"POST": f.Post, "GET": f.Get, "the Collection": f.Collection,
		"label": f.Label, "QGIS, the Collection": f.Browsed, "QGIS, POST": f.Searched, "QGIS, GET": f.Queried} {
		if got != all {
			t.Errorf("%s: %v ids", name, got)
		}
	}
	if f.Corner[0] == 0 || f.Corner[0] > 9 || f.Earlier[0] != 0 || len(f.Collections) != 3 ||
		f.Collections[2] != fmt.Sprintf("task-%d", task) {
		t.Errorf("corner %v, earlier %v, collections %v", f.Corner, f.Earlier, f.Collections)
	}
	if len(f.Cube) != 4 || f.Cube[0] != 4 || f.Cube[1] != 4 || f.Cube[2] == 0 || f.Cube[3] <= 0 {
		t.Errorf("odc-stac loads %v", f.Cube)
	}
}

// taskOf500 runs a task of 500 tiles of a tenth of a degree, and waits until its results were read.
func taskOf500(t *testing.T, w *simulator.World, alice program.Client) int64 {
	t.Helper()
	r := program.OpenEO(w)
	r.Parameters = json.RawMessage(`{"temporal_extent": ` + program.Span + `}`)
	d := dispatch.Dimension{Name: "spatial_extent"}
	for i := range 500 {
		west, south := 50+i%25, 500+i/25
		d.Values = append(d.Values, fmt.Appendf(nil, `{"west": %d.%d, "south": %d.%d, "east": %d.%d9, "north": %d.%d9}`,
			west/10, west%10, south/10, south%10, west/10, west%10, south/10, south%10))
	}
	task, err := alice.Upscale(t.Context(), r, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := alice.Call(t.Context(), http.MethodPatch, fmt.Sprintf("/upscale_tasks/%d", task.ID),
		[]byte(`{"labels": {"project": "alps"}}`), &struct{}{}); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	last := fmt.Sprintf("/stac/search?collections=task-%d&limit=100&token=", task.ID)
	for deadline := time.After(4 * time.Minute); ; {
		n, token := 0, ""
		for {
			var page struct {
				Features []struct{}
				Links    []struct{ Rel, Href string }
			}
			if err := alice.Call(t.Context(), http.MethodGet, last+token, nil, &page); err != nil {
				t.Fatal(err)
			}
			n, token = n+len(page.Features), ""
			for _, l := range page.Links {
				if l.Rel == "next" {
					_, token, _ = strings.Cut(l.Href, "token=")
				}
			}
			if token == "" {
				break
			}
		}
		if n == 500 {
			return task.ID
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%d results were read", n)
		}
	}
}

// rclone copies a file by its link, whole, and through its HTTP backend, which asks for HEAD and ranges.
func rclone(t *testing.T, href string) {
	t.Helper()
	path := installed.Program(t, "rclone")
	folder, cut := t.TempDir(), strings.LastIndex(href, "/")
	for _, args := range [][]string{{"copyurl", href, filepath.Join(folder, "a")},
		{"copyto", ":http:" + href[cut+1:], filepath.Join(folder, "b"), "--http-url", href[:cut]},
		{"copyto", ":http:" + href[cut+1:], filepath.Join(folder, "c"), "--http-url", href[:cut],
			"--multi-thread-cutoff", "1k", "--multi-thread-streams", "4"}} {
		if out, err := exec.CommandContext(t.Context(), path, append(args, "--config", filepath.Join(folder,
			"none"))...).CombinedOutput(); err != nil {
			t.Errorf("rclone %v: %v %s", args, err, out)
		}
	}
	a, _ := os.ReadFile(filepath.Join(folder, "a"))
	for _, name := range []string{"b", "c"} {
		if other, err := os.ReadFile(filepath.Join(folder, name)); err != nil || len(a) == 0 || !bytes.Equal(a, other) {
			t.Errorf("%d bytes by copyurl, %d by HTTP: %v", len(a), len(other), err)
		}
	}
}
