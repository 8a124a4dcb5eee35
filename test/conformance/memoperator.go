package conformance

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// HoldScope is that of [operator.Operations].
func (s *MemStore) HoldScope(_ context.Context, h dispatch.OperatorHold) error {
	now, unlock := s.lock()
	defer unlock()
	s.operators[h.Scope] = h.Notice
	for a := range s.accounts {
		s.wake(a, now)
	}
	return nil
}

// ReleaseScope is that of [operator.Operations].
func (s *MemStore) ReleaseScope(_ context.Context, scope string) error {
	now, unlock := s.lock()
	defer unlock()
	if _, held := s.operators[scope]; !held {
		return notFound()
	}
	delete(s.operators, scope)
	for a := range s.accounts {
		s.wake(a, now)
	}
	return nil
}

// operatorNotice returns the notice of the hold of an account or its platform; "" if there is none.
func (s *MemStore) operatorNotice(a dispatch.Account) string {
	return max(s.operators[a.Platform()], s.operators[string(a)])
}
