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

// NeverSubmitted is the failure of a foreign job that had not ended and of which no identifier is known. It is not
// submitted: it may run.
const NeverSubmitted = "The service that accepted this job has no identifier of it at the platform: it was not " +
	"submitted, or that was not recorded. Look there, and submit it again."

// Adopt returns a foreign job as this broker keeps it: one that has ended with its status; any other as started, so
// that its status is read, or failed with [NeverSubmitted]. Body holds its whole request. The error says why the job
// cannot be kept.
func (b *Broker) Adopt(f Foreign) (Draft, error) {
	r := f.Request.complete()
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return Draft{}, err
	}
	j := Job{ID: f.ID, Owner: f.Owner, Account: backend.Account(f.Owner), Service: r.Service.hash(), Desired: WantRun,
		Created: f.Created, Updated: f.Updated, Moved: f.Updated, Due: f.Updated}
	base, err := backend.Platform.Base(r.Service)
	if err == nil {
		j.Base = base
	}
	j.Phase, j.Status = Ended, f.Status
	if f.PlatformJob != "" {
		j.Ref = Ref{Base: j.Base, ID: f.PlatformJob}
	}
	switch {
	case f.Status.Final():
		j.Checked = f.Updated
		if f.Status == Canceled {
			j.Desired = WantCancel
		}
	case f.PlatformJob == "":
		j.Status, j.Failure = Failed, NeverSubmitted
	case err != nil: // where the platform keeps the job
		return Draft{}, err
	default:
		j.Phase = Started
	}
	body, err := r.encode()
	return Draft{Job: j, Body: body}, err
}

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
