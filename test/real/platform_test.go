package real

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// begin brings a request to a platform as the broker does, one step at a time, until it has started.
func begin(t *testing.T, p dispatch.Platform, token dispatch.Token, tag string, r dispatch.Request) dispatch.Ref {
	t.Helper()
	s := dispatch.Submission{Tag: tag, Request: r}
	for range 2 {
		step, err := p.Submit(t.Context(), token, s)
		if err != nil {
			t.Fatalf("submit: %v", err)
		}
		s.Ref = step.Ref
		if step.Started {
			return step.Ref
		}
	}
	t.Fatalf("after two steps %v has not started", s.Ref)
	return dispatch.Ref{}
}

// end follows a job until it has ended.
func end(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref) dispatch.Report {
	t.Helper()
	return follow(t, p, token, ref, func(r dispatch.Report) bool { return r.Status.Final() })
}

// follow asks for a job's status until it is as wanted.
func follow(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref, wanted func(dispatch.Report) bool) dispatch.Report {
	t.Helper()
	again, late := time.NewTicker(100*time.Millisecond), time.NewTimer(3*time.Minute)
	defer again.Stop()
	defer late.Stop()
	for {
		report, err := p.Status(t.Context(), token, ref)
		if err != nil {
			t.Fatalf("status: %v", err)
		}
		if wanted(report) {
			return report
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("still %+v after three minutes", report)
		}
	}
}

// collection is what the tests look at in a STAC Collection.
type collection struct {
	Type   string           `json:"type"`
	ID     string           `json:"id"`
	Assets map[string]asset `json:"assets"`
}

type asset struct {
	Href string `json:"href"`
	Type string `json:"type"`
}

// finished expects a job to finish and gives its results.
func finished(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref) collection {
	t.Helper()
	if report := end(t, p, token, ref); report.Status != dispatch.Finished {
		t.Fatalf("it ended as %+v", report)
	}
	raw, err := p.Results(t.Context(), token, ref)
	if err != nil {
		t.Fatalf("results: %v", err)
	}
	var c collection
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if c.Type != "Collection" || len(c.Assets) == 0 {
		t.Errorf("no STAC Collection with assets: %s", raw)
	}
	return c
}

// client reaches the servers of these tests, which are on loopback and speak http.
func client() *upstream.Client { return upstream.New(upstream.Config{Development: true}) }

// fetch reads JSON that everybody may read.
func fetch(t *testing.T, url string, into any) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
}
