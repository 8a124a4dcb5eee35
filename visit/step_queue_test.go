package visit

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestStepQueue_NoClassWaitsLong(t *testing.T) {
	var q stepQueue
	waited := [classCount]int{}
	for range 1000 {
		for c := range classCount {
			q.due[c] = []dispatch.Job{{}}
		}
		_, took, _ := q.take(all)
		if took >= classMeter {
			t.Fatal("jobs that have ended are asked about before what is more urgent")
		}
		for c := range classMeter {
			waited[c]++
			if c == took {
				waited[c] = 0
			}
			if waited[c] > patience+int(classCount)-3 {
				t.Fatalf("class %d waits for %d turns", c, waited[c])
			}
		}
	}
	q = stepQueue{}
	q.due[classPoll], q.due[classCancel] = []dispatch.Job{{}}, []dispatch.Job{{}}
	if _, c, _ := q.take(func(c class) bool { return c != classCancel }); c != classPoll {
		t.Errorf("class %d is taken when there are no slots for cancels", c)
	}
	q.due[classPoll] = []dispatch.Job{{}}
	if _, c, _ := q.take(all); c != classCancel {
		t.Errorf("class %d goes before a cancel", c)
	}
	if !q.empty(func(c class) bool { return c != classPoll }) || q.empty(all) {
		t.Error("what there are no slots for counts")
	}
}

func all(class) bool { return true }
