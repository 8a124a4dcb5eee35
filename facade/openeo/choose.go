package openeo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Services is the catalogue of services.
type Services interface {
	Search(catalogue.Query) (catalogue.Page, bool)
}

// platformOptions are the job options that name a platform: the broker's own, and that of the openEO aggregator.
var platformOptions = []string{"eodispatch:platform", "federation:force-backend"}

// choose returns the platform to which a process of the merged view goes: the one that job options name; else that of the catalogue's
// service whose definition a node refers to; else the first that has all collections and processes of the graph.
func (f *Facade) choose(r *request, members map[string]json.RawMessage) (*dispatch.Backend, error) {
	if name := namedPlatform(members); name != "" {
		if b := f.backend(name); b != nil {
			return b, nil
		}
		return nil, f.noPlatform("There is no openEO platform " + name + ".")
	}
	graph := graphOf(members)
	u := uses{collections: map[string]bool{}, processes: map[string]bool{}, namespaces: map[string]bool{}}
	u.walk(graph)
	if b := f.ofService(u); b != nil {
		return b, nil
	}
	if backends := f.backends(); len(backends) == 1 {
		return backends[0], nil
	}
	return f.withAll(r, u)
}

func namedPlatform(members map[string]json.RawMessage) (name string) {
	var options map[string]json.RawMessage
	if json.Unmarshal(members["job_options"], &options) != nil {
		return ""
	}
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
type uses struct{ collections, processes, namespaces map[string]bool }

// walk notes what a value refers to: the nodes of graphs at any depth.
func (u uses) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			u.walk(item)
		}
	case map[string]any:
		u.node(v)
		for _, member := range v {
			u.walk(member)
		}
	}
}

func (u uses) node(v map[string]any) {
	id, _ := v["process_id"].(string)
	if id == "" {
		return
	}
	if namespace, _ := v["namespace"].(string); namespace != "" {
		u.namespaces[namespace] = true
		return
	}
	u.processes[id] = true
	arguments, _ := v["arguments"].(map[string]any)
	if collection, is := arguments["id"].(string); is && id == "load_collection" {
		u.collections[collection] = true
	}
}

// ofService returns the platform of a service whose definition the graph refers to; nil if there is none.
func (f *Facade) ofService(u uses) *dispatch.Backend {
	if len(u.namespaces) == 0 || f.Services == nil {
		return nil
	}
	page, _ := f.Services.Search(catalogue.Query{}) // without After it succeeds
	for _, s := range page.Services {
		if s.Label == dispatch.OpenEO && (u.namespaces[s.Service.Application] || s.Service.Namespace != nil && u.namespaces[*s.Service.Namespace]) {
			return f.backend(s.Platform)
		}
	}
	return nil
}

// withAll returns the first platform that has all collections and predefined processes. Processes that no platform has are the user's own,
// and do not count.
func (f *Facade) withAll(r *request, u uses) (*dispatch.Backend, error) {
	backends := f.backends()
	collections, processes := f.idsOf(r, backends, "collections"), f.idsOf(r, backends, "processes")
	for id := range u.processes {
		if !slices.ContainsFunc(processes, func(has map[string]bool) bool { return has[id] }) {
			delete(u.processes, id)
		}
	}
	for i, b := range backends {
		if hasAll(collections[i], u.collections) && hasAll(processes[i], u.processes) {
			return b, nil
		}
	}
	var offers []string
	for _, id := range slices.Sorted(maps.Keys(u.collections)) {
		var having []string
		for i, b := range backends {
			if collections[i][id] {
				having = append(having, b.Name)
			}
		}
		offers = append(offers, fmt.Sprintf("the collection %.100s is at: %s", id, orNone(having)))
	}
	return nil, f.noPlatform("No platform has all collections and processes of this process graph; " + strings.Join(append(offers, ""), "; "))
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
	return refused(http.StatusBadRequest, "ProcessUnsupported", strings.TrimSuffix(strings.TrimSpace(why), ";")+" Name a platform by the job option "+platformOptions[0]+": "+strings.Join(names, ", ")+".")
}

// idsOf returns the ids of what each platform lists; nil for a platform that does not respond.
func (f *Facade) idsOf(r *request, backends []*dispatch.Backend, member string) []map[string]bool {
	all := make([]map[string]bool, len(backends))
	for i, one := range f.readAll(r, backends, "/"+member) {
		var doc map[string]json.RawMessage
		var list []struct {
			ID string `json:"id"`
		}
		if one.err != nil || json.Unmarshal(one.At(""), &doc) != nil || json.Unmarshal(doc[member], &list) != nil {
			continue
		}
		all[i] = map[string]bool{}
		for _, resource := range list {
			all[i][resource.ID] = true
		}
	}
	return all
}

func hasAll(has, wanted map[string]bool) bool {
	for id := range wanted {
		if !has[id] {
			return false
		}
	}
	return true
}
