package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var allStatuses = []Status{Accepted, Submitted, Queued, Running, Finished, Canceled, Failed, Unknown}

// The rules as the contract has them, each read for itself.
func TestCounts_StatusOfATask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Counts{}
		for _, s := range allStatuses {
			if n := rapid.IntRange(0, 2).Draw(t, string(s)); n > 0 {
				c[s] = n
			}
		}
		any := func(s Status) bool { return c[s] > 0 }
		someEnded := any(Finished) || any(Canceled) || any(Failed)
		someNot := any(Accepted) || any(Submitted) || any(Queued) || any(Running) || any(Unknown)
		rules := []struct {
			holds bool
			is    Status
		}{
			{any(Running) || someEnded && someNot, Running},
			{any(Queued), Queued},
			{any(Submitted), Submitted},
			{any(Accepted), Accepted},
			{any(Unknown), Unknown},
			{any(Finished), Finished},
			{any(Failed), Failed},
			{true, Canceled},
		}
		for _, r := range rules {
			if r.holds {
				if got := c.Status(); got != r.is {
					t.Fatalf("%v is %s, want %s", c, got, r.is)
				}
				break
			}
		}
		if ended := someEnded && !someNot; ended != (c.Status().Final() && len(c) > 0) {
			t.Fatalf("%v is %s", c, c.Status())
		}
	})
}

// To clients that know no tasks, a task without all of its results is not finished.
func TestCounts_AsOneJob(t *testing.T) {
	for _, row := range []struct {
		counts Counts
		want   Status
	}{
		{Counts{Finished: 3}, Finished}, {Counts{Finished: 2, Canceled: 12}, Canceled}, {Counts{Finished: 2, Canceled: 3, Running: 1}, Running},
		{Counts{Finished: 13, Failed: 1}, Finished}, {Counts{Failed: 1, Canceled: 1}, Failed}, {Counts{Canceled: 1}, Canceled},
	} {
		if got := row.counts.AsOneJob(); got != row.want {
			t.Errorf("%v: %s, want %s", row.counts, got, row.want)
		}
	}
}

func TestCounts_ProgressOfATask(t *testing.T) {
	for _, c := range []struct {
		counts Counts
		live   float64
		want   float64
	}{
		{Counts{Accepted: 4}, 0, 0},
		{Counts{Accepted: 2, Running: 2}, 100, 25},
		{Counts{Finished: 1, Failed: 1, Canceled: 1, Running: 1}, 50, 87.5},
		{Counts{Finished: 3}, 0, 100},
		{Counts{}, 0, 100},
		{Counts{Running: 1}, 101, 100}, // a platform that cannot count
	} {
		if got := c.counts.Progress(c.live); got != c.want {
			t.Errorf("%v with %v: %v, want %v", c.counts, c.live, got, c.want)
		}
	}
}

// A job's parameters are the task's and the dimension, digit for digit.
func TestTask_RequestOfItsJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOf(rapid.StringMatching(`[a-z"\\é]{1,5}`), rapid.SampledFrom([]string{"1.10", "null", `"<&>"`, `{"a":[]}`, "12345678901234567890"})).Draw(t, "members")
		var b strings.Builder
		for name, v := range members {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			quoted, _ := json.Marshal(name)
			fmt.Fprintf(&b, "%s: %s", quoted, v)
		}
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		dimension := rapid.StringMatching(`[A-Z]["\\A-Z]{0,3}`).Draw(t, "dimension")
		value := rapid.SampledFrom([]string{"1e999", "-0.0", "null", `{"x": [1.0]}`}).Draw(t, "value")
		task := Task{Request: Request{Title: "T", Parameters: json.RawMessage(space + "{" + space + b.String() + space + "}" + space)}, Dimension: dimension}
		r, err := task.RequestFor(3, json.RawMessage(value))
		if err != nil || r.Title != "T - Processing Job 3" {
			t.Fatalf("%q, %v", r.Title, err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(r.Parameters, &got); err != nil {
			t.Fatalf("%s: %v", r.Parameters, err)
		}
		if string(got[dimension]) != value || len(got) != len(members)+1 {
			t.Fatalf("%s", r.Parameters)
		}
		for name, v := range members {
			if string(got[name]) != v {
				t.Fatalf("%s became %s", v, got[name])
			}
		}
	})
	if _, err := (Task{Dimension: "d"}).RequestFor(1, nil); !Is(err, Internal) {
		t.Errorf("a task without parameters: %v", err)
	}
}

func TestCheckTask_Faults(t *testing.T) {
	one := []json.RawMessage{json.RawMessage("1")}
	big := make([]json.RawMessage, 200)
	for i := range big {
		big[i] = json.RawMessage("1")
	}
	for _, c := range []struct {
		name, parameters, dimension string
		values                      []json.RawMessage
		loc, text                   string
	}{
		{"good", `{"a":1}`, "d", one, "", ""},
		{"no values", `{}`, "d", nil, "[body dimension values]", "no values"},
		{"given twice", `{"a":1,"d":null}`, "d", one, "[body dimension name]", `"d" is also among the parameters`},
		{"given twice, spelt otherwise", `{"\u0064":null}`, "d", one, "[body dimension name]", `"d" is also among the parameters`},
		{"too much", `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, "d", big, "[body dimension values]", "more than 64 MiB"},
		{"no JSON", `{}`, "d", []json.RawMessage{one[0], json.RawMessage("x")}, "[body dimension values 1]", "no JSON"},
		{"no object", `[]`, "d", one, "[body parameters]", "no JSON object"},
	} {
		err := checkTask(Task{Request: Request{Parameters: json.RawMessage(c.parameters)}, Dimension: c.dimension}, c.values)
		if c.loc == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		e, ok := err.(*Error)
		if !ok || e.Kind != Invalid || fmt.Sprint(e.Faults[0].Loc) != c.loc || !strings.Contains(e.Text, c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
