package broker

import "github.com/eodispatch/eodispatch/dispatch"

// Adopt returns a foreign job as this broker keeps it: one that has ended with its status; any other as started, so
// that its status is read, or failed with [dispatch.NeverSubmitted]. Body holds its whole request. The error says why
// the job cannot be kept.
func (b *Broker) Adopt(f dispatch.Foreign) (dispatch.Draft, error) {
	r := f.Request.Complete()
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return dispatch.Draft{}, err
	}
	j := dispatch.Job{Identity: dispatch.Identity{ID: f.ID, Owner: f.Owner, Created: f.Created},
		Target: dispatch.Target{Account: backend.Account(f.Owner), Service: r.Service.Hash()},
		Wish:   dispatch.Wish{Desired: dispatch.WantRun}, Condition: dispatch.Condition{Updated: f.Updated,
			Moved: f.Updated}, Plan: dispatch.Plan{Due: f.Updated}}
	base, err := backend.Platform.Base(r.Service)
	if err == nil {
		j.Base = base
	}
	j.Phase, j.Status = dispatch.Ended, f.Status
	if f.PlatformJob != "" {
		j.Ref = dispatch.Ref{Base: j.Base, ID: f.PlatformJob}
	}
	switch {
	case f.Status.Final():
		j.Checked = f.Updated
		if f.Status == dispatch.Canceled {
			j.Desired = dispatch.WantCancel
		}
	case f.PlatformJob == "":
		j.Status, j.Failure = dispatch.Failed, dispatch.NeverSubmitted
	case err != nil: // where the platform keeps the job
		return dispatch.Draft{}, err
	default:
		j.Phase = dispatch.Started
	}
	body, err := r.Encode()
	return dispatch.Draft{Job: j, Body: body}, err
}
