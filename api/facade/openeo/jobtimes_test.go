package openeo

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// TestBatchJob_UpdatedIsTheLastChangeOfTheStatus: what a platform reports after the end, such as costs, is no change of
// the status.
func TestBatchJob_UpdatedIsTheLastChangeOfTheStatus(t *testing.T) {
	t.Parallel()
	ended, late := time.Unix(600, 0).UTC(), time.Unix(9000, 0).UTC()
	one := dispatch.Job{Identity: dispatch.Identity{ID: 1}, Condition: dispatch.Condition{Status: dispatch.Finished,
		Moved: ended, Updated: late}}
	var tally dispatch.Tally
	tally.Add(one)
	task := tally.CountsFor(dispatch.TaskRecord{})
	running := dispatch.Job{Identity: dispatch.Identity{ID: 2}, Condition: dispatch.Condition{Status: dispatch.Running,
		Moved: ended, Updated: late}}
	for name, c := range map[string]struct {
		is   entry
		want time.Time
	}{
		"job":           {entry{Job: &dispatch.Record{Job: one}}, ended},
		"task":          {entry{Task: &task}, ended},
		"a running job": {entry{Job: &dispatch.Record{Job: running}}, late},
	} {
		if got := New(Config{}).batchJob(&request{}, c.is).Updated; !got.Equal(c.want) {
			t.Errorf("%s: updated %v, want %v", name, got, c.want)
		}
	}
	one.Created, one.Started, one.Ended = time.Unix(60, 0), time.Unix(120, 0), time.Unix(540, 0)
	j := New(Config{}).batchJob(&request{}, entry{Job: &dispatch.Record{Job: one}})
	if !j.Queued.Equal(one.Created) || !j.Started.Equal(one.Started) || !j.Updated.Equal(one.Ended) {
		t.Errorf("queued %v, started %v, updated %v", j.Queued, j.Started, j.Updated)
	}
}

// TestAddTile_KeysAreFileNames: the keys of a task's assets, which clients use as names of files, and their titles say
// which cell of a grid each is.
func TestAddTile_KeysAreFileNames(t *testing.T) {
	t.Parallel()
	f, assets := New(Config{}), stac.Object{}
	for i, names := range [][]string{{"31UFS"}, nil, {"31UFS"}, {"../é", "maize / 2"}} {
		j := broker.JobResult{Record: dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{Number: i + 1,
			Names: names}}},
			Collection: []byte(`{"assets": {"a.tif": {"href": "https://p/a", "title": "NDVI"},
				"x/b": {"href": "https://p/b"}, "x-b": {"href": "https://p/c"}}}`)}
		if _, err := f.addTile(&request{}, assets, &stac.Extent{}, j, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"1_31UFS_a.tif": "31UFS: NDVI", "1_31UFS_x-b": "31UFS: x-b",
		"1_31UFS_2_x-b": "31UFS: x/b", "2_a.tif": "NDVI", "2_x-b": "", "2_2_x-b": "",
		"3_31UFS_a.tif": "31UFS: NDVI", "3_31UFS_x-b": "31UFS: x-b", "3_31UFS_2_x-b": "31UFS: x/b",
		"4_..-é-maize-2_a.tif": "../é, maize / 2: NDVI", "4_..-é-maize-2_x-b": "../é, maize / 2: x-b",
		"4_..-é-maize-2_2_x-b": "../é, maize / 2: x/b"}
	for key, title := range want {
		var a stac.Object
		if err := json.Unmarshal(assets[key], &a); err != nil || stac.Text(a["title"]) != title ||
			stac.Text(a["href"]) == "" {
			t.Errorf("%s: %s, %v; want the title %q", key, assets[key], err, title)
		}
	}
	if len(assets) != len(want) {
		t.Errorf("%d assets: %s", len(assets), assets)
	}
}
