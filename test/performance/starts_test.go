package performance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const startsAtOnce = 8 // requests

// BenchmarkPerformanceOfStarts measures how many jobs a second are started at an openEO platform that answers eight
// requests at once: those of a task when each answer takes 5 ms, and those that 16 clients of one account post one by
// one when it takes 20 ms. The bound is two requests for each job; the first row sends these without the broker, since
// the platform takes processor time too.
func BenchmarkPerformanceOfStarts(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := newTable(b, "jobs started a second, 8 requests at once", "a task, 5 ms", "of the bound, aim 0.8",
		"of the first row", "CPU time of a job, to the platform's, aim 2.4",
		"POST by 16 clients, 20 ms", "of the bound, aim 0.95", "of the first row")
	task, posts := startsTable{bound: startsBound(5 * time.Millisecond)},
		startsTable{bound: startsBound(20 * time.Millisecond)}
	row := func(what string, ofTask float64, cpu string, ofPosts float64) {
		table(slices.Concat([]string{what}, task.row(ofTask), []string{cpu}, posts.row(ofPosts))...)
	}
	row("without the broker", startBare(b, 5*time.Millisecond), "", startBare(b, 20*time.Millisecond))
	for _, set := range []struct {
		name     string
		database func() string
	}{
		{"SQLite", func() string { return "" }},
		{"PostgreSQL", func() string { return "EODISPATCH_DATABASE=" + postgres.Database(b) }},
	} {
		rate, cpu := startTask(b, w, set.database())
		row(set.name, rate, fmt.Sprintf("%.2f", cpu), startPosted(b, w, set.database()))
	}
}

// startsBound returns how many jobs a second can start, with two requests for each.
func startsBound(answered time.Duration) float64 { return startsAtOnce / (2 * answered.Seconds()) }

// startsTable relates rates, in jobs a second, to the bound and to the first one.
type startsTable struct{ bound, first float64 }

func (s *startsTable) row(rate float64) []string {
	if s.first == 0 {
		s.first = rate
	}
	return []string{fmt.Sprintf("%.0f/s", rate), fmt.Sprintf("%.2f", rate/s.bound), fmt.Sprintf("%.2f", rate/s.first)}
}

// startBare creates and starts jobs without the broker.
func startBare(b *testing.B, answered time.Duration) float64 {
	r, _ := newRaceAt(b, dispatch.OpenEO, startsAtOnce)
	r.faults.Set(simulator.Fault{Latency: answered})
	return r.rate(b, func() { inParallel(values, startsAtOnce, func(int) { r.startBare(b) }) })
}

// startTask starts the jobs of a task. It returns how many started a second, and the processor time of the program, as
// a ratio to that of this process, in which the platform runs.
func startTask(b *testing.B, w *simulator.World, database string) (rate, cpu float64) {
	r := newRace(b, w, dispatch.OpenEO, startsAtOnce, 1, database)
	defer r.stop(b)
	r.warm(b)
	r.faults.Set(simulator.Fault{Latency: 5 * time.Millisecond})
	task := r.job()
	name, value := r.dimension()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, values-1)}
	body, _ := json.Marshal(task) // cannot fail: only strings and numbers
	used, platform := program.CPUTime(b, r.programs[0].Process.Pid), conformance.CPU(b)
	rate = r.rate(b, func() { r.client.must(b, http.MethodPost, "/upscale_tasks", body, nil) })
	used, platform = program.CPUTime(b, r.programs[0].Process.Pid)-used, conformance.CPU(b)-platform
	return rate, ratio(used, platform)
}

// startPosted starts jobs that 16 clients post one by one.
func startPosted(b *testing.B, w *simulator.World, database string) float64 {
	r := newRace(b, w, dispatch.OpenEO, startsAtOnce, 1, database)
	defer r.stop(b)
	r.warm(b)
	r.faults.Set(simulator.Fault{Latency: 20 * time.Millisecond})
	body := r.single()
	return r.rate(b, func() { inParallel(values-1, 16, func(int) { r.client.mustPost(b, body, nil) }) })
}

// rate returns how many jobs a second start from when begin is called until the last has started.
func (r *race) rate(b *testing.B, begin func()) float64 {
	began := time.Now()
	go begin()
	select {
	case last := <-r.over:
		return values / last.Sub(began).Seconds()
	case <-time.After(5 * time.Minute):
		b.Fatal("the jobs were not all started within five minutes")
		return 0
	}
}

// warm starts the first job, for which the broker reads what the platform publishes.
func (r *race) warm(b *testing.B) { r.client.mustPost(b, r.single(), nil) }

// single returns the body of a job of its own.
func (r *race) single() []byte {
	name, value := r.dimension()
	job := r.job()
	job["parameters"].(map[string]any)[name] = value
	body, _ := json.Marshal(job) // cannot fail: only strings and numbers
	return body
}

// startBare creates and starts a job at the platform, which is one of openEO.
func (r *race) startBare(b *testing.B) {
	const graph = `{"title": "bare", "process": {"process_graph": {"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}}`
	jobs := r.url + "/openeo/1.2/jobs"
	id := sendBare(b, jobs, graph).Get("OpenEO-Identifier")
	sendBare(b, jobs+"/"+id+"/results", "")
}

// sendBare sends a request to the platform, and returns the header of its answer.
func sendBare(b *testing.B, url, body string) http.Header {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return nil
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := program.Pooled.Do(request)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode >= http.StatusBadRequest {
		b.Errorf("%s: %s %v: %s", url, response.Status, err, text)
	}
	return response.Header
}
