package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
)

// TestRanFor: a job ran as long as its platform reports or, if it reports none, from its start to its end.
func TestRanFor(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := start.Add(70 * time.Second)
	for want, j := range map[string]wire.ProcessingJobSummary{
		"-":      {Started: &start},
		"1m10s":  {Started: &start, Ended: &end},
		"2.5s":   {Started: &start, Ended: &end, Duration: 2.51},
		"1h0m0s": {Duration: 3600},
	} {
		if got := ranFor(j); got != want {
			t.Errorf("ran for %s, want %s", got, want)
		}
	}
}

func TestWithoutMarks(t *testing.T) {
	for markdown, want := range map[string]string{
		"### The *NDVI*\n\n- an **area**: 3*4*5 km": "The NDVI\n\n- an area: 3*4*5 km",
		"| a | b |\n|---|---:|\n| 1 | 2 |":          "| a | b |\n| 1 | 2 |",
		"* one\n* two *":                            "* one\n* two *",
	} {
		if got := withoutMarks(markdown); got != want {
			t.Errorf("%q: %q", markdown, got)
		}
	}
}

func TestTexts_CannotSteerTheTerminal(t *testing.T) {
	hostile := "a\x1b[2J\u202eb\u2066\u2028c\u009bd\u200f\ufeff\ne"
	const want = "a [2Jb c d\ne"
	if got := printable(hostile); got != want {
		t.Errorf("printable: %q", got)
	}
	if got := Explain(errors.New(hostile)); got != want {
		t.Errorf("Explain: %q", got)
	}
	if got := oneLine(hostile, 100); got != "a [2Jb c d e" {
		t.Errorf("oneLine: %q", got)
	}
}
