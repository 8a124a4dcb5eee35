package dispatch

import (
	"encoding/json"
	"fmt"
	"slices"
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
		{Counts{Finished: 3}, Finished}, {Counts{Finished: 2, Canceled: 12}, Canceled},
		{Counts{Finished: 2, Canceled: 3, Running: 1}, Running},
		{Counts{Finished: 13, Failed: 1}, Finished}, {Counts{Failed: 1, Canceled: 1}, Failed}, {Counts{Canceled: 1},
			Canceled},
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
// Once all jobs of a task have ended, nobody has to decide whether the others run.
func TestTaskRecord_AttentionWhileJobsWait(t *testing.T) {
	for why, left := range map[Attention]Attention{TrialEnded: None, BudgetReached: None, GivenUp: GivenUp} {
		r := TaskRecord{Task: Task{Paused: true, PausedFor: why}, Counts: Counts{Finished: 3, Accepted: 39}}
		if got := r.Attend(None); got != why {
			t.Errorf("%s: %s while jobs wait", why, got)
		}
		r.Counts = Counts{Finished: 3, Canceled: 39}
		r.Attention = left
		if got := r.Attend(None); got != left {
			t.Errorf("%s: %s once all jobs have ended", why, got)
		}
	}
}

func TestTask_RequestOfItsJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOf(rapid.StringMatching(`[a-z"\\é]{1,5}`),
			rapid.SampledFrom([]string{"1.10", "null", `"<&>"`, `{"a":[]}`, "12345678901234567890"})).Draw(t, "members")
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
		parameters := json.RawMessage(space + "{" + space + b.String() + space + "}" + space)
		task := Task{Request: Request{Title: "T", Parameters: parameters}, Dimension: dimension}
		r, err := task.RequestFor(Job{Identity: Identity{Number: 3}}, json.RawMessage(value))
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
	if _, err := (Task{Dimension: "d"}).RequestFor(Job{Identity: Identity{Number: 1}}, nil); !Is(err, Internal) {
		t.Errorf("a task without parameters: %v", err)
	}
}

// What is stored of each job leads back to the value of each dimension, byte for byte, and so does its request.
func TestDimension_JobsHaveEachCombinationOnce(t *testing.T) {
	texts := rapid.SampledFrom([]string{"1e999", "-0.0", "null", `{"x": [1.0]}`, `"a,\"b\":{"`, "[[4,50],[5,51]]"})
	rapid.Check(t, func(t *rapid.T) {
		d := Dimension{Zipped: rapid.Bool().Draw(t, "zipped")}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z"\\é]{1,3}`), 1, 4, rapid.ID).Draw(t, "names")
		size := rapid.IntRange(1, 4).Draw(t, "size")
		for i, name := range names {
			n := size
			if !d.Zipped {
				n = rapid.IntRange(1, 4).Draw(t, "values")
			}
			one := Dimension{Name: name}
			for range n {
				one.Values = append(one.Values, json.RawMessage(texts.Draw(t, "value")))
			}
			if rapid.Bool().Draw(t, "named") {
				for range n {
					one.Names = append(one.Names, rapid.StringMatching(`[a-c]?`).Draw(t, "name"))
				}
			}
			if i == 0 {
				d.Name, d.Values, d.Names = one.Name, one.Values, one.Names
			} else {
				d.With = append(d.With, one)
			}
		}
		r := Request{Title: "T", Parameters: json.RawMessage(`{"shared": 1}`)}
		if err := CheckDimensions(r, &d); err != nil {
			t.Fatal(err)
		}
		task, n, bytes := Task{Request: r, Dimension: d.Name}, 0, 0
		named := slices.ContainsFunc(d.All(), func(one Dimension) bool { return one.Names != nil })
		for value, called := range d.Each() {
			if named != (called != nil) {
				t.Fatalf("job %d has the names %q", n+1, called)
			}
			bytes += len(value) + len(strings.Join(called, ""))
			request, err := task.RequestFor(Job{Identity: Identity{Number: n + 1}}, value)
			if err != nil || string(task.ValueOf(request)) != string(value) {
				t.Fatalf("%s became %s, %v", value, task.ValueOf(request), err)
			}
			rest := n
			arguments := task.Arguments(value)
			for k, one := range slices.Backward(d.All()) {
				index := rest % len(one.Values)
				if rest /= len(one.Values); d.Zipped {
					index = n
				}
				if got := arguments[k]; got.Name != one.Name || string(got.Value) != string(one.Values[index]) {
					t.Fatalf("job %d: %s is %s", n+1, got.Name, got.Value)
				}
				if called != nil && (one.Names == nil && called[k] != "" || one.Names != nil &&
					called[k] != one.Names[index]) {
					t.Fatalf("job %d has the names %q", n+1, called)
				}
			}
			n++
		}
		if n != d.Jobs() {
			t.Fatalf("%d jobs, not %d", n, d.Jobs())
		}
		if bytes != d.rendered() {
			t.Fatalf("%d bytes, computed %d", bytes, d.rendered())
		}
	})
}

func TestTask_TitlesHaveNames(t *testing.T) {
	task := Task{Request: Request{Title: "T", Parameters: json.RawMessage(`{}`)}, Dimension: "d"}
	for _, c := range []struct {
		names []string
		want  string
	}{{nil, "T - Processing Job 2"}, {[]string{"", ""}, "T - Processing Job 2"}, {[]string{"31UFS", ""},
		"T - Processing Job 2 (31UFS)"}, {[]string{"31UFS", "maize"}, "T - Processing Job 2 (31UFS, maize)"}} {
		j := Job{Identity: Identity{Number: 2, Names: c.names}}
		whole, err := task.RequestFor(j, json.RawMessage("1"))
		if head := task.RequestHeadFor(j); err != nil || whole.Title != c.want || head.Title != c.want {
			t.Errorf("%q: %q and %q, %v", c.names, whole.Title, head.Title, err)
		}
	}
}

// Combinations are counted before they are computed.
func TestCheckDimensions_Several(t *testing.T) {
	values := func(n int) []json.RawMessage { return slices.Repeat([]json.RawMessage{json.RawMessage("1")}, n) }
	many := Dimension{Name: "a", Values: values(10_000)}
	for name := range strings.SplitSeq("bcdefgh", "") {
		many.With = append(many.With, Dimension{Name: name, Values: values(10_000)})
	}
	for name, c := range map[string]struct {
		d         Dimension
		loc, text string
	}{
		"huge": {many, "[body dimensions 0 values]", "more than 64 MiB"},
		"unequal": {Dimension{Name: "a", Values: values(3), With: []Dimension{{Name: "b", Values: values(2)}},
			Zipped: true}, "[body dimensions 1 values]", "has 2 values, but the first has 3"},
		"the same": {Dimension{Name: "a", Values: values(3), With: []Dimension{{Name: "a", Values: values(3)}}},
			"[body dimensions 1 name]", "also another dimension"},
		"shared": {Dimension{Name: "a", Values: values(3), With: []Dimension{{Name: "s", Values: values(3)}}},
			"[body dimensions 1 name]", "among the parameters"},
		"empty": {Dimension{Name: "a", Values: values(3), With: []Dimension{{Name: "b"}}}, "[body dimensions 1 values]",
			"no values"},
		"no JSON": {Dimension{Name: "a", Values: values(3),
			With: []Dimension{{Name: "b", Values: []json.RawMessage{[]byte(`1,"s":2`)}}}},
			"[body dimensions 1 values 0]", "not JSON"},
		"few names": {Dimension{Name: "a", Values: values(3), Names: []string{"31UFS", "31UGS"}},
			"[body dimension names]", "3 values and 2 names"},
		"long name": {Dimension{Name: "a", Values: values(2), Names: []string{"", strings.Repeat("é", 101)}},
			"[body dimension names 1]", "at most 100 characters"},
		"two lines": {Dimension{Name: "a", Values: values(1), With: []Dimension{{Name: "b", Values: values(1),
			Names: []string{"a\nb"}}}}, "[body dimensions 1 names 0]", "one line"},
		"bidi": {Dimension{Name: "a", Values: values(1), Names: []string{"31UFS\u202e"}}, "[body dimension names 0]",
			"invisible"},
		"zero width": {Dimension{Name: "a", Values: values(2), Names: []string{"31UFS", "31U\u200bFS"}},
			"[body dimension names 1]", "invisible"},
		"no UTF-8": {Dimension{Name: "a", Values: values(1), Names: []string{"a\xff"}}, "[body dimension names 0]",
			"one line"},
		"listed one": {Dimension{Name: "s", Values: values(3), With: []Dimension{}}, "[body dimensions 0 name]",
			"among the parameters"},
	} {
		e, ok := CheckDimensions(Request{Parameters: json.RawMessage(`{"s":1}`)}, &c.d).(*Error)
		if !ok || e.Kind != Invalid || fmt.Sprint(e.Faults[0].Loc) != c.loc || !strings.Contains(e.Text, c.text) {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestCheckDimensions_Faults(t *testing.T) {
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
		{"given twice, spelt otherwise", `{"\u0064":null}`, "d", one, "[body dimension name]",
			`"d" is also among the parameters`},
		{"too much", `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, "d", big, "[body dimension values]",
			"more than 64 MiB"},
		{"no JSON", `{}`, "d", []json.RawMessage{one[0], json.RawMessage("x")}, "[body dimension values 1]", "not JSON"},
		{"no object", `[]`, "d", one, "[body parameters]", "must be a JSON object"},
	} {
		err := CheckDimensions(Request{Parameters: json.RawMessage(c.parameters)}, &Dimension{Name: c.dimension,
			Values: c.values})
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
