package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// idLists keeps the ids in the lists of collections and processes that platforms publish, because reading a list takes long. There is one entry
// for each list. The zero value is ready.
type idLists struct {
	mu  sync.Mutex
	all map[string]idList // by platform and member
}

type idList struct {
	version string
	ids     map[string]bool
}

// in returns the ids in the member of a list, which is the list of a platform.
func (k *idLists) in(p dispatch.Publication, platform, member string) map[string]bool {
	k.mu.Lock()
	kept, has := k.all[platform+" "+member]
	k.mu.Unlock()
	if has && kept.version == p.Version {
		return kept.ids
	}
	var doc map[string]json.RawMessage
	var list []struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(p.At(""), &doc) != nil || json.Unmarshal(doc[member], &list) != nil {
		return nil
	}
	ids := map[string]bool{}
	for _, resource := range list {
		ids[resource.ID] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]idList{}
	}
	k.all[platform+" "+member] = idList{p.Version, ids}
	return ids
}

const (
	knownWithin  = 3 * time.Second // for what a platform says about collections, while the creation of a batch job waits for it
	mostUnlisted = 8               // collections of one graph for which a platform is asked one by one
)

// checkCollections refuses a process graph that loads a collection which its platform does not have: it is not in the platform's list, and the
// platform says that there is none. While it does not say that, the batch job is accepted. Of collections that are not in the list, the first few by their names are
// asked for.
func (f *Facade) checkCollections(r *request, b *dispatch.Backend, members map[string]json.RawMessage) error {
	if b.Label != dispatch.OpenEO || !bytes.Contains(members["process"], []byte(processLoad)) {
		return nil
	}
	u := newUses()
	u.walk(graphOf(members))
	if len(u.collections) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), knownWithin)
	defer cancel()
	list, err := f.Broker.Published(ctx, r.user, b.Name, "/collections")
	if err != nil {
		return nil
	}
	listed := f.ids.in(list, b.Name, "collections")
	if listed == nil {
		return nil
	}
	unlisted := slices.DeleteFunc(slices.Sorted(maps.Keys(u.collections)), func(id string) bool { return listed[id] })
	for _, id := range unlisted[:min(len(unlisted), mostUnlisted)] {
		switch _, err := f.Broker.Published(ctx, r.user, b.Name, "/collections/"+url.PathEscape(id)); {
		case dispatch.Is(err, dispatch.NotFound):
			return refused(http.StatusNotFound, "CollectionNotFound", "The platform "+b.Name+" has no collection "+quoted(id)+". GET /collections lists those that it has.")
		case err != nil:
			return nil
		}
	}
	return nil
}
