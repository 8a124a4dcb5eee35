package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func (f *Facade) processGraphOperations() []operation {
	return []operation{
		{method: "GET", path: "/process_graphs", serve: f.listProcesses, access: signedIn},
		{method: "PUT", path: "/process_graphs/{process_graph_id}", serve: f.saveProcess, access: signedIn},
		{method: "GET", path: "/process_graphs/{process_graph_id}", serve: f.showProcess, access: signedIn},
		{method: "DELETE", path: "/process_graphs/{process_graph_id}", serve: f.deleteProcess, access: signedIn},
	}
}

var processQuota = dispatch.ProcessQuota{Processes: int(bounds.UserProcesses.Most),
	Bytes: bounds.UserProcessesBytes.Most}

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
		return nil, refused(http.StatusBadRequest, "ProcessInvalid",
			"The id of a process consists of at most 200 letters, digits, underscores and hyphens.")
	case members["process_graph"] == nil:
		return nil, refused(http.StatusBadRequest, "ProcessGraphMissing", "The process has no process_graph.")
	case json.Unmarshal(members["process_graph"], &graph) != nil || len(graph) == 0:
		return nil, refused(http.StatusBadRequest, "ProcessGraphInvalid",
			"The process_graph must be an object of nodes.")
	case !areParameters(members["parameters"]):
		return nil, refused(http.StatusBadRequest, "ProcessInvalid",
			"The parameters of a process must be an array of objects, each with a name.")
	}
	if err := checkNodes(members["process_graph"]); err != nil {
		return nil, err
	}
	if err := f.notPredefined(r, id); err != nil {
		return nil, err
	}
	members["id"] = json.RawMessage(strconv.Quote(id)) // of ASCII characters
	text, err := dispatch.Encode(members)
	if err != nil {
		return nil, err
	}
	if err := bounds.UserProcess.Check(int64(len(text))); err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessGraphComplexity", "The process has "+err.Error()+".")
	}
	err = f.Processes.SaveProcess(r.Context(), r.user, dispatch.StoredProcess{ID: id, Body: text}, processQuota)
	return &answer{Status: http.StatusOK}, err
}

// areParameters reports whether the parameters of a process are absent, null, or objects with names.
func areParameters(raw json.RawMessage) bool {
	var all []struct{ Name string }
	if len(raw) == 0 {
		return true
	}
	if json.Unmarshal(raw, &all) != nil {
		return false
	}
	for _, p := range all {
		if p.Name == "" {
			return false
		}
	}
	return true
}

// checkNodes refuses a process graph whose nodes have the wrong form.
func checkNodes(graph json.RawMessage) error {
	nodes, err := decoded(graph)
	if err != nil {
		return err
	}
	_, err = nodesIn(map[string]any{"process_graph": nodes}, true)
	return err
}

// notPredefined returns an error if a platform of the view has a predefined process with the id, or if that cannot be
// found out.
func (f *Facade) notPredefined(r *request, id string) error {
	exists := refused(http.StatusBadRequest, "PredefinedProcessExists", "There is a predefined process with the id "+id+
		". Choose another id.")
	if f.predefined(r.view, id) {
		return exists
	}
	backends := f.backendsOf(r.view)
	for i, one := range f.readAll(r, backends, "/processes") {
		switch {
		// a platform that lists none has none
		case dispatch.Is(one.err, dispatch.NotFound), dispatch.Is(one.err, dispatch.Unsupported):
		case one.err != nil:
			return one.err
		case f.ids.in(one.Publication, backends[i].Name, "processes")[id]:
			return exists
		}
	}
	return nil
}

func (f *Facade) showProcess(r *request) (*answer, error) {
	p, err := f.Processes.Process(r.Context(), r.user, r.PathValue("process_graph_id"))
	if err != nil {
		return nil, notFound(err, "ProcessGraphNotFound")
	}
	return &answer{Body: json.RawMessage(p.Body)}, nil
}

func (f *Facade) deleteProcess(r *request) (*answer, error) {
	err := f.Processes.DeleteProcess(r.Context(), r.user, r.PathValue("process_graph_id"))
	return &answer{Status: http.StatusNoContent}, notFound(err, "ProcessGraphNotFound")
}

const (
	processCursor = "process_graphs"
)

// listedMembers are those of a process that lists show, as the standard recommends.
var listedMembers = []string{"id", "summary", "description", "categories", "parameters", "returns", "deprecated",
	"experimental"}

// processesAtOnce bounds how many processes are read at once for a list, because each is read with its graph.
const processesAtOnce = 16

// listProcesses lists the user's processes, all or in pages.
func (f *Facade) listProcesses(r *request) (*answer, error) {
	most, after, err := r.page(processCursor, int(bounds.UserProcesses.Most))
	if err != nil {
		return nil, err
	}
	more := false
	processes := func(yield func(any, error) bool) {
		for n := 0; ; {
			page, err := f.Processes.Processes(r.Context(), r.user, after, processesAtOnce)
			for _, p := range page {
				if more = n == most; more {
					return
				}
				n, after = n+1, p.ID
				if shown, err := listed(p); !yield(shown, err) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
			if err != nil || len(page) < processesAtOnce {
				return
			}
		}
	}
	return listAnswer("processes", processes, func() (links []link) {
		if more {
			links = append(links, r.next(processCursor, most, []byte(after)))
		}
		return links
	})
}

// listed returns a process as lists show it.
func listed(p dispatch.StoredProcess) (members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(p.Body, &members); err != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return !slices.Contains(listedMembers, name) })
	return members, nil
}

var errBadCursor = badParameter("cursor", "is not one that this list returned to you. Follow the links of the list")

// page returns how many entries of a list a request asks for, and after what they begin; "": at the start. all is what
// it returns without a limit.
func (r *request) page(list string, all int) (most int, after string, err error) {
	query := r.URL.Query()
	limit, err := pageLimit(query)
	if err != nil || !query.Has("cursor") {
		return cmp.Or(limit, all), "", err
	}
	text, ok := r.Unseal(r.user, list, query.Get("cursor"))
	if !ok {
		return 0, "", errBadCursor
	}
	return cmp.Or(limit, all), string(text), nil
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

// Processes stores the processes of users. The processes of other users are NotFound.
type Processes interface {
	// SaveProcess stores a process, in place of the user's process with the same id, if the quota admits it.
	SaveProcess(ctx context.Context, u dispatch.UserID, p dispatch.StoredProcess, within dispatch.ProcessQuota) error
	// Process returns a process of the user.
	Process(ctx context.Context, u dispatch.UserID, id string) (dispatch.StoredProcess, error)
	// Processes returns at most so many processes of the user whose ids come after the given one, in an order of ids
	// that the database chooses and keeps.
	Processes(ctx context.Context, u dispatch.UserID, after string, most int) ([]dispatch.StoredProcess, error)
	// DeleteProcess deletes a process of the user.
	DeleteProcess(ctx context.Context, u dispatch.UserID, id string) error
}
