package conformance

import (
	"context"
	"reflect"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// definition is the document that a task or job was accepted with.
type definition struct {
	owner dispatch.UserID
	dispatch.Document
	told string // hash of the current document of its origin, if that has changed
}

func (s *MemStore) define(o owned, u dispatch.UserID, d *dispatch.Document) {
	if d != nil {
		s.defined[o] = &definition{owner: u, Document: *d}
	}
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
		if d := s.defined[definedBy(r.Job)]; d != nil && r.Phase == dispatch.Waiting && r.Status == dispatch.Accepted && !r.Hidden {
			all[definedBy(r.Job)] = d
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

func (s *MemStore) SetDocumentHash(_ context.Context, o dispatch.Origin, hash string) (owners []dispatch.UserID, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, d := range s.waiting() {
		told := hash
		if d.Hash() == hash {
			told = ""
		}
		if sameOrigin(d.Origin, o) && d.told != told {
			d.told = told
			owners = append(owners, d.owner)
		}
	}
	return owners, nil
}
