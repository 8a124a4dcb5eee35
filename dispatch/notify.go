package dispatch

import "errors"

// Notify is an address that a request asks to notify of its own job, or its task.
type Notify struct {
	Kind     HookKind
	URL      string
	Statuses []Status // nil: the ends of the job, or that of the task, and what waits for its owner
	Verified bool     // of Mail: the identity provider says that the address is the user's
	Secret   Secret   // signs messages; "": they are not signed
}

// Targets makes hooks of what requests ask for. Hooks are stored with the job or the task.
type Targets interface {
	// Target returns a hook without a job. Invalid if nothing is sent to the address; Unsupported if it has a secret and
	// the service cannot keep one.
	Target(UserID, Notify) (Hook, error)
}

// targets returns the hooks that a request asks for.
func (b *Broker) targets(u UserID, r Request, d *Dimension) ([]Hook, error) {
	if len(r.Notify) == 0 {
		return nil, nil
	}
	if b.Targets == nil {
		return nil, &Error{Kind: Unsupported, Op: "dispatch.Accept", Text: "This service sends no notifications."}
	}
	hooks := make([]Hook, len(r.Notify))
	for i, n := range r.Notify {
		switch {
		case n.Statuses == nil && d != nil:
			n.Statuses = []Status{TaskEnded, NeedsOwner}
		case n.Statuses == nil:
			n.Statuses = []Status{Finished, Failed, Canceled, NeedsOwner}
		}
		h, err := b.Targets.Target(u, n)
		if e, ok := errors.AsType[*Error](err); ok && e.Kind == Invalid && e.Faults == nil && n.Kind != OGCSubscriber {
			err = InvalidBody("dispatch.Accept", TextFor(err), "options", "notify", "url")
		}
		if err != nil {
			return nil, err
		}
		hooks[i] = h
	}
	return hooks, nil
}
