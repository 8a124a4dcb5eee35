// Package program starts the real program for a simulated world, as its users and operators do, and speaks to it as
// they do. Its tests are those of commands, signals, files and what users see; benchmarks use it too.
package program

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// Values of parameters that the simulated platforms accept, and the process of the OGC server.
const (
	Area = `{"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}`
	Box  = `{"bbox": [5.05, 51.2, 5.15, 51.25]}`
	Span = `["2024-06-01", "2024-07-01"]`
	NDVI = "ndvi"
)

// Start starts the command serve with only the given environment and waits until it serves.
func Start(t testing.TB, environ ...string) *executable.Program {
	t.Helper()
	p := executable.Start(t, executable.Released, environ...)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return p
}

// Client calls a broker over HTTP with a user's token, as any client does.
type Client struct {
	Broker string // base URL without a trailing slash
	Token  string
}

// SignIn returns a client for the world's user.
func SignIn(t testing.TB, w *simulator.World, broker string) Client {
	t.Helper()
	known := w.Credentials
	form := url.Values{"grant_type": {"password"}, "client_id": {known.Client}, "username": {known.User},
		"password": {known.Password}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		known.Issuer+"/protocol/openid-connect/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var got struct {
		Token string `json:"access_token"`
	}
	if err := answer(request, &got); err != nil {
		t.Fatal(err)
	}
	return Client{broker, got.Token}
}

// As returns a client for a user of any name with additional claims in the token.
func As(w *simulator.World, broker, user string, more map[string]any) Client {
	return Client{broker, w.IdP.Mint(simulator.BrokerRealm, user, w.Credentials.Client,
		simulator.TokenFaults{Claims: more})}
}

// Counts is the number of jobs by status.
type Counts map[string]int

// Job holds the members of a ProcessingJob or an UpscalingTask that tests use.
type Job struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	Failure   string `json:"failure"`
	Counts    Counts `json:"counts"` // tasks only
	Jobs      []Job  `json:"jobs"`   // tasks only
	Attention *struct {
		Message string `json:"message"`
	} `json:"attention"`
}

// Ended reports whether j has reached a final status.
func (j Job) Ended() bool { return dispatch.Status(j.Status).Final() }

// Submit posts a job.
func (c Client) Submit(ctx context.Context, r dispatch.Request) (j Job, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return j, err
	}
	return j, c.Call(ctx, http.MethodPost, "/unit_jobs", body, &j)
}

// Upscale posts a task that runs r once for each value of the dimension.
func (c Client) Upscale(ctx context.Context, r dispatch.Request, d dispatch.Dimension) (task Job, err error) {
	body, err := json.Marshal(struct {
		dispatch.Request
		Dimension dispatch.Dimension `json:"dimension"`
	}{r, d})
	if err != nil {
		return task, err
	}
	return task, c.Call(ctx, http.MethodPost, "/upscale_tasks", body, &task)
}

// Task returns a task.
func (c Client) Task(ctx context.Context, id int64) (task Job, err error) {
	return task, c.Call(ctx, http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", id), nil, &task)
}

// Job returns a job.
func (c Client) Job(ctx context.Context, id int64) (j Job, err error) {
	return j, c.Call(ctx, http.MethodGet, fmt.Sprintf("/unit_jobs/%d", id), nil, &j)
}

// Call sends a request and decodes the JSON response. A refused request becomes an error with the server's message.
func (c Client) Call(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.Broker+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	return answer(request, into)
}

func answer(request *http.Request, into any) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, response.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, into)
}

// OpenEO returns a request for a process that the simulated back-end knows.
func OpenEO(w *simulator.World) dispatch.Request {
	return dispatch.Request{Title: "composite", Label: dispatch.OpenEO, Format: "gtiff",
		Service:    dispatch.Service{Endpoint: w.OpenEOURL, Application: "ndvi_composite"},
		Parameters: json.RawMessage(`{"spatial_extent": ` + Area + `, "temporal_extent": ` + Span + `}`)}
}

// OGC returns a request for a process of the simulated OGC server.
func OGC(w *simulator.World) dispatch.Request {
	return dispatch.Request{Title: "ndvi", Label: dispatch.OGCProcess, Format: "json",
		Service:    dispatch.Service{Endpoint: w.OGCURL, Application: NDVI},
		Parameters: json.RawMessage(`{"bbox": ` + Box + `}`)}
}

// Subject returns the subject of a token.
func Subject(token string) (string, error) {
	var claims struct{ Sub string }
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return "", err
	}
	err = json.Unmarshal(text, &claims)
	return claims.Sub, err
}

// Pooled keeps up to 100 idle connections to a host.
var Pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// Serve serves requests on the loopback interface until the end of the test, and returns the address.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// Between returns the text between two texts, without surrounding blanks.
func Between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return strings.TrimSpace(text)
}

// CPUTime returns the CPU time of a process, user and system, to 10 ms.
func CPUTime(t testing.TB, process int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// WatchMemory reports the most KiB that a process has occupied when it has ended. It reads the counter of the system,
// as the usage that the system reports for an ended process contains that of the process which started it.
func WatchMemory(pid int, ended <-chan struct{}) <-chan int {
	peak := make(chan int, 1)
	go func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		last := 0
		for {
			select {
			case <-ended:
				peak <- last
				return
			case <-again.C:
			}
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty elsewhere, and when it has ended
			if _, after, found := strings.Cut(string(text), "VmHWM:"); found {
				_, _ = fmt.Sscan(after, &last) // a number by the system's documentation
			}
		}
	}()
	return peak
}
