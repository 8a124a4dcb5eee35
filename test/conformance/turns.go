package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// served describes when each waiting queue, and its owner, was last served. Agenda and Queues must agree.
func (t storeTest) served(a dispatch.Account) string {
	t.Helper()
	queues, err := t.s.Queues(t.Context(), a)
	t.must(err)
	g, err := t.s.Agenda(t.Context(), a, 1, 0)
	t.must(err)
	var of [2][]string
	for i, all := range [][]dispatch.Queue{queues, g.Queues} {
		for _, l := range all {
			name := strings.TrimPrefix(string(l.Owner), "https://idp.example/realm ")
			of[i] = append(of[i], fmt.Sprintf("%s/%d %d %d", name, l.Task, l.Served, l.OwnerServed))
		}
	}
	t.equal(of[1], of[0])
	return strings.Join(of[0], ", ")
}

// leases leases all due accounts.
func (t storeTest) leases() map[dispatch.Account]dispatch.Lease {
	t.Helper()
	given, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 100}, time.Minute)
	t.must(err)
	all := map[dispatch.Account]dispatch.Lease{}
	for _, l := range given {
		all[l.Account] = l
	}
	return all
}

func (t storeTest) intended(l dispatch.Lease, jobs ...dispatch.Job) []dispatch.Job {
	t.Helper()
	kept, err := t.s.Intend(t.Context(), l, limits, jobs)
	t.must(err)
	return kept
}

// turns checks that each intent to create is a turn of its queue and its owner, in the order of the jobs, counted per
// account, and that all processes see the same, also after a restart.
func (t storeTest) turns() {
	first, annsJobs := t.acceptTask(ann, 4)
	_, bobsJobs := t.acceptTask(bob, 3)
	single, other := t.accept(), t.acceptFor(ann, "q/shared")
	t.accept()
	t.acceptFor(ann, "q/shared")
	leases := t.leases()
	t.equal(t.served(shared), "ann/0 0 0, ann/1 0 0, bob/2 0 0")
	t.intended(leases[shared], bobsJobs[0].Job, annsJobs[0].Job)
	t.equal(t.served(shared), "ann/0 0 2, ann/1 2 2, bob/2 1 1")
	t.s = t.db.Open()
	t.intended(leases[shared], single, bobsJobs[1].Job)
	t.equal(t.served(shared), "ann/0 3 3, ann/1 2 3, bob/2 4 4")
	t.intended(leases["q/shared"], other)
	t.equal(t.served("q/shared"), "ann/0 1 1")

	_, err := t.s.Cancel(t.Context(), ann, annsJobs[1].ID, false)
	t.must(err)
	t.equal(len(t.intended(leases[shared], annsJobs[1].Job)), 0) // it is not wanted, so it gets no turn
	created := t.load(annsJobs[0].ID)
	created.Phase = dispatch.Created
	t.equal(len(t.intended(leases[shared], t.save(created))), 1) // a start is not a turn
	t.equal(t.served(shared), "ann/0 3 3, ann/1 2 3, bob/2 4 4")
	t.s = t.db.Restart()
	t.equal(t.served(shared), "ann/0 3 3, ann/1 2 3, bob/2 4 4")
	t.intended(leases[shared], annsJobs[2].Job)
	t.equal(t.served(shared), fmt.Sprintf("ann/0 3 5, ann/%d 5 5, bob/2 4 4", first.ID))
	_, err = t.s.Intend(t.Context(), dispatch.Lease{Account: shared, Generation: leases[shared].Generation + 1}, limits,
		[]dispatch.Job{annsJobs[3].Job})
	t.kind(err, dispatch.Conflict)
	t.equal(t.served(shared), "ann/0 3 5, ann/1 5 5, bob/2 4 4")
}

// forgottenTurns checks that Purge deletes the turns of queues that are empty, and no others.
func (t storeTest) forgottenTurns() {
	task, jobs := t.acceptTask(ann, 2)
	single := t.accept()
	bobs := []dispatch.Job{t.acceptFor(bob, shared), t.acceptFor(bob, shared)}
	kept := t.intended(t.leases()[shared], single, bobs[0], jobs[0].Job)
	purge := func() { t.must(t.s.Purge(t.Context(), time.Hour)) }
	purge()
	t.accept()
	t.equal(t.served(shared), fmt.Sprintf("ann/0 1 3, ann/%d 3 3, bob/0 2 2", task.ID))
	for _, j := range kept[:2] {
		j.Phase, j.Status = dispatch.Ended, dispatch.Finished
		t.save(j)
	}
	_, err := t.s.Cancel(t.Context(), bob, bobs[1].ID, false)
	t.must(err)
	purge()
	t.acceptFor(bob, shared)
	t.equal(t.served(shared), fmt.Sprintf("ann/0 1 3, ann/%d 3 3, bob/0 0 2", task.ID))
}
