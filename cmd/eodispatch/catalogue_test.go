package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
)

// fromCatalogue returns the JSON files of a folder, udp or records, of the catalogue named by EODISPATCH_CATALOGUE. The
// catalogue is not part of the project; without the variable the test is skipped.
func fromCatalogue(t *testing.T, folder string) []string {
	t.Helper()
	catalogue := os.Getenv("EODISPATCH_CATALOGUE")
	if catalogue == "" {
		t.Skip("EODISPATCH_CATALOGUE names no catalogue (udp/*.json, records/*.json)")
	}
	files, err := filepath.Glob(filepath.Join(catalogue, folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no files in %s/%s: %v", catalogue, folder, err)
	}
	return files
}

// published is the part of a record that describes a service.
type published struct {
	name  string
	label dispatch.Label
	links map[string]string // by relation
}

func readRecords(t *testing.T) (all []published) {
	t.Helper()
	for _, file := range fromCatalogue(t, "records") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var record struct {
			ConformsTo []string
			Links      []struct{ Rel, Href string }
		}
		if err := json.Unmarshal(text, &record); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p := published{filepath.Base(file), dispatch.OpenEO, map[string]string{}}
		if slices.ContainsFunc(record.ConformsTo, func(c string) bool {
			return strings.HasSuffix(c, "/ogc-api-processes")
		}) {
			p.label = dispatch.OGCProcess
		}
		for _, l := range record.Links {
			p.links[l.Rel] = l.Href
		}
		all = append(all, p)
	}
	return all
}

// spellings returns the ways in which a client may write the service of a record. Those of OGC give the process's own
// URL.
func (p published) spellings() []dispatch.Service {
	service, application := p.links["service"], p.links["application"]
	if p.label == dispatch.OpenEO {
		return []dispatch.Service{{Endpoint: service, Application: application},
			{Endpoint: strings.TrimRight(service, "/"),
				Application: application}, {Endpoint: service + "/", Application: application}}
	}
	id, below := path.Base(service), strings.TrimSuffix(service, "/processes/"+path.Base(service))
	return []dispatch.Service{{Endpoint: service, Application: id}, {Endpoint: service, Application: service},
		{Endpoint: below, Application: id}, {Endpoint: below, Application: service}, {Endpoint: below + "/processes",
			Application: id}}
}

// TestCatalogue_ServicesAreFound finds every service of the catalogue, in all interpretations of its record, at the
// platform that an operator configured for it.
func TestCatalogue_ServicesAreFound(t *testing.T) {
	settings := &config.Config{}
	for name, endpoint := range map[string]string{
		"cdse-federation": "https://openeofed.dataspace.copernicus.eu",
		"cdse":            "https://openeo.dataspace.copernicus.eu",
		"terrascope":      "https://openeo.terrascope.be", "eodc": "https://openeo.eodc.eu/openeo/1.2.0",
	} {
		settings.Platforms = append(settings.Platforms, config.Platform{Name: name, Protocol: config.OpenEO,
			Endpoint: endpoint})
	}
	for name, endpoint := range map[string]string{
		"tao": "https://sen4x.tao.c-s.ro/process", "gep": "https://ades.gep.terradue.com",
		"geohazards": "https://processing.geohazards-tep.eu",
	} {
		settings.Platforms = append(settings.Platforms, config.Platform{Name: name, Protocol: config.OGCProcess,
			Endpoint: endpoint})
	}
	b := broker.New(nil, dispatch.Setup{Backends: platforms(settings, nil)})
	bases := map[string]bool{}
	for _, p := range readRecords(t) {
		for i, s := range p.spellings() {
			backend, err := b.Backend(s, p.label)
			if err != nil {
				t.Errorf("%s: %v: %s", p.name, s, dispatch.TextFor(err))
				continue
			}
			base, err := backend.Platform.Base(s)
			if err != nil {
				t.Errorf("%s: %v: %s", p.name, s, dispatch.TextFor(err))
			}
			if i > 0 && !bases[p.name+base] {
				t.Errorf("%s: %v leads to another place: %s", p.name, s, base)
			}
			bases[p.name+base] = true
		}
	}
}
