package main

import (
	"strings"
	"testing"

	"github.com/vbauerster/mpb/v8"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
)

func TestProgress_PrintsEachChangeOnce(t *testing.T) {
	var out executable.Log
	l := &lines{out: &out, last: map[int64]string{}}
	half := 50.0
	r := dispatch.Request{Title: "ndvi", Label: dispatch.OpenEO}
	for _, j := range []job{{ID: 1, Status: "running"}, {ID: 1, Status: "running"}, {ID: 1, Status: "running",
		Progress: &half},
		{ID: 2, Status: "queued"}, {ID: 1, Status: "finished", Progress: &half}} {
		l.show(r, j)
	}
	want := []string{"job 1  running", "job 1  running 50 %", "job 2  queued", "job 1  finished"}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("shown:\n%s", &out)
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("line %d is %q, not …%q", i, got[i], want[i])
		}
	}
}

func TestProgress_BarsEndAsTheirJobs(t *testing.T) {
	var out executable.Log
	b := newBars(t.Context(), mpb.WithOutput(&out), mpb.WithAutoRefresh(), mpb.WithWidth(120))
	half := 50.0
	r := dispatch.Request{Title: "ndvi", Label: dispatch.OpenEO}
	for _, j := range []job{{ID: 1, Status: "running", Progress: &half}, {ID: 2, Status: "queued"},
		{ID: 3, Status: "queued"},
		{ID: 1, Status: "finished"}, {ID: 2, Status: "failed"}} {
		b.show(r, j)
	}
	b.end() // job 3 is still queued
	for _, want := range []string{"job 1  [============================] finished", "] failed", "] queued"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}
