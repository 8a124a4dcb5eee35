package ogcapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// oneJob is a broker that has one job.
type oneJob struct {
	job     dispatch.Record
	task    dispatch.TaskRecord
	results error // why there are none
}

func (b oneJob) Task(_ context.Context, _ dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	if id != b.task.ID {
		return dispatch.TaskRecord{}, &dispatch.Error{Kind: dispatch.NotFound}
	}
	return b.task, nil
}

func (b oneJob) Read(_ context.Context, _ dispatch.UserID, id dispatch.JobID, _ time.Duration) (dispatch.Record,
	error) {
	if id != b.job.ID {
		return dispatch.Record{}, &dispatch.Error{Kind: dispatch.NotFound}
	}
	return b.job, nil
}

func (b oneJob) Results(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error) {
	return json.RawMessage(`{"type": "Collection"}`), b.results
}

func (oneJob) RecentResults(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error) {
	return json.RawMessage(`{"type": "Collection", "id": "read before"}`), nil
}

// facadeOf returns a façade that reads from a broker with one job.
func facadeOf(b oneJob) *Facade {
	f := New(Config{Services: catalogue.New(catalogue.Config{})})
	f.jobs = b
	return f
}

// TestMessage_WithoutResults: a subscriber whose results are gone for good gets the status with the reason. Results
// that may still come are waited for, not longer than the message is repeated.
func TestMessage_WithoutResults(t *testing.T) {
	lost := func(kind dispatch.Kind, text string) error { return &dispatch.Error{Kind: kind, Text: text} }
	for name, c := range map[string]struct {
		now     dispatch.Status
		results error
		queued  time.Duration // ago
		message string        // "": none is written now
	}{
		"expunged": {dispatch.Finished, lost(dispatch.NotFound, "The platform has no such job."), 0,
			"The job was successful, but its results cannot be sent: The platform has no such job."},
		"no longer kept": {dispatch.Finished, lost(dispatch.Conflict, "They are no longer kept."), 0,
			"The job was successful, but its results cannot be sent: They are no longer kept."},
		"late":              {dispatch.Finished, lost(dispatch.Busy, "Ask again later."), time.Hour, ""},
		"the platform down": {dispatch.Finished, lost(dispatch.Unavailable, "It does not respond."), time.Hour, ""},
		"down for long": {dispatch.Finished, lost(dispatch.Unavailable, "It does not respond."), patience + time.Minute,
			"The job was successful, but its results cannot be sent: It does not respond."},
		"to be signed in": {dispatch.Finished, lost(dispatch.SignInRequired, "Sign in."), time.Hour, ""},
		"failed since": {dispatch.Failed, nil, 0,
			"The job was successful, but its results cannot be sent: The job failed: its platform gives no reason."},
		"canceled since": {dispatch.Canceled, nil, 0,
			"The job was successful, but its results cannot be sent: The job was dismissed and has no results."},
		"running again": {dispatch.Running, nil, 0,
			"The job was successful, but its results cannot be sent: The job has not ended. Read its status until it " +
				"is successful."},
	} {
		f := facadeOf(oneJob{job: dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: 7},
			Condition: dispatch.Condition{Status: c.now}}}, results: c.results})
		text, media, err := f.Message(t.Context(), dispatch.Hook{Owner: "ann"},
			dispatch.Delivery{Event: dispatch.Event{Job: 7, Status: dispatch.Finished},
				Queued: time.Now().Add(-c.queued)})
		if c.message == "" {
			if err != c.results {
				t.Errorf("%s: %s, %v", name, text, err)
			}
			continue
		}
		var info statusInfo
		if err != nil || media != mediaJSON || json.Unmarshal(text, &info) != nil || info.JobID != "7" ||
			info.Status != successful || info.Message != c.message {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// TestMessage_Repeated: a receiver that fails does not cost the platform a request for each try.
func TestMessage_Repeated(t *testing.T) {
	f := facadeOf(oneJob{job: dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: 7},
		Condition: dispatch.Condition{Status: dispatch.Finished}}}})
	for tries, before := range map[int]bool{1: false, 2: true, 9: true} {
		text, _, err := f.Message(t.Context(), dispatch.Hook{Owner: "ann"},
			dispatch.Delivery{Event: dispatch.Event{Job: 7,
				Status: dispatch.Finished}, Tries: tries})
		if err != nil || strings.Contains(string(text), "read before") != before {
			t.Errorf("try %d: %s, %v", tries, text, err)
		}
	}
}

// TestMessage_Running: a subscriber learns that a job or a task runs although it has ended since, with nothing that
// holds only after the end.
func TestMessage_Running(t *testing.T) {
	whole := 100.0
	b := oneJob{job: dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: 7},
		Condition: dispatch.Condition{Status: dispatch.Finished, Progress: &whole}}},
		task: dispatch.TaskRecord{Task: dispatch.Task{ID: 3}, Counts: dispatch.Counts{dispatch.Finished: 2}}}
	f := facadeOf(b)
	for name, e := range map[string]dispatch.Event{"job": {Job: 7, Status: dispatch.Running},
		"task": {Of: 3, Status: dispatch.TaskRunning}} {
		text, _, err := f.Message(t.Context(), dispatch.Hook{Owner: "ann"}, dispatch.Delivery{Event: e})
		var info statusInfo
		if err != nil || json.Unmarshal(text, &info) != nil || info.Status != running || info.Finished != nil ||
			*info.Progress != 0 || strings.Contains(string(text), "rel/ogc/1.0/results") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// TestMessage_OfATask: a task is one job to a subscriber, whose result is a link.
func TestMessage_OfATask(t *testing.T) {
	for name, c := range map[string]struct {
		counts dispatch.Counts
		task   dispatch.TaskID
		of     dispatch.Status
		want   string // in the message
	}{
		"some ended": {dispatch.Counts{dispatch.Finished: 1, dispatch.Running: 1}, 3, dispatch.TaskRunning,
			`"status":"running"`},
		"ended since": {dispatch.Counts{dispatch.Finished: 2}, 3, dispatch.TaskRunning, `"status":"running"`},
		"finished": {dispatch.Counts{dispatch.Finished: 2}, 3, dispatch.TaskFinished,
			`{"stac":{"href":"https://b.example.org/sub/upscale_tasks/3/results","type":"application/json"}}`},
		"failed": {dispatch.Counts{dispatch.Failed: 2}, 3, dispatch.TaskFailed,
			`"status":"failed","message":"2 jobs: 0 finished, 2 failed, 0 canceled"`},
		"canceled": {dispatch.Counts{dispatch.Finished: 1, dispatch.Canceled: 1}, 3, dispatch.TaskFailed,
			`"status":"dismissed"`},
		"retried since": {dispatch.Counts{dispatch.Running: 2}, 3, dispatch.TaskFailed, `"status":"failed"`},
		"deleted since": {nil, 4, dispatch.TaskFinished,
			`"jobID":"t-3","id":"t-3","processingEntityType":"ogc-api-processes","status":"successful","message":"The task was deleted."`},
		"a test of hers": {nil, 0, dispatch.TestEvent, `"message":"This is a test."`},
	} {
		is := dispatch.TaskRecord{Task: dispatch.Task{ID: c.task,
			Request: dispatch.Request{Facade: json.RawMessage(
				`{"root": "https://b.example.org/sub/ogcapi", "response": "raw"}`)}}, Counts: c.counts}
		f := facadeOf(oneJob{task: is})
		d := dispatch.Delivery{Event: dispatch.Event{Of: 3, Status: c.of}}
		if c.of == dispatch.TestEvent {
			d.Of = 0
		}
		text, media, err := f.Message(t.Context(), dispatch.Hook{Owner: "ann"}, d)
		if err != nil || media != mediaJSON || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// TestParseSubscriber: messages are signed with the secret that a client gives, which is not shown again.
func TestParseSubscriber(t *testing.T) {
	all, err := parseSubscriber(json.RawMessage(
		`{"successUrl": "https://a", "failedUri": "https://b", "eodispatch:secret": "whsec_x"}`), eventsOfTask)
	if err != nil || len(all) != 2 || all[0].Statuses[0] != dispatch.TaskFinished || all[1].URL != "https://b" ||
		all[1].Secret.Reveal() != "whsec_x" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := parseSubscriber(json.RawMessage(`{"eodispatch:secret": {"a": "whsec_x"}}`), eventsOfJob); err == nil ||
		strings.Contains(err.Error(), "whsec_x") {
		t.Error(err)
	}
	if _, err := parseSubscriber(json.RawMessage(`{"failedUri": "https://example.org/`+strings.Repeat("x", mostURL)+
		`"}`), eventsOfJob); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long URL: %v", err)
	}
}
