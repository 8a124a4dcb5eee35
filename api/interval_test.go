package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSplit_Intervals(t *testing.T) {
	for text, want := range map[string]string{
		`["2024-01-15","2024-03-10"] month`:                       `["2024-01-15","2024-02-01"] ["2024-02-01","2024-03-01"] ["2024-03-01","2024-03-10"]`,
		`["2024-12-30","2025-01-07"] week`:                        `["2024-12-30","2025-01-06"] ["2025-01-06","2025-01-07"]`,
		`["2025-01-05","2025-01-07"] week`:                        `["2025-01-05","2025-01-06"] ["2025-01-06","2025-01-07"]`,
		`["2023-12-01","2024-07-01"] quarter`:                     `["2023-12-01","2024-01-01"] ["2024-01-01","2024-04-01"] ["2024-04-01","2024-07-01"]`,
		`["2023-05-01","2025-01-01"] year`:                        `["2023-05-01","2024-01-01"] ["2024-01-01","2025-01-01"]`,
		`["2024-02-25","2024-03-08"] P5D`:                         `["2024-02-25","2024-03-01"] ["2024-03-01","2024-03-06"] ["2024-03-06","2024-03-08"]`,
		`["2024-02-25","2024-03-08"] P2W`:                         `["2024-02-25","2024-03-08"]`,
		`["2024-02-28","2024-03-01"] day`:                         `["2024-02-28","2024-02-29"] ["2024-02-29","2024-03-01"]`,
		`["2024-01-31T22:00:00-03:00","2024-03-01"] month`:        `["2024-02-01T01:00:00Z","2024-03-01T00:00:00Z"]`,
		`["2024-01-30T12:00:00Z","2024-02-01T12:00:00Z"] day`:     `["2024-01-30T12:00:00Z","2024-01-31T12:00:00Z"] ["2024-01-31T12:00:00Z","2024-02-01T12:00:00Z"]`,
		`["2024-01-30T12:00:00.5Z","2024-02-01T12:00:00Z"] month`: `["2024-01-30T12:00:00.5Z","2024-02-01T00:00:00Z"] ["2024-02-01T00:00:00Z","2024-02-01T12:00:00Z"]`,
	} {
		raw, unit, _ := strings.Cut(text, " ")
		i, err := parseInterval(endsOf(raw))
		s, ok := parseStep(unit)
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", text, err, ok)
			continue
		}
		parts, whole := i.split(s, 100)
		var got []string
		for _, p := range parts {
			got = append(got, string(p))
		}
		if strings.Join(got, " ") != want || !whole {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestParseInterval_Faults(t *testing.T) {
	for _, text := range []string{`["2024-01-01"]`, `["2024-01-01",null]`, `["2024-01-01",".."]`,
		`["2024-01-02","2024-01-01"]`, `["2024-01-01","2024-01-01"]`,
		`["2023-02-29","2024-01-01"]`, `"2024-01-01/2024-02-01"`, `7`, `{}`, `null`,
		`["2024-01-01","2024-02-01","2024-03-01"]`, ``} {
		if i, err := parseInterval(endsOf(text)); err == nil {
			t.Errorf("%s is %v", text, i)
		}
	}
	for _, text := range []string{"", "P", "PD", "D", "10D", "P0D", "P-1D", "P+1D", "P1.5D", "P1M", "P1DT1H",
		"P99999999999999999999D", "P9999999D", "Month", "P1Y"} {
		if s, ok := parseStep(text); ok {
			t.Errorf("%s is %v", text, s)
		}
	}
}

// The parts of an interval follow each other without a gap, and are whole units except for the first and the last.
func TestSplit_PartsCoverTheInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Unix(rapid.Int64Range(0, 1<<31).Draw(t, "from"), 0).UTC()
		i := interval{from: from, to: from.Add(time.Duration(rapid.Int64Range(1, 1e8).Draw(t, "seconds")) *
			time.Second), layout: time.RFC3339Nano}
		s, _ := parseStep(rapid.SampledFrom([]string{"day", "week", "month", "quarter", "year", "P10D", "P3W"}).Draw(t,
			"step"))
		parts, whole := i.split(s, 10_000)
		at := i.from
		for n, raw := range parts {
			part, err := parseInterval(endsOf(string(raw)))
			if err != nil || !part.from.Equal(at) {
				t.Fatalf("part %d is %s, after %v: %v", n, raw, at, err)
			}
			if next := s.next(part.from); part.to.After(next) || n < len(parts)-1 && !part.to.Equal(next) {
				t.Fatalf("part %d is %s", n, raw)
			}
			at = part.to
		}
		if !whole || !at.Equal(i.to) {
			t.Fatalf("the parts end at %v, not %v", at, i.to)
		}
		if few, whole := i.split(s, len(parts)-1); whole || len(few) != len(parts)-1 {
			t.Fatalf("%d parts, %v", len(few), whole)
		}
	})
}

// endsOf returns the texts in a JSON array; none if there is anything else.
func endsOf(text string) (ends []string) {
	_ = json.Unmarshal([]byte(text), &ends)
	return ends
}
