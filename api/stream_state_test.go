package api

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// view is what a client knows of a list or a task by the messages of a stream.
type view struct {
	jobs, tasks map[int64]string
}

// take adds a message. It returns the number of its elements.
func (v *view) take(t *testing.T, m streamMessage) int {
	t.Helper()
	var d struct {
		UpscalingTasks []json.RawMessage `json:"upscaling_tasks"`
		ProcessingJobs []json.RawMessage `json:"processing_jobs"`
		RemovedTasks   []int64           `json:"removed_upscaling_tasks"`
		RemovedJobs    []int64           `json:"removed_processing_jobs"`
		Jobs           []json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(*m.Data, &d); err != nil {
		t.Fatal(err)
	}
	if m.Type == "status" {
		v.jobs, v.tasks = map[int64]string{}, map[int64]string{}
	}
	if m.Type == "status" && m.Task != nil {
		d.UpscalingTasks = append(d.UpscalingTasks, *m.Data)
	}
	d.ProcessingJobs = append(d.ProcessingJobs, d.Jobs...)
	put := func(all map[int64]string, texts []json.RawMessage) {
		for _, text := range texts {
			var one map[string]any
			if err := json.Unmarshal(text, &one); err != nil {
				t.Fatal(err)
			}
			id := int64(one["id"].(float64))
			for _, name := range []string{"jobs", "service", "updated", "dimension", "parameters", "format"} {
				if m.Task != nil && one["counts"] != nil { // an UpscalingTask has what its summary lacks
					delete(one, name)
				}
			}
			shown, _ := json.Marshal(one)
			all[id] = shownIn(shown)
		}
	}
	put(v.tasks, d.UpscalingTasks)
	put(v.jobs, d.ProcessingJobs)
	for _, id := range d.RemovedJobs {
		delete(v.jobs, id)
	}
	for _, id := range d.RemovedTasks {
		delete(v.tasks, id)
	}
	return len(d.UpscalingTasks) + len(d.ProcessingJobs)
}

// manyJobs gives anna jobs, the first of task 1 and the others of none.
func manyJobs(w *world, ofTask, alone int) {
	w.tasks[1] = dispatch.TaskRecord{Counts: dispatch.Counts{dispatch.Running: ofTask},
		Task: dispatch.Task{ID: 1, Owner: anna, Account: "cdse/shared", Dimension: "tile", Created: moment,
			Updated: moment, Request: dispatch.Request{Parameters: json.RawMessage("{}")}}}
	for i := range ofTask + alone {
		r := dispatch.Record{Request: dispatch.Request{Parameters: json.RawMessage(`{"tile":1}`)}, Job: dispatch.Job{
			Identity: dispatch.Identity{ID: dispatch.JobID(i + 1), Owner: anna, Created: moment},
			Target:   dispatch.Target{Account: "cdse/shared"}, Handover: dispatch.Handover{Phase: dispatch.Started},
			Condition: dispatch.Condition{Status: dispatch.Running, Updated: moment}}}
		if i < ofTask {
			r.Task, r.Number = 1, i+1
		}
		w.jobs[r.ID] = r
	}
}

// A stream of changes sends its first state in parts of at most 1,000 elements, and says which of them others follow. A
// stream of whole states, as existing clients open, sends one message.
func TestStream_SendsALongStateInParts(t *testing.T) {
	w := newWorld()
	manyJobs(w, 2500, 1999)
	s := serveWorld(t, w, nil)
	for path, want := range map[string][2][]int{
		"/job_status?":         {{2000}, {1000, 1000}},
		"/ws/jobs_status?":     {{2000}, {1000, 1000}},
		"/ws/upscale_tasks/1?": {{2501}, {1001, 1000, 500}}, // with the task itself
	} {
		for i, query := range []string{"interval=3600", "interval=3600&changes=true"} {
			parts, all := want[i], want[0][0]
			c, v := s.open(path+query), view{}
			for i, n := range parts {
				m := c.next()
				for m.Type == "init" || m.Type == "loading" {
					m = c.next()
				}
				if kind := map[bool]string{true: "status", false: "changes"}[i == 0]; m.Type != kind ||
					m.More != (i < len(parts)-1) {
					t.Errorf("%s%s: message %d is %s, more %v", path, query, i, m.Type, m.More)
				}
				if got := v.take(t, m); got != n {
					t.Errorf("%s%s: message %d has %d elements, want %d", path, query, i, got, n)
				}
			}
			if got := len(v.jobs) + len(v.tasks); got != all {
				t.Errorf("%s%s: %d elements, want %d", path, query, got, all)
			}
			c.CloseNow()
		}
	}
}

// What jobs show of their account takes no number: a stream sends the unfinished ones there when it changes.
func TestStream_SendsWhatAccountsShow(t *testing.T) {
	w := newWorld()
	manyJobs(w, 2, 3)
	s := serveWorld(t, w, nil)
	w.set(4, func(r *dispatch.Record) { r.Status, r.Phase = dispatch.Finished, dispatch.Ended })
	w.set(5, func(r *dispatch.Record) { r.Account = "other/shared" })
	list, task := s.open("/job_status?interval=1&changes=true"), s.open("/ws/upscale_tasks/1?interval=1&changes=true")
	list.until("status")
	task.until("status")
	w.mu.Lock()
	w.accounts = []dispatch.AccountState{{Account: "cdse/shared", Silent: true}}
	w.mu.Unlock()
	for c, want := range map[*client]string{list: "map[3:true] map[1:true]", task: "map[1:true 2:true] map[1:true]"} {
		v, shown := view{jobs: map[int64]string{}, tasks: map[int64]string{}}, [2]map[int64]bool{{}, {}}
		v.take(t, c.until("changes"))
		for id := range v.jobs {
			shown[0][id] = true
		}
		for id := range v.tasks {
			shown[1][id] = true
		}
		if got := fmt.Sprint(shown[0], " ", shown[1]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A client that cannot learn what has changed is sent the whole state again.
func TestStream_BeginsAnew(t *testing.T) {
	w := newWorld()
	manyJobs(w, 0, 3)
	s := serveWorld(t, w, nil)
	c := s.open("/job_status?interval=3600&changes=true&filter=processing")
	v := view{}
	v.take(t, c.until("status"))
	w.mu.Lock()
	delete(w.jobs, 2)
	w.anew = true
	w.mu.Unlock()
	w.set(1, func(r *dispatch.Record) { r.Status = dispatch.Queued })
	m := c.next()
	if v.take(t, m); m.Type != "status" || len(v.jobs) != 2 {
		t.Errorf("%s with %d jobs", m.Type, len(v.jobs))
	}
}
