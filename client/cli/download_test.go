package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/client/cli"
)

// resultsBroker is a broker with a finished task of four jobs on two pages. The results of job 2 do not exist; those of
// job 3 can be read from the request for its Item on that comeAt counts to.
type resultsBroker struct {
	environ []string
	asked   atomic.Int64 // requests for the Item of job 3
	comeAt  int64
}

func newResultsBroker(t *testing.T) *resultsBroker {
	b := &resultsBroker{comeAt: 1 << 30}
	var mux http.ServeMux
	server := httptest.NewServer(&mux)
	t.Cleanup(server.Close)
	answer := func(path string, status int, text func(query string) string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, strings.ReplaceAll(text(r.URL.RawQuery), "HERE", server.URL))
		})
	}
	item := func(id int) string {
		return fmt.Sprintf(`{"type":"Feature","id":"%d","assets":{"a":{"href":"HERE/a.tif"},
			"mean":{"href":"data:application/json;base64,MC41"}},
			"links":[{"rel":"self","href":"HERE/x"},{"rel":"via","href":"HERE/unit_jobs/%d/results"}]}`, id, id)
	}
	const gone = `{"id":2,"name":"31UFS","error_code":"RESULTS_NOT_FOUND","message":"The platform has no such job.",
		"temporary":false}`
	const late = `{"id":3,"error_code":"PLATFORM_UNAVAILABLE","message":"The platform does not respond.",
		"temporary":true}`
	refusal := func(code, missing string) string {
		return `{"status":"error","error_code":"` + code + `","message":"m","details":{"missing":` + missing +
			`},"request_id":"r"}`
	}
	always := func(text string) func(string) string { return func(string) string { return text } }
	answer("/upscale_tasks/7", 200, always(`{"id":7,"status":"finished","counts":{"finished":4}}`))
	answer("/upscale_tasks/7/results", 200, always(`{"type":"Collection","links":[{"rel":"items","href":"HERE/x"},
		{"rel":"related","href":"HERE/tiles"}]}`))
	answer("/upscale_tasks/7/results/items", 200, func(query string) string {
		if strings.Contains(query, "token=2") {
			return `{"features":[` + item(4) + `],"eodispatch:missing":[` + late + `],"links":[]}`
		}
		return `{"features":[` + item(1) + `],"eodispatch:missing":[` + gone +
			`],"links":[{"rel":"next","href":"HERE/upscale_tasks/7/results/items?token=2"}]}`
	})
	answer("/upscale_tasks/7/results/items/1", 200, always(item(1)))
	answer("/upscale_tasks/7/results/items/4", 200, always(item(4)))
	answer("/upscale_tasks/7/results/items/2", 404, always(refusal("RESULTS_NOT_FOUND", gone)))
	mux.HandleFunc("GET /upscale_tasks/7/results/items/3", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := strings.ReplaceAll(item(3), "HERE", server.URL)
		if b.asked.Add(1) < b.comeAt {
			w.WriteHeader(http.StatusForbidden) // a request that is refused otherwise is repeated by the client itself
			text = refusal("PLATFORM_UNAVAILABLE", late)
		}
		fmt.Fprint(w, text)
	})
	mux.HandleFunc("GET /ws/upscale_tasks/7", func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = socket.Write(r.Context(), websocket.MessageText,
			[]byte(`{"type":"status","data":{"id":7,"status":"finished","counts":{"finished":4},
			"jobs":[{"id":1,"status":"finished"},{"id":2,"status":"finished"},{"id":3,"status":"finished"},{"id":4,
				"status":"finished"}]}}`))
		_, _, _ = socket.Read(r.Context()) // ends with the client
	})
	answer("/a.tif", 200, always("content"))
	b.environ = []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	return b
}

// files returns the names of all files in a folder.
func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() &&
				!strings.HasPrefix(filepath.Base(path), ".") {
				name, _ := filepath.Rel(folder, path)
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

const missingText = "results are missing for 2 of the finished jobs:\njob-2 (31UFS): The platform has no such " +
	"job.\njob-3: The platform does not respond.\n" +
	"Some may become available. Run the command again later to try only those."

// One job whose results cannot be read does not keep back those of others: the commands give these, name the job, and
// fail.
func TestResults_WithoutThoseOfSomeJobs(t *testing.T) {
	b := newResultsBroker(t)
	printed, err := execute(t, b.environ, "results", "task-7")
	if cli.ExitCode(err) != cli.ExitFailed || cli.Explain(err) != missingText || strings.Count(printed, "/a.tif") != 2 {
		t.Errorf("exit %d: %v\n%s", cli.ExitCode(err), err, printed)
	}
}

func TestDownload_WithoutTheResultsOfSomeJobs(t *testing.T) {
	want := []string{"1/a.tif", "1/item.json", "1/mean.json", "4/a.tif", "4/item.json", "4/mean.json",
		"collection.json", "items.json"}
	for _, flags := range [][]string{nil, {"--json"}} {
		b, folder := newResultsBroker(t), t.TempDir()
		printed, err := execute(t, b.environ, append([]string{"download", "task-7", "--to", folder}, flags...)...)
		if cli.ExitCode(err) != cli.ExitFailed || cli.Explain(err) != missingText || !slices.Equal(files(t, folder),
			want) {
			t.Errorf("exit %d: %v\n%v", cli.ExitCode(err), err, files(t, folder))
		}
		if flags == nil {
			continue
		}
		var end struct {
			Complete bool
			Missing  []struct {
				ID   int64  `json:"id"`
				Code string `json:"error_code"`
			}
		}
		if err := json.Unmarshal([]byte(printed), &end); err != nil || end.Complete ||
			fmt.Sprint(end.Missing) != "[{2 RESULTS_NOT_FOUND} {3 PLATFORM_UNAVAILABLE}]" {
			t.Errorf("%v: %s", err, printed)
		}
	}
}

// TestDownload_NamesFilesByTheLayout: files have the names that the layout gives, Items refer to them, and a layout
// that gives two files one name is refused.
// A download of what does not exist leaves no folder behind.
func TestDownload_OfNothingMakesNoFolder(t *testing.T) {
	b := newResultsBroker(t)
	for _, id := range []string{"task-8", "job-8"} {
		folder := filepath.Join(t.TempDir(), "results")
		printed, err := execute(t, b.environ, "download", id, "-o", folder)
		if _, missing := os.Stat(folder); missing == nil || err == nil || strings.Contains(printed, "downloaded") {
			t.Errorf("%s: %v: %s", id, err, printed)
		}
	}
}

func TestDownload_NamesFilesByTheLayout(t *testing.T) {
	const one = `{"type":"Feature","id":"4","properties":{"name":"31UFS","start_datetime":"2024-06-01T00:00:00Z"},
		"assets":{"a":{"href":"data:image/tiff,x"},"mean":{"href":"data:application/json,1"}},"links":[]}`
	environ := stub(t, map[string]string{
		"GET /upscale_tasks/7":               `{"id":7,"status":"finished","counts":{"finished":1}}`,
		"GET /upscale_tasks/7/results":       `{"type":"Collection","links":[]}`,
		"GET /upscale_tasks/7/results/items": `{"features":[` + one + `],"eodispatch:missing":[],"links":[]}`})
	for names, want := range map[string][]string{
		"{name}_{time}_{file}":              {"31UFS_2024-06-01_a.tif", "31UFS_2024-06-01_mean.json"},
		"{time}/{name}-{asset}.{extension}": {"2024-06-01/31UFS-a.tif", "2024-06-01/31UFS-mean.json"},
		"../../{job}/{file}":                {"__/__/4/a.tif", "__/__/4/mean.json"},
	} {
		folder := t.TempDir()
		if printed, err := execute(t, environ, "download", "task-7", "--to", folder, "--layout", names); err != nil {
			t.Errorf("%s: %v: %s", names, err, printed)
		}
		item, _ := os.ReadFile(filepath.Join(folder, "items", "4.json"))
		for _, name := range want {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil ||
				!strings.Contains(string(item), `"../`+name+`"`) {
				t.Errorf("%s: %v: %s", names, err, item)
			}
		}
	}
	for names, want := range map[string]string{"{job}": "add {job}, {asset} or {file}", "{cell}": "fields are {name}"} {
		_, err := execute(t, environ, "download", "task-7", "--to", t.TempDir(), "--layout", names)
		if err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(cli.Explain(err), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
}

// TestHelp_GroupsFlags: commands with many flags show them in groups, each flag once, in lines that terminals do not
// break.
func TestHelp_GroupsFlags(t *testing.T) {
	out := &bytes.Buffer{}
	if err := executeWith(t, cli.Console{Out: out, Err: out}, "run", "--help"); err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(out.String(), "Service:\n")
	for _, name := range []string{"--platform ", "--area ", "--split ", "--each ", "--budget ", "--layout ", "--key ",
		"--json "} {
		if len(regexp.MustCompile(`(?m)^  (-\w,|   ) `+name).FindAllString(flags, -1)) != 1 {
			t.Errorf("%s is not described once:\n%s", name, flags)
		}
	}
	for line := range strings.Lines(flags) {
		if len(line) > 101 {
			t.Errorf("a long line: %s", line)
		}
	}
}

// TestToken_IsPrinted alone, so that a shell can put it into a header.
func TestToken_IsPrinted(t *testing.T) {
	environ := []string{"EODISPATCH_BROKER=https://b.example", "EODISPATCH_TOKEN=secret",
		"XDG_STATE_HOME=" + t.TempDir()}
	if printed, err := execute(t, environ, "token"); err != nil || printed != "secret\n" {
		t.Errorf("%v: %q", err, printed)
	}
}

// A download that follows a task tries again the results that could not be read when their jobs finished, after those
// of the others.
func TestDownload_FollowsResultsThatComeLate(t *testing.T) {
	b, folder := newResultsBroker(t), t.TempDir()
	b.comeAt = 2
	printed, err := execute(t, b.environ, "download", "task-7", "--to", folder, "--follow")
	if cli.ExitCode(err) != cli.ExitFailed || cli.Explain(err) != "results are missing for 1 of the finished "+
		"jobs:\njob-2 (31UFS): The platform has no such job." {
		t.Errorf("exit %d: %v\n%s", cli.ExitCode(err), err, printed)
	}
	if got := files(t, folder); !slices.Contains(got, "1/a.tif") || !slices.Contains(got, "3/a.tif") ||
		!slices.Contains(got, "4/mean.json") {
		t.Errorf("%v", got)
	}
	text, _ := os.ReadFile(filepath.Join(folder, "collection.json"))
	if c := string(text); !strings.Contains(c, `"./3/item.json"`) || !strings.Contains(c, "/tiles") ||
		strings.Contains(c, `"items"`) || !strings.Contains(c, "RESULTS_NOT_FOUND") {
		t.Errorf("collection.json: %s", c)
	}
}

// collection.json keeps the links that say more than where it is. Those to Items stay if the Collection has no assets,
// which are then only there.
func TestDownload_KeepsLinks(t *testing.T) {
	for assets, want := range map[string]string{`{"a":{"href":"data:,1"}}`: "self root license",
		`{}`: "self root item license"} {
		environ := stub(t, map[string]string{"GET /unit_jobs/4/results": `{"type":"Collection","assets":` + assets +
			`,"links":[{"rel":"self","href":"https://p.example/s"},
			{"rel":"canonical","href":"https://p.example/c"},{"rel":"item",
				"href":"https://p.example/i"},{"rel":"license","href":"https://p.example/l"}]}`})
		folder := t.TempDir()
		if printed, err := execute(t, environ, "download", "job-4", "--to", folder); err != nil {
			t.Errorf("%v: %s", err, printed)
		}
		var c struct{ Links []struct{ Rel string } }
		text, _ := os.ReadFile(filepath.Join(folder, "collection.json"))
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		var rels []string
		for _, l := range c.Links {
			rels = append(rels, l.Rel)
		}
		if got := strings.Join(rels, " "); got != want {
			t.Errorf("with assets %s: %s", assets, got)
		}
	}
}

// A number of a document that no float64 can be, such as the value of a pixel without data, stays what it is.
func TestDownload_KeepsNumbers(t *testing.T) {
	const number = "-9223372036854775807"
	environ := stub(t, map[string]string{"GET /unit_jobs/4/results": `{"type":"Collection","assets":{"a":{"href":` +
		`"data:,1","nodata":` + number + `}}}`})
	folder := t.TempDir()
	if printed, err := execute(t, environ, "download", "job-4", "--to", folder); err != nil {
		t.Errorf("%v: %s", err, printed)
	}
	if text, _ := os.ReadFile(filepath.Join(folder, "collection.json")); !strings.Contains(string(text), number) {
		t.Errorf("%s", text)
	}
}
