package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestDoctor_SaysWhatItCannotCheck, in place of a plain "ok".
func TestDoctor_SaysWhatItCannotCheck(t *testing.T) {
	checks := []check{{name: "exchange", advice: "see the docs", ask: func(context.Context) (string, error) {
		return "whether it may", nil
	}}}
	if row := diagnose(t.Context(), checks, time.Second)[0].row(); row != [3]string{"ok", "exchange",
		"not checked: whether it may; see the docs"} {
		t.Error(row)
	}
}

// TestDoctor_AsksTrustedReceivers: one that is down may come back, one whose name nobody knows is a fault.
func TestDoctor_AsksTrustedReceivers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if unproven, err := askReceiver(t.Context(), server.URL); unproven != "" || err != nil {
		t.Errorf("one that answers: %q, %v", unproven, err)
	}
	server.Close()
	if unproven, err := askReceiver(t.Context(), server.URL); unproven == "" || err != nil {
		t.Errorf("one that is down: %q, %v", unproven, err)
	}
}

// TestDoctor_PrintsTextAlone: what platforms and users wrote reaches an operator's terminal without control characters.
func TestDoctor_PrintsTextAlone(t *testing.T) {
	var printed strings.Builder
	if err := (&doctorCommand{}).print(&printed, nil, nil, []string{"job\x1b[2J\u009b1m\u202e"}); err != nil {
		t.Fatal(err)
	}
	if said := printed.String(); !strings.Contains(said, "job [2J 1m") ||
		strings.ContainsAny(said, "\x1b\u009b\u202e") {
		t.Errorf("%q", said)
	}
}
