package program

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// documentHost serves users' documents: good ones, and others that hang, are missing, too large, or no process.
func documentHost(t *testing.T) *httptest.Server {
	closing := make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); kind {
		case "hangs":
			select {
			case <-r.Context().Done():
			case <-closing:
			}
		case "missing":
			http.NotFound(w, r)
		case "large":
			_, _ = w.Write(make([]byte, 3<<20)) // fails when the client has read enough
		case "page":
			fmt.Fprint(w, "<html></html>")
		default:
			fmt.Fprint(w,
				`{"id":"own","parameters":[],"process_graph":{"load":{"process_id":"load_collection","arguments":{"id":"S2"},"result":true}}}`)
		}
	}))
	t.Cleanup(func() { close(closing); host.Close() })
	return host
}

// lasts returns how long a job takes from its submission to its end.
func (c Client) lasts(t *testing.T, r dispatch.Request) time.Duration {
	t.Helper()
	begin := time.Now()
	j, err := c.Submit(t.Context(), r)
	for err == nil && !j.Ended() {
		err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=2", j.ID), nil, &j)
	}
	if err != nil || j.Status != "finished" {
		t.Errorf("another's job: %+v, %v", j, err)
	}
	return time.Since(begin)
}

// notDelayed is how long a job may take that takes some time alone, on a busy machine. It is less than the 15 s for
// which the broker waits for one document, or for one response of the hostile platform.
func notDelayed(alone time.Duration) time.Duration { return alone + 12*time.Second }

// TestDocuments_BadOnesDelayNobodyElse runs the real program with one account for all. While a user has twelve jobs
// whose documents hang, and then two hundred with other bad documents, another's job of four seconds is not delayed by
// their fetches, and the platform is well.
func TestDocuments_BadOnesDelayNobodyElse(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.OpenEO.SetLife(simulator.Life{Run: 4 * time.Second})
	host, refuses := documentHost(t), deadURL
	p := Start(t, sharing(w, `{"jobs": 1000, "jobs_per_day": 1000}`)...)
	alice, bob := As(w, p.Address, "alice", nil), As(w, p.Address, "bob", nil)
	good := OpenEO(w)
	good.Service.Application, good.Parameters = host.URL+"/good", []byte(`{}`)
	alone := bob.lasts(t, good)
	bad := badDocuments{alice, good, host.URL, refuses}
	for _, c := range []struct {
		n     int
		kinds []string
	}{{12, []string{"hangs"}}, {200, []string{"hangs", "refused", "missing", "large", "page"}}} {
		end := bad.submit(t, c.n, c.kinds...)
		least := time.Hour // of three at most; a busy machine only adds to it
		for n := 0; n < 3 && least > notDelayed(alone); n++ {
			took := bob.lasts(t, good)
			t.Logf("beside %d bad documents another's job took %v, alone %v", c.n, took, alone)
			least = min(least, took)
		}
		if least > notDelayed(alone) {
			t.Errorf("beside %d bad documents another's job took %v, alone %v", c.n, least, alone)
		}
		end()
	}
	var stands struct {
		Platforms []struct{ State string }
	}
	if err := bob.Call(t.Context(), http.MethodGet, "/platforms", nil, &stands); err != nil ||
		len(stands.Platforms) != 1 || stands.Platforms[0].State != "ok" {
		t.Errorf("the platform is said to be %+v, %v", stands, err)
	}
	bad.areTheirFault(t)
	p.Stop(t)
}

// badDocuments is a user who submits jobs whose documents cannot be used.
type badDocuments struct {
	Client
	good          dispatch.Request
	host, refuses string // addresses
}

// submit submits n jobs concurrently, with documents of these kinds. end waits until all were answered.
func (d badDocuments) submit(t *testing.T, n int, kinds ...string) (end func()) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 16) // limits.user_requests: further requests may be refused with 429
	for i := range n {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := d.good
			kind := kinds[i%len(kinds)]
			r.Service.Application = fmt.Sprintf("%s/%s/%d", d.host, kind, i)
			if kind == "refused" {
				r.Service.Application = fmt.Sprintf("%s/%d", d.refuses, i)
			}
			begin := time.Now()
			_, err := d.Client.Submit(t.Context(), r)
			if waits := kind == "hangs" || kind == "refused"; waits && err != nil || !waits && err != nil &&
				!strings.Contains(err.Error(), "APPLICATION_INVALID") {
				t.Errorf("%s: %v", kind, err)
			}
			if took := time.Since(begin); took > 2*time.Minute {
				t.Errorf("%s: submitted after %v", kind, took)
			}
		})
	}
	return all.Wait
}

// areTheirFault checks that each of the user's jobs says that its document cannot be used, and none that the platform
// fails.
func (d badDocuments) areTheirFault(t *testing.T) {
	t.Helper()
	var list struct {
		Jobs []struct {
			Status    string
			Attention *struct{ Code, Message string }
		} `json:"processing_jobs"`
	}
	if err := d.Call(t.Context(), http.MethodGet, "/jobs_status", nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, j := range list.Jobs {
		if j.Attention == nil || j.Attention.Code != "application_unreachable" &&
			j.Attention.Code != "application_invalid" || strings.Contains(j.Attention.Message, "platform says") {
			t.Errorf("%s with %+v", j.Status, j.Attention)
		}
	}
	if len(list.Jobs) < 12 {
		t.Errorf("%d jobs are left", len(list.Jobs))
	}
}
