package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/client/cli"
)

const oneService = `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"}]}`

// full is a disk without space after some bytes.
type full struct {
	bytes.Buffer
	room int
}

func (f *full) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.room {
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(b)
}

func TestCommands_FailWhenTheirOutputIsLost(t *testing.T) {
	environ := stub(t, map[string]string{"GET /unit_jobs/4": `{"id":4,"status":"finished","parameters":{"a":1}}`,
		"GET /unit_jobs/4/results": `{"assets":{"a":{"href":"https://a.example.org/a"}}}`,
		"GET /services/s":          oneService, "POST /estimate": `{"jobs":1}`,
		"POST /unit_jobs": `{"id":4,"status":"created"}`})
	for _, args := range [][]string{{"results", "job-4"}, {"results", "job-4", "--links"}, {"show", "job-4"},
		{"run", "s", "--estimate"}, {"run", "s"}} {
		err := executeWith(t, cli.Console{Out: &full{room: 4}, Err: &bytes.Buffer{}, Environ: environ}, args...)
		if cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(cli.Explain(err), "no space left") {
			t.Errorf("%v: exit %d: %v", args, cli.ExitCode(err), err)
		}
	}
}

// Without a response nobody knows whether the broker has the request. The same command with another key would submit it
// a second time.
func TestRun_SaysHowToRepeatARequestWithoutAResponse(t *testing.T) {
	for answer, inDoubt := range map[int]bool{0: true, http.StatusBadGateway: true,
		http.StatusUnprocessableEntity: false} {
		var keys keysSeen
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, oneService)
				return
			}
			keys.add(r.Header.Get("Idempotency-Key"))
			if answer == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(answer)
			if answer == http.StatusUnprocessableEntity {
				fmt.Fprint(w, `{"error_code":"VALIDATION_ERROR","message":"No."}`)
			}
		}))
		t.Cleanup(server.Close)
		environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
		text, all := command(t, environ, "run", "s", "--quiet"), keys.all()
		if len(all) != 1 || all[0] == "" {
			t.Fatalf("%d: keys %v", answer, all)
		}
		if strings.Contains(text, "--key "+all[0]) != inDoubt {
			t.Errorf("%d: %s", answer, text)
		}
	}
}

// keysSeen are the different idempotency keys that a server was sent.
type keysSeen struct {
	mu   sync.Mutex
	keys []string
}

func (k *keysSeen) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.keys, key) {
		k.keys = append(k.keys, key)
	}
}

func (k *keysSeen) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.keys)
}

// A variable of a script that is not set must not make a request another, and perhaps a costly one.
func TestRun_RefusesEmptyAndUselessValues(t *testing.T) {
	environ := stub(t, map[string]string{"GET /services/s": oneService, "POST /tiles": `{"features":[]}`})
	for _, args := range [][]string{{"--grid", ""}, {"--values", ""}, {"--split", ""}, {"--budget", ""}, {"--key", ""},
		{"--trial", "0", "--split", "day"}, {"--trial", "-1", "--split", "day"}} {
		_, err := execute(t, environ, append([]string{"run", "s", "--area", "4,50,5,51"}, args...)...)
		if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(cli.Explain(err), args[0]) {
			t.Errorf("%v: exit %d: %v", args, cli.ExitCode(err), err)
		}
	}
	for _, args := range [][]string{{"list", "--created", "-5h"}, {"list", "--since", "-5h"}, {"list", "--limit", "-1"},
		{"wait", "job-4", "--timeout", "-1s"}} {
		if _, err := execute(t, environ, args...); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%v: exit %d: %v", args, cli.ExitCode(err), err)
		}
	}
}

// A selection of jobs by a variable that is not set must not become one of all jobs, and a budget not one without end.
func TestChanges_RefuseEmptyValues(t *testing.T) {
	const task = `{"id":7,"status":"running"}`
	environ := stub(t, map[string]string{"POST /upscale_tasks/7/cancel": task, "POST /upscale_tasks/7/retry": task,
		"POST /upscale_tasks/7/resume": task})
	for _, args := range [][]string{{"cancel", "task-7", "--status", ""}, {"cancel", "task-7", "--job", ""},
		{"retry", "task-7", "--job", ""}, {"cancel", "task-7", "--job", "3", "--status", ""},
		{"resume", "task-7", "--budget", ""}} {
		if printed, err := execute(t, environ, args...); err == nil {
			t.Errorf("%v: %s", args, printed)
		}
	}
}

func TestRun_ExplainsFilesWithoutItsOwnTypes(t *testing.T) {
	environ := stub(t, map[string]string{"GET /services/s": oneService})
	file := func(name, text string) string { return write(t, filepath.Join(t.TempDir(), name), text) }
	missing := filepath.Join(t.TempDir(), "missing.json")
	for want, args := range map[string][]string{
		"it is a JSON array, not an object":            {"run", "-f", file("a.json", `[]`)},
		`its member "dimension" cannot be of the type`: {"run", "-f", file("b.json", `{"dimension":1}`)},
		`its member "title" cannot be of the type`:     {"run", "-f", file("c.json", `{"title":1}`)},
		"not GeoJSON: it is a JSON array":              {"run", "s", "--area", file("d.geojson", `[]`)},
		"coordinates that are not lists of positions": {"run", "s", "--area",
			file("e.geojson", `{"type":"Polygon","coordinates":"x"}`)},
		"--each where: open ": {"run", "s", "--each", "where=@" + missing},
		"--values: open ":     {"run", "s", "--values", missing},
	} {
		if text := command(t, environ, args...); !strings.Contains(text, want) || strings.Contains(text, "Go ") {
			t.Errorf("%v: %s", args, text)
		}
	}
}

func TestDelete_NamesWhatIsNotDeleted(t *testing.T) {
	environ := stub(t, map[string]string{"DELETE /unit_jobs/4": `null`})
	if text := command(t, environ, "delete", "job-4", "job-5"); !strings.Contains(text, "job-5 is not deleted: ") {
		t.Error(text)
	}
	if text := command(t, environ, "hooks", "remove", "a"); !strings.Contains(text, "hook a is not deleted: ") {
		t.Error(text)
	}
}

// awaited closes seen when a line with the text was printed.
type awaited struct {
	bytes.Buffer
	text string
	seen chan struct{}
}

func (a *awaited) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(a.text)) {
		close(a.seen)
	}
	return a.Buffer.Write(b)
}

// The place in the queue is read beside the stream, and stays until the next read.
func TestWatch_ShowsNoPlaceInTheQueueAfterTheEnd(t *testing.T) {
	out := &awaited{text: "3 ahead", seen: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /upscale_tasks/7", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":7,"status":"created","counts":{"created":1},"jobs":[{"id":8,"status":"created",
			"queue_position":3}]}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		send := func(status string) {
			_ = socket.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil,
				`{"type":"status","data":{"id":7,"status":%q,"counts":{%[1]q:1},"jobs":[{"id":8,"status":%[1]q}]}}`,
				status))
		}
		send("created")
		<-out.seen
		send("finished")
		_, _, _ = socket.Read(r.Context()) // ends with the client
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	err := executeWith(t, cli.Console{Out: out, Err: out, Environ: environ}, "watch", "task-7")
	_, last, found := strings.Cut(out.String(), "task-7 finished")
	if err != nil || !found || strings.Contains(last, "ahead") {
		t.Errorf("%v: %s", err, out)
	}
}

// The log of a job is followed through an outage of the broker, as the job is.
func TestLogs_FollowThroughAnOutage(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/unit_jobs/4/logs":
			fmt.Fprint(w, `{"id":4,"status":"finished"}`)
		case reads.Add(1) == 2:
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `{"error_code":"PLATFORM_ERROR","message":"The platform is out of order."}`)
		case r.URL.Query().Get("offset") == "0":
			fmt.Fprint(w, `{"logs":[{"level":"info","message":"begun"}]}`)
		default:
			fmt.Fprint(w, `{"logs":[{"level":"info","message":"ended"}]}`)
		}
	}))
	defer server.Close()
	environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	printed, err := execute(t, environ, "logs", "job-4", "-f")
	if err != nil || strings.Count(printed, "begun") != 1 || strings.Count(printed, "ended") != 1 {
		t.Errorf("%v: %s", err, printed)
	}
}
