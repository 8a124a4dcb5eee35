package catalogue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// recordAt returns a record with these links, each a relation, an address and a type.
func recordAt(conformsTo string, links ...[3]string) string {
	var all []string
	for _, l := range links {
		all = append(all, fmt.Sprintf(`{"rel": %q, "href": %q, "type": %q}`, l[0], l[1], l[2]))
	}
	return fmt.Sprintf(
		`{"id": "one", "type": "Feature", "conformsTo": [%s], "properties": {"type": "service", "title": "One"}, "links": [%s]}`, conformsTo, strings.Join(all, ","))
}

const (
	conformsToOpenEO    = `"https://apex.esa.int/core/openeo-udp"`
	conformsToProcesses = `"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core"`
	openEOProcess       = "application/vnd.openeo+json;type=process"

	openEOFed  = "https://openeofed.dataspace.copernicus.eu"
	openEOCDSE = "https://openeo.dataspace.copernicus.eu"
	ogcAtGEP   = "https://ades.gep.terradue.com"
)

// TestRecord_AtSeveralPlatforms: a record names several platforms by several links service, each with its application.
// What cannot be used is left out.
func TestRecord_AtSeveralPlatforms(t *testing.T) {
	service := func(href string) [3]string { return [3]string{"service", href, "application/json"} }
	application := func(href, kind string) [3]string { return [3]string{"application", href, kind} }
	for name, c := range map[string]struct {
		record  string
		want    []string // platform, protocol and application of each placement
		refused string
	}{
		"two of openEO": {recordAt(conformsToOpenEO, service(openEOFed), application("https://a.example/1.json",
			openEOProcess), service(openEOCDSE), application("https://a.example/2.json", openEOProcess)),
			[]string{"cdse-federation openeo https://a.example/1.json", "cdse openeo https://a.example/2.json"}, ""},
		"of both protocols": {recordAt(conformsToOpenEO+","+conformsToProcesses, service(ogcAtGEP+"/processes/p"),
			application(ogcAtGEP+"/processes/p", "application/json"), service(openEOCDSE),
			application("https://a.example/2.json", openEOProcess)),
			[]string{"gep ogc_api_process p", "cdse openeo https://a.example/2.json"}, ""},
		"the first is not configured": {recordAt(conformsToOpenEO, service("https://other.example"),
			application("https://a.example/1.json", openEOProcess), service(openEOCDSE),
			application("https://a.example/2.json", openEOProcess)), []string{"cdse openeo https://a.example/2.json"},
			"shown without a platform: endpoint https://other.example"},
		"a platform twice": {recordAt(conformsToOpenEO, service(openEOCDSE), application("https://a.example/1.json",
			openEOProcess), service(openEOCDSE+"/"), application("https://a.example/2.json", openEOProcess)),
			[]string{"cdse openeo https://a.example/1.json"}, "platform cdse: it is named twice"},
		"one application for two": {recordAt(conformsToOpenEO, service(openEOFed),
			application("https://a.example/1.json", openEOProcess), service(openEOCDSE)),
			[]string{"cdse-federation openeo https://a.example/1.json"}, ""},
	} {
		w := newWeb(map[string]string{root: c.record})
		all := read(t, w.client(), root)
		s, _ := all.Find("one")
		var got []string
		for _, h := range s.Placements() {
			got = append(got, fmt.Sprintf("%s %s %s", h.Platform, h.Label, h.Service.Application))
			if id, known := all.Identify(h.Label, h.Service); id != "one" {
				t.Errorf("%s: the service at %s is %q, %v", name, h.Platform, id, known)
			}
		}
		if refused := fmt.Sprint(all.Rejections()); !slices.Equal(got, c.want) ||
			!strings.Contains(refused, c.refused) || c.refused == "" && refused != "[]" {
			t.Errorf("%s: %q, and %s", name, got, refused)
		}
	}
}

// TestSearch_ByEachPlatform: a service at several platforms is found and counted at each.
func TestSearch_ByEachPlatform(t *testing.T) {
	at := func(endpoint string) catalogue.Placement {
		return catalogue.Placement{Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: endpoint,
			Application: "https://a.example/" + endpoint[len(openEOFed)/2:] + ".json"}}
	}
	first, second := at(openEOFed), at(openEOCDSE)
	c := catalogue.New(catalogue.Config{Platforms: platforms(), Services: []catalogue.Service{
		{ID: "both", Label: first.Label, Service: first.Service, Also: []catalogue.Placement{second}},
		{ID: "second", Label: second.Label, Service: second.Service}}})
	page, _ := c.Search(catalogue.Query{Platforms: []string{"cdse"}})
	if got := ids(page); !slices.Equal(got, []string{"both", "second"}) {
		t.Errorf("at the second platform are %v", got)
	}
	if want := []catalogue.Count{{Name: "cdse", Services: 2}, {Name: "cdse-federation",
		Services: 1}}; !slices.Equal(page.Platforms, want) {
		t.Errorf("counted %v", page.Platforms)
	}
	if id, _ := c.Identify(second.Label, second.Service); id != "second" {
		t.Errorf("the service of its own is called %q", id)
	}
	if page, _ = c.Search(catalogue.Query{Words: "federation"}); !slices.Equal(ids(page), []string{"both"}) {
		t.Errorf("by the name of the platform: %v", ids(page))
	}
}
