package stac

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func TestProcess_NamesTheProcessor(t *testing.T) {
	c := object(t,
		`{"type":"Collection","providers":[{"name":"theirs"}],"stac_extensions":["https://e.example/schema.json"]}`)
	Process(c, Processing{Facility: "cdse", URL: "https://p.example", Software: map[string]string{"pygeoapi": "0.20.0"},
		Lineage: "Job 1", Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)})
	const want = `[{"name":"theirs"},{"name":"cdse","processing:datetime":"2026-05-01T12:00:00Z","processing:facility":"cdse","processing:lineage":"Job 1",` +
		`"processing:software":{"pygeoapi":"0.20.0"},"roles":["processor"],"url":"https://p.example"}]`
	if got := string(c["providers"]); got != want {
		t.Error(got)
	}
	var extensions []string
	if err := json.Unmarshal(c["stac_extensions"], &extensions); err != nil ||
		!slices.Equal(extensions, []string{"https://e.example/schema.json", ProcessingExtension}) {
		t.Errorf("%v, %v", extensions, err)
	}
}

// What is not known is left out, and what a platform says of the processing stays as it is.
func TestProcess_SaysNoMoreThanIsKnown(t *testing.T) {
	c := object(t, `{}`)
	Process(c, Processing{Facility: "cdse"})
	if got := string(c["providers"]); got != `[{"name":"cdse","processing:facility":"cdse","roles":["processor"]}]` {
		t.Error(got)
	}
	const theirs = `["https://stac-extensions.github.io/processing/v1.1.0/schema.json"]`
	c = object(t, `{"stac_extensions":`+theirs+`}`)
	Process(c, Processing{Facility: "cdse"})
	if c["providers"] != nil || string(c["stac_extensions"]) != theirs {
		t.Errorf("%s", marshal(c))
	}
}
