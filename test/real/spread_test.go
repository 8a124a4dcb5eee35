package real

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// spreadTask is what the test reads of a task.
type spreadTask struct {
	ID     int64
	Counts map[string]int
	Homes  []struct{ Platform, Unused string }
	Jobs   []struct {
		Status, Platform string
		PlatformJobID    string `json:"platform_job_id"`
		Attention        struct{ Code dispatch.Attention }
	}
}

// talker calls a broker as one user.
type talker struct{ base, token string }

func (c talker) call(t *testing.T, method, path, body string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var text json.RawMessage
	if err := json.NewDecoder(a.Body).Decode(&text); err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s, %v", method, path, a.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// until reads a task until it is as wanted.
func (c talker) until(t *testing.T, id int64, wanted func(spreadTask) bool) (task spreadTask) {
	t.Helper()
	again, late := time.NewTicker(200*time.Millisecond), time.NewTimer(3*time.Minute)
	defer again.Stop()
	defer late.Stop()
	for {
		task = spreadTask{}
		c.call(t, "GET", fmt.Sprintf("/upscale_tasks/%d", id), "", &task)
		if wanted(task) {
			return task
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("still %+v", task)
		}
	}
}

// at counts the jobs at a platform, of which some wait: one that the platform may have accepted does not.
func (s spreadTask) at(platform string) (all, waiting int) {
	for _, j := range s.Jobs {
		if j.Platform != platform {
			continue
		}
		all++
		if j.PlatformJobID == "" && j.Attention.Code != dispatch.InDoubt {
			waiting++
		}
	}
	return all, waiting
}

// TestSpread_RealPlatforms runs a task at two real servers of different protocols, pygeoapi and openeo_driver, by one
// id. Both run jobs. Then pygeoapi is killed: the jobs that wait there move, and all but those that it was running
// finish at the other one. No job runs twice.
func TestSpread_RealPlatforms(t *testing.T) {
	driver := startOpenEO(t)
	ogc, kill := startMortalPygeoapi(t, "0.24.0")
	udps := httptest.NewServer(http.FileServer(http.Dir("udp")))
	t.Cleanup(udps.Close)
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	broker := talker{base: serveProcesses(t, w, fmt.Sprintf(`
- {name: pygeoapi, protocol: ogc-api-processes, endpoint: %s, access: open, limits: {jobs: 2, min_poll: 250ms}}
- {name: driver, protocol: openeo, endpoint: %[2]s, access: shared, token_prefix: oidc/test, limits: {jobs: 2, min_poll: 250ms},
   service_account: {token_url: %[2]s/oidc/token, client_id: broker, client_secret: secret}}
services:
- {id: slow, platform: pygeoapi, application: slow, also: [{platform: driver, application: %[3]s/slow.json}]}
`, ogc, driver, udps.URL)), token: userToken(t, w)}
	submit := func(jobs int) int64 {
		t.Helper()
		values := make([]float64, jobs)
		for i := range values {
			values[i] = 1 + float64(i)/1000
		}
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		var task spreadTask
		broker.call(t, "POST", "/upscale_tasks", fmt.Sprintf(
			`{"title": "spread", "service": {"id": "slow"}, "parameters": {}, "format": "json", "dimension": {"name": "seconds", "values": %s}}`, text), &task)
		if len(task.Homes) != 2 || task.Homes[0].Unused+task.Homes[1].Unused != "" {
			t.Fatalf("%+v", task)
		}
		return task.ID
	}

	task := broker.until(t, submit(20), func(s spreadTask) bool { return s.Counts["finished"] == 20 })
	first, _ := task.at("pygeoapi")
	second, _ := task.at("driver")
	if first < 4 || second < 4 {
		t.Errorf("%d jobs ran at pygeoapi, %d at openeo_driver", first, second)
	}

	id := submit(30)
	broker.until(t, id, func(s spreadTask) bool {
		all, waiting := s.at("pygeoapi")
		return s.Counts["finished"] >= 4 && all-waiting > 0
	})
	kill()
	task = broker.until(t, id, func(s spreadTask) bool {
		all, waiting := s.at("pygeoapi")
		_, elsewhere := s.at("driver")
		return waiting == 0 && elsewhere == 0 && s.Counts["finished"] >= 30-2 && all < 30
	})
	left := 30 - task.Counts["finished"] // that pygeoapi was running, or may have accepted
	if left > 2 || task.Counts["failed"] > 0 {
		t.Errorf("%v", task.Counts)
	}
	platformIDs := map[string]bool{}
	for _, j := range task.Jobs {
		if j.Platform == "driver" && platformIDs[j.PlatformJobID] {
			t.Errorf("the platform's job %s is that of two jobs", j.PlatformJobID)
		}
		platformIDs[j.PlatformJobID] = true
	}
	if ran, _ := task.at("driver"); ran+second != jobsAt(t, driver) {
		t.Errorf("openeo_driver has %d jobs, of which the broker knows %d", jobsAt(t, driver), ran+second)
	}
	var shown struct {
		Platforms []struct {
			Platform string
			PerHour  float64 `json:"per_hour"`
		}
	}
	broker.call(t, "GET", fmt.Sprintf("/upscale_tasks/%d/platforms", id), "", &shown)
	if p := shown.Platforms; len(p) != 2 || p[1].Platform != "driver" || p[1].PerHour < 60 {
		t.Errorf("%+v", shown)
	}
}

// jobsAt counts the jobs of the broker's account at an openeo_driver server.
func jobsAt(t *testing.T, base string) int {
	t.Helper()
	var token struct {
		AccessToken string `json:"access_token"`
	}
	a, err := http.Post(base+"/oidc/token", "application/x-www-form-urlencoded",
		bytes.NewBufferString("grant_type=client_credentials&client_id=broker&client_secret=secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if err := json.NewDecoder(a.Body).Decode(&token); err != nil {
		t.Fatal(err)
	}
	var listed struct{ Jobs []struct{ ID string } }
	talker{base + "/openeo/1.2", "oidc/test/" + token.AccessToken}.call(t, "GET", "/jobs?limit=1000", "", &listed)
	return len(listed.Jobs)
}
