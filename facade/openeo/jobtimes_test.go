package openeo

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/stac"
)

// TestBatchJob_UpdatedIsTheLastChangeOfTheStatus: what a platform reports after the end, such as costs, is no change of the status.
func TestBatchJob_UpdatedIsTheLastChangeOfTheStatus(t *testing.T) {
	ended, late := time.Unix(600, 0).UTC(), time.Unix(9000, 0).UTC()
	one := dispatch.Job{ID: 1, Status: dispatch.Finished, Moved: ended, Updated: late}
	var tally dispatch.Tally
	tally.Add(one)
	task := tally.CountsFor(dispatch.TaskRecord{})
	running := dispatch.Job{ID: 2, Status: dispatch.Running, Moved: ended, Updated: late}
	for name, c := range map[string]struct {
		is   entry
		want time.Time
	}{
		"job":           {entry{job: &dispatch.Record{Job: one}}, ended},
		"task":          {entry{task: &task}, ended},
		"a running job": {entry{job: &dispatch.Record{Job: running}}, late},
	} {
		if got := New(Config{}).batchJob(&request{}, c.is).Updated; !got.Equal(c.want) {
			t.Errorf("%s: updated %v, want %v", name, got, c.want)
		}
	}
}

// TestAddTile_TitlesHaveTheNamesOfTiles: the keys of assets stay as they are; their titles say which cell of a grid each is.
func TestAddTile_TitlesHaveTheNamesOfTiles(t *testing.T) {
	f, assets := New(Config{}), stac.Object{}
	for i, names := range [][]string{{"31UFS"}, nil} {
		j := dispatch.JobResult{Record: dispatch.Record{Job: dispatch.Job{Number: i + 1, Names: names}},
			Collection: []byte(`{"assets": {"a": {"href": "https://p/a", "title": "NDVI"}, "b": {"href": "https://p/b"}}}`)}
		if _, err := f.addTile(&request{}, assets, &stac.Extent{}, j, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{"tile-1/a": "31UFS: NDVI", "tile-1/b": "31UFS: b", "tile-2/a": "NDVI", "tile-2/b": ""} {
		var a stac.Object
		if err := json.Unmarshal(assets[key], &a); err != nil || stac.Text(a["title"]) != want || stac.Text(a["href"]) == "" {
			t.Errorf("%s: %s, %v; want the title %q", key, assets[key], err, want)
		}
	}
}
