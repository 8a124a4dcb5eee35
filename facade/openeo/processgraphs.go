package openeo

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

func (f *Facade) processGraphOperations() []operation {
	return []operation{
		{method: "GET", path: "/process_graphs", serve: f.listProcesses, access: signedIn},
		{method: "PUT", path: "/process_graphs/{process_graph_id}", serve: f.saveProcess, access: signedIn},
		{method: "GET", path: "/process_graphs/{process_graph_id}", serve: f.showProcess, access: signedIn},
		{method: "DELETE", path: "/process_graphs/{process_graph_id}", serve: f.deleteProcess, access: signedIn},
	}
}

var processQuota = dispatch.ProcessQuota{Processes: int(budget.UserProcesses.Most), Bytes: budget.UserProcessesBytes.Most}

// processID matches ids of processes. The standard allows word characters; clients also send UUIDs.
var processID = regexp.MustCompile(`^[\w-]{1,200}$`)

// saveProcess stores a process of the user, or replaces it.
func (f *Facade) saveProcess(r *request) (*answer, error) {
	id := r.PathValue("process_graph_id")
	members, err := r.object()
	if err != nil {
		return nil, err
	}
	var graph map[string]json.RawMessage
	switch {
	case !processID.MatchString(id):
		return nil, refused(http.StatusBadRequest, "ProcessInvalid", "The id of a process consists of at most 200 letters, digits, underscores and hyphens.")
	case members["process_graph"] == nil:
		return nil, refused(http.StatusBadRequest, "ProcessGraphMissing", "The process has no process_graph.")
	case json.Unmarshal(members["process_graph"], &graph) != nil || len(graph) == 0:
		return nil, refused(http.StatusBadRequest, "ProcessGraphInvalid", "The process_graph must be an object of nodes.")
	case f.isPredefined(r, id):
		return nil, refused(http.StatusBadRequest, "PredefinedProcessExists", "There is a predefined process with the id "+id+". Choose another id.")
	}
	members["id"] = json.RawMessage(strconv.Quote(id)) // of ASCII characters
	text, err := dispatch.Encode(members)
	if err != nil {
		return nil, err
	}
	if err := budget.UserProcess.Check(int64(len(text))); err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessGraphComplexity", "The process has "+err.Error()+".")
	}
	err = f.Processes.SaveProcess(r.Context(), r.user, dispatch.StoredProcess{ID: id, Body: text}, processQuota)
	return &answer{}, err
}

// isPredefined reports whether a platform of the view is known to have a predefined process with the id.
func (f *Facade) isPredefined(r *request, id string) bool {
	for _, one := range f.readAll(r, f.backendsOf(r.view), "/processes") {
		var list struct {
			Processes []struct {
				ID string `json:"id"`
			} `json:"processes"`
		}
		if one.err == nil && json.Unmarshal(one.At(""), &list) == nil {
			for _, p := range list.Processes {
				if p.ID == id {
					return true
				}
			}
		}
	}
	return false
}

func (f *Facade) showProcess(r *request) (*answer, error) {
	p, err := f.Processes.Process(r.Context(), r.user, r.PathValue("process_graph_id"))
	if err != nil {
		return nil, notFound(err, "ProcessGraphNotFound")
	}
	return &answer{body: json.RawMessage(p.Body)}, nil
}

func (f *Facade) deleteProcess(r *request) (*answer, error) {
	err := f.Processes.DeleteProcess(r.Context(), r.user, r.PathValue("process_graph_id"))
	return &answer{status: http.StatusNoContent}, notFound(err, "ProcessGraphNotFound")
}

const (
	processCursor = "process_graphs"
)

// listedMembers are those of a process that lists show, as the standard recommends.
var listedMembers = []string{"id", "summary", "description", "categories", "parameters", "returns", "deprecated", "experimental"}

// listProcesses lists the user's processes, all or in pages.
func (f *Facade) listProcesses(r *request) (*answer, error) {
	most, after, err := r.page(processCursor)
	if err != nil {
		return nil, err
	}
	all, err := f.Processes.Processes(r.Context(), r.user, string(after), most+1)
	if err != nil {
		return nil, err
	}
	links := []link{}
	if len(all) > most {
		all = all[:most]
		links = append(links, r.next(processCursor, most, []byte(all[most-1].ID)))
	}
	listed := make([]map[string]json.RawMessage, len(all))
	for i, p := range all {
		if err := json.Unmarshal(p.Body, &listed[i]); err != nil {
			return nil, err
		}
		for name := range listed[i] {
			if !slices.Contains(listedMembers, name) {
				delete(listed[i], name)
			}
		}
	}
	return &answer{body: map[string]any{"processes": listed, "links": links}}, nil
}

// page returns how many entries of a list a request asks for and the position after which they begin; nil: at the start. Without a limit
// all of the user's are asked for, whose number is bounded.
func (r *request) page(list string) (most int, after []byte, err error) {
	query := r.URL.Query()
	most = int(budget.UserProcesses.Most)
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, nil, refused(http.StatusBadRequest, "ParameterInvalid", "The parameter limit must be an integer of at least 1.")
		}
		most = min(n, most)
	}
	if cursor := query.Get("cursor"); cursor != "" {
		var ok bool
		if after, ok = r.Unseal(r.user, list, cursor); !ok {
			return 0, nil, refused(http.StatusBadRequest, "ParameterInvalid", "The parameter cursor is not one of a link of this list.")
		}
	}
	return most, after, nil
}

// next returns the link to the page of a list that begins after a position.
func (r *request) next(list string, most int, after []byte) link {
	query := url.Values{"limit": {strconv.Itoa(most)}, "cursor": {r.Seal(r.user, list, after)}}
	return link{Rel: "next", Href: r.root + r.URL.Path + "?" + query.Encode(), Type: "application/json"}
}

// backendsOf returns the platforms that a view shows.
func (f *Facade) backendsOf(v view) []*dispatch.Backend {
	if v.merged() {
		return f.backends()
	}
	return []*dispatch.Backend{v.backend}
}
