package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// CheckCounts fails the test if counts that a store keeps differ from its jobs. It does nothing for a store that keeps
// none.
func CheckCounts(t testing.TB, s Store) {
	t.Helper()
	counting, keeps := s.(interface {
		WrongCounts(context.Context) (int, error)
	})
	if !keeps {
		return
	}
	if wrong, err := counting.WrongCounts(t.Context()); wrong != 0 || err != nil {
		t.Errorf("%d counts differ from the jobs; error %v", wrong, err)
	}
}

// roundedProgress has a progress counted that lies between two numbers that are stored.
func (t storeTest) roundedProgress() {
	_, jobs := t.acceptTask(ann, 1)
	t.end(jobs[0].ID, dispatch.Running, func(j *dispatch.Job) { j.Progress = amountOf(0.0000025) })
}

// parallelCounts checks the counts after several processes accepted, canceled, deleted, submitted and purged at once.
func (t storeTest) parallelCounts() {
	const each = 6
	var all sync.WaitGroup
	for i, s := range t.handles(4) {
		owner := []dispatch.UserID{ann, bob}[i%2]
		all.Go(func() {
			for n := range each {
				if err := t.changeCounts(s, owner, i*each+n); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range each {
				if err := s.Purge(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	g := t.readAgenda()
	infos, err := t.s.AccountInfo(t.Context(), ann, []dispatch.Account{"", shared}, nil)
	t.must(err)
	// Of each round's four jobs one holds a slot, one waits, one ended, and one was deleted.
	t.equal(fmt.Sprint(g.Held, infos[1].Held, infos[1].Active, infos[1].Waiting, infos[1].Queue, infos[0].Live,
		infos[0].Lately), fmt.Sprint(4*each, 4*each, 2*each, 2*each, 4*each, 4*each, 8*each))
}

// changeCounts accepts four jobs and changes three of them.
func (t storeTest) changeCounts(s Store, owner dispatch.UserID, n int) error {
	task := &dispatch.Task{Owner: owner, Account: shared, Request: request(), Dimension: "tile"}
	jobs := make([]dispatch.Draft, 3)
	for i := range jobs {
		jobs[i] = draft(owner, shared)
		jobs[i].Number, jobs[i].Body = i+1, fmt.Append(nil, n)
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
		return err
	}
	alone := []dispatch.Draft{draft(owner, shared)}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, alone); err != nil {
		return err
	}
	held, ended := jobs[0].Job, alone[0].Job
	held.Phase, held.Status = dispatch.Started, dispatch.Running
	ended.Phase, ended.Status = dispatch.Ended, dispatch.Finished
	saved, err := s.Save(t.Context(), []dispatch.Job{held, ended})
	if err == nil && len(saved) != 2 {
		err = fmt.Errorf("%d jobs were saved", len(saved))
	}
	if err == nil {
		_, err = s.Cancel(t.Context(), owner, jobs[1].ID, true)
	}
	return err
}
