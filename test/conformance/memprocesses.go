package conformance

import (
	"cmp"
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) SaveProcess(_ context.Context, u dispatch.UserID, p dispatch.StoredProcess,
	within dispatch.ProcessQuota) error {
	now, unlock := s.lock()
	defer unlock()
	others, bytes := 0, int64(0)
	for id, other := range s.processes[u] {
		if id != p.ID {
			others, bytes = others+1, bytes+int64(len(other.Body))
		}
	}
	if err := within.Admit(others, bytes, int64(len(p.Body))); err != nil {
		return err
	}
	if s.processes[u] == nil {
		s.processes[u] = map[string]dispatch.StoredProcess{}
	}
	p.Body, p.Updated = slices.Clone(p.Body), now
	s.processes[u][p.ID] = p
	return nil
}

func (s *MemStore) Process(_ context.Context, u dispatch.UserID, id string) (dispatch.StoredProcess, error) {
	_, unlock := s.lock()
	defer unlock()
	if p, known := s.processes[u][id]; known {
		return p, nil
	}
	return dispatch.StoredProcess{}, errNoProcess
}

var errNoProcess = &dispatch.Error{Kind: dispatch.NotFound, Op: "conformance.Process"}

func (s *MemStore) Processes(_ context.Context, u dispatch.UserID, after string,
	most int) (all []dispatch.StoredProcess, _ error) {
	_, unlock := s.lock()
	defer unlock()
	for id, p := range s.processes[u] {
		if id > after {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.StoredProcess) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(most, len(all))], nil
}

func (s *MemStore) DeleteProcess(_ context.Context, u dispatch.UserID, id string) error {
	_, unlock := s.lock()
	defer unlock()
	if _, known := s.processes[u][id]; !known {
		return errNoProcess
	}
	delete(s.processes[u], id)
	return nil
}
