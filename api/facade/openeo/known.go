package openeo

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// idLists keeps the ids in the lists of collections and processes that platforms publish, because reading a list takes
// long. There is one entry for each list. The zero value is ready.
type idLists struct {
	mu  sync.Mutex
	all map[string]idList // by platform and member
}

type idList struct {
	version string
	ids     map[string]bool
}

// in returns the ids in the member of a list, which is the list of a platform; nil if it cannot be read.
func (k *idLists) in(p dispatch.Publication, platform, member string) map[string]bool {
	return k.keep(p, platform+" "+member, func(doc map[string]json.RawMessage) map[string]bool {
		var list []struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(doc[member], &list) != nil {
			return nil
		}
		ids := map[string]bool{}
		for _, resource := range list {
			ids[resource.ID] = true
		}
		return ids
	})
}

// formats returns the names of the output formats that a platform lists; nil if they cannot be read.
func (k *idLists) formats(p dispatch.Publication, platform string) map[string]bool {
	return k.keep(p, platform+" formats", func(doc map[string]json.RawMessage) map[string]bool {
		var output map[string]json.RawMessage
		if json.Unmarshal(doc["output"], &output) != nil {
			return nil
		}
		names := map[string]bool{}
		for name := range output {
			names[name] = true
		}
		return names
	})
}

// keep returns what read finds in a document, and reads it once. key tells the document from others, whatever its
// version.
func (k *idLists) keep(p dispatch.Publication, key string,
	read func(map[string]json.RawMessage) map[string]bool) map[string]bool {
	k.mu.Lock()
	kept, ok := k.all[key]
	k.mu.Unlock()
	if ok && kept.version == p.Version {
		return kept.ids
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(p.At(""), &doc) != nil {
		return nil
	}
	ids := read(doc)
	if ids == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]idList{}
	}
	k.all[key] = idList{p.Version, ids}
	return ids
}

const (
	// for what a platform says about what it has, while the creation of a batch job waits for it
	knownWithin  = 3 * time.Second
	mostUnlisted = 8 // collections, and processes, of one graph for which a platform is asked one by one
)

// checkKnown refuses a process graph that uses what its platform does not have: collections, processes and output
// formats. What is in none of the platform's lists is asked for, the first few by their names. While the platform does
// not say that there is no such thing, the batch job is accepted.
func (f *Facade) checkKnown(r *request, b *dispatch.Backend, nodes []graphNode) error {
	if b.Label != dispatch.OpenEO {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), knownWithin)
	defer cancel()
	at := &offer{f: f, ctx: ctx, r: r, b: b}
	at.readLists(nodes)
	if err := at.checkProcesses(nodes); err != nil {
		return err
	}
	if err := at.checkCollections(nodes); err != nil {
		return err
	}
	return at.checkFormats(nodes)
}

// offer is what a platform has, as far as it says so in time.
type offer struct {
	f   *Facade
	ctx context.Context
	r   *request
	b   *dispatch.Backend
}

func (o *offer) published(path string) (dispatch.Publication, error) {
	return o.f.Broker.Published(o.ctx, o.r.user, o.b.Name, path)
}

// readLists reads the lists that the checks need at once, if they are in no cache.
func (o *offer) readLists(nodes []graphNode) {
	paths := []string{"/processes"}
	for path, needs := range map[string]string{"/collections": processLoad, "/file_formats": processSave} {
		if slices.ContainsFunc(nodes, func(n graphNode) bool { return n.is(needs) }) {
			paths = append(paths, path)
		}
	}
	var reading sync.WaitGroup
	for _, path := range paths {
		reading.Go(func() { _, _ = o.published(path) }) // the checks see an error again
	}
	reading.Wait()
}

func (o *offer) checkCollections(nodes []graphNode) error {
	loaded := map[string]bool{}
	for _, n := range nodes {
		if id, ok := n.arguments["id"].(string); ok && n.is(processLoad) {
			loaded[id] = true
		}
	}
	if len(loaded) == 0 {
		return nil
	}
	list, err := o.published("/collections")
	if err != nil {
		return nil
	}
	listed := o.f.ids.in(list, o.b.Name, "collections")
	if listed == nil {
		return nil
	}
	unlisted := slices.DeleteFunc(slices.Sorted(maps.Keys(loaded)), func(id string) bool { return listed[id] })
	for _, id := range unlisted[:min(len(unlisted), mostUnlisted)] {
		switch _, err := o.published("/collections/" + url.PathEscape(id)); {
		case dispatch.Is(err, dispatch.NotFound), dispatch.Is(err, dispatch.Unsupported):
			return refused(http.StatusNotFound, "CollectionNotFound",
				"The platform "+o.b.Name+" has no collection "+quoted(id)+
					". GET /collections lists those that it has.")
		case err != nil:
			return nil
		}
	}
	return nil
}

func (o *offer) checkProcesses(nodes []graphNode) error {
	var listed map[string]bool
	if list, err := o.published("/processes"); err == nil {
		listed = o.f.ids.in(list, o.b.Name, "processes")
	}
	var unlisted []calledProcess
	for _, n := range nodes {
		if !n.isListed(listed) && !slices.Contains(unlisted, n.calledProcess) {
			unlisted = append(unlisted, n.calledProcess)
		}
	}
	slices.SortFunc(unlisted, calledProcess.compare)
	for _, p := range unlisted[:min(len(unlisted), mostUnlisted)] {
		switch ok, err := o.has(p); {
		case err != nil:
			return nil
		case !ok:
			return o.noProcess(p)
		}
	}
	return nil
}

// isListed reports whether the process of a node needs no question: it is in the platform's list, which may not be
// known, or defined at a URL.
func (p calledProcess) isListed(listed map[string]bool) bool {
	switch {
	case p.isRemote():
		return true
	case hasPredefined(p.namespace):
		return listed == nil || listed[p.process]
	}
	return false
}

// has reports whether there is a process that is not in the platform's list: stored by the user, here or at the
// platform, or of a namespace.
func (o *offer) has(p calledProcess) (bool, error) {
	switch p.namespace {
	case dispatch.BackendNamespace:
		return false, nil
	case "", userNamespace:
		return o.hasStored(p.process)
	}
	return o.hasInNamespace(p)
}

func (o *offer) hasStored(id string) (bool, error) {
	_, err := o.f.Processes.Process(o.ctx, o.r.user, id)
	if err == nil || !dispatch.Is(err, dispatch.NotFound) {
		return true, err
	}
	return isThere(o.published("/process_graphs/" + url.PathEscape(id)))
}

// hasInNamespace reports whether a namespace of the platform has a process. A platform that tells its operations, and
// none that describes namespaces, has none but those of its services in the catalogue.
func (o *offer) hasInNamespace(p calledProcess) (bool, error) {
	if _, known := o.f.Services.Find(p.process); known && p.namespace == servicesNamespace {
		return true, nil
	}
	if slices.Contains(o.f.offeringNamespace(p.namespace), o.b.Name) {
		return true, nil
	}
	root, err := o.published("/")
	var d described
	if err != nil || json.Unmarshal(root.At(""), &d) != nil || len(d.Endpoints) == 0 {
		return true, err
	}
	path := "/processes/" + url.PathEscape(p.namespace)
	switch {
	case d.has(operation{method: http.MethodGet, path: "/processes/{namespace}/{process_id}"}):
		return isThere(o.published(path + "/" + url.PathEscape(p.process)))
	case d.has(operation{method: http.MethodGet, path: "/processes/{namespace}"}):
		list, err := o.published(path)
		if err != nil {
			return isThere(list, err)
		}
		listed := new(idLists).in(list, o.b.Name, "processes")
		return listed == nil || listed[p.process], nil
	}
	return false, nil
}

// isThere reports whether a platform has a document.
func isThere(_ dispatch.Publication, err error) (bool, error) {
	if dispatch.Is(err, dispatch.NotFound) || dispatch.Is(err, dispatch.Unsupported) {
		return false, nil
	}
	return err == nil, err
}

func (o *offer) noProcess(p calledProcess) error {
	where, hint := "", " GET /processes lists those that it has."
	if p.namespace != "" {
		where, hint = " in the namespace "+quoted(p.namespace), ""
	}
	stored := ""
	if p.namespace == "" || p.namespace == userNamespace {
		stored = ", and you have stored none of this id"
	}
	return refused(http.StatusBadRequest, "ProcessUnsupported", "The platform "+o.b.Name+" has no process "+
		quoted(p.process)+where+stored+"."+hint)
}

// checkFormats refuses formats of files that the platform does not list. Case does not count, as the standard says.
func (o *offer) checkFormats(nodes []graphNode) error {
	for _, n := range nodes {
		if name, ok := n.arguments["format"].(string); ok && n.is(processSave) {
			if err := o.checkFormat(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostFormats bounds how many formats an error names.
const mostFormats = 40

func (o *offer) checkFormat(name string) error {
	list, err := o.published("/file_formats")
	if err != nil {
		return nil
	}
	listed := o.f.ids.formats(list, o.b.Name)
	names := slices.Sorted(maps.Keys(listed))
	if len(names) == 0 || slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(one, name) }) {
		return nil
	}
	return refused(http.StatusBadRequest, "ProcessParameterInvalid", "The platform "+o.b.Name+
		" does not list the output format "+quoted(name)+
		". It lists "+strings.Join(names[:min(len(names), mostFormats)], ", ")+".")
}
