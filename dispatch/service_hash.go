package dispatch

import "hash/fnv"

// ServiceHash identifies a service of a platform among the runs of an owner. If two services have the same hash, their
// runs are mixed, which does no harm.
type ServiceHash int64

// Hash returns the hash of s without its endpoint, which has several spellings.
func (s Service) Hash() ServiceHash {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Application)) // cannot fail
	if s.Namespace != nil {
		_, _ = h.Write([]byte("\n" + *s.Namespace))
	}
	return ServiceHash(h.Sum64())
}
