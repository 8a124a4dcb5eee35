package api

import (
	"context"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

type noHooks = dispatch.Hooks

// TestHooks_BadRequests: each fault is named at its place, and nothing is stored.
func TestHooks_BadRequests(t *testing.T) {
	c := newWorld().config()
	failed(t, ask(New(c), "POST", "/hooks", `{"url": "https://r.example.org"}`), 501, "UNSUPPORTED")
	var stored []dispatch.Status
	c.Hooks = struct{ noHooks }{}
	c.CreateHook = func(_ context.Context, u dispatch.UserID, url string, of []dispatch.Status) (dispatch.Hook, dispatch.Secret, error) {
		if strings.HasPrefix(url, "http:") {
			return dispatch.Hook{}, "", &dispatch.Error{Kind: dispatch.Invalid, Text: "only https is allowed"}
		}
		stored = of
		return dispatch.Hook{ID: "h", Owner: u, URL: url, Statuses: of}, "whsec_x", nil
	}
	h := New(c)
	for body, want := range map[string]string{
		`{}`:                                 `"url"`,
		`{"url": 3}`:                         `"url"`,
		`{"url": "http://a"}`:                "only https is allowed",
		`{"url": "https://a", "events": []}`: `"events"`,
		`{"url": "https://a", "events": ["running"]}`:         `"events",0`,
		`{"url": "https://a", "events": "finished"}`:          `"events"`,
		`{"url": "https://a", "events": ["failed", null, 3]}`: `"events",1`,
		`[]`: `"body"`,
	} {
		a := ask(h, "POST", "/hooks", body)
		failed(t, a, 422, "VALIDATION_ERROR")
		if !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %s", body, a.Body)
		}
	}
	if stored != nil {
		t.Errorf("stored: %v", stored)
	}
	a := ask(h, "POST", "/hooks", `{"url": "https://r.example.org"}`)
	if a.Code != 201 || !strings.Contains(a.Body.String(), `"secret":"whsec_x"`) || len(stored) != 3 {
		t.Errorf("%d %s, %v", a.Code, a.Body, stored)
	}
	failed(t, ask(h, "POST", "/hooks/h/deliveries/job-1/send", ""), 404, "HOOK_NOT_FOUND")
}
