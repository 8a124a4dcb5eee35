package dispatch

import (
	"context"
	"slices"
	"time"
)

// ListPage gives a part of what ListAll gives, as it is known.
func (b *Broker) ListPage(ctx context.Context, u UserID, platforms []string, p Page) ([]Record, error) {
	for _, name := range platforms {
		for _, identity := range []string{string(AccessShared), string(AccessOpen), string(u)} {
			p.Accounts = append(p.Accounts, Account(name+"/"+identity))
		}
	}
	records, err := b.Store.Page(ctx, u, p)
	return admit(records, AsKnown, time.Now()), err
}

// ListTasksPage likewise gives those of the owner's tasks that have jobs which look different since.
func (b *Broker) ListTasksPage(ctx context.Context, u UserID, since time.Time) ([]TaskRecord, error) {
	tasks, err := b.Store.Tasks(ctx, u)
	if err != nil || since.IsZero() {
		return tasks, err
	}
	changed, err := b.Store.ChangedTasks(ctx, u, since)
	return slices.DeleteFunc(tasks, func(t TaskRecord) bool { return !slices.Contains(changed, t.ID) }), err
}
