package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestFaults_AnswerInPlaceOfTheServer(t *testing.T) {
	s := &simulator.OpenEO{}
	c := ann(t, s)
	s.Faults.Add(
		simulator.Fault{Route: "POST /jobs", Times: 1, Status: 429, Code: "TooManyRequests",
			RetryAfter: 7 * time.Second},
		simulator.Fault{Route: "POST /jobs", Times: 1, Status: 503},
		simulator.Fault{Route: "POST /jobs", Times: 1, Status: 307,
			Header: map[string]string{"Location": "http://elsewhere.test/"}},
		simulator.Fault{Route: "POST /jobs", Times: 1, Status: 504, After: true},
	)
	if r := c.must(429, "POST /jobs", graph); r.header.Get("Retry-After") != "7" ||
		r.json("code") != "TooManyRequests" {
		t.Errorf("%v %s", r.header, r.body)
	}
	c.must(200, "GET /jobs", "") // another route is not struck
	c.refused(503, "code", "Service Unavailable", "POST /jobs", graph)
	if r := c.must(307, "POST /jobs", graph); r.header.Get("Location") != "http://elsewhere.test/" {
		t.Errorf("%v", r.header)
	}
	if n := s.Oracle.Of("t-1").Creates; n != 0 {
		t.Errorf("%d jobs came to be before the effect", n)
	}
	c.must(504, "POST /jobs", graph)
	if n := s.Oracle.Of("t-1").Creates; n != 1 {
		t.Errorf("%d jobs came to be, want the one that was answered by 504", n)
	}
	create(c, graph) // all are used up
	if n := s.Oracle.Requests("POST /jobs"); n != 5 {
		t.Errorf("%d requests counted, want 5", n)
	}
}

func TestFaults_CutConnections(t *testing.T) {
	for after, creates := range map[bool]int{false: 0, true: 1} {
		s := &simulator.OpenEO{}
		c := ann(t, s)
		s.Faults.Add(simulator.Fault{Route: "POST /jobs", Cut: true, After: after, Times: 1})
		if r, err := c.try("POST /jobs", graph); err == nil {
			t.Errorf("answered %d %s", r.status, r.body)
		}
		if n := s.Oracle.Of("t-1").Creates; n != creates {
			t.Errorf("after %v: %d jobs, want %d", after, n, creates)
		}
		create(c, graph)
	}
}

func TestFaults_SpoilAnswers(t *testing.T) {
	s := &simulator.OpenEO{}
	c := ann(t, s)
	strike := func(f simulator.Fault) (response, error) {
		t.Helper()
		f.Times = 1
		s.Faults.Set(f)
		r, err := c.try("POST /jobs", graph)
		if err == nil && r.status != 201 {
			t.Errorf("%+v: status %d", f, r.status)
		}
		return r, err
	}
	if r, _ := strike(simulator.Fault{Header: map[string]string{"Location": "", "OpenEO-Identifier": "",
		"X-New": "1"}}); r.header.Get("Location")+r.header.Get("OpenEO-Identifier") != "" ||
		r.header.Get("X-New") != "1" {
		t.Errorf("headers %v", r.header)
	}
	if r, _ := strike(simulator.Fault{RelativeLocation: true}); !strings.HasPrefix(r.header.Get("Location"),
		"/openeo/1.2/jobs/") {
		t.Errorf("Location %q", r.header.Get("Location"))
	}
	if r, _ := strike(simulator.Fault{Body: "null"}); string(r.body) != "null" {
		t.Errorf("body %q", r.body)
	}
	if r, _ := strike(simulator.Fault{Form: simulator.HTML}); !bytes.HasPrefix(r.body, []byte("<!doctype")) ||
		!strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
		t.Errorf("%q", r.body)
	}
	get := func(f simulator.Fault) (response, error) {
		f.Times = 1
		s.Faults.Set(f)
		return c.try("GET /processes", "")
	}
	whole, err := get(simulator.Fault{Pad: 1000})
	if err != nil || !json.Valid(whole.body) || !bytes.HasPrefix(whole.body, bytes.Repeat([]byte(" "), 1000)) {
		t.Errorf("padded: %v %.20q", err, whole.body)
	}
	if r, err := get(simulator.Fault{Form: simulator.Truncated}); err != nil ||
		len(r.body) != (len(whole.body)-1000)/2 || json.Valid(r.body) {
		t.Errorf("truncated: %v, %d bytes", err, len(r.body))
	}
	if r, err := get(simulator.Fault{Form: simulator.Torn}); err == nil || len(r.body) == 0 {
		t.Errorf("torn: %v, %d bytes", err, len(r.body))
	}
}

func TestFaults_AreEndlessUntilTheClientLeaves(t *testing.T) {
	s := &simulator.OpenEO{Faults: simulator.Faults{}}
	s.Faults.Add(simulator.Fault{Form: simulator.Endless})
	client := serve(t, s)
	r, err := client.Get("http://eo.test/openeo/1.2/")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, r.Body, 4<<20); err != nil {
		t.Errorf("it ended after %d bytes: %v", n, err)
	}
	r.Body.Close()
}

func TestFaults_TakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulator.OpenEO{}
		c := ann(t, s)
		begin := time.Now()
		s.Faults.Add(simulator.Fault{Latency: time.Second},
			simulator.Fault{Latency: time.Minute, Times: 1, Status: 500})
		c.must(500, "GET /jobs", "")
		if took := time.Since(begin); took != time.Minute+time.Second {
			t.Errorf("took %v", took)
		}
		s.Faults.Set(simulator.Fault{Form: simulator.Slow, Pause: time.Second})
		begin = time.Now()
		r := c.must(200, "GET /jobs", "")
		if took, want := time.Since(begin), time.Duration(len(r.body)-1)*time.Second; took != want {
			t.Errorf("%d bytes took %v, want %v", len(r.body), took, want)
		}
		s.Faults.Set(simulator.Fault{Latency: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "POST", c.base+"/jobs", strings.NewReader(graph))
		request.Header.Set("Authorization", "Bearer "+c.bearer)
		begin = time.Now()
		if _, err := c.client.Do(request); err == nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		synctest.Wait()
		if now := s.Oracle.Tally().Accounts["ann"].Now; now != 0 || s.Oracle.Sum().Creates != 0 {
			t.Errorf("%d requests go on though the client has left", now)
		}
	})
}

func TestFaults_SkipAndChance(t *testing.T) {
	statuses := func(f simulator.Fault, seed uint64, n int) (all string) {
		s := &simulator.OpenEO{Faults: simulator.Faults{Seed: seed}}
		s.Faults.Add(f)
		for range n {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", "/openeo/1.2/", nil))
			all += fmt.Sprint(w.Code/100, " ")
		}
		return all
	}
	if got := statuses(simulator.Fault{Skip: 2, Times: 2, Status: 500}, 0, 6); got != "2 2 5 5 2 2 " {
		t.Errorf("skip 2, times 2: %s", got)
	}
	half := simulator.Fault{Chance: 0.5, Status: 500}
	first := statuses(half, 1, 200)
	if n := strings.Count(first, "5"); n < 60 || n > 140 {
		t.Errorf("%d of 200 struck by a chance of a half", n)
	}
	if first != statuses(half, 1, 200) || first == statuses(half, 2, 200) {
		t.Error("the seed does not decide")
	}
}

func TestOracle_CountsConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulator.OpenEO{}
		s.Faults.Add(simulator.Fault{Latency: time.Second})
		c := ann(t, s)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.must(200, "GET /jobs", "") })
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if got := s.Oracle.Tally().Accounts["ann"]; got != (simulator.Traffic{Requests: 3, Now: 3, Peak: 3}) {
			t.Errorf("in the middle %+v", got)
		}
		wg.Wait()
		c.must(200, "GET /jobs", "")
		if got := s.Oracle.Tally().Accounts["ann"]; got != (simulator.Traffic{Requests: 4, Now: 0, Peak: 3}) {
			t.Errorf("at the end %+v", got)
		}
	})
}
