package api

import (
	"context"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// revisionBroker tells whether a task may have changed.
type revisionBroker interface {
	// TaskRevision tells what stands for all that is shown of a task, without reading its jobs.
	TaskRevision(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRevision, error)
}

// mostRevisions is how many topics' revisions are kept. With more, all are forgotten, and learned again.
const mostRevisions = 1000

// revisions keeps the digests of the snapshots of tasks that clients ask for again and again, with the revisions that they stand for. An
// ETag is a digest and made of what is shown alone; a revision only tells that a digest still holds, without reading the task's jobs.
type revisions struct {
	mu sync.Mutex
	of map[topic]revised
}

type revised struct {
	known  bool
	at     dispatch.Revision
	digest uint64
}

// want notes that clients ask for a topic again and again.
func (r *revisions) want(t topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, wanted := r.of[t]; wanted {
		return
	}
	if r.of == nil || len(r.of) >= mostRevisions {
		r.of = map[topic]revised{}
	}
	r.of[t] = revised{}
}

func (r *revisions) wanted(t topic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, wanted := r.of[t]
	return wanted
}

func (r *revisions) keep(t topic, at dispatch.Revision, digest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, wanted := r.of[t]; wanted {
		r.of[t] = revised{true, at, digest}
	}
}

// digest gives that of the snapshot with a revision, if it is kept.
func (r *revisions) digest(t topic, at dispatch.Revision) (digest uint64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.of[t]
	return kept.digest, kept.known && kept.at == at
}

// buildRevised builds a snapshot, and keeps its revision if that was the same before and after, and nothing in it depends on the time.
func (a *api) buildRevised(ctx context.Context, t topic) (*snapshot, error) {
	if !a.revisions.wanted(t) {
		return a.buildSnapshot(ctx, t)
	}
	before, failed := a.Broker.TaskRevision(ctx, t.user, t.task)
	p, err := a.buildSnapshot(ctx, t)
	if err != nil || failed != nil || p.unsure || before.Unsure > 0 {
		return p, err
	}
	if after, err := a.Broker.TaskRevision(ctx, t.user, t.task); err == nil && after == before {
		a.revisions.keep(t, after.Revision, p.digest)
	}
	return p, nil
}

// readIfChanged is readSnapshot for a client that has seen the task. It returns an empty snapshot, which has only the digest, while the
// task's revision is the one that was kept.
func (a *api) readIfChanged(ctx context.Context, t topic) (*snapshot, error) {
	asked := t
	asked.same = true
	return a.snapshots.get(ctx, asked, func(ctx context.Context) (*snapshot, error) {
		a.revisions.want(t)
		saved, stop := a.Broker.Answers(t.user)
		digest, same, err := a.unchanged(ctx, t)
		if err != nil || !same {
			stop()
			if err == nil {
				return a.readSnapshot(ctx, t)
			}
			return nil, err
		}
		p := &snapshot{topic: t, empty: true, outline: outline{digest: digest}}
		a.snapshots.keep(asked, &kept{p, saved, stop})
		return p, nil
	})
}

// unchanged returns the kept digest of a topic if its revision still holds. Errors are the database's; a task that cannot be read for
// another reason is left to readSnapshot.
func (a *api) unchanged(ctx context.Context, t topic) (digest uint64, same bool, err error) {
	release := a.readers.enter(t.user)
	defer release()
	now, err := a.Broker.TaskRevision(ctx, t.user, t.task)
	if err != nil || now.Unsure > 0 {
		if dispatch.OfDatabase(err) == nil {
			err = nil
		}
		return 0, false, err
	}
	digest, same = a.revisions.digest(t, now.Revision)
	return digest, same, nil
}
