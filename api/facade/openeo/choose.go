package openeo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// platformOptions are the job options that name a platform: the broker's own, and that of the openEO aggregator.
var platformOptions = []string{"eodispatch:platform", "federation:force-backend"}

// choose returns the platform to which a process of the merged view goes: the one that job options name; else the first
// that has the services and namespaces that the graph calls; else the first that has all its collections and processes.
func (f *Facade) choose(r *request, members map[string]json.RawMessage) (*dispatch.Backend, error) {
	u := newUses()
	u.walk(graphOf(members))
	needs, err := f.needsOf(r, u)
	if err != nil {
		return nil, err
	}
	if len(needs) == 0 && f.withoutGraphs(r.view) {
		return nil, errOnlyServices
	}
	if name := namedPlatform(members); name != "" {
		b := f.anyBackend(name)
		switch {
		case b == nil || b.Label != dispatch.OpenEO && len(needs) == 0:
			return nil, f.noPlatform("There is no openEO platform " + quoted(name) + ".")
		case !needs.allAt(name):
			return nil, f.noPlatform("The platform " + name + " does not have all that this process graph calls: " +
				needs.String() + ".")
		}
		return b, nil
	}
	if len(needs) > 0 {
		for _, b := range f.Backends {
			if needs.allAt(b.Name) {
				return b, nil
			}
		}
		return nil, f.noPlatform("No platform has all that this process graph calls: " + needs.String() + ".")
	}
	backends := f.backends()
	if len(backends) == 1 {
		return backends[0], nil
	}
	if err := f.walkDefinitions(r, backends[0], u); err != nil {
		return nil, err
	}
	return f.withAll(r, u)
}

// need is something that a process graph calls, and the platforms that have it.
type need struct {
	what string
	at   []string
}

type needs []need

func (all needs) allAt(platform string) bool {
	return !slices.ContainsFunc(all, func(n need) bool { return !slices.Contains(n.at, platform) })
}

// mostNamed bounds how many needs of a process graph an error names.
const mostNamed = 10

func (all needs) String() string {
	var texts []string
	for _, n := range all[:min(len(all), mostNamed)] {
		texts = append(texts, n.what+" is at: "+orNone(n.at))
	}
	if rest := len(all) - mostNamed; rest > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(texts, "; ")
}

// mostNamespaces bounds how many namespaces of a graph are looked up, each by a request to every platform, and how many
// definitions at URLs.
const mostNamespaces = 8

// needsOf returns the services and the namespaces of a graph. A namespace that nobody is known to have is left to the
// platform.
func (f *Facade) needsOf(r *request, u uses) (all needs, err error) {
	for _, id := range slices.Sorted(maps.Keys(u.services)) {
		s, known := f.Services.Find(id)
		if !known {
			return nil, refused(http.StatusBadRequest, "ProcessUnsupported", "The catalogue has no service "+quoted(id)+
				". GET /processes/"+servicesNamespace+" lists its services.")
		}
		all = append(all, need{"the service " + quoted(id), []string{s.Platform}})
	}
	if n := u.lookUps(); n > mostNamespaces {
		return nil, tooComplex(
			"The process graph calls processes of %d namespaces or URLs. At most %d are looked up; name a platform "+
				"by the job option %s.", n, mostNamespaces, platformOptions[0])
	}
	for _, namespace := range slices.Sorted(maps.Keys(u.namespaces)) {
		if at := f.havingNamespace(r, namespace); len(at) > 0 {
			all = append(all, need{"the namespace " + quoted(namespace), at})
		}
	}
	return all, nil
}

// walkDefinitions notes what the processes use that a graph calls by the URLs of their definitions, as if their nodes
// were in the graph. They are read with the settings of a platform; those of any do.
func (f *Facade) walkDefinitions(r *request, b *dispatch.Backend, u uses) error {
	for _, namespace := range slices.Sorted(maps.Keys(u.namespaces)) {
		for _, id := range slices.Sorted(maps.Keys(u.namespaces[namespace])) {
			p := calledProcess{id, namespace}
			if !p.isRemote() {
				continue
			}
			body, err := f.definitionAt(r.Context(), r.user, b, p)
			if err != nil {
				return err
			}
			var definition struct {
				Graph any `json:"process_graph"`
			}
			if json.Unmarshal(body, &definition) != nil {
				return badNode("The process " + quoted(id) + " has a number that is too large.")
			}
			u.walk(definition.Graph)
		}
	}
	return nil
}

// havingNamespace returns the names of the openEO platforms that have a namespace: by the catalogue, or because they
// publish its processes.
func (f *Facade) havingNamespace(r *request, namespace string) []string {
	names := f.offeringNamespace(namespace)
	if len(names) > 0 || strings.Contains(namespace, "/") || namespace == userNamespace {
		return names
	}
	backends := f.backends()
	for i, one := range f.readAll(r, backends, "/processes/"+url.PathEscape(namespace)) {
		if one.err == nil {
			names = append(names, backends[i].Name)
		}
	}
	return names
}

// offeringNamespace returns the names of the openEO platforms that have services of a namespace in the catalogue.
func (f *Facade) offeringNamespace(namespace string) (names []string) {
	page, _ := f.search(catalogue.Query{}) // without After it succeeds
	for _, s := range page.Services {
		defines := s.Service.Application == namespace || s.Service.Namespace != nil && *s.Service.Namespace == namespace
		if defines && s.Label == dispatch.OpenEO && !slices.Contains(names, s.Platform) {
			names = append(names, s.Platform)
		}
	}
	return names
}

func namedPlatform(members map[string]json.RawMessage) (name string) {
	options := optionsOf(members)
	for _, option := range platformOptions {
		if json.Unmarshal(options[option], &name) == nil && name != "" {
			return name
		}
	}
	return ""
}

// graphOf returns the process graph of a job, or of a process.
func graphOf(members map[string]json.RawMessage) (graph any) {
	var job struct {
		Graph json.RawMessage `json:"process_graph"`
	}
	text := members["process_graph"]
	if json.Unmarshal(members["process"], &job) == nil && job.Graph != nil {
		text = job.Graph
	}
	if json.Unmarshal(text, &graph) != nil {
		return nil
	}
	return graph
}

// uses is what a process graph refers to.
type uses struct {
	collections, processes, services map[string]bool
	namespaces                       map[string]map[string]bool // the processes of each
}

func newUses() uses {
	return uses{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
}

// lookUps returns how many namespaces, and definitions at URLs, have to be looked up.
func (u uses) lookUps() (n int) {
	for namespace, processes := range u.namespaces {
		if (calledProcess{namespace: namespace}).isRemote() {
			n += len(processes)
		} else {
			n++
		}
	}
	return n
}

// walk notes what the nodes of a graph refer to, at any depth.
func (u uses) walk(graph any) {
	for n := range objects(graph) {
		u.node(n)
	}
}

func (u uses) node(v map[string]any) {
	id, _ := v["process_id"].(string)
	if id == "" {
		return
	}
	switch namespace, _ := v["namespace"].(string); {
	case hasPredefined(namespace):
	case namespace == servicesNamespace:
		u.services[id] = true
		return
	case u.namespaces[namespace] == nil:
		u.namespaces[namespace] = map[string]bool{id: true}
		return
	default:
		u.namespaces[namespace][id] = true
		return
	}
	u.processes[id] = true
	arguments, _ := v["arguments"].(map[string]any)
	if collection, ok := arguments["id"].(string); ok && id == processLoad {
		u.collections[collection] = true
	}
}

// withAll returns the first platform that has all collections and predefined processes. Processes that no platform has
// are the user's own, and do not count.
func (f *Facade) withAll(r *request, u uses) (*dispatch.Backend, error) {
	backends := f.backends()
	var collections, processes []map[string]bool
	var reading sync.WaitGroup
	reading.Go(func() { collections = f.idsOf(r, backends, "collections") })
	reading.Go(func() { processes = f.idsOf(r, backends, "processes") })
	reading.Wait()
	for id := range u.processes {
		if !slices.ContainsFunc(processes, func(ids map[string]bool) bool { return ids[id] }) {
			delete(u.processes, id)
		}
	}
	for i, b := range backends {
		if hasAll(collections[i], u.collections) && hasAll(processes[i], u.processes) {
			return b, nil
		}
	}
	var offers needs
	for _, id := range slices.Sorted(maps.Keys(u.collections)) {
		offer := need{what: "the collection " + quoted(id)}
		for i, b := range backends {
			if collections[i][id] {
				offer.at = append(offer.at, b.Name)
			}
		}
		offers = append(offers, offer)
	}
	why := "No platform has all collections and processes of this process graph"
	if len(offers) > 0 {
		why += "; " + offers.String()
	}
	return nil, f.noPlatform(why + ".")
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none that responds"
	}
	return strings.Join(names, ", ")
}

// noPlatform returns the error of a process that goes to no platform, with the candidates.
func (f *Facade) noPlatform(why string) error {
	var names []string
	for _, b := range f.backends() {
		names = append(names, b.Name)
	}
	if len(names) > 0 {
		why += " Name a platform by the job option " + platformOptions[0] + ": " + strings.Join(names, ", ") + "."
	}
	return refused(http.StatusBadRequest, "ProcessUnsupported", why)
}

// idsOf returns the ids of what each platform lists; nil for a platform that does not respond.
func (f *Facade) idsOf(r *request, backends []*dispatch.Backend, member string) []map[string]bool {
	all := make([]map[string]bool, len(backends))
	for i, one := range f.readAll(r, backends, "/"+member) {
		if one.err == nil {
			all[i] = f.ids.in(one.Publication, backends[i].Name, member)
		}
	}
	return all
}

// processLoad loads a collection.
const processLoad = "load_collection"

func hasAll(ids, wanted map[string]bool) bool {
	for id := range wanted {
		if !ids[id] {
			return false
		}
	}
	return true
}
