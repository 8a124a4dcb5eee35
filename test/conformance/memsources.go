package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// source is a source of the catalogue in a [MemStore].
type source struct {
	dispatch.Source
	claim int64
	due   time.Time
}

func (s *MemStore) SourceStates(context.Context) (map[string]dispatch.SourceState, error) {
	now, unlock := s.lock()
	defer unlock()
	states := map[string]dispatch.SourceState{}
	for name, known := range s.sources {
		states[name] = dispatch.SourceState{Revision: known.Revision, Due: !known.due.After(now)}
	}
	return states, nil
}

func (s *MemStore) ClaimSource(_ context.Context, name string, within time.Duration) (*dispatch.SourceClaim, error) {
	now, unlock := s.lock()
	defer unlock()
	known := s.sources[name]
	if known == nil {
		known = &source{Source: dispatch.Source{Name: name}}
		s.sources[name] = known
	}
	if known.due.After(now) {
		return nil, nil
	}
	known.claim, known.due = known.claim+1, now.Add(within)
	return &dispatch.SourceClaim{Source: known.Source, Number: known.claim, Now: now}, nil
}

func (s *MemStore) SaveSource(_ context.Context, c dispatch.SourceClaim, again time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	known := s.sources[c.Name]
	if known == nil || known.claim != c.Number {
		return &dispatch.Error{Kind: dispatch.Conflict, Op: "conformance.SaveSource"}
	}
	known.Source, known.due = c.Source, now.Add(again)
	known.Documents = slices.Clone(c.Documents)
	return nil
}

func (s *MemStore) Source(_ context.Context, name string) (dispatch.Source, error) {
	_, unlock := s.lock()
	defer unlock()
	if known := s.sources[name]; known != nil {
		return known.Source, nil
	}
	return dispatch.Source{}, nil
}

func (s *MemStore) PurgeSources(_ context.Context, keep time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	for name, known := range s.sources {
		if known.due.Before(now.Add(-keep)) {
			delete(s.sources, name)
		}
	}
	return nil
}
