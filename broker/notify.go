package broker

import (
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (b *Broker) targets(u dispatch.UserID, r dispatch.Request, d *dispatch.Dimension) ([]dispatch.Hook, error) {
	if len(r.Notify) == 0 {
		return nil, nil
	}
	if b.Targets == nil {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Accept",
			Text: "This service sends no notifications."}
	}
	hooks := make([]dispatch.Hook, len(r.Notify))
	for i, n := range r.Notify {
		switch {
		case n.Statuses == nil && d != nil:
			n.Statuses = []dispatch.Status{dispatch.TaskEnded, dispatch.NeedsOwner}
		case n.Statuses == nil:
			n.Statuses = []dispatch.Status{dispatch.Finished, dispatch.Failed, dispatch.Canceled, dispatch.NeedsOwner}
		}
		h, err := b.Targets.Target(u, n)
		if e, ok := errors.AsType[*dispatch.Error](err); ok && e.Kind == dispatch.Invalid && e.Faults == nil &&
			n.Kind != dispatch.OGCSubscriber {
			err = dispatch.InvalidBody("dispatch.Accept", dispatch.TextFor(err), "options", "notify", "url")
		}
		if err != nil {
			return nil, err
		}
		hooks[i] = h
	}
	return hooks, nil
}
