package documents

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// documentsAtOnce is the number of documents that Revalidate requests concurrently.
const documentsAtOnce = 8

// Revalidate checks whether the documents of waiting jobs' services have changed, and shows [dispatch.ServiceChanged]
// where one has. A document that cannot be fetched keeps its last known state until the next check.
func (d *Documents) Revalidate(ctx context.Context) error {
	origins, err := d.Store.Origins(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(origins))
	var all sync.WaitGroup
	turn := make(chan struct{}, documentsAtOnce)
	for i, o := range origins {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			errs[i] = d.revalidate(ctx, o)
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

func (d *Documents) revalidate(ctx context.Context, o dispatch.Origin) (err error) {
	defer dispatch.RecoverAsError(ctx, d.Log, "dispatch.revalidate", &err)
	backend := d.BackendNamed(o.Platform)
	if backend == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if d.AwaitDocument(ctx, backend, "", o.Service) != nil {
		return nil
	}
	now := backend.Document(ctx, o.Service)
	if now == nil {
		return nil
	}
	owners, err := d.Store.SetDocumentHash(ctx, o, now.Hash())
	if len(owners) > 0 {
		d.Log.LogAttrs(ctx, slog.LevelInfo, "document changed", slog.String("platform", o.Platform),
			slog.String("hash", now.Hash()), slog.Int("waiting", len(owners)))
	}
	slices.Sort(owners)
	for _, u := range slices.Compact(owners) {
		d.Hub.NotifyUser(u)
	}
	return err
}
