// Package clients runs clients of others against the real program: the lines of docs/clients.md, and what else these
// clients ask for.
package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/test/documents"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestMain(m *testing.M) {
	code := m.Run()
	executable.CleanUp()
	os.Exit(code)
}

// folderOf returns the folder of programs or packages that install.sh installs. Without it the test is skipped; in CI
// it fails.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	text, err := exec.Command("bash", "../install.sh", "--bin", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := strings.TrimSpace(string(text))
	if _, err := os.Stat(folder); err != nil {
		installed.Missing(t, name, "test/real/install.sh "+name)
	}
	return folder
}

const clientsPage = "docs/clients.md"

// platforms starts simulated platforms.
func platforms(t *testing.T) *simulator.World {
	t.Helper()
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// serve starts simulated platforms of both protocols and the program, and signs a user in.
func serve(t *testing.T) (given map[string]any) {
	t.Helper()
	w, second := platforms(t), platforms(t)
	return serveFor(t, w,
		fmt.Sprintf("platforms:\n- {name: simulated-openeo, protocol: openeo, endpoint: %s, access: open, assets: "+
			"proxy}\n- {name: second, protocol: openeo, endpoint: %s, access: open}\n"+
			"- {name: ogc, protocol: ogc-api-processes, endpoint: %s, access: open}\n"+
			"services:\n- {id: ndvi_composite, title: Composite, platform: second, application: ndvi_composite}\n- "+
			"{id: ndvi_scene, title: NDVI, platform: ogc, application: ndvi}\n",
			w.OpenEOURL, second.OpenEOURL, w.OGCURL))
}

// serveFor starts the program with the identity provider of a world and the given platforms, and signs a user in.
func serveFor(t *testing.T, w *simulator.World, platforms string) (given map[string]any) {
	t.Helper()
	known := w.Credentials
	file := filepath.Join(t.TempDir(), "broker.yaml")
	text := fmt.Sprintf(
		"development: true\nfreshness: 500ms\ndatabase: sqlite:%s/eodispatch.db\nidentity: {issuer: %s, client_id: "+
			"%s, openeo_client: %s}\n", filepath.Dir(file), known.Issuer, known.BrokerID, known.Client) + platforms
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := executable.Start(t, executable.Released, "EODISPATCH_CONFIG="+file)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return map[string]any{"broker": p.Address, "token": tokenOf(t, known), "client": known.Client,
		"issuer": known.Issuer, "user": known.User, "password": known.Password}
}

// tokenOf signs a user in and returns the access token.
func tokenOf(t *testing.T, known simulator.Credentials) string {
	t.Helper()
	a, err := http.PostForm(known.Issuer+"/protocol/openid-connect/token",
		url.Values{"grant_type": {"password"}, "client_id": {known.Client}, "username": {known.User},
			"password": {known.Password}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var signedIn struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(a.Body).Decode(&signedIn); err != nil || signedIn.Token == "" {
		t.Fatalf("sign-in: %s, %v", a.Status, err)
	}
	return signedIn.Token
}

// run runs a program in an empty folder with JSON as its input and decodes what it prints.
func run(t *testing.T, given any, into any, name string, args ...string) {
	t.Helper()
	input, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), name, args...)
	var faults bytes.Buffer
	c.Dir, c.Stdin, c.Stderr = t.TempDir(), bytes.NewReader(input), &faults
	// where clients look for settings
	c.Env = append(os.Environ(), "HOME="+c.Dir, "XDG_CONFIG_HOME="+c.Dir, "XDG_DATA_HOME="+c.Dir)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &faults)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, &faults)
	}
}

func source(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenEO_Python(t *testing.T) {
	const newest = "openeo-0.53"
	for _, version := range []string{newest, "openeo-0.27"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			python := folderOf(t, version) + "/python"
			given := serve(t)
			given["lines"] = documents.Blocks(t, clientsPage, "### openEO Python client", "python")
			given["manager"] = strings.Replace(documents.Block(t, clientsPage, "### MultiBackendJobManager", "python"),
				`"simulated-openeo"]`, `"simulated-openeo", "second"]`, 1)
			var found struct {
				Version, Status, Issuer, Client, User, Described, Asset string
				Collections, Files, Own, Versions                       []string
				Faults                                                  []any
				Processes, Jobs, Logs, Head, Ranged                     int
				WithOwn                                                 string `json:"with_own"`
				Service                                                 string
				Services                                                []string
				Managed                                                 map[string]int
				Now                                                     string
				Total                                                   float64
			}
			run(t, given, &found, python, source(t, "use_openeo.py"))
			if found.Status != "finished" || found.WithOwn != "finished" || len(found.Files) == 0 || found.Jobs != 2 ||
				found.Logs == 0 || !strings.HasPrefix(found.Asset, given["broker"].(string)) ||
				found.Head != http.StatusOK || found.Ranged != http.StatusPartialContent {
				t.Errorf("jobs: %+v", found)
			}
			if !slices.Equal(found.Versions, []string{"1.2.0", "1.3.0"}) {
				t.Errorf("by the URL: versions %v", found.Versions)
			}
			if found.Now != "49492a00" || found.Total != 3.5 { // a TIFF file
				t.Errorf("at once: %q, %v", found.Now, found.Total)
			}
			if found.Service != "finished" || !slices.Equal(found.Services, []string{"ndvi_composite", "ndvi_scene"}) {
				t.Errorf("services: %+v", found)
			}
			first, second := found.Managed["simulated-openeo finished"], found.Managed["second finished"]
			if version == newest && (first == 0 || second == 0 || first+second != 50) {
				t.Errorf("50 rows of a job manager: %v", found.Managed)
			}
			if found.User == "" || found.Client != given["client"] || found.Issuer != given["issuer"] {
				t.Errorf("sign-in: %+v", found)
			}
			if len(found.Collections) != 2 || found.Described != "SENTINEL2_L2A" || found.Processes < 10 ||
				len(found.Own) != 1 || len(found.Faults) != 0 {
				t.Errorf("discovery: %+v", found)
			}
		})
	}
}

// TestOpenEO_PythonWithoutAnOpenEOPlatform: where all platforms speak OGC API - Processes, the client runs their
// services by the lines of the document.
func TestOpenEO_PythonWithoutAnOpenEOPlatform(t *testing.T) {
	t.Parallel()
	python := folderOf(t, "openeo-0.53") + "/python"
	w := platforms(t)
	given := serveFor(t, w,
		fmt.Sprintf("platforms:\n- {name: ogc, protocol: ogc-api-processes, endpoint: %s, access: open}\n"+
			"services:\n- {id: ndvi_scene, title: NDVI, platform: ogc, application: ndvi}\n", w.OGCURL))
	given["lines"] = documents.Blocks(t, clientsPage, "### openEO Python client", "python")[2]
	var found struct {
		Status, User                     string
		Collections, Processes, Services []string
		Files, Jobs                      int
	}
	run(t, given, &found, python, source(t, "use_services.py"))
	if found.Status != "finished" || found.User == "" || len(found.Collections) != 0 ||
		!slices.Equal(found.Services, []string{"ndvi_scene"}) || found.Files == 0 || found.Jobs != 1 {
		t.Errorf("%+v", found)
	}
}

// TestOpenEO_NotebookWithOneLineChanged: a script that ran at a platform sees the same through the broker, where only
// its URL differs.
func TestOpenEO_NotebookWithOneLineChanged(t *testing.T) {
	t.Parallel()
	python := folderOf(t, "openeo-0.53") + "/python"
	w := platforms(t)
	given := serveFor(t, w, fmt.Sprintf("platforms:\n- {name: cdse, protocol: openeo, endpoint: %s, access: open}\n",
		w.OpenEOURL))
	var seen []any
	run(t, map[string]any{"urls": []string{w.OpenEOURL, given["broker"].(string) + "/openeo/cdse/1.2"},
		"token": given["token"]}, &seen, python, source(t, "notebook.py"))
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("at the platform and through the broker:\n%s", diff)
	}
}

func TestOpenEO_JavaScript(t *testing.T) {
	folder := folderOf(t, "javascript")
	given := serve(t)
	given["lines"] = documents.Block(t, clientsPage, "### openEO JavaScript client", "js")
	given["modules"] = folder + "/node_modules/"
	var found struct {
		Version, Status, User, Absent        string
		Collections, Processes, Jobs, Assets int
		Formats, Runtimes, Options           int
		Logs, Later, Bytes, RunLogs          int
		Type                                 string
		Missing                              []string
	}
	run(t, given, &found, "bash", source(t, "../../../.ci/node"), "node", source(t, "use_openeo.cjs"))
	if found.Bytes == 0 || !strings.HasPrefix(found.Type, "image/tiff") || found.RunLogs == 0 {
		t.Errorf("at once: %+v", found)
	}
	if found.Version != "1.3.0" || found.Status != "finished" || found.User == "" || found.Collections != 2 ||
		found.Processes < 10 || found.Jobs != 1 ||
		found.Formats < 4 || found.Runtimes != 1 || found.Options == 0 || found.Assets == 0 ||
		found.Absent != "CollectionNotFound" || found.Logs == 0 || found.Later != 0 || len(found.Missing) > 0 {
		t.Errorf("%+v", found)
	}
}
