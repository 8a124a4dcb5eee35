package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Discard does what Delete does. It also has the job removed from its platform, with its results, once it has ended.
func (b *Broker) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	j, err := b.Store.Discard(ctx, u, id)
	if err == nil {
		b.Wake(j.Account)
		b.audit(ctx, "remove", u, j, 1)
		b.NotifyJob(u, id)
	}
	return err
}
