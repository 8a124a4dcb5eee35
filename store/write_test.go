package store_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestSave_EachFieldAlone saves jobs of which only one field has changed, all in one batch. SQLite writes some columns
// only if one of them changes; no field may be missed by that.
func TestSave_EachFieldAlone(t *testing.T) {
	half, later := 0.5, start.Add(time.Hour)
	changes := []func(*dispatch.Job){
		func(*dispatch.Job) {},
		func(j *dispatch.Job) { j.Phase = dispatch.Ended },
		func(j *dispatch.Job) { j.Epoch++ },
		func(j *dispatch.Job) { j.Attempt++ },
		func(j *dispatch.Job) { j.Nonces = "1:abcd" },
		func(j *dispatch.Job) { j.IntentLease++ },
		func(j *dispatch.Job) { j.Begun++ },
		func(j *dispatch.Job) { j.SendBy = later },
		func(j *dispatch.Job) { j.Ref.Base = "https://other.example" },
		func(j *dispatch.Job) { j.Ref.ID = "other" },
		func(j *dispatch.Job) { j.Orphans = []dispatch.Ref{{ID: "o"}} },
		func(j *dispatch.Job) { j.Past = []dispatch.Ref{{ID: "p"}} },
		func(j *dispatch.Job) { j.Refused = later },
		func(j *dispatch.Job) { j.Status = dispatch.Queued },
		func(j *dispatch.Job) { j.Seen = dispatch.Queued },
		func(j *dispatch.Job) { j.Progress = &half },
		func(j *dispatch.Job) { j.Costs = &half },
		func(j *dispatch.Job) { j.Attention = dispatch.Stalled },
		func(j *dispatch.Job) { j.Notice = "n" },
		func(j *dispatch.Job) { j.Failure = "f" },
		func(j *dispatch.Job) { j.Deadline = later },
		func(j *dispatch.Job) { j.Duration = time.Second },
		func(j *dispatch.Job) { j.Due = later },
		func(j *dispatch.Job) { j.Polls++ },
		func(j *dispatch.Job) { j.Unmoved = time.Second },
		func(j *dispatch.Job) { j.Tries++ },
		func(j *dispatch.Job) { j.Awaited = true },
		func(j *dispatch.Job) { j.Updated = later },
		func(j *dispatch.Job) { j.Checked = later },
		func(j *dispatch.Job) { j.Moved = later },
	}
	eachDatabase(t, func(t *testing.T, s conformance.Store, _ func()) {
		jobs := drafts(len(changes))
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
			t.Fatal(err)
		}
		var running []dispatch.Job
		for _, d := range jobs {
			j := d.Job
			j.Phase, j.Status, j.Seen, j.Ref, j.Checked = dispatch.Started, dispatch.Running, dispatch.Running,
				dispatch.Ref{ID: "r"}, start
			running = append(running, j)
		}
		running, err := s.Save(t.Context(), running)
		if err != nil {
			t.Fatal(err)
		}
		want := map[dispatch.JobID]dispatch.Job{}
		for i, j := range running {
			changes[i](&j)
			running[i] = j
			j.Version, j.Loaded = j.Version+1, nil
			want[j.ID] = j
		}
		if saved, err := s.Save(t.Context(), running); err != nil || len(saved) != len(changes) {
			t.Fatal(len(saved), err)
		}
		for id, j := range want {
			found, err := s.Load(t.Context(), id)
			if found.Loaded = nil; err != nil || !reflect.DeepEqual(found, j) {
				t.Errorf("saved %+v\n loaded %+v %v", j, found, err)
			}
		}
	})
}
