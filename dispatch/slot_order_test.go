package dispatch

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawQueues gives queues as a store may give them: whoever was served was served alone, and holds slots.
func drawQueues(t *rapid.T) (queues []Queue) {
	small := rapid.IntRange(0, 4)
	served := rapid.Permutation([]int64{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).Draw(t, "served")
	ids := rapid.Permutation([]JobID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).Draw(t, "ids")
	for _, u := range []UserID{"ann", "bob", "cem"} {
		held, last := small.Draw(t, "held elsewhere"), int64(0)
		if held > 0 {
			last, served = served[0], served[1:]
		}
		var its []Queue
		for task := range TaskID(small.Draw(t, "queues")) {
			l := Queue{Owner: u, Task: task, Held: small.Draw(t, "held"), Waiting: 1 + small.Draw(t, "waiting"),
				Served: served[0], First: ids[0]}
			l.Due = time.Time{}.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "due")))
			held, last, served, ids = held+l.Held, max(last, l.Served), served[1:], ids[1:]
			its = append(its, l)
		}
		for i := range its {
			its[i].OwnerHeld, its[i].OwnerServed = held, last
		}
		queues = append(queues, its...)
	}
	return rapid.Permutation(queues).Draw(t, "order")
}

// serve gives the next slot by the rule as the documentation says, and counts it. It reports who got it.
func serve(queues []Queue, turn int64) Queue {
	came := func(l Queue) (due time.Time, id JobID) {
		due, id = l.Due, l.First
		for _, other := range queues {
			if other.Owner == l.Owner && (other.Due.Before(due) || other.Due.Equal(due) && other.First < id) {
				due, id = other.Due, other.First
			}
		}
		return due, id
	}
	next := slices.MinFunc(queues, func(a, b Queue) int {
		dueA, idA := came(a)
		dueB, idB := came(b)
		return cmp.Or(cmp.Compare(a.OwnerHeld, b.OwnerHeld), cmp.Compare(a.OwnerServed, b.OwnerServed),
			dueA.Compare(dueB), cmp.Compare(idA, idB),
			cmp.Compare(a.Held, b.Held), cmp.Compare(a.Served, b.Served), a.Due.Compare(b.Due),
			cmp.Compare(a.First, b.First))
	})
	for i, l := range queues {
		if l.Owner == next.Owner {
			queues[i].OwnerHeld, queues[i].OwnerServed = l.OwnerHeld+1, turn
			if l.Task == next.Task {
				queues[i].Held, queues[i].Served, queues[i].Waiting = l.Held+1, turn, l.Waiting-1
			}
		}
	}
	return next
}

type queueName struct {
	UserID
	TaskID
}

func (l Queue) name() queueName { return queueName{l.Owner, l.Task} }

// A job shows the place at which it is submitted when nothing comes and nothing ends meanwhile, whether slots are
// given one by one or many at once.
func TestShare_QueuePlacesFollowIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		want := map[queueName][]int{}
		left := slices.Clone(queues)
		for n := 0; len(left) > 0; n++ {
			one := Share(left, 1)[0].name()
			if next := serve(left, int64(100+n)); next.name() != one {
				t.Fatalf("slot %d goes to %v, want %v, of %+v", n, one, next.name(), left)
			}
			want[one] = append(want[one], n)
			left = slices.DeleteFunc(left, func(l Queue) bool { return l.Waiting == 0 })
		}
		for _, l := range queues {
			place := Ahead(queues, Queue{Owner: l.Owner, Task: l.Task})
			for i := range l.Waiting {
				if got := place(i); got != want[l.name()][i] {
					t.Fatalf("job %d of %s's %d: %v, not %v, of %+v", i, l.Owner, l.Task, got, want[l.name()], queues)
				}
			}
		}
	})
}

// Many slots at once go to whom they would go one by one.
func TestShare_ManySlotsAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		n := rapid.IntRange(0, 12).Draw(t, "slots")
		many := Share(queues, n)
		if len(queues) > 0 && len(many) != n {
			t.Fatalf("%d of %d slots are given", len(many), n)
		}
		for i, l := range many {
			if next := serve(queues, int64(100+i)); next.name() != l.name() {
				t.Fatalf("slot %d goes to %v, want %v", i, l.name(), next.name())
			}
		}
	})
}
