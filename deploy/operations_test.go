package deploy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// walkThrough is the section of docs/installation.md that TestOperations_WalkThrough runs.
const walkThrough = "\n## From an empty machine to three replicas with alerts\n"

// TestOperations_WalkThrough runs the commands of the document, as they stand there, in one shell: the database, three
// replicas, alerts, an operator's day, the end and a restore. Between them it looks at what an operator would look at,
// and runs jobs.
func TestOperations_WalkThrough(t *testing.T) {
	t.Parallel() // it mostly waits
	_, section, found := strings.Cut(string(read(t, "../docs/installation.md")), walkThrough)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(section, -1)
	if !found || len(blocks) != 7 {
		t.Fatalf("the section has %d blocks of commands", len(blocks))
	}
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() }) // at worst a port stays open until the process ends
	o := startOperator(t, w)
	o.checkVariables(blocks[0][1])
	for _, commands := range blocks[1:5] {
		o.run(commands[1])
	}
	for n := 1; n <= 3; n++ {
		o.runsAJob(n)
	}
	o.await("three targets", "/api/v1/targets", func(text string) bool {
		return strings.Count(text, `"health":"up"`) == 3
	})
	o.await("the rules", "/api/v1/rules", func(text string) bool {
		return strings.Contains(text, "EodispatchAbsent") && !strings.Contains(text, `"health":"err`)
	})
	o.run(blocks[5][1])
	for n := 1; n <= 3; n++ {
		if text := string(read(t, filepath.Join(o.folder, fmt.Sprintf("replica%d.log", n)))); !strings.Contains(text,
			`settings reloaded`) {
			t.Errorf("replica %d took no new settings:\n%s", n, text)
		}
		o.runsAJob(n)
	}
	o.run(blocks[6][1])
}

// operator is a shell in which somebody enters the commands of the document.
type operator struct {
	*testing.T
	world         *simulator.World
	variables     map[string]string
	folder        string
	port, private int // the first of ten that are free
	commands      io.Writer
	said          <-chan string // lines of its output; closed when it has ended
	faults        *lines
}

// lines are what a shell writes to its standard error.
type lines struct {
	sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

func startOperator(t *testing.T, w *simulator.World) *operator {
	t.Helper()
	program, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{T: t, world: w, folder: t.TempDir(), port: freePorts(t), private: freePorts(t), faults: &lines{}}
	if err := os.Symlink(here, filepath.Join(o.folder, "deploy")); err != nil {
		t.Fatal(err)
	}
	server := administrator(t)
	known := w.Credentials
	o.variables = map[string]string{
		"EODISPATCH_DATABASE": "postgres://eodispatch:PASSWORD@/eodispatch?host=" + server["PGHOST"] + "&port=" +
			server["PGPORT"],
		"ISSUER": known.Issuer, "AUDIENCE": known.BrokerID,
		"PLATFORM": w.OpenEOURL, "PLATFORM_ISSUER": known.Platform, "PROVIDER": "sim", "CLIENT_ID": known.ServiceID,
		"CLIENT_SECRET": known.ServiceSecret,
		"PORT":          fmt.Sprint(o.port), "PRIVATE": fmt.Sprint(o.private),
	}
	path := []string{filepath.Dir(program), filepath.Dir(
		tool(t, "prometheus", filepath.Join(cache(), "prometheus", "usr", "bin", "prometheus"))), os.Getenv("PATH")}
	shell := exec.Command("bash", "-eu", "-o", "pipefail")
	shell.Dir, shell.Stderr, shell.SysProcAttr = o.folder, o.faults, &syscall.SysProcAttr{Setpgid: true}
	shell.Env = []string{"PATH=" + strings.Join(path, ":"), "HOME=" + o.folder, "EODISPATCH_DEVELOPMENT=true"}
	for _, set := range []map[string]string{server, o.variables} {
		for name, value := range set {
			shell.Env = append(shell.Env, name+"="+value)
		}
	}
	o.start(shell)
	return o
}

func (o *operator) start(shell *exec.Cmd) {
	o.Helper()
	in, err := shell.StdinPipe()
	if err != nil {
		o.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		o.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		o.Fatal(err)
	}
	said := make(chan string)
	o.commands, o.said = in, said
	go func() {
		defer close(said)
		for all := bufio.NewScanner(out); all.Scan(); {
			said <- all.Text()
		}
	}()
	o.Cleanup(func() {
		_ = in.Close() // the shell ends
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		for range said {
		}
		_ = shell.Wait() // it was killed, or a command failed, which was reported
	})
}

// checkVariables checks that the document has its reader set the variables that the test sets.
func (o *operator) checkVariables(commands string) {
	o.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(commands, -1) {
		names = append(names, m[1])
	}
	for name := range o.variables {
		if !slices.Contains(names, name) {
			o.Errorf("the document does not set %s", name)
		}
	}
	if len(names) != len(o.variables) {
		o.Errorf("the document sets %q", names)
	}
}

// run enters commands and waits until they have succeeded.
func (o *operator) run(commands string) {
	o.Helper()
	const done = "the commands have ended"
	if _, err := io.WriteString(o.commands, commands+"\necho "+done+"\n"); err != nil {
		o.Fatalf("%v\n%s", err, o.faults)
	}
	var all []string
	late := time.NewTimer(4 * time.Minute)
	defer late.Stop()
	for {
		select {
		case line, ok := <-o.said:
			if line == done {
				return
			}
			if all = append(all, line); !ok {
				o.Fatalf("commands of the document failed:\n%s\nThey printed:\n%s\n%s", commands,
					strings.Join(all, "\n"), o.faults)
			}
		case <-late.C:
			o.Fatalf("commands of the document do not end:\n%s\nThey printed:\n%s\n%s", commands,
				strings.Join(all, "\n"), o.faults)
		}
	}
}

// runsAJob runs a job by a replica.
func (o *operator) runsAJob(replica int) {
	o.Helper()
	token := o.world.IdP.Mint(simulator.BrokerRealm, "alice", o.world.Credentials.Client, simulator.TokenFaults{})
	c, err := client.New(fmt.Sprintf("http://127.0.0.1:%d", o.port+replica),
		client.Options{Token: func(context.Context) (string, error) { return token, nil }})
	if err != nil {
		o.Fatal(err)
	}
	j, err := c.Submit(o.Context(), wire.BaseJobRequest{Title: "composite", Label: "openeo", Format: "gtiff",
		Service: wire.ServiceChoice{Endpoint: o.world.OpenEOURL, Application: "ndvi_composite"},
		Parameters: []byte(
			`{"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}, "temporal_extent": ["2024-06-01", "2024-07-01"]}`)}, "")
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ; err == nil && !j.Status.Final(); <-again.C {
		var now wire.ProcessingJob
		now, err = c.Job(o.Context(), j.ID)
		j = now.ProcessingJobSummary
	}
	if err != nil || j.Status != "finished" {
		o.Errorf("by replica %d: %+v, %v", replica, j, err)
	}
}

// await waits until Prometheus answers as wanted.
func (o *operator) await(what, path string, wanted func(string) bool) {
	o.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	var text []byte
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); <-again.C {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", o.private+4, path))
		if err != nil {
			continue
		}
		text, _ = io.ReadAll(r.Body)
		r.Body.Close()
		if wanted(string(text)) {
			return
		}
	}
	o.Errorf("%s: Prometheus says %s", what, text)
}

// administrator returns the variables by which the programs of PostgreSQL find a server as an administrator of it. What
// the commands make there is removed at the end.
func administrator(t *testing.T) map[string]string {
	t.Helper()
	c, err := pgx.ParseConfig(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("postgres://%s:%s@/postgres?host=%s&port=%d", c.User, c.Password, c.Host, c.Port)
	t.Cleanup(func() {
		for _, left := range []string{"DATABASE IF EXISTS eodispatch WITH (FORCE)",
			"DATABASE IF EXISTS eodispatch_before WITH (FORCE)", "ROLE IF EXISTS eodispatch"} {
			postgres.Exec(t, at, "DROP "+left)
		}
	})
	return map[string]string{"PGHOST": c.Host, "PGPORT": fmt.Sprint(c.Port), "PGUSER": c.User, "PGPASSWORD": c.Password}
}

// freePorts returns the first of ten consecutive ports of which nobody uses any at the moment.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port, free := first.Addr().(*net.TCPAddr).Port, true
		first.Close()
		for n := range 10 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+n))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return port
		}
	}
	t.Fatal("no ten consecutive ports are free")
	return 0
}
