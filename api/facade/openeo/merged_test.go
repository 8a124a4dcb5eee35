package openeo_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// twoPlatforms returns a world with the platforms east and west, which share one collection.
func twoPlatforms(t *testing.T) *world {
	return newWorld(t, []string{"east", "west"},
		func(name string, s *simulator.OpenEO) { s.Collections = []string{"SHARED", strings.ToUpper(name)} })
}

// resources returns the names of the platforms that have each resource of a list.
func resources(t *testing.T, list any) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, one := range list.([]any) {
		r := one.(map[string]any)
		var names []string
		for _, name := range r["federation:backends"].([]any) {
			names = append(names, name.(string))
		}
		all[r["id"].(string)] += strings.Join(names, " ")
	}
	return all
}

func TestMerged_ListsWhatAllPlatformsHave(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	for range 2 { // the second is kept
		got := resources(t, w.get("/openeo/1.2/collections")["collections"])
		if len(got) != 3 || got["SHARED"] != "east west" || got["EAST"] != "east" || got["WEST"] != "west" {
			t.Errorf("%v", got)
		}
	}
	if got := resources(t, w.get("/openeo/1.2/processes")["processes"]); got["save_result"] != "east west" {
		t.Errorf("%v", got)
	}
	if one := w.get("/openeo/1.2/collections/WEST"); one["cube:dimensions"] == nil ||
		one["federation:backends"].([]any)[0] != "west" {
		t.Errorf("%v", one)
	}
	formats := w.get("/openeo/1.2/file_formats")["output"].(map[string]any)
	if formats["GTiff"] == nil || w.get("/openeo/1.2/udf_runtimes")["Python"] == nil {
		t.Errorf("%v", formats)
	}
	refusedWith(t, w.ask("GET", "/openeo/1.2/collections/NONE", ""), http.StatusNotFound, "CollectionNotFound")
	body := w.ask("GET", "/openeo/1.2/collections", "").Body.String()
	if strings.Contains(body, w.urls["east"]) || !strings.Contains(body, publicURL+"/openeo/1.2/collections/WEST") {
		t.Errorf("links: %s", body)
	}
}

// Editors make a form of the job options: one of them names the platform, where there is a choice.
func TestMerged_OffersThePlatforms(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	for view, offered := range map[string]string{"/openeo/1.2": "east west", "/openeo/west/1.2": ""} {
		var names []string
		for _, p := range w.get(view + "/processing_parameters")["create_job_parameters"].([]any) {
			if p := p.(map[string]any); p["name"] == "eodispatch:platform" {
				for _, name := range p["schema"].(map[string]any)["enum"].([]any) {
					names = append(names, name.(string))
				}
			}
		}
		if got := strings.Join(names, " "); got != offered {
			t.Errorf("%s offers %q, want %q", view, got, offered)
		}
	}
}

// A platform's document that is no object is the platform's fault.
func TestMerged_DocumentThatIsNone(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		wrong := strings.HasSuffix(r.URL.Path, "/collections/WEST")
		if wrong {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, "null")
		}
		return wrong
	}
	for _, view := range []string{"/openeo/1.2", "/openeo/west/1.2"} {
		refusedWith(t, w.ask("GET", view+"/collections/WEST", ""), http.StatusBadGateway, "Internal")
	}
}

// A platform that does not respond is missing, and named. The others go on.
func TestMerged_WithoutAPlatform(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	w.down["east"].Close()
	got := w.get("/openeo/1.2/collections")
	if all := resources(t, got["collections"]); len(all) != 2 || all["SHARED"] != "west" ||
		got["federation:missing"].([]any)[0] != "east" {
		t.Errorf("%v", got)
	}
	members := w.get("/openeo/1.2")["federation"].(map[string]any)
	if members["east"].(map[string]any)["status"] != "offline" ||
		members["west"].(map[string]any)["status"] != "online" {
		t.Errorf("%v", members)
	}
	w.down["west"].Close()
	w.now = w.now.Add(time.Hour)
	if all := resources(t, w.get("/openeo/1.2/collections")["collections"]); len(all) != 2 {
		t.Errorf("the last known: %v", all)
	}
	refusedWith(t, w.ask("GET", "/openeo/1.2/file_formats", ""), http.StatusServiceUnavailable,
		"InfrastructureMaintenance")
}

func TestMerged_ChoosesAPlatform(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	const load = `{"process":{"process_graph":{"l":{"process_id":"load_collection","arguments":{"id":"ID","spatial_extent":null,"temporal_extent":null}},
		"s":{"process_id":"save_result","arguments":{"data":{"from_node":"l"},"format":"GTiff"},"result":true}}},"job_options":{OPTIONS}}`
	for _, row := range []struct{ collection, options, platform string }{
		{"WEST", ``, "west"}, {"EAST", ``, "east"}, {"SHARED", ``, "east"}, {"SHARED", `"eodispatch:platform":"west"`,
			"west"},
		{"SHARED", `"federation:force-backend":"west"`, "west"}, {"NONE", ``, ""},
		{"SHARED", `"eodispatch:platform":"north"`, ""},
	} {
		body := strings.NewReplacer("ID", row.collection, "OPTIONS", row.options).Replace(load)
		got := w.ask("POST", "/openeo/1.2/jobs", body, "Authorization", anna)
		if row.platform == "" {
			refusedWith(t, got, http.StatusBadRequest, "ProcessUnsupported")
			if !strings.Contains(got.Body.String(), "east, west") {
				t.Errorf("no candidates: %s", got.Body)
			}
			continue
		}
		if got.Code != http.StatusCreated {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		var there []string
		for _, name := range []string{"east", "west"} {
			for _, job := range w.get("/openeo/"+name+"/1.2/jobs", "Authorization", anna)["jobs"].([]any) {
				if job.(map[string]any)["id"] == got.Header().Get("OpenEO-Identifier") {
					there = append(there, name)
				}
			}
		}
		if !slices.Equal(there, []string{row.platform}) {
			t.Errorf("%+v: it is at %v", row, there)
		}
	}
}
