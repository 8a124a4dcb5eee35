package items

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

var ended = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDescribe_PlatformOfASpreadTask(t *testing.T) {
	result := broker.JobResult{Record: dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: 7},
		Target: dispatch.Target{Account: "b/shared"}, Condition: dispatch.Condition{Moved: ended}},
		Value: json.RawMessage("1")}}
	task := dispatch.TaskRecord{Task: dispatch.Task{ID: 1, Dimension: "tile"}}
	if p := Write(Describe(result, task), Origin{}).Properties["platform"]; p != nil {
		t.Errorf("the Item of a task with one service is at %s", p)
	}
	task.Request.Placements = []dispatch.Placement{{Account: "a/shared"}, {Account: "b/shared"}}
	if p := Write(Describe(result, task), Origin{}).Properties["platform"]; fmt.Sprintf("%s", p) != `"b"` {
		t.Errorf("the Item is at %s, want b", p)
	}
}

// TestDescribe_Times: the times of an Item are those of the data, as far as the results, or else the request, name
// them, and never that of the run.
func TestDescribe_Times(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2024, 6, n, 0, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		results, parameters, shared, value string
		first, last                        time.Time
	}{
		"of the results": {`{"extent":{"temporal":{"interval":[["2024-06-01T00:00:00Z","2024-06-02T00:00:00Z"]]}}}`,
			`{"time":["2024-06-05","2024-06-06"]}`, "", "", day(1), day(2)},
		"of the assets": {`{"assets":{"a":{"datetime":"2024-06-03T00:00:00Z"}}}`, `{}`, "", "", day(3), day(3)},
		"of the request": {`{}`, `{"a":[1,2],"b":["x","y"],"span":["2024-06-05","2024-06-06"]}`, "", "", day(5),
			day(6)},
		"open":                  {`{}`, `{"span":["2024-06-05",null]}`, "", "", day(5), day(5)},
		"as a text":             {`{}`, `{"span":"2024-06-05/2024-06-07"}`, "", "", day(5), day(7)},
		"a date":                {`{}`, `{"date":"2024-06-05"}`, "", "", day(5), day(5)},
		"a number of a version": {`{}`, `{"version":"2024-06-05"}`, "", "", time.Time{}, ended},
		"not known":             {`{}`, `{}`, "", "", time.Time{}, ended},
		"of a value of a task":  {`{}`, "", `{"date":"2024-06-09"}`, `["2024-06-05","2024-06-06"]`, day(5), day(6)},
		"shared by a task":      {`{}`, "", `{"date":"2024-06-09"}`, `7`, day(9), day(9)},
	} {
		p := broker.JobResult{Collection: json.RawMessage(c.results), Record: dispatch.Record{
			Job: dispatch.Job{Identity: dispatch.Identity{ID: 7}, Target: dispatch.Target{Account: "a/shared"},
				Condition: dispatch.Condition{Moved: ended}},
			Request: dispatch.Request{Parameters: json.RawMessage(c.parameters)}, Value: json.RawMessage(c.value)}}
		var task dispatch.TaskRecord
		if c.shared != "" {
			task.ID, task.Dimension, task.Request.Parameters = 1, "span", json.RawMessage(c.shared)
		}
		i := Describe(p, task)
		if !i.First.Equal(c.first) || !i.Last.Equal(c.last) {
			t.Errorf("%s: %v to %v", name, i.First, i.Last)
		}
		properties := Write(i, Origin{}).Properties
		if properties["datetime"] == nil && (properties["start_datetime"] == nil || properties["end_datetime"] == nil) {
			t.Errorf("%s: %v is no valid Item", name, properties)
		}
	}
}
