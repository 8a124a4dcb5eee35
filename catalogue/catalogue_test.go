package catalogue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// platforms are those of the published records, without their requests.
func platforms() *broker.Broker {
	client := upstream.New(upstream.Config{})
	b := broker.New(nil, dispatch.Setup{})
	for name, endpoint := range map[string]string{
		"cdse-federation": "https://openeofed.dataspace.copernicus.eu",
		"cdse":            "https://openeo.dataspace.copernicus.eu",
		"terrascope":      "https://openeo.terrascope.be",
	} {
		b.Backends = append(b.Backends, &dispatch.Backend{Name: name, Label: dispatch.OpenEO, Endpoint: endpoint,
			Platform: openeo.New(openeo.Config{Name: name, Endpoint: endpoint, Client: client})})
	}
	for name, endpoint := range map[string]string{"tao": "https://sen4x.tao.c-s.ro/process",
		"gep": "https://ades.gep.terradue.com"} {
		b.Backends = append(b.Backends, &dispatch.Backend{Name: name, Label: dispatch.OGCProcess, Endpoint: endpoint,
			Platform: ogcapi.New(ogcapi.Config{Name: name, Endpoint: endpoint, Client: client})})
	}
	return b
}

// read returns the catalogue of these sources, read without a store.
func read(t *testing.T, client *upstream.Client, sources ...string) *catalogue.Catalogue {
	t.Helper()
	c := catalogue.New(catalogue.Config{Sources: sources, Platforms: platforms(), Client: client})
	c.Read(t.Context())
	return c
}

func all(t *testing.T, c *catalogue.Catalogue) []catalogue.Service {
	t.Helper()
	page, ok := c.Search(catalogue.Query{})
	if !ok {
		t.Fatal("no page")
	}
	return page.Services
}

// TestRecords_OfThePublishedCatalogue: every record becomes a service, or a reason why not. One platform is not
// configured.
func TestRecords_OfThePublishedCatalogue(t *testing.T) {
	folder := os.Getenv("EODISPATCH_CATALOGUE")
	if folder == "" {
		t.Skip("EODISPATCH_CATALOGUE names no catalogue (udp/*.json, records/*.json)")
	}
	files, err := filepath.Glob(filepath.Join(folder, "records", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no records in %s: %v", folder, err)
	}
	c := read(t, nil, filepath.Join(folder, "records"))
	services, refused := all(t, c), c.Rejections()
	if len(services)+len(refused) != len(files) {
		t.Errorf("%d services and %d rejections of %d records", len(services), len(refused), len(files))
	}
	for _, r := range refused {
		if !strings.Contains(r.Reason, "is not one of the platforms that are configured") || r.ID == "" {
			t.Errorf("%+v", r)
		}
	}
	if len(refused) > len(files)/10 {
		t.Errorf("%d records are not used: %v", len(refused), refused)
	}
	for _, s := range services {
		if s.Title == "" || s.Summary == "" || s.HTML == "" || s.Provider.Name == "" || s.Licence == "" ||
			s.Updated.IsZero() || s.Platform == "" ||
			s.Service.Endpoint == "" || s.Service.Application == "" || len(s.Keywords) == 0 || len(s.Links) == 0 ||
			len([]rune(s.Summary)) > 300 {
			t.Errorf("%+v", s)
		}
	}
	// The whole folder, with documents that are no records, has the same services.
	if whole := read(t, nil, folder); len(all(t, whole)) != len(services) || len(whole.Rejections()) != len(refused) {
		t.Errorf("of the whole folder: %d services, and %v", len(all(t, whole)), whole.Rejections())
	}
}
