package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
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
	if unproven, err := askReceiver(t.Context(), "http://127.0.0.1:1"); unproven == "" || err != nil {
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

// TestDoctor_FindsADiskThatIsAlmostFull, of an SQLite file, before writes fail.
func TestDoctor_FindsADiskThatIsAlmostFull(t *testing.T) {
	for _, row := range []struct {
		all, free uint64
		low       bool
	}{{100 << 30, 2 << 30, false}, {100 << 30, 900 << 20, true}, {1 << 30, 100 << 20, false}, {1 << 30, 0, true},
		{0, 0, false}} {
		if err := lowOn(row.all, row.free); (err != nil) != row.low {
			t.Errorf("%+v: %v", row, err)
		}
	}
	for database, want := range map[string]int{"sqlite:" + t.TempDir() + "/eo.db": 1, "sqlite::memory:": 0,
		"postgres://db/eo": 0} {
		checks := diskChecks(&config.Config{Database: dispatch.Secret(database)})
		if len(checks) != want {
			t.Errorf("%s: %d checks", database, len(checks))
		}
		for _, f := range diagnose(t.Context(), checks, time.Second) {
			if all, free := diskSpace(t.TempDir()); all == 0 || (f.err == nil) != (lowOn(all, free) == nil) {
				t.Errorf("%d of %d bytes: %v", free, all, f.err)
			}
		}
	}
}
