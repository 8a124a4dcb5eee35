package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

type noHooks = Hooks

// TestHooks_BadRequests: each fault is named at its place, and nothing is stored.
func TestHooks_BadRequests(t *testing.T) {
	c := newWorld().config()
	var stored []dispatch.Status
	c.Hooks = struct{ noHooks }{}
	c.CreateHook = func(_ context.Context, u dispatch.UserID,
		n dispatch.Notify) (dispatch.Hook, dispatch.Secret, error) {
		if strings.HasPrefix(n.URL, "http:") {
			return dispatch.Hook{}, "", &dispatch.Error{Kind: dispatch.Invalid, Text: "only https is allowed"}
		}
		stored = n.Statuses
		return dispatch.Hook{ID: "h", Owner: u, URL: n.URL, Statuses: n.Statuses}, "whsec_x", nil
	}
	h := New(c)
	for body, want := range map[string]string{
		`{}`:                                 `"url"`,
		`{"url": 3}`:                         `"url"`,
		`{"url": "http://a"}`:                "only https is allowed",
		`{"url": "https://a", "events": []}`: `"events"`,
		`{"url": "https://a", "events": ["ended"]}`:           `"events",0`,
		`{"url": "https://a", "events": "finished"}`:          `"events"`,
		`{"url": "https://a", "events": ["failed", null, 3]}`: `"events",1`,
		`{"url": "https://a", "shares": [10]}`:                `"shares"`,
		`{"url": "https://a", "event": ["failed"]}`:           `"event"`,
		`[]`: `"body"`,
	} {
		a := ask(h, "POST", "/hooks", body)
		failed(t, a, 422, "VALIDATION_ERROR")
		if !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %s", body, a.Body)
		}
		if n := len(decode[struct{ Detail []any }](t, a, 422).Detail); n != max(1, strings.Count(body, "null, 3")*2) {
			t.Errorf("%s: %d faults: %s", body, n, a.Body)
		}
	}
	if stored != nil {
		t.Errorf("stored: %v", stored)
	}
	if ask(h, "POST", "/hooks",
		`{"url": "https://a", "events": ["task_share", "task_share"], "shares": [10]}`); len(stored) != 1 {
		t.Errorf("an event that is named twice: %v", stored)
	}
	a := ask(h, "POST", "/hooks", `{"url": "https://r.example.org"}`)
	if a.Code != 201 || !strings.Contains(a.Body.String(), `"secret":"whsec_x"`) || len(stored) != 3 {
		t.Errorf("%d %s, %v", a.Code, a.Body, stored)
	}
	failed(t, ask(h, "POST", "/hooks/h/deliveries/job-1/send", ""), 404, "HOOK_NOT_FOUND")
}

// TestNotify_OfARequest: what a request asks for reaches the broker, and is not kept with the request or sent to the
// platform. Faults are named at their places.
func TestNotify_OfARequest(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	with := func(options string) string {
		return strings.Replace(goodBody, `{"title"`, `{"options":`+options+`,"title"`, 1)
	}
	for options, want := range map[string]string{
		`{"notify": {"url": "https://a", "events": ["failed", "running"], "secret": "whsec_s"}, "driver": "x"}`: `{"driver":"x"} [{webhook https://a [failed running] false [redacted]}]`,
		`{"notify": {"url": "https://a"}}`: ` [{webhook https://a [] false [redacted]}]`,
		`{"notify": {"url": "https://a", "events": ["task_share", "task_ended"], "shares": [10]}}`: ` [{webhook https://a [task_ended task_share_10] false [redacted]}]`,
		`{"notify": {"url": "https://a", "events": ["task_share", "attention"]}}`:                  ` [{webhook https://a [attention task_share_25 task_share_50 task_share_75] false [redacted]}]`,
		`{"notify": null}`: ` []`,
	} {
		id := decode[struct{ ID int64 }](t, ask(h, "POST", "/unit_jobs", with(options)), 201).ID
		got := w.jobs[dispatch.JobID(id)].Request
		if len(got.Notify) > 0 && strings.Contains(options, "secret") != (got.Notify[0].Secret.Reveal() == "whsec_s") {
			t.Errorf("%s: the secret is lost", options)
		}
		if text := fmt.Sprintf("%s %v", got.Options, got.Notify); text != want {
			t.Errorf("%s: %s, not %s", options, text, want)
		}
	}
	for notify, want := range map[string]string{
		`3`: `["body","options","notify"]`, `{}`: `["body","options","notify","url"]`,
		`{"url": 3}`: `["body","options","notify","url"]`,
		`{"url": "https://a", "events": ["ended"]}`:                       `["body","options","notify","events",0]`,
		`{"url": "https://a", "secret": 3}`:                               `["body","options","notify","secret"]`,
		`{"url": "https://a", "events": ["task_share"], "shares": [100]}`: `["body","options","notify","shares",0]`,
		`{"url": "https://a", "events": ["task_share"], "shares": 25}`:    `["body","options","notify","shares"]`,
	} {
		a := ask(h, "POST", "/unit_jobs", with(`{"notify": `+notify+`}`))
		if got := locs(failed(t, a, 422, "VALIDATION_ERROR").Detail); len(got) != 1 ||
			!strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", notify, got)
		}
	}
}
