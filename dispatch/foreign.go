package dispatch

import (
	"strings"
	"time"
)

// Foreign is a job that another broker accepted, as its record shows it.
type Foreign struct {
	ID               JobID
	Owner            UserID
	Request          Request
	Status           Status
	PlatformJob      string // its identifier at the platform, without a namespace; "": none is known
	Created, Updated time.Time
}

// NeverSubmitted is the failure of a foreign job that had not ended and whose identifier is not known. It is not
// submitted: it may run.
const NeverSubmitted = "The service that accepted this job recorded no platform id for it, so it may not have been " +
	"submitted. Check the platform, then submit it again."

// WithoutNamespace returns the identifier of a job at a platform without the namespace of its service, which other
// brokers write before it.
func (s Service) WithoutNamespace(id string) string {
	if s.Namespace == nil || *s.Namespace == "" {
		return id
	}
	return strings.TrimPrefix(id, *s.Namespace+":")
}

// Imported says which foreign jobs were stored.
type Imported struct {
	New, Present, Taken []JobID // stored now; stored before; not stored, because the id is that of another job
	Task                bool    // the task was stored now
}
