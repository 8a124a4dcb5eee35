package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// TestTaskPlatforms counts the jobs at each platform of a task, and how many finish there in an hour.
func TestTaskPlatforms(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.SignInLink = func(a dispatch.Account) string { return "https://broker.example/link/" + a.Platform() }
	h := New(c)
	at := func(platform, notice string) dispatch.Placement {
		return dispatch.Placement{Service: dispatch.Service{Endpoint: "https://" + platform + ".example",
			Application: "x"}, Account: dispatch.Account(platform + "/shared"), Notice: notice}
	}
	w.tasks[1] = dispatch.TaskRecord{Task: dispatch.Task{ID: 1, Owner: anna, Created: moment,
		Request: dispatch.Request{Placements: []dispatch.Placement{at("a", ""), at("b", "Link it.")}}}}
	add := func(id int, platform string, s dispatch.Status, ended time.Duration) {
		w.jobs[dispatch.JobID(id)] = dispatch.Record{Read: moment.Add(2 * time.Hour),
			Job: dispatch.Job{Identity: dispatch.Identity{ID: dispatch.JobID(id), Number: id, Task: 1, Owner: anna},
				Target: dispatch.Target{Account: dispatch.Account(platform +
					"/shared")}, Condition: dispatch.Condition{Status: s, Updated: moment, Moved: moment.Add(ended)}}}
	}
	add(1, "a", dispatch.Finished, 30*time.Minute) // more than an hour ago
	add(2, "a", dispatch.Finished, 90*time.Minute)
	add(3, "a", dispatch.Finished, 100*time.Minute)
	add(4, "a", dispatch.Failed, 100*time.Minute)
	add(5, "a", dispatch.Running, 100*time.Minute)
	add(6, "b", dispatch.Accepted, 0)
	read := func() []wire.PlatformProgress {
		t.Helper()
		return decode[wire.TaskPlatforms](t, ask(h, "GET", "/upscale_tasks/1/platforms", ""), 200).Platforms
	}
	placement := func(platform, notice, link string) wire.TaskHome {
		return wire.TaskHome{Platform: platform,
			Service: wire.ServiceDetails{Endpoint: "https://" + platform + ".example",
				Application: "x"}, Notice: notice, Link: link}
	}
	answered := moment.Add(-time.Hour)
	w.platforms = []broker.PlatformInfo{{Backend: &dispatch.Backend{Name: "b"}, State: dispatch.StateUnreachable,
		AccountInfo: dispatch.AccountInfo{Account: "b/shared", Why: dispatch.Unreachable, Answered: answered,
			Failed: moment, Failure: "It is away."}}}
	want := []wire.PlatformProgress{{TaskHome: placement("a", "", ""), Counts: map[wire.Status]int{"finished": 3,
		"failed":  1,
		"running": 1}, PerHour: 2}, {TaskHome: placement("b", "Link it.", "https://broker.example/link/b"),
		Counts: map[wire.Status]int{"created": 1}, State: "unreachable", LastAnswer: &answered, Failure: "It is away.",
		Attention: &wire.JobAttention{Code: "platform_unavailable",
			Message: openapi.Attentions[dispatch.Unreachable]}}}
	if d := cmp.Diff(want, read()); d != "" {
		t.Error(d)
	}
	add(5, "a", dispatch.Canceled, 110*time.Minute)
	add(6, "b", dispatch.Finished, 110*time.Minute)
	if got := read(); got[0].PerHour != 2 || got[1].PerHour != 1 {
		t.Errorf("after the end %+v", got)
	}
	task := w.tasks[1]
	task.Account, task.Request = "a/shared", dispatch.Request{Service: dispatch.Service{Endpoint: "https://a.example",
		Application: "x"}}
	w.tasks[1] = task
	if got := read(); len(got) != 1 || got[0].Platform != "a" || got[0].Counts["finished"] != 3 {
		t.Errorf("of one service %+v", got)
	}
	failed(t, ask(h, "GET", "/upscale_tasks/2/platforms", ""), 404, "TASK_NOT_FOUND")
}
