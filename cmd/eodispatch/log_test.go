package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNewLog_WritesDurationsWithUnits(t *testing.T) {
	for format, want := range map[string][]string{
		"json": {`"took":"1.235s"`, `"paused":"20m0s"`, `"fast":"12µs"`, `"error":"refused"`},
		"text": {"took=1.235s", "paused=20m0s", "fast=12µs", "error=refused"},
		"auto": {`"took":"1.235s"`}, // the buffer is not a terminal
	} {
		var out bytes.Buffer
		newLog(slog.LevelInfo, format, &out).Info("x", "took", 1234567890*time.Nanosecond, slog.Group("g", "paused",
			20*time.Minute), "fast", 12345*time.Nanosecond, "error", errors.New("refused"))
		for _, text := range want {
			if !strings.Contains(out.String(), text) && !strings.Contains(out.String(), strings.Replace(text, "paused",
				"g.paused", 1)) {
				t.Errorf("%s: %s is not in %s", format, text, &out)
			}
		}
	}
}

// Log lines use the key "error" for errors in all packages, so that operators can search for one word.
func TestLogLines_HaveOneKeyForErrors(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "log_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(`"err"`)) {
			t.Errorf("%s has the text \"err\": the key of errors in log lines is \"error\"", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
