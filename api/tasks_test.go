package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func TestCreateTask(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	a := ask(h, "POST", "/upscale_tasks", goodTask, "Idempotency-Key", "k")
	got := decode[map[string]any](t, a, 201)
	want := map[string]any{"id": 1.0, "title": "NDVI", "label": "openeo", "status": "created",
		"counts": map[string]any{"created": 3.0}, "progress": 0.0, "created": "2026-05-01T10:30:00Z"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if l := a.Header().Get("Location"); l != "/upscale_tasks/1" || w.keys[0].Text != "k" {
		t.Errorf("Location %q, key %v", l, w.keys[0])
	}

	a = ask(h, "GET", "/upscale_tasks/1", "")
	decode[any](t, a, 200)
	if d := cmp.Diff([]string{"counts", "created", "id", "jobs", "label", "progress", "service", "status", "title",
		"updated"}, keysOf(t, a.Body.Bytes())); d != "" {
		t.Error(d)
	}
	if a.Header().Get("Cache-Control") != "private, no-cache" || w.fresh != 10*time.Second {
		t.Errorf("%v, asked for %v", a.Header(), w.fresh)
	}
	task := decode[wire.UpscalingTask](t, a, 200)
	for i, value := range []string{`1.50`, `{"west":1e40}`, `null`} {
		j := task.Jobs[i]
		var parameters map[string]json.RawMessage
		if err := json.Unmarshal(j.Parameters, &parameters); err != nil {
			t.Fatal(err)
		}
		if j.Title != fmt.Sprintf("NDVI - Processing Job %d", i+1) || string(parameters["tile"]) != value ||
			j.TaskID != 1 {
			t.Errorf("job %+v, %s", j, parameters["tile"])
		}
		if string(parameters["n"]) != "12345678901234567890.00100" || string(parameters["html"]) != `"<b>&"` ||
			len(parameters) != 6 {
			t.Errorf("parameters %s", j.Parameters)
		}
	}
}

// Clients wait for a final status; failures show in the counts.
func TestTask_Status(t *testing.T) {
	for _, compat := range []bool{false, true} {
		w := newWorld()
		c := w.config()
		c.Compat.SubmittedAsCreated = compat
		h := New(c)
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
		task := w.tasks[1]
		task.Counts, task.Progress = dispatch.Counts{dispatch.Submitted: 1, dispatch.Accepted: 2}, 12.5
		w.tasks[1] = task
		w.set(1, func(r *dispatch.Record) { r.Status, r.Progress = dispatch.Submitted, new(37.5) })
		want := wire.UpscalingTaskSummary{ID: 1, Title: "NDVI", Label: "openeo", Status: "submitted",
			Counts: map[wire.Status]int{"submitted": 1, "created": 2}, Progress: &task.Progress, Created: moment}
		if compat {
			want.Status, want.Counts = "created", map[wire.Status]int{"created": 3}
		}
		if d := cmp.Diff(want, decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1", ""),
			200).UpscalingTaskSummary); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]wire.UpscalingTaskSummary{want}, decode[wire.JobsStatusResponse](t, ask(h, "GET",
			"/jobs_status", ""), 200).UpscalingTasks); d != "" {
			t.Error(d)
		}
	}
}

func TestCreateTask_ListsAllFaults(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.Limits.Values = 3
	h := New(c)
	with := func(dimension string) string {
		return goodBody[:len(goodBody)-1] + dimension + "}"
	}
	for body, want := range map[string]string{
		goodBody:                                                             `["body","dimension"] missing`,
		with(`,"dimension":[1]`):                                             `["body","dimension"] model_attributes_type`,
		with(`,"dimension":{"values":[1]}`):                                  `["body","dimension","name"] missing`,
		with(`,"dimension":{"name":1,"values":[1]}`):                         `["body","dimension","name"] string_type`,
		with(`,"dimension":{"name":"a\u0000","values":[1]}`):                 `["body","dimension","name"] value_error`,
		with(`,"dimension":{"name":"a"}`):                                    `["body","dimension","values"] missing`,
		with(`,"dimension":{"name":"a","values":null}`):                      `["body","dimension","values"] missing`,
		with(`,"dimension":{"name":"a","values":{}}`):                        `["body","dimension","values"] list_type`,
		with(`,"dimension":{"name":"a","values":[]}`):                        `["body","dimension","values"] too_short`,
		with(`,"dimension":{"name":"a","values":[1,2,3,4]}`):                 `["body","dimension","values"] too_long`,
		with(`,"dimension":{"name":"a","values":[1,{"x":[{"y":1,"y":2}]}]}`): `["body","dimension","values",1,"x",0,"y"] duplicate_member`,
		with(`,"dimension":{"name":"a","values":[1,2,` + strings.Repeat("[", 70) + strings.Repeat("]", 70) +
			`]}`): `["body"] json_too_deep`,
		with(`,"dimension":{"name":"a","values":[1]},"combine":"zip"`):                          `["body","combine"] value_error`,
		with(`,"dimension":{"name":"a","values":[1]},"dimensions":[{"name":"a","values":[1]}]`): `["body","dimensions"] value_error`,
		with(`,"dimensions":[]`):  `["body","dimensions"] too_short`,
		with(`,"dimensions":{}`):  `["body","dimensions"] list_type`,
		with(`,"dimensions":[7]`): `["body","dimensions",0] model_attributes_type`,
		with(`,"dimensions":[{"name":"a","values":[1]},{"name":"b"}]`):                                      `["body","dimensions",1,"values"] missing`,
		with(`,"dimensions":[{"name":"a","values":[1]}],"combine":"both"`):                                  `["body","combine"] enum`,
		with(`,"dimensions":[{"name":"a","values":[1,2]},{"name":"b","values":[1,2]}]`):                     `["body","dimensions"] too_long`,
		with(`,"dimension":{"name":"a","interval":["2024-01-01","2024-02-01"]}`):                            `["body","dimension","split"] missing`,
		with(`,"dimension":{"name":"a","split":"month"}`):                                                   `["body","dimension","interval"] missing`,
		with(`,"dimension":{"name":"a","split":"month","interval":["2024-01-01",null]}`):                    `["body","dimension","interval",1] string_type`,
		with(`,"dimension":{"name":"a","split":"P1M","interval":["2024-01-01","2024-02-01"]}`):              `["body","dimension","split"] value_error`,
		with(`,"dimension":{"name":"a","split":"week","interval":["2024-01-01","2024-02-01"]}`):             `["body","dimension","interval"] too_long`,
		with(`,"dimension":{"name":"a","split":"P1D","interval":["0000-01-01","9999-12-31"],"values":[1]}`): `["body","dimension","values"] value_error`,
		with(`,"dimension":{"name":"a","values":[1,NaN]}`): `["body",` +
			fmt.Sprint(strings.Index(with(`,"dimension":{"name":"a","values":[1,NaN]}`), "NaN")) + `] json_invalid`,
	} {
		f := failed(t, ask(h, "POST", "/upscale_tasks", body), 422, "VALIDATION_ERROR")
		if d := cmp.Diff([]string{want}, locs(f.Detail)); d != "" {
			t.Errorf("%s: %s", body[len(goodBody)-1:], d)
		}
	}
	f := failed(t, ask(h, "POST", "/upscale_tasks", with(`,"dimension":{"name":"a","values":[1,2,3,4]}`)), 422,
		"VALIDATION_ERROR")
	if want := "List should have at most 3 items, not 4"; f.Detail[0].Msg != want {
		t.Errorf("%q, want %q", f.Detail[0].Msg, want)
	}
	f = failed(t, ask(h, "POST", "/upscale_tasks", `{"title":1,"dimension":{"values":[]}}`), 422, "VALIDATION_ERROR")
	if len(f.Detail) != 5 {
		t.Errorf("not every fault is listed: %v", locs(f.Detail))
	}
	if len(w.tasks) != 0 || len(w.jobs) != 0 {
		t.Errorf("%d tasks, %d jobs were kept", len(w.tasks), len(w.jobs))
	}
}

// Generated clients send the defaults of the document, also where they mean nothing.
func TestCreateTask_TakesTheDefaultOfCombine(t *testing.T) {
	body := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"a","values":[1]},"combine":"product"}`
	decode[wire.UpscalingTaskSummary](t, ask(New(newWorld().config()), "POST", "/upscale_tasks", body), 201)
}

func TestCreateTask_LargeValues(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	task := func(n int) string {
		return goodBody[:len(goodBody)-1] + `,"dimension":{"name":"a","values":["` + strings.Repeat("x", n) + `"]}}`
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks", task(10_000_000)), 201)
	if got := len(w.jobs[1].Request.Parameters); got < 10_000_000 {
		t.Errorf("%d bytes were kept", got)
	}
	failed(t, ask(h, "POST", "/upscale_tasks", task(11_000_000)), 413, "PAYLOAD_TOO_LARGE")
}

func TestBroker_Task(t *testing.T) {
	p := &platform{}
	h := newRealAPI(t, p)
	first := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", "/upscale_tasks", goodTask, "Idempotency-Key", "once"),
		201)
	if again := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", "/upscale_tasks", goodTask, "Idempotency-Key",
		"once"), 201); again.ID != first.ID {
		t.Errorf("repeated: %d", again.ID)
	}
	failed(t, ask(h, "POST", "/upscale_tasks", goodTask+" ", "Idempotency-Key", "once"), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", "once"), 422, "VALIDATION_ERROR")
	twice := strings.Replace(goodTask, `"name":"tile"`, `"name":"n"`, 1)
	if f := failed(t, ask(h, "POST", "/upscale_tasks", twice), 422,
		"VALIDATION_ERROR"); locs(f.Detail)[0] != `["body","dimension","name"] value_error` {
		t.Errorf("%v", locs(f.Detail))
	}
	path := fmt.Sprintf("/upscale_tasks/%d", first.ID)
	var task wire.UpscalingTask
	until(t, func() bool {
		task = decode[wire.UpscalingTask](t, ask(h, "GET", path, ""), 200)
		return task.Counts["running"] == 3
	})
	if task.Status != "running" || task.Jobs[2].PlatformJobID == "" || task.Updated.Before(task.Created) {
		t.Errorf("%+v", task)
	}
	list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""), 200)
	if len(list.UpscalingTasks) != 1 || len(list.ProcessingJobs) != 0 || list.UpscalingTasks[0].Status != "running" {
		t.Errorf("listed %+v", list)
	}
	one := decode[wire.ProcessingJob](t, ask(h, "GET", fmt.Sprintf("/unit_jobs/%d", task.Jobs[1].ID), ""), 200)
	if one.TaskID != first.ID || one.Title != "NDVI - Processing Job 2" {
		t.Errorf("its job %+v", one)
	}
	failed(t, ask(h, "GET", path, "", "Authorization", "Bearer token-bert"), 404, "TASK_NOT_FOUND")
	if again := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", path+"/retry", ""),
		200); again.Counts["running"] != 3 {
		t.Errorf("nothing failed: %+v", again)
	}
	for action, paused := range map[string]bool{"pause": true, "resume": false} {
		changed := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", path+"/"+action, ""), 200)
		if changed.Paused != paused || changed.Counts["running"] != 3 {
			t.Errorf("%s: %+v", action, changed)
		}
		if list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""),
			200); list.UpscalingTasks[0].Paused != paused {
			t.Errorf("%s: listed %+v", action, list)
		}
	}
	decode[any](t, ask(h, "POST", path+"/cancel", ""), 200)
	until(t, func() bool {
		task = decode[wire.UpscalingTask](t, ask(h, "GET", path, ""), 200)
		return task.Counts["canceled"] == 3 && task.Status == "canceled"
	})
	decode[any](t, ask(h, "DELETE", path, ""), 200)
	until(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.canceled) == 3
	})
	failed(t, ask(h, "GET", path, ""), 404, "TASK_NOT_FOUND")
	failed(t, ask(h, "POST", "/upscale_tasks", goodTask, "Idempotency-Key", "once"), 409, "CONFLICT")
}

// The jobs of a request that has no body, or null, are all of the task. An object that chooses nothing is refused: its
// sender lost a choice. A body that is not understood changes nothing.
func TestTask_ChosenJobs(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	for _, action := range []string{"cancel", "retry"} {
		path := "/upscale_tasks/1/" + action
		for body, want := range map[string]dispatch.Choice{
			"":               {},
			"null":           {},
			`{"jobs":[3,1]}`: {Jobs: []dispatch.JobID{3, 1}},
			`{"status":["failed","queued"],"jobs":[2]}`: {Jobs: []dispatch.JobID{2},
				Statuses: []dispatch.Status{dispatch.Failed, dispatch.Queued}},
		} {
			w.choices = nil
			decode[any](t, ask(h, "POST", path, body), 200)
			if d := cmp.Diff([]dispatch.Choice{want}, w.choices); d != "" {
				t.Errorf("%s %s: %s", action, body, d)
			}
		}
		w.choices = nil
		for body, want := range map[string]string{
			`{}`:                  `["body"] too_short`,
			`[]`:                  `["body"] model_attributes_type`,
			`{"job":[1]}`:         `["body","job"] extra_forbidden`,
			`{"jobs":[]}`:         `["body","jobs"] too_short`,
			`{"jobs":null}`:       `["body","jobs"] list_type`,
			`{"jobs":[1,"2"]}`:    `["body","jobs",1] int_type`,
			`{"jobs":[1.5]}`:      `["body","jobs",0] int_type`,
			`{"status":"failed"}`: `["body","status"] list_type`,
			`{"status":["lost"]}`: `["body","status",0] enum`,
			`{"jobs":[` + strings.Repeat("1,", 1000) + `1]}`: `["body","jobs"] too_long`,
		} {
			f := failed(t, ask(h, "POST", path, body), 422, "VALIDATION_ERROR")
			if d := cmp.Diff([]string{want}, locs(f.Detail)); d != "" {
				t.Errorf("%s %.40s: %s", action, body, d)
			}
		}
		if len(w.choices) > 0 {
			t.Errorf("%s: %v", action, w.choices)
		}
	}
}

// withServices returns goodTask with services in place of its service.
func withServices(t *testing.T, services string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(goodTask), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "service")
	members["services"] = json.RawMessage(services)
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestCreateTask_WithSeveralServices(t *testing.T) {
	w := newWorld()
	h := New(withCatalogue(w))
	a := ask(h, "POST", "/upscale_tasks", withServices(t,
		`[{"endpoint":"https://a.example","application":"x"},{"endpoint":"https://b.example","namespace":"n","application":"y"}]`))
	decode[any](t, a, 201)
	placements, namespace := w.tasks[1].Request.Placements, "n"
	want := []dispatch.Placement{{Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: "https://a.example",
		Application: "x"}},
		{Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: "https://b.example", Namespace: &namespace,
			Application: "y"}}}
	if d := cmp.Diff(want, placements); d != "" {
		t.Error(d)
	}
	task := w.tasks[1]
	task.Request.Placements[0].Account, task.Request.Placements[1].Account,
		task.Request.Placements[1].Unused = "a/shared", "b/shared", "You may not."
	shown := decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1", ""), 200).Homes
	if d := cmp.Diff([]wire.TaskHome{{Platform: "a", Service: wire.ServiceDetails(want[0].Service)},
		{Platform: "b", Service: wire.ServiceDetails(want[1].Service), Unused: "You may not."}}, shown); d != "" {
		t.Error(d)
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks",
		withServices(t, `[{"endpoint":"https://a.example","application":"x"}]`)), 201)
	if r := w.tasks[2].Request; r.Placements != nil || r.Service.Application != "x" {
		t.Errorf("one service makes %+v", r)
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks", withServices(t, `[{"id":"ndvi composite"},{"id":"fire"}]`)), 201)
	if mixed := w.tasks[3].Request.Placements; mixed[0].Label != dispatch.OpenEO ||
		mixed[1].Label != dispatch.OGCProcess || mixed[1].Service.Application != "fire" {
		t.Errorf("services of two protocols are %+v", mixed)
	}
	for services, where := range map[string]string{
		`[]`: "[body services]", `{}`: "[body services]",
		`[{"endpoint":"https://a.example","application":"x"},3]`: "[body services 1]",
		`[{"endpoint":7,"application":"x"},{"endpoint":"https://b.example","application":"y"}]`: "[body " +
			"services 0 endpoint]",
		`[{"endpoint":"https://a.example","application":"x"},{"endpoint":"https://b.example"}]`: "[body " +
			"services 1 application]",
		`[{"endpoint":"https://a.example","application":"x"},{"id":"nothing"}]`: "[body services 1 id]",
		"[" + strings.Repeat(`{"endpoint":"https://a.example","application":"x"},`, 8) + `{"id":"a"}]`: "[body " +
			"services]",
	} {
		f := failed(t, ask(h, "POST", "/upscale_tasks", withServices(t, services)), 422, "VALIDATION_ERROR")
		if got := fmt.Sprint(f); !strings.Contains(got, where) {
			t.Errorf("%s: %s, want a fault at %s", services, got, where)
		}
	}
}
