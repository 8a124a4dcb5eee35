package performance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"
	pace "golang.org/x/time/rate"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// BenchmarkPerformanceOfCommands measures the commands for users: their start, downloads beside those of curl, and the
// watching of a task of 10,000 jobs of which none changes.
func BenchmarkPerformanceOfCommands(b *testing.B) {
	row := newTable(b, "commands for users", "measured", "aim")
	row("processor time of --help, median of 50", starts(b, 50, "--help").Round(time.Millisecond/10).String(),
		"< 30 ms")
	row("from the start of a command to its first request, median of 21",
		firstRequest(b).Round(time.Millisecond/10).String(), "< 50 ms")
	for _, d := range []download{
		{what: "8 files of 64 MiB, four at once", files: 8, size: 64 << 20, rounds: 5},
		{what: "the same from a server that sends 125 MB/s", files: 8, size: 64 << 20, rounds: 3, limit: 125e6},
		{what: "400 files of 100 kB, four at once", files: 400, size: 100e3, rounds: 5},
	} {
		m := d.measure(b)
		row(d.what+": time, as a ratio to that of curl", fmt.Sprintf("%v, %.2f", m.own.Round(time.Millisecond),
			ratio(m.own, m.curl)), "< 1.05")
		row(d.what+": memory at most", fmt.Sprintf("%.1f MB", float64(m.memory)*1024/1e6), "< 60 MB")
	}
	for _, terminal := range []bool{false, true} {
		own, broker := watchStill(b, terminal)
		row(fmt.Sprintf("watch of 10,000 jobs, in a terminal: %v: share of a core; of the broker", terminal),
			fmt.Sprintf("%.2f %%; %.2f %%", own, broker), "< 1 %")
	}
}

// command returns the program with arguments, at a broker.
func command(b *testing.B, broker string, args ...string) *exec.Cmd {
	b.Helper()
	program, err := executable.Released()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.CommandContext(b.Context(), program, args...)
	c.Env = []string{"HOME=" + b.TempDir(), "TERM=xterm", "EODISPATCH_TOKEN=a", "EODISPATCH_BROKER=" + broker}
	return c
}

// starts returns the median processor time of a command.
func starts(b *testing.B, n int, args ...string) time.Duration {
	var times []time.Duration
	for range n {
		c := command(b, "", args...)
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
	}
	return median(times)
}

// firstRequest returns the median time from the start of a command to the arrival of its first request.
func firstRequest(b *testing.B) time.Duration {
	arrived := make(chan time.Time, 100)
	broker := program.Serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- time.Now()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"platforms": []}`) // the program shows what is missing
	}))
	var times []time.Duration
	for range 21 {
		c := command(b, broker, "platforms")
		begin := time.Now()
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, (<-arrived).Sub(begin))
	}
	return median(times)
}

// download is a number of files of a size, from a server that sends at most limit bytes a second; 0: as fast as it can.
type download struct {
	what   string
	files  int
	size   int64
	rounds int
	limit  float64
}

// downloaded is the median time of downloads by the program and by curl, and the most KiB that the program occupied.
type downloaded struct {
	own, curl time.Duration
	memory    int
}

func (d download) measure(b *testing.B) (m downloaded) {
	needCurl(b)
	source := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(source, d.size); err != nil {
		b.Fatal(err)
	}
	limiter := pace.NewLimiter(pace.Inf, 1<<20)
	if d.limit > 0 {
		limiter.SetLimit(pace.Limit(d.limit))
	}
	server := program.Serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.limit > 0 {
			w = limited{w, r.Context(), limiter}
		}
		http.ServeFile(w, r, source)
	}))
	assets := map[string]any{}
	curl := []string{"--silent", "--fail", "--parallel", "--parallel-immediate", "--parallel-max", "4",
		"--remote-name-all"}
	for i := range d.files {
		href := fmt.Sprintf("%s/%d.tif", server, i)
		assets[fmt.Sprint(i)] = map[string]any{"href": href, "file:size": d.size}
		curl = append(curl, href)
	}
	// cannot fail: only strings and numbers
	results, _ := json.Marshal(map[string]any{"type": "Collection", "assets": assets})
	broker := program.Serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(results) // the program shows what is missing
	}))
	var own, others []time.Duration
	for range d.rounds {
		c := command(b, broker, "download", "job-1", "--quiet", "--to", filepath.Join(b.TempDir(), "own"))
		took, memory := timed(b, c)
		own, m.memory = append(own, took), max(m.memory, memory)
		c = exec.CommandContext(b.Context(), "curl", curl...)
		c.Dir = b.TempDir()
		took, _ = timed(b, c)
		others = append(others, took)
	}
	m.own, m.curl = median(own), median(others)
	return m
}

func needCurl(b *testing.B) {
	if _, err := exec.LookPath("curl"); err != nil {
		b.Fatalf("%v: install it, for example by apt-get install curl", err)
	}
}

// timed runs a command and returns how long it took, and the most KiB that it occupied. The folder that it writes to is
// emptied.
func timed(b *testing.B, c *exec.Cmd) (time.Duration, int) {
	begin := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	occupied := program.WatchMemory(c.Process.Pid, ended)
	err := c.Wait()
	took := time.Since(begin)
	close(ended)
	if err != nil {
		b.Fatalf("%v: %v", c.Args[0], err)
	}
	folder := c.Dir
	if folder == "" {
		folder = c.Args[slices.Index(c.Args, "--to")+1]
	}
	if err := os.RemoveAll(folder); err != nil {
		b.Fatal(err)
	}
	return took, <-occupied
}

// limited sends a response at the rate of all of them.
type limited struct {
	http.ResponseWriter
	ctx     context.Context
	limiter *pace.Limiter
}

func (l limited) Write(p []byte) (int, error) {
	if err := l.limiter.WaitN(l.ctx, len(p)); err != nil {
		return 0, err
	}
	return l.ResponseWriter.Write(p)
}

// watchStill returns the percentage of a core that the watching of a task of 10,000 jobs takes while none of them
// changes, and that of the broker.
func watchStill(b *testing.B, terminal bool) (own, broker float64) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": "ogc-api-processes", "endpoint": w.OGCURL, "access": "open",
			"limits": map[string]any{"jobs": 4}}})
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms))...)
	defer p.Stop(b)
	request := program.OGC(w)
	request.Parameters = json.RawMessage("{}")
	task, _ := json.Marshal(struct { // cannot fail: a constant
		dispatch.Request
		Dimension dispatch.Dimension `json:"dimension"`
	}{request, dispatch.Dimension{Name: "bbox", Values: slices.Repeat([]json.RawMessage{json.RawMessage(program.Box)},
		10_000)}})
	fast{program.SignIn(b, w, p.Address)}.must(b, http.MethodPost, "/upscale_tasks", task, nil)
	c := command(b, p.Address, "watch", "task-1")
	c.Env = append(c.Env, "EODISPATCH_TOKEN="+program.SignIn(b, w, p.Address).Token) // the last one counts
	shown := executable.Log{Terminal: true}
	c.Stdout, c.Stderr = &shown, &shown
	if terminal {
		c.Stdout, c.Stderr = nil, nil
		keyboard, err := pty.StartWithSize(c, &pty.Winsize{Rows: 30, Cols: 120})
		if err != nil {
			b.Fatal(err)
		}
		defer keyboard.Close()
		go io.Copy(&shown, keyboard) // ends with the program
	} else if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	shown.Await(b, "4 running")
	const settles, while = 5 * time.Second, 30 * time.Second
	<-time.After(settles)
	ownBefore, brokerBefore := program.CPUTime(b, c.Process.Pid), program.CPUTime(b, p.Process.Pid)
	<-time.After(while)
	own = 100 * float64(program.CPUTime(b, c.Process.Pid)-ownBefore) / float64(while)
	broker = 100 * float64(program.CPUTime(b, p.Process.Pid)-brokerBefore) / float64(while)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	_ = c.Wait() // it ends with 130
	return own, broker
}
