package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
)

// awaitServices returns the list of services once it has n.
func awaitServices(t *testing.T, c Client, n int) (list wire.ServiceList) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(3 * time.Minute); ; {
		if err := c.Call(t.Context(), http.MethodGet, "/services", nil, &list); err != nil {
			t.Fatal(err)
		}
		if list.Total == n {
			return list
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%d services: %+v", list.Total, list)
		}
	}
}

// TestCatalogue_OfTheDemoRuns submits each service of the demonstration by its id with its example, and awaits its
// results.
func TestCatalogue_OfTheDemoRuns(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	c := Client{s.broker, token}
	labels := map[string]string{"openeo": "openeo", "ogcapi": "ogc_api_process"}
	seen := map[string]bool{}
	for _, summary := range awaitServices(t, c, 5).Services {
		var service struct {
			wire.ServiceSummary
			Parameters []json.RawMessage
			Error      json.RawMessage `json:"parameters_error"`
			Formats    []json.RawMessage
			Example    json.RawMessage
		}
		if err := c.Call(t.Context(), http.MethodGet, "/services/"+url.PathEscape(summary.ID), nil,
			&service); err != nil {
			t.Fatal(err)
		}
		if string(service.Error) != "null" || len(service.Parameters) == 0 || service.Example == nil ||
			len(service.Formats) == 0 || service.Summary == "" {
			t.Errorf("%+v, %s", service, service.Error)
			continue
		}
		for _, raw := range service.Parameters {
			var p wire.Parameter
			if json.Unmarshal(raw, &p) != nil || p.Description == "" && p.Name != "datetime" ||
				strings.Contains(p.Description, "oracle") || p.Description == p.Name {
				t.Errorf("%s: the parameter %s is described as %q", service.ID, p.Name, p.Description)
			}
		}
		seen[service.Protocol] = true
		var j Job
		body := fmt.Appendf(nil, `{"title": "a", "label": %q, "service": {"id": %q}, "parameters": %s}`,
			labels[service.Protocol], service.ID, service.Example)
		err := c.Call(t.Context(), http.MethodPost, "/unit_jobs", body, &j)
		for err == nil && !j.Ended() {
			err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=30", j.ID), nil, &j)
		}
		if err != nil || j.Status != "finished" {
			t.Errorf("%s: %s %s, %v", service.ID, j.Status, j.Failure, err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("protocols %v", seen)
	}
	var lists struct {
		Tasks []wire.UpscalingTaskSummary `json:"upscaling_tasks"`
	}
	execution := []byte(`{"inputs": {"bbox": {"bbox": [5.05, 51.05, 5.75, 51.45]}, "eodispatch:tiles": "mgrs-100km"}}`)
	err := errors.Join(c.Call(t.Context(), http.MethodPost, "/ogcapi/processes/ndvi_anywhere/execution", execution,
		new(json.RawMessage)), c.Call(t.Context(), http.MethodGet, "/jobs_status", nil, &lists))
	if err != nil || len(lists.Tasks) != 1 || len(lists.Tasks[0].Homes) != 2 {
		t.Fatalf("a task of OGC API - Processes with a service at two platforms: %+v, %v", lists.Tasks, err)
	}
	var task wire.UpscalingTask
	if err := c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", lists.Tasks[0].ID), nil,
		&task); err != nil || len(task.Jobs) != 2 || task.Jobs[0].Name != "31UFS" {
		t.Errorf("its jobs are %+v, %v", task.Jobs, err)
	}
}

// TestDoctor_ListsTheCatalogue: each record with its platform, or with the reason why it is not used.
func TestDoctor_ListsTheCatalogue(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	folder := t.TempDir()
	record, err := os.ReadFile(algorithms + "/records/ndvi_composite.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"good.json": strings.ReplaceAll(string(record), "{openeo}", w.OpenEOURL),
		"other.json": strings.NewReplacer("{openeo}", "https://elsewhere.example.org", "ndvi_composite\"",
			"other\"").Replace(string(record)),
	} {
		text = strings.ReplaceAll(text, "{documents}", "https://apps.example.org")
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := configuration(t, w)
	code, printed := try(t, []string{"EODISPATCH_CATALOGUE_SOURCES=" + folder}, "doctor", "--catalogue", "--config",
		file)
	for _, want := range []string{"service   ndvi_composite: Greenest NDVI of a season (platform openeo)\n",
		"not used  other.json other: endpoint https://elsewhere.example.org: This endpoint is not one of the " +
			"platforms that are configured for openeo: " + w.OpenEOURL + "\n",
		"services: 1, records not used: 1, sources that cannot be read: 0\n"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in:\n%s", want, printed)
		}
	}
	if code != exitDone {
		t.Errorf("exit %d", code)
	}
	gone := filepath.Join(folder, "gone")
	for _, args := range [][]string{{"doctor", "--catalogue", "--config", file}, {"doctor", "--config", file}} {
		code, printed := try(t, []string{"EODISPATCH_CATALOGUE_SOURCES=" + gone}, args...)
		if code != exitFailed || !strings.Contains(printed, "source "+gone) ||
			!strings.Contains(printed, "open "+gone) {
			t.Errorf("%v: exit %d:\n%s", args, code, printed)
		}
	}
}

// TestServices_OfTheConfiguration: a service of the configuration is shown, and without a token if the catalogue is
// open.
func TestServices_OfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	p := Start(t, "EODISPATCH_CONFIG="+file, "EODISPATCH_CATALOGUE_OPEN=true",
		`EODISPATCH_SERVICES=[{id: one, platform: ogc, application: ndvi, description: "*b* <script>alert(1)</script>", example: {bbox: {bbox: [5, 51, 6, 52]}}}]`)
	response, err := http.Get(p.Address + "/services/one")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var service wire.CatalogueService
	if err := json.NewDecoder(response.Body).Decode(&service); err != nil || response.StatusCode != 200 {
		t.Fatalf("%s %v", response.Status, err)
	}
	if service.Platform != "ogc" || strings.Contains(service.DescriptionHTML, "<script") ||
		string(service.Example) != `{"bbox":{"bbox":[5,51,6,52]}}` || len(service.Parameters) == 0 {
		t.Errorf("%+v", service)
	}
}
