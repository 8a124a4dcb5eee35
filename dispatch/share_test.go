package dispatch

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A job is told the place at which it is submitted when nothing comes and nothing ends meanwhile.
func TestPlacesInTheQueueAreThoseOfTheShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(0, 4)
		var lines []Line
		for _, u := range []UserID{"ann", "bob", "cem"} {
			held := small.Draw(t, "held elsewhere")
			var its []Line
			for task := range TaskID(small.Draw(t, "lines")) {
				l := Line{Owner: u, Task: task, Held: small.Draw(t, "held"), Waiting: 1 + small.Draw(t, "waiting")}
				held += l.Held
				its = append(its, l)
			}
			for i := range its {
				its[i].OwnerHeld = held
			}
			lines = append(lines, its...)
		}
		slices.SortFunc(lines, func(a, b Line) int { return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Task, b.Task)) })

		type name struct {
			UserID
			TaskID
		}
		want := map[name][]int{}
		left := slices.Clone(lines)
		for n := 0; len(left) > 0; n++ {
			next := share(left, 1)[0]
			want[name{next.Owner, next.Task}] = append(want[name{next.Owner, next.Task}], n)
			for i, l := range left {
				if l.Owner == next.Owner {
					left[i].OwnerHeld++
					if l.Task == next.Task {
						left[i].Held++
						left[i].Waiting--
					}
				}
			}
			left = slices.DeleteFunc(left, func(l Line) bool { return l.Waiting == 0 })
		}
		for _, l := range lines {
			if got := ahead(lines, Line{Owner: l.Owner, Task: l.Task}, l.Waiting); !slices.Equal(got, want[name{l.Owner, l.Task}]) {
				t.Fatalf("%s's %d: %v, not %v, of %+v", l.Owner, l.Task, got, want[name{l.Owner, l.Task}], lines)
			}
		}
	})
}
