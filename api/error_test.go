package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

func TestErrors_EveryKindHasAResponse(t *testing.T) {
	want := map[dispatch.Kind]string{
		dispatch.Internal: "500 INTERNAL_ERROR", dispatch.Invalid: "422 VALIDATION_ERROR",
		dispatch.SignInRequired: "409 SIGN_IN_REQUIRED",
		dispatch.Forbidden:      "403 FORBIDDEN", dispatch.NotFound: "404 JOB_NOT_FOUND",
		dispatch.Conflict:    "409 CONFLICT",
		dispatch.Unsupported: "501 UNSUPPORTED", dispatch.Busy: "503 PLATFORM_BUSY",
		dispatch.Unavailable: "503 PLATFORM_UNAVAILABLE",
		dispatch.Uncertain:   "502 PLATFORM_UNCERTAIN", dispatch.BadUpstream: "502 PLATFORM_ERROR",
		dispatch.Misconfigured: "502 PLATFORM_ERROR",
		dispatch.LimitReached:  "429 RATE_LIMITED", dispatch.DocumentUnreachable: "503 APPLICATION_UNREACHABLE",
		dispatch.DocumentInvalid: "422 APPLICATION_INVALID",
	}
	w := newWorld()
	h := New(w.config())
	for _, k := range dispatch.Kinds() {
		w.fail = fmt.Errorf("wrapped: %w", &dispatch.Error{Kind: k, Op: "fake", Text: "The platform said <no>.",
			Err: errors.New("canary-cause")})
		a := ask(h, "GET", "/unit_jobs/1", "")
		f := decode[failure](t, a, a.Code)
		if got := fmt.Sprint(a.Code, " ", f.Code); got != want[k] {
			t.Errorf("%v: %s, want %s", k, got, want[k])
		}
		failed(t, a, a.Code, f.Code)
		own := k == dispatch.Internal || k == dispatch.NotFound
		if shown := f.Message == "The platform said <no>."; shown == own {
			t.Errorf("%v: message %q", k, f.Message)
		}
		if strings.Contains(a.Body.String(), "canary") {
			t.Errorf("%v: %s", k, a.Body)
		}
		if logged := strings.Contains(w.log.String(), "canary-cause"); logged != (a.Code >= 500) &&
			k == dispatch.Internal {
			t.Errorf("%v: logged: %v", k, logged)
		}
	}
}

// TestErrors_OfOthersAreWarnings: what a platform or another server fails at is no error of the broker's.
func TestErrors_OfOthersAreWarnings(t *testing.T) {
	want := map[dispatch.Kind]string{
		dispatch.Internal: "ERROR", dispatch.Misconfigured: "ERROR", dispatch.Busy: "WARN",
		dispatch.Unavailable: "WARN",
		dispatch.Uncertain:   "WARN", dispatch.BadUpstream: "WARN", dispatch.DocumentUnreachable: "WARN",
	}
	for _, k := range dispatch.Kinds() {
		w := newWorld()
		w.fail = &dispatch.Error{Kind: k, Op: "fake", Text: "The platform does not give it."}
		ask(New(w.config()), "GET", "/unit_jobs/1", "")
		got := ""
		if line := lines(t, w.log.String())["request failed"]; line != nil {
			got = line["level"].(string)
		}
		if got != want[k] {
			t.Errorf("%v: level %q, want %q", k, got, want[k])
		}
	}
}

func TestErrors_Details(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	get := func(err error, status int, code string) (failure, string) {
		t.Helper()
		w.fail = err
		a := ask(h, "POST", "/unit_jobs", goodBody)
		return failed(t, a, status, code), a.Header().Get("Retry-After")
	}
	f, _ := get(&dispatch.Error{Kind: dispatch.SignInRequired, Text: "Sign in.", Link: "https://link.example.org"}, 409,
		"SIGN_IN_REQUIRED")
	if d := cmp.Diff(map[string]any{"link": "https://link.example.org"}, f.Details); d != "" {
		t.Error(d)
	}
	f, _ = get(&dispatch.Error{Kind: dispatch.SignInRequired, Text: "Sign in."}, 409, "SIGN_IN_REQUIRED")
	if d := cmp.Diff(map[string]any{"link": nil}, f.Details); d != "" {
		t.Error(d)
	}
	for wait, want := range map[time.Duration]string{0: "1", 1500 * time.Millisecond: "2", time.Minute: "60"} {
		if _, after := get(&dispatch.Error{Kind: dispatch.Busy, Text: "x", RetryAfter: wait}, 503,
			"PLATFORM_BUSY"); after != want {
			t.Errorf("Retry-After %q for %v", after, wait)
		}
	}
	if _, after := get(&dispatch.Error{Kind: dispatch.Unavailable, Text: "x", RetryAfter: 3 * time.Second}, 503,
		"PLATFORM_UNAVAILABLE"); after != "3" {
		t.Errorf("Retry-After %q", after)
	}
	get(&dispatch.Error{Kind: dispatch.Unavailable, Text: "x", Err: context.DeadlineExceeded}, 504,
		"PLATFORM_UNAVAILABLE")
	f, _ = get(&dispatch.Error{Kind: dispatch.Invalid, Text: "No such process."}, 422, "VALIDATION_ERROR")
	if d := cmp.Diff([]fault{{Loc: []any{"body"}, Msg: "No such process.", Type: "value_error"}}, f.Detail); d != "" {
		t.Error(d)
	}
	f, _ = get(dispatch.InvalidBody("x", "No such platform; there is: cdse.", "service", "endpoint"), 422,
		"VALIDATION_ERROR")
	if d := cmp.Diff([]string{`["body","service","endpoint"] value_error`}, locs(f.Detail)); d != "" ||
		!strings.Contains(f.Message, "cdse") {
		t.Error(d, f.Message)
	}
	f, _ = get(&dispatch.Error{Kind: dispatch.NotFound, Text: "The platform knows no process x."}, 422,
		"VALIDATION_ERROR")
	if f.Message != "The platform knows no process x." {
		t.Errorf("message %q", f.Message)
	}
	f, _ = get(errors.New("canary"), 500, "INTERNAL_ERROR")
	if f.Details != nil || f.Message != call.InternalText {
		t.Errorf("%+v", f)
	}
}
