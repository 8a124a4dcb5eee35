package api

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// revisionBroker reports whether a task may have changed.
type revisionBroker interface {
	// TaskRevision returns a value that changes with everything that is shown of a task. It reads no jobs.
	TaskRevision(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRevision, error)
	// TaskChanges returns a task with its revision, and up to n jobs of it that changed after a time.
	TaskChanges(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, since time.Time, n int) (dispatch.TaskChanges,
		error)
	// QueuePlaces returns how many jobs are ahead of each job of a task that waits at an account.
	QueuePlaces(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Account) (map[dispatch.JobID]int, error)
}

// mostRevisions bounds the topics whose revisions are kept. Above it, all are dropped and learned again.
const mostRevisions = 1000

// revisions maps revisions of tasks that clients poll to the digests of their snapshots. An ETag is a digest and
// depends only on what is shown; a revision only shows that a digest is still current, without reading the task's jobs.
type revisions struct {
	mu sync.Mutex
	of map[topic]revised
}

type revised struct {
	known  bool
	at     dispatch.Revision
	digest uint64
}

// notePolled records that clients poll a topic.
func (r *revisions) notePolled(t topic) {
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

func (r *revisions) polledLately(t topic) bool {
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

// digest returns the digest of the snapshot with a revision, if it is kept.
func (r *revisions) digest(t topic, at dispatch.Revision) (digest uint64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.of[t]
	return kept.digest, kept.known && kept.at == at
}

// buildRevised builds a snapshot. It keeps the revision if that was the same before and after, and if nothing in the
// snapshot depends on the time. For streams of changes it also keeps what the next snapshot is derived from.
func (a *api) buildRevised(ctx context.Context, t topic) (*snapshot, error) {
	if p, err := a.renew(ctx, t); p != nil || err != nil {
		return p, err
	}
	if !a.revisions.polledLately(t) && !a.followers.follow(t) {
		p, err := a.buildSnapshot(ctx, t)
		if err == nil && len(p.texts) >= a.wholes.least {
			a.revisions.notePolled(t) // the next state is kept
		}
		return p, err
	}
	before, failed := a.Broker.TaskRevision(ctx, t.user, t.task)
	p, err := a.buildSnapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.followers.begin(t, p)
	if failed != nil || p.unsure || before.TimeDependent > 0 {
		return p, nil
	}
	after, err := a.Broker.TaskRevision(ctx, t.user, t.task)
	if err != nil {
		return p, nil
	}
	if after == before {
		a.revisions.keep(t, after.Revision, p.digest)
	}
	p.base = baseOf(p, before, after)
	a.wholes.keep(p)
	return p, nil
}

// readIfChanged is readSnapshot for a client that has an ETag of the task. While the task has the kept revision, it
// returns an empty snapshot that has only the digest.
func (a *api) readIfChanged(ctx context.Context, t topic) (*snapshot, error) {
	asked := t
	asked.same = true
	return a.snapshots.get(ctx, asked, func(ctx context.Context) (*snapshot, error) {
		a.revisions.notePolled(t)
		saved, stop := a.Broker.WatchSaves(t.user)
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

// unchanged returns the kept digest of a topic if its revision is current. It returns errors of the database; for any
// other error it reports a change, so that readSnapshot handles it.
func (a *api) unchanged(ctx context.Context, t topic) (digest uint64, same bool, err error) {
	release := a.readers.enter(t.user)
	defer release()
	now, err := a.Broker.TaskRevision(ctx, t.user, t.task)
	if err != nil || now.TimeDependent > 0 {
		if dispatch.DatabaseError(err) == nil {
			err = nil
		}
		return 0, false, err
	}
	digest, same = a.revisions.digest(t, now.Revision)
	return digest, same, nil
}
