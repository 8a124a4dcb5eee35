package ogcapi

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

func at(endpoint, namespace, application string) dispatch.Service {
	s := dispatch.Service{Endpoint: endpoint, Application: application}
	if namespace != "" {
		s.Namespace = &namespace
	}
	return s
}

func TestSpellings(t *testing.T) {
	gep := New(Config{Name: "gep", Endpoint: "https://gep.example/wps3/", Aliases: []string{"https://old.example"}})
	for _, c := range []struct{ endpoint, namespace, application, base, process string }{
		{"https://gep.example/wps3", "", "p-1_0", "", "p-1_0"},
		{"https://gep.example/wps3/", "", "p", "", "p"},
		{"https://gep.example/wps3/processes", "", "p", "", "p"},
		{"HTTPS://GEP.example:443/wps3//", "", "p", "", "p"},
		{"gep.example/wps3", "", "p", "", "p"},
		{"https://gep.example/wps3/processes/p", "", "p", "", "p"},
		{"https://gep.example/wps3/processes/p/", "", "", "", "p"},
		{"https://gep.example/wps3/processes/p", "", "https://gep.example/wps3/processes/p", "", "p"},
		{"https://gep.example/wps3/processes/p", "", "https://packages.example/p_1.cwl", "", "p"},
		{"https://gep.example/wps3/ns/processes/p", "", "https://packages.example/p.cwl#p",
			"https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "", "/processes/p", "", "p"},
		{"https://gep.example/wps3", "", "/wps3/processes/p", "", "p"},
		{"https://old.example", "", "p", "", "p"},
		{"https://old.example/ns/processes/p", "", "p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "ns", "p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3/ns", "ns", "p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "/ns/ogc-api/", "p", "https://gep.example/wps3/ns/ogc-api", "p"},
		{"https://gep.example/wps3", "https://gep.example/wps3/ns/", "p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "", "ns/processes/p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "ns", "ns/processes/p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "ns", "/wps3/ns/processes/p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "", "https://gep.example/wps3/ns/processes/p", "https://gep.example/wps3/ns", "p"},
		{"https://gep.example/wps3", "wps3", "p", "https://gep.example/wps3/wps3", "p"},
		{"https://gep.example/wps3", "", "urn:ogc:p@2 x", "", "urn:ogc:p@2 x"},
		{"https://gep.example/wps3", "", "71", "", "71"},
	} {
		s := at(c.endpoint, c.namespace, c.application)
		place, err := gep.locate(s)
		if err != nil {
			t.Errorf("%q %q %q: %v", c.endpoint, c.namespace, c.application, err)
			continue
		}
		if base, _ := gep.Base(s); base != c.base || place.process != c.process {
			t.Errorf("%q %q %q: got %q, %q; want %q, %q", c.endpoint, c.namespace, c.application, base, place.process,
				c.base, c.process)
		}
	}
}

func TestSpellings_Refused(t *testing.T) {
	p := New(Config{Name: "gep", Endpoint: "https://gep.example/wps3"})
	const e = "https://gep.example/wps3"
	for _, c := range []struct{ endpoint, namespace, application, member string }{
		{"https://other.example/wps3", "", "p", "endpoint"},
		{"https://gep.example.evil.example/wps3", "", "p", "endpoint"},
		{"http://gep.example/wps3", "", "p", "endpoint"},
		{"https://gep.example:8443/wps3", "", "p", "endpoint"},
		{"https://gep.example./wps3", "", "p", "endpoint"},
		{"https://gep.example", "", "p", "endpoint"},
		{"https://gep.example/wps3x", "", "p", "endpoint"},
		{"https://user@gep.example/wps3", "", "p", "endpoint"},
		{"https://gep.example/wps3?x=1", "", "p", "endpoint"},
		{"https://gep.example/wps3#", "", "p", "endpoint"},
		{"https://gep.example/wps3/../x", "", "p", "endpoint"},
		{"https://gep.example/wps3/%2e%2e/x", "", "p", "endpoint"},
		{"https://gep.example/wps3/a%2fb", "", "p", "endpoint"},
		{`https://gep.example\@evil.example/wps3`, "", "p", "endpoint"},
		{"https://gep.example/wps3/a/processes/b/processes/c", "", "c", "endpoint"},
		{"", "", "p", "endpoint"},
		{"://", "", "p", "endpoint"},
		{e, "../x", "p", "namespace"},
		{e, "a/%2e%2e", "p", "namespace"},
		{e, "a?b", "p", "namespace"},
		{e, "a#b", "p", "namespace"},
		{e, "a\nb", "p", "namespace"},
		{e, "processes/x", "p", "namespace"},
		{e, "https://evil.example/ns", "p", "namespace"},
		{e, "https://gep.example/other", "p", "namespace"},
		{e + "/processes/p", "ns", "p", "namespace"},
		{e, "", "https://packages.example/p.cwl", "application"},
		{e + "/processes/p", "", "https://packages.example/p", "application"},
		{e, "", "", "application"},
		{e, "", "..", "application"},
		{e, "", "/p", "application"},
		{e, "", "a/b", "application"},
		{e, "", "p?f=json", "application"},
		{e, "", "p%2f..%2fq", "application"},
		{e, "", "https://evil.example/processes/p", "application"},
		{e, "", e + "/processes/", "application"},
		{e, "", "https://host.example/p.cwl", "application"},
		{e, "ns", e + "/other/processes/p", "application"},
		{e + "/processes/p", "", "q", "application"},
		{e, "ns", "other/processes/p", "application"},
	} {
		_, err := p.Base(at(c.endpoint, c.namespace, c.application))
		if !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%q %q %q: got %v", c.endpoint, c.namespace, c.application, err)
			continue
		}
		e, _ := asError(err)
		if want := []any{"body", "service", c.member}; !slices.Equal(e.Faults[0].Loc, want) {
			t.Errorf("%q %q %q: fault at %v, want %v", c.endpoint, c.namespace, c.application, e.Faults[0].Loc, want)
		}
	}
}

// Every spelling of one process addresses it.
func TestSpellings_Agree(t *testing.T) {
	name := rapid.StringMatching(
		`[A-Za-z0-9_][A-Za-z0-9._:@~-]{0,8}`).Filter(func(s string) bool { return s != "processes" && s != "jobs" })
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(name, 0, 2).Draw(t, "path")
		namespace := rapid.SliceOfN(name, 0, 2).Draw(t, "namespace")
		process := name.Draw(t, "process")
		root := strings.Join(append([]string{"https://x.example"}, path...), "/")
		base := strings.Join(append([]string{root}, namespace...), "/")
		p := New(Config{Endpoint: root + rapid.SampledFrom([]string{"", "/", "/processes/any"}).Draw(t, "configured")})

		ns := strings.Join(namespace, "/")
		spelling := rapid.SampledFrom([]dispatch.Service{
			at(root, ns, process),
			at(root+"/", "/"+ns+"/", process),
			at(root, base, process),
			at(base, "", process),
			at(base+"/", "", "/processes/"+process),
			at(root, ns, base+"/processes/"+process),
			at(root, "", base+"/processes/"+process),
			at(base+"/processes/"+process, "", process),
			at(base+"/processes/"+process+"/", ns, base+"/processes/"+process),
			at(base+"/processes/"+process, "", ""),
		}).Draw(t, "spelling")
		got, err := p.locate(spelling)
		if err != nil {
			t.Fatalf("%+v: %v", spelling, err)
		}
		want := place{namespace, process}
		if !slices.Equal(got.path, want.path) || got.process != want.process {
			t.Fatalf("%+v: got %v, want %v", spelling, got, want)
		}
	})
}

// Whatever a service contains, the called URL lies below the endpoint.
func FuzzLocate(f *testing.F) {
	f.Add("https://x.example/api", "ns", "p")
	f.Add("x.example/api/processes/p", "https://x.example/api/ns", "/api/ns/processes/p")
	f.Add("https://x.example/api/..", "%2e%2e/@", "a/processes/..%2f")
	p := New(Config{Endpoint: "https://x.example/api"})
	f.Fuzz(func(t *testing.T, endpoint, namespace, application string) {
		place, err := p.locate(at(endpoint, namespace, application))
		if err != nil {
			if !dispatch.Is(err, dispatch.Invalid) {
				t.Fatal(err)
			}
			return
		}
		url := p.at(p.base(place), "processes", place.process, "execution")
		a, err := parseAddress(url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		rest, below := p.endpoint.Below(a)
		if !below || len(rest) < 3 || rest[len(rest)-1] != "execution" || rest[len(rest)-2] != place.process {
			t.Fatalf("%s is not below the endpoint", url)
		}
	})
}
