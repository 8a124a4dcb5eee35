package client_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client"
)

// TestModels_HaveTheMembersOfTheDocument compares the types with the OpenAPI document of the broker, in both
// directions.
func TestModels_HaveTheMembersOfTheDocument(t *testing.T) {
	w, _ := start(t)
	response, err := http.Get(w.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	for schema, model := range map[string]any{
		"BaseJobRequest": client.JobRequest{}, "UpscalingTaskRequest": client.TaskRequest{},
		"ParameterDimension": client.Dimension{},
		"DimensionProgress":  client.DimensionProgress{}, "ValueProgress": client.ValueProgress{},
		"ProcessingJob": client.Job{}, "UpscalingTask": client.Task{}, "TaskHome": client.TaskHome{},
		"JobAttention": client.Attention{},
		"Parameter":    client.Parameter{}, "ServiceParameter": client.Parameter{}, "Platform": client.Platform{},
		"PlatformList": client.PlatformList{}, "OwnJobs": client.OwnJobs{},
		"Share": client.Share{}, "Starts": client.Starts{}, "Grid": client.Grid{}, "GeometryCollection": client.Tiles{},
		"ServiceSummary": client.ServiceSummary{}, "CatalogueService": client.ServiceDescription{},
		"ServiceProvider": client.Provider{},
		"ServiceLink":     client.Link{}, "ServiceCost": client.Cost{}, "ServiceFormat": client.ResultFormat{},
		"LogEntry": client.LogEntry{}, "MissingResults": client.MissingResults{}, "Usage": client.Usage{},
		"Grant":       client.Grant{},
		"HookRequest": client.HookRequest{}, "Hook": client.Hook{}, "NewHook": client.NewHook{},
		"Delivery": client.Delivery{},
	} {
		var described []string
		for name := range document.Components.Schemas[schema].Properties {
			described = append(described, name)
		}
		slices.Sort(described)
		if has := members(reflect.TypeOf(model)); !slices.Equal(has, described) {
			t.Errorf("%T has the members\n%v, the schema %s\n%v", model, has, schema, described)
		}
	}
	for status := range slices.Values(client.Statuses) {
		if !strings.Contains(statusesOf(t, response.Request.URL.String()), `"`+string(status)+`"`) {
			t.Errorf("the document has no status %q", status)
		}
	}
}

// members returns the sorted names of a struct's members in JSON.
func members(s reflect.Type) (names []string) {
	for i := range s.NumField() {
		f := s.Field(i)
		if f.Anonymous {
			names = append(names, members(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// statusesOf returns the schema of a status.
func statusesOf(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var document struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	return string(document.Components.Schemas["ProcessingStatusEnum"])
}
