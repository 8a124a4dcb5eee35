package openeo

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// found is a document of one platform, or why there is none.
type found struct {
	dispatch.Publication
	err error
}

// readAll reads a document of several platforms at once.
func (f *Facade) readAll(r *request, backends []*dispatch.Backend, path string) []found {
	all := make([]found, len(backends))
	var reading sync.WaitGroup
	for i, b := range backends {
		reading.Go(func() { all[i].Publication, all[i].err = f.read(r, b, path) })
	}
	reading.Wait()
	return all
}

// shared is the member of the federation extension that names the platforms which have a resource; missingOf names in
// lists those that did not respond, and oldOf those whose part is old.
const (
	shared    = "federation:backends"
	missingOf = "federation:missing"
	oldOf     = "eodispatch:stale"
)

// mergedPublication returns what all platforms publish at the path of a request. Platforms that do not respond are left
// out, and named in lists.
func (f *Facade) mergedPublication(r *request) (*answer, error) {
	backends, path := f.backends(), r.URL.EscapedPath()
	part, err := r.listPart()
	if err != nil {
		return nil, err
	}
	m := &merging{}
	if path == "/file_formats" {
		m.formatsOfServices = f.formatsOfServices()
	}
	if len(backends) == 0 {
		return part.ownPublication(path, m.formatsOfServices)
	}
	all := f.readAll(r, backends, path)
	for i, one := range all {
		m.add(backends[i].Name, one)
	}
	if len(m.names) == 0 {
		return nil, m.failure()
	}
	p, err := f.mergedBefore.publication(path, m)
	if err != nil {
		return nil, err
	}
	return publicationAnswer(part.of(p), r.root, path), nil
}

// merging collects the documents of platforms.
type merging struct {
	names   []string // of the platforms that have a document
	docs    []dispatch.Publication
	missing []string // of the platforms that did not respond
	old     []string // of the platforms whose document is old
	oldest  time.Time
	absent  error // of a platform that has no such document
	failed  error // of a platform that did not respond

	formatsOfServices []string // output formats of services on platforms that do not speak openEO
}

func (m *merging) add(name string, one found) {
	switch {
	case one.err == nil:
		m.names, m.docs = append(m.names, name), append(m.docs, one.Publication)
		m.note(name, one.Publication)
	case dispatch.Is(one.err, dispatch.NotFound) || dispatch.Is(one.err, dispatch.Unsupported):
		m.absent = one.err
	default:
		m.missing, m.failed = append(m.missing, name), one.err
	}
}

// note keeps in mind what is old.
func (m *merging) note(name string, p dispatch.Publication) {
	if !p.Stale {
		return
	}
	m.old = append(m.old, name)
	if m.oldest.IsZero() || p.Read.Before(m.oldest) {
		m.oldest = p.Read
	}
}

// failure returns why there is no document.
func (m *merging) failure() error {
	switch {
	case m.failed != nil:
		return m.failed
	case m.absent != nil:
		return m.absent
	}
	return errNoPath
}

// object is a JSON object whose members are kept as they are.
type object = map[string]json.RawMessage

// merge returns one document for all.
func (m *merging) merge(path, root string) (object, error) {
	docs := make([]object, len(m.docs))
	for i, d := range m.docs {
		if err := json.Unmarshal(d.At(root), &docs[i]); err != nil {
			return nil, err
		}
	}
	switch {
	case path == "/collections":
		return m.lists(docs, "collections", root+path)
	case path == "/processes":
		return m.lists(docs, "processes", root+path)
	case path == "/file_formats":
		return m.formats(docs)
	case path == "/udf_runtimes":
		return m.byName(docs)
	}
	one := maps.Clone(docs[0]) // described by several platforms: as the first in the configuration describes it
	return one, m.mark(one, m.names)
}

// mark adds which platforms have a resource.
func (m *merging) mark(resource object, names []string) (err error) {
	resource[shared], err = json.Marshal(names)
	return err
}

// lists merges lists of resources with ids: each id once, as the first platform describes it.
func (m *merging) lists(docs []object, member, self string) (object, error) {
	var order []string
	first, having := map[string]object{}, map[string][]string{}
	for i, doc := range docs {
		var list []object
		if err := json.Unmarshal(doc[member], &list); err != nil {
			continue // a platform with a faulty list is as one without resources
		}
		for _, resource := range list {
			var id string
			if json.Unmarshal(resource["id"], &id) != nil || slices.Contains(having[id], m.names[i]) {
				continue
			}
			if first[id] == nil {
				first[id], order = resource, append(order, id)
			}
			having[id] = append(having[id], m.names[i])
		}
	}
	all := make([]object, len(order))
	for i, id := range order {
		if all[i] = first[id]; m.mark(all[i], having[id]) != nil {
			return nil, errUnsupported
		}
	}
	return m.listOf(member, all, self)
}

func (m *merging) listOf(member string, all []object, self string) (object, error) {
	out := object{}
	for name, v := range map[string]any{member: all,
		"links": []link{{Rel: "self", Href: self, Type: "application/json"}}, missingOf: m.missing, oldOf: m.old} {
		if names, ok := v.([]string); ok && len(names) == 0 {
			continue
		}
		text, err := dispatch.Encode(v)
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

// formats merges the input and the output formats.
func (m *merging) formats(docs []object) (object, error) {
	out := object{}
	for _, member := range []string{"input", "output"} {
		parts := make([]object, len(docs))
		for i, doc := range docs {
			if doc[member] == nil || json.Unmarshal(doc[member], &parts[i]) != nil {
				parts[i] = nil
			}
		}
		merged, err := m.byName(parts)
		if err != nil {
			return nil, err
		}
		if member == "output" {
			addFormats(merged, m.formatsOfServices)
		}
		if out[member], err = dispatch.Encode(merged); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addFormats adds formats that are not among those of an object. Case does not count, as the standard says.
func addFormats(listed object, names []string) {
	for _, name := range names {
		if slices.ContainsFunc(slices.Collect(maps.Keys(listed)), func(one string) bool {
			return strings.EqualFold(one, name)
		}) {
			continue
		}
		if text, err := dispatch.Encode(map[string]any{"title": name, "gis_data_types": []string{},
			"parameters": map[string]any{}}); err == nil {
			listed[name] = text
		}
	}
}

// byName merges objects whose members are resources.
func (m *merging) byName(docs []object) (object, error) {
	resources, having := map[string]object{}, map[string][]string{}
	for i, doc := range docs {
		for name, text := range doc {
			var resource object
			if json.Unmarshal(text, &resource) != nil || resource == nil {
				continue
			}
			if resources[name] == nil {
				resources[name] = resource
			}
			having[name] = append(having[name], m.names[i])
		}
	}
	out := object{}
	for name, resource := range resources {
		if err := m.mark(resource, having[name]); err != nil {
			return nil, err
		}
		var err error
		if out[name], err = dispatch.Encode(resource); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mergedDocuments keeps the merged lists, as long as what they were merged from does not change. They are kept in
// pieces, like what they were merged from: the address by which a client reaches the broker is none of their parts. The
// zero value is ready.
type mergedDocuments struct {
	mu  sync.Mutex
	all map[string]mergedDocument // by path
}

type mergedDocument struct {
	from  string
	parts [][]byte
}

// mergedLists are the paths of the documents that are kept. They are few, and merging one takes long.
var mergedLists = []string{"/collections", "/processes", "/file_formats", "/udf_runtimes"}

// identity distinguishes the documents of a merging from others.
func (m *merging) identity() string {
	var id strings.Builder
	for i, name := range m.names {
		id.WriteString(name + " " + m.docs[i].Version + "\n")
	}
	return id.String() + "formats " + strings.Join(m.formatsOfServices, " ") + "\nmissing " + strings.Join(m.missing,
		" ") + "\nold " + strings.Join(m.old, " ")
}

// publication returns the merged document at a path.
func (k *mergedDocuments) publication(path string, m *merging) (dispatch.Publication, error) {
	p := dispatch.Publication{Read: m.oldest, Stale: len(m.old) > 0}
	k.mu.Lock()
	kept := k.all[path]
	k.mu.Unlock()
	if kept.from == m.identity() {
		p.Parts = kept.parts
		return p, nil
	}
	root := "https://" + rand.Text() + ".invalid" // occurs in no document
	merged, err := m.merge(path, root)
	if err != nil {
		return p, err
	}
	body, err := dispatch.Encode(merged)
	if err != nil {
		return p, err
	}
	p.Parts = bytes.Split(body, []byte(root))
	if slices.Contains(mergedLists, path) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.all == nil {
			k.all = map[string]mergedDocument{}
		}
		k.all[path] = mergedDocument{m.identity(), p.Parts}
	}
	return p, nil
}
