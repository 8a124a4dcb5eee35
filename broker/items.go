package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Items keeps what was read of the results of finished jobs, see [dispatch.Item]. A job has an Item from the moment in
// which it has finished until its owner deletes it, or its platform removes it.
type Items interface {
	// DuePlatforms returns the platforms with Items whose results are to be read.
	DuePlatforms(context.Context) ([]string, error)
	// DueItems returns Items at a platform whose results are to be read, n at most, those first that are due longest,
	// and plans the next try of each, see [dispatch.DueItem.Pause].
	DueItems(ctx context.Context, platform string, n int) ([]dispatch.DueItem, error)
	// KeepItem keeps what was read of the results of a job, in place of what was kept before: all but Task and Given,
	// and Body unless the results were given. It keeps nothing if the job is hidden or has not finished.
	KeepItem(context.Context, dispatch.Item) error
	// DropItem forgets the Item of a job, unless its results were given.
	DropItem(context.Context, dispatch.JobID) error
	// Items returns the Items of the owner's jobs as far as they were read or given, with or without Body.
	Items(ctx context.Context, u dispatch.UserID, jobs []dispatch.JobID,
		bodies bool) (map[dispatch.JobID]dispatch.Item, error)
	// FindItems returns a page of the owner's Items that were read. Invalid for an After that is no ItemPage.Next.
	FindItems(context.Context, dispatch.UserID, dispatch.ItemQuery) (dispatch.ItemPage, error)
	// ItemExtents returns what the Items of the owner's tasks cover, as far as it is known.
	ItemExtents(context.Context, dispatch.UserID, []dispatch.TaskID) (map[dispatch.TaskID]dispatch.ItemExtent, error)
	// ItemServices returns the services with Items of the owner, 200 at most, each with one of its jobs.
	ItemServices(context.Context, dispatch.UserID) (map[dispatch.ServiceHash]dispatch.JobID, error)
}

const (
	itemsBatch = 30 // that are claimed together
	itemsEvery = 5 * time.Second
)

// KeepItems reads the results of jobs once they have finished, at each platform one after the other, so that whoever
// looks for them need not wait for their platforms, until ctx ends.
func (b *Broker) KeepItems(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	var reading sync.Map // the platforms whose results are being read
	for dispatch.Sleep(ctx, itemsEvery) == nil {
		due, err := b.Items.DuePlatforms(ctx)
		b.logUnread(ctx, err)
		for _, platform := range due {
			if b.BackendNamed(platform) == nil {
				continue
			}
			if _, busy := reading.LoadOrStore(platform, true); busy {
				continue
			}
			all.Go(func() {
				defer reading.Delete(platform)
				for b.keepDue(ctx, platform) == itemsBatch {
				}
			})
		}
	}
}

func (b *Broker) logUnread(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		b.Log.Log(ctx, dispatch.LogLevel(err), "reading which results are to be read failed", "error", err)
	}
}

// keepDue reads the results at a platform that are to be read, and returns how many it tried to read.
func (b *Broker) keepDue(ctx context.Context, platform string) int {
	due, err := b.Items.DueItems(ctx, platform, itemsBatch)
	b.logUnread(ctx, err)
	tasks := map[dispatch.TaskID]*dispatch.TaskRecord{}
	for _, d := range due {
		err := b.keepItem(ctx, d, tasks)
		if database := dispatch.DatabaseError(err); database != nil && !errors.Is(err, context.Canceled) {
			b.Log.Log(ctx, dispatch.LogLevel(database), "keeping results failed", "job", int64(d.Job), "error",
				database)
		}
	}
	return len(due)
}

// keepItem reads the results of a job. What its platform refuses is tried again later, see [dispatch.DueItem.Pause].
// tasks are those of the jobs before it.
func (b *Broker) keepItem(ctx context.Context, d dispatch.DueItem,
	tasks map[dispatch.TaskID]*dispatch.TaskRecord) (err error) {
	defer dispatch.RecoverAsError(ctx, b.Log, "dispatch.keepItem", &err)
	r, err := b.Records.Record(ctx, d.Owner, d.Job)
	if err != nil || r.Status != dispatch.Finished {
		return err
	}
	if r.Task != 0 && tasks[r.Task] == nil {
		t, err := b.Records.Task(ctx, d.Owner, r.Task)
		if err != nil {
			return err
		}
		tasks[r.Task] = &t
	}
	known, err := b.kept(ctx, d.Owner, d.Job)
	if err != nil {
		return err
	}
	return b.readItem(ctx, d.Owner, &JobResult{Record: r}, tasks[r.Task], known)
}

// FindItems returns a page of the Items of a user. Their links are valid as far as their platforms answer in time, but
// not those to files that the broker passes on, which renews them.
func (b *Broker) FindItems(ctx context.Context, u dispatch.UserID, q dispatch.ItemQuery) (dispatch.ItemPage, error) {
	page, err := b.Items.FindItems(ctx, u, q)
	if err != nil {
		return page, err
	}
	var stale []JobResult
	var at []int
	for i, item := range page.Items {
		backend := b.BackendNamed(item.Account.Platform())
		if item.Fresh(time.Now()) || backend == nil || backend.ProxyAssets && item.Body != nil {
			continue
		}
		r, err := b.Records.Record(ctx, u, item.Job)
		if dispatch.Is(err, dispatch.NotFound) {
			continue
		}
		if err != nil {
			return page, err
		}
		stale, at = append(stale, JobResult{Record: r}), append(at, i)
	}
	err = b.readResults(ctx, u, nil, stale)
	for i, p := range stale {
		if p.Err == nil {
			page.Items[at[i]] = p.Item
		}
	}
	return page, err
}

// ItemExtents returns what the Items of a user's tasks cover, as far as it is known.
func (b *Broker) ItemExtents(ctx context.Context, u dispatch.UserID,
	tasks []dispatch.TaskID) (map[dispatch.TaskID]dispatch.ItemExtent, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	return b.Items.ItemExtents(ctx, u, tasks)
}

// ServicesWithItems returns a job of each service with Items of a user, newest first.
func (b *Broker) ServicesWithItems(ctx context.Context, u dispatch.UserID) (all []dispatch.Record, err error) {
	jobs, err := b.Items.ItemServices(ctx, u)
	for _, id := range jobs {
		r, err := b.Records.Record(ctx, u, id)
		switch {
		case dispatch.Is(err, dispatch.NotFound):
		case err != nil:
			return nil, err
		default:
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.Record) int { return cmp.Compare(b.ID, a.ID) })
	return all, err
}

// RecentTasks returns a user's tasks, newest first, n at most.
func (b *Broker) RecentTasks(ctx context.Context, u dispatch.UserID, after dispatch.Place,
	n int) ([]dispatch.TaskRecord, error) {
	return b.Records.Tasks(ctx, u, dispatch.Page{After: after, Limit: n, Most: dispatch.PartMost})
}
