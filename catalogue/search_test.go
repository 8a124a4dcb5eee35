package catalogue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// withServices returns a catalogue of services by hand: id, title, keywords and description.
func withServices(services ...[4]string) *catalogue.Catalogue {
	c := catalogue.Config{Platforms: platforms()}
	for i, s := range services {
		at := dispatch.Service{Endpoint: "https://openeofed.dataspace.copernicus.eu", Application: "p"}
		if i%2 == 1 {
			at.Endpoint = "https://openeo.terrascope.be"
		}
		c.Services = append(c.Services, catalogue.Service{ID: s[0], Title: s[1], Keywords: strings.Fields(s[2]),
			Description: s[3], Label: dispatch.OpenEO, Service: at})
	}
	return catalogue.New(c)
}

func ids(p catalogue.Page) (all []string) {
	for _, s := range p.Services {
		all = append(all, s.ID)
	}
	return all
}

func TestSearch(t *testing.T) {
	c := withServices(
		[4]string{"1", "Water bodies", "water Sentinel-2", "finds rivers and lakes"},
		[4]string{"2", "Crop types", "agriculture sentinel-2", "Météo and soil; needs water"},
		[4]string{"3", "äpfel", "agriculture", "orchards"},
		[4]string{"4", "Zones", "", ""},
	)
	for _, row := range []struct {
		q    catalogue.Query
		want []string
	}{
		{catalogue.Query{}, []string{"3", "2", "1", "4"}},
		{catalogue.Query{Words: "WATER"}, []string{"1", "2"}}, // in the title first
		{catalogue.Query{Words: "meteo  soil"}, []string{"2"}},
		{catalogue.Query{Words: "apfel"}, []string{"3"}},
		{catalogue.Query{Words: "terrascope"}, []string{"2", "4"}},
		{catalogue.Query{Words: "water nothing"}, nil},
		{catalogue.Query{Platforms: []string{"cdse-federation"}}, []string{"3", "1"}},
		{catalogue.Query{Platforms: []string{"cdse-federation", "terrascope"}, Keywords: []string{"Agriculture"}},
			[]string{"3", "2"}},
		{catalogue.Query{Keywords: []string{"agriculture", "SENTINEL-2"}}, []string{"2"}},
		{catalogue.Query{Platforms: []string{"other"}}, nil},
	} {
		page, ok := c.Search(row.q)
		if !ok || !slices.Equal(ids(page), row.want) || page.Total != len(row.want) || page.Next != "" {
			t.Errorf("%+v: %v %v of %d", row.q, ok, ids(page), page.Total)
		}
	}
}

// TestSearch_Counts: platforms and keywords are counted as they would select.
func TestSearch_Counts(t *testing.T) {
	c := withServices([4]string{"1", "a", "x Y"}, [4]string{"2", "b", "y"}, [4]string{"3", "c", "y"},
		[4]string{"4", "d", "z"})
	page, _ := c.Search(catalogue.Query{Platforms: []string{"terrascope"}, Keywords: []string{"y"}})
	want := catalogue.Page{Services: page.Services, Total: 1, Platforms: []catalogue.Count{{Name: "cdse-federation",
		Services: 2}, {Name: "terrascope", Services: 1}},
		Keywords: []catalogue.Count{{Name: "y", Services: 1}, {Name: "z", Services: 1}}}
	if d := cmp.Diff(want.Platforms, page.Platforms) + cmp.Diff(want.Keywords, page.Keywords); d != "" ||
		page.Total != 1 {
		t.Errorf("%d %s", page.Total, d)
	}
	page, _ = c.Search(catalogue.Query{})
	if d := cmp.Diff([]catalogue.Count{{Name: "Y", Services: 3}, {Name: "x", Services: 1}, {Name: "z", Services: 1}},
		page.Keywords); d != "" {
		t.Error(d)
	}
}

// TestSearch_Pages visits all services in pages, each once and in order.
func TestSearch_Pages(t *testing.T) {
	var services [][4]string
	for i := range 25 {
		services = append(services, [4]string{fmt.Sprintf("id-%02d", i), fmt.Sprintf("Same title %d", i%3), "k",
			[]string{"", "same words"}[i%2]})
	}
	c := withServices(services...)
	for _, words := range []string{"", "same"} {
		whole, _ := c.Search(catalogue.Query{Words: words})
		var seen []string
		for q := (catalogue.Query{Words: words, Limit: 7}); ; {
			page, ok := c.Search(q)
			if !ok || page.Total != 25 || len(page.Services) > 7 {
				t.Fatalf("%v %+v", ok, page)
			}
			seen = append(seen, ids(page)...)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(seen, ids(whole)) || len(seen) != 25 {
			t.Errorf("in pages %v, whole %v", seen, ids(whole))
		}
	}
	for _, after := range []string{"x", "e30", "!!"} {
		if page, ok := c.Search(catalogue.Query{After: after}); after != "e30" && ok {
			t.Errorf("%q: %v", after, ids(page))
		}
	}
}

func TestServices_ByHand(t *testing.T) {
	c := withServices([4]string{"one", "", "", "A. <script>b</script>"}, [4]string{"one", "again"},
		[4]string{"a b", "c"})
	s, ok := c.Find("one")
	if !ok || s.Title != "one" || s.Platform != "cdse-federation" || s.HTML == "" ||
		strings.Contains(s.HTML, "<script") {
		t.Errorf("%v %+v", ok, s)
	}
	if _, ok := c.Find("two"); ok {
		t.Error("found two")
	}
	refused := c.Rejections()
	if len(refused) != 2 || !strings.Contains(refused[0].Reason, "another service has the id one") ||
		!strings.Contains(refused[1].Reason, "its id has spaces") {
		t.Errorf("%+v", refused)
	}
}

// TestSummary is the beginning of a description, whole sentences if possible.
func TestSummary(t *testing.T) {
	long := strings.Repeat("word ", 80)
	for given, want := range map[string]string{
		"":                         "",
		"# Title\n\nOne. Two.":     "Title One. Two.",
		"a\n\n- b\n- c & d `e<f>`": "a b c & d e<f>",
		"First one. Second, e.g. this. A " + long: "First one. Second, e.g. this.",
		"First (one). A " + long:                  "First (one).",
		"no end " + long:                          "no end " + strings.TrimSpace(long[:290]) + "…",
	} {
		s, _ := withServices([4]string{"one", "t", "", given}).Find("one")
		if s.Summary != want || len([]rune(s.Summary)) > 300 {
			t.Errorf("%.40q: %q", given, s.Summary)
		}
	}
}
