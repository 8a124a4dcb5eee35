package main

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Two builds of different commits can be told apart, whatever built them.
func TestVersionOf(t *testing.T) {
	built := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"},
			{Key: "vcs.time", Value: "2026-11-27T08:00:00Z"}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, c := range []struct {
		set             string
		info            *debug.BuildInfo
		version, commit string
	}{
		{"1.2.0", built("false"), "1.2.0", "0123456789abcdef0123 2026-11-27T08:00:00Z"},
		{"", built("false"), "0.0.0-0123456789ab", "0123456789abcdef0123 2026-11-27T08:00:00Z"},
		{"", built("true"), "0.0.0-0123456789ab-dirty", "0123456789abcdef0123-dirty 2026-11-27T08:00:00Z"},
		{"", &debug.BuildInfo{}, "0.0.0-unknown", ""},
		{"1.2.0", nil, "1.2.0", ""},
	} {
		if version, commit := versionOf(c.set, c.info), commitOf(c.info); version != c.version || commit != c.commit {
			t.Errorf("%s, %q; want %s, %q", version, commit, c.version, c.commit)
		}
	}
}

// Faults that were found together are explained one by one, without the words that are for the log.
func TestExplained_EachOfSeveral(t *testing.T) {
	fault := func(text string) error {
		return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "identity.Token", Err: errors.New(text)}
	}
	err := withAdvice{errors.Join(fault("the key a is missing"), fault("the key b is missing")), "put it back"}
	if got := explained(err); got != "the key a is missing; the key b is missing" {
		t.Error(got)
	}
}

// An error that knows what to do about it replaces the advice of its check, as that about a missing key does the
// advice about the server.
func TestDiagnose_AdviceOfTheError(t *testing.T) {
	found := diagnose(t.Context(), []check{{name: "database", advice: "check that the server is running",
		ask: withoutUnproven(func(context.Context) error {
			return withAdvice{errors.New("a key is missing"), "put it back"}
		})}}, time.Minute)
	if found[0].advice != "put it back" || found[0].err.Error() != "a key is missing" {
		t.Errorf("%+v", found[0])
	}
}
