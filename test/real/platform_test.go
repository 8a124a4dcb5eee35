package real

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// begin submits a request to a platform step by step, as the broker does, until the job has started.
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
	t.Fatalf("%v has not started after two steps", s.Ref)
	return dispatch.Ref{}
}

// end polls a job until it has ended, and returns its last status.
func end(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref) dispatch.Report {
	t.Helper()
	return follow(t, p, token, ref, func(r dispatch.Report) bool { return r.Status.Final() })
}

// remove removes a job that has ended, and checks that the platform does not know it any more.
func remove(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref) {
	t.Helper()
	remover := p.(dispatch.Remover)
	if err := remover.Remove(t.Context(), token, ref); err != nil {
		t.Fatalf("remove: %v", err)
	}
	if report, err := p.Status(t.Context(), token, ref); !dispatch.Is(err, dispatch.NotFound) {
		t.Errorf("status of the removed job: %+v, %v", report, err)
	}
	if err := remover.Remove(t.Context(), token, ref); !dispatch.Is(err, dispatch.NotFound) {
		t.Errorf("removed again: %v", err)
	}
}

// follow polls a job's status until wanted returns true. It fails the test after three minutes.
func follow(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref,
	wanted func(dispatch.Report) bool) dispatch.Report {
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

// collection is the part of a STAC Collection that the tests check.
type collection struct {
	Type   string           `json:"type"`
	ID     string           `json:"id"`
	Assets map[string]asset `json:"assets"`
}

type asset struct {
	Href string `json:"href"`
	Type string `json:"type"`
}

// finished waits until a job ends, expects the status finished, and returns its results.
func finished(t *testing.T, p dispatch.Platform, token dispatch.Token, ref dispatch.Ref) collection {
	t.Helper()
	if report := end(t, p, token, ref); report.Status != dispatch.Finished {
		t.Fatalf("the job ended as %+v", report)
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
		t.Errorf("not a STAC Collection with assets: %s", raw)
	}
	return c
}

// client returns a client in development mode, because the servers of these tests listen on loopback without TLS.
func client() *upstream.Client { return upstream.New(upstream.Config{Development: true}) }

// fetch decodes the JSON at a public URL.
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
