package conformance

import (
	"context"
	"reflect"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// definition is the document that a task or job was accepted with.
type definition struct {
	owner             dispatch.UserID
	dispatch.Document        // without body, of a further placement of a task
	hash              string // of the body
	current           string // hash of the current document of its origin, if that has changed
}

func (s *MemStore) define(o owned, u dispatch.UserID, d *dispatch.Document) {
	if d != nil {
		s.defined[o] = &definition{owner: u, Document: *d, hash: d.Hash()}
	}
}

// definePlacements stores what defines the service at the further placements of a task.
func (s *MemStore) definePlacements(t dispatch.Task) {
	for _, h := range placementsOf(t) {
		if h.Document != "" && h.Account != t.Account {
			s.defined[owned{task: t.ID, placement: h.Account}] = &definition{owner: t.Owner,
				Document: dispatch.Document{Origin: dispatch.Origin{Platform: h.Account.Platform(),
					Service: h.Service}},
				hash: h.Document}
		}
	}
}

// changedAt reports whether the document has changed that defines the service of a task's jobs under an account.
func (s *MemStore) changedAt(t dispatch.Task, a dispatch.Account) bool {
	key := owned{task: t.ID, placement: a}
	if a == t.Account {
		key.placement = ""
	}
	d := s.defined[key]
	return d != nil && d.current != ""
}

// changedElsewhere reports whether the document of the service has changed at a placement apart from the first that is
// used.
func (s *MemStore) changedElsewhere(t dispatch.Task) bool {
	return slices.ContainsFunc(t.Request.Placements, func(h dispatch.Placement) bool {
		return h.Account != t.Account && s.changedAt(t, h.Account)
	})
}

// definedBy returns the job or task that a job's document is stored for.
func definedBy(j dispatch.Job) owned {
	if j.Task != 0 {
		return owned{task: j.Task}
	}
	return owned{job: j.ID}
}

func (s *MemStore) Document(_ context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil || s.defined[definedBy(r.Job)] == nil {
		return nil, err
	}
	return s.defined[definedBy(r.Job)].Body, nil
}

func (s *MemStore) Definition(_ context.Context, id dispatch.JobID) ([]byte, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil || s.defined[definedBy(r.Job)] == nil {
		return nil, notFound()
	}
	return s.defined[definedBy(r.Job)].Body, nil
}

// waiting returns the definitions of waiting jobs.
func (s *MemStore) waiting() map[owned]*definition {
	all := map[owned]*definition{}
	for _, r := range s.jobs {
		if r.Phase != dispatch.Waiting || r.Status != dispatch.Accepted || r.Hidden {
			continue
		}
		keys := []owned{definedBy(r.Job)}
		for _, h := range s.tasks[r.Task].Request.Placements {
			keys = append(keys, owned{task: r.Task, placement: h.Account})
		}
		for _, o := range keys {
			if d := s.defined[o]; d != nil {
				all[o] = d
			}
		}
	}
	return all
}

func (s *MemStore) Origins(context.Context) (origins []dispatch.Origin, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, d := range s.waiting() {
		if !slices.ContainsFunc(origins, func(o dispatch.Origin) bool { return sameOrigin(o, d.Origin) }) {
			origins = append(origins, d.Origin)
		}
	}
	return origins, nil
}

func sameOrigin(a, b dispatch.Origin) bool { return reflect.DeepEqual(a, b) }

func (s *MemStore) SetDocumentHash(_ context.Context, o dispatch.Origin, hash string) (owners []dispatch.UserID,
	err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, d := range s.waiting() {
		current := hash
		if d.hash == hash {
			current = ""
		}
		if sameOrigin(d.Origin, o) && d.current != current {
			d.current = current
			owners = append(owners, d.owner)
		}
	}
	return owners, nil
}
