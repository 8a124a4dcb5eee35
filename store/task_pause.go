package store

import (
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// PauseTask keeps the waiting jobs of a task from being submitted.
func (s *Store) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, "PauseTask", u, id, func(q tx, t lockedTask, now int64) (*taskChange, error) {
		counts, err := countTasks(ctx, q, id)
		if err == nil {
			err = countsOf(counts[id]).Pausable("store.PauseTask")
		}
		if err != nil {
			return nil, err
		}
		if t.paused && !slices.Contains(endedByItself, t.pausedFor) {
			return &taskChange{}, nil
		}
		return markPaused(ctx, q, id, dispatch.None, now)
	})
	return a, err
}

// endedByItself are the reasons of pauses that end without the owner, or during which some jobs are submitted. A pause
// by the owner takes their place.
var endedByItself = []dispatch.Attention{dispatch.Trial, dispatch.CostsAwaited}

// markPaused pauses a task for its owner, or for the reason that its attention shows, and returns the change of its
// jobs.
func markPaused(ctx context.Context, q tx, id dispatch.TaskID, why dispatch.Attention, now int64) (*taskChange, error) {
	if err := markTask(ctx, q, id, true, why, now); err != nil {
		return nil, err
	}
	return changeOfAll(ctx, q, id, changePause)
}

// pauseTask pauses a task in the transaction of another change, see begin. It returns up to which number the jobs are
// paused.
func pauseTask(ctx context.Context, q tx, id dispatch.TaskID, why dispatch.Attention, now int64) (int64, error) {
	c, err := markPaused(ctx, q, id, why, now)
	if err != nil {
		return 0, err
	}
	err = c.begin(ctx, q, now)
	return c.done, err
}

// ResumeTask undoes PauseTask, and ends a trial.
func (s *Store) ResumeTask(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, budget *dispatch.Budget,
) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, "ResumeTask", u, id, func(q tx, t lockedTask, now int64) (*taskChange, error) {
		if err := setBudget(ctx, q, t, budget); err != nil {
			return nil, err
		}
		if err := markTask(ctx, q, id, false, dispatch.None, now); err != nil {
			return nil, err
		}
		return changeOfAll(ctx, q, id, changeResume)
	})
	return a, err
}
