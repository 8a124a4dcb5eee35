package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// probe is what Kubernetes asks of a container.
type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// container is what Kubernetes starts.
type container struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name string
		Port string `yaml:"containerPort"`
	}
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
}

// object is what the test reads of the objects of Kubernetes.
type object struct {
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct{ Containers []container }
		}
	}
}

// chart reads the rendered chart: its containers by their command, and the configuration file.
func chart(t *testing.T) (containers map[string]container, configuration string) {
	t.Helper()
	containers = map[string]container{}
	for document := yaml.NewDecoder(bytes.NewReader(read(t, "testdata/chart.yaml"))); ; {
		var o object
		err := document.Decode(&o)
		if errors.Is(err, io.EOF) {
			return containers, configuration
		}
		if err != nil {
			t.Fatal(err)
		}
		if file, is := o.Data["broker.yaml"]; is {
			configuration = file // two objects have the same
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			containers[c.Args[0]] = c
		}
	}
}

// TestChart_IsRendered: the rendered chart is that of the present files. Whether it is what helm makes of them is
// tested by make charts.
func TestChart_IsRendered(t *testing.T) {
	var all bytes.Buffer
	err := fs.WalkDir(os.DirFS("chart"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() { // the alert rules are a link
			return err
		}
		_, err = fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(read(t, filepath.Join("chart", path))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(string(read(t, "testdata/chart.yaml")), "\n"); !strings.HasSuffix(line,
		fmt.Sprintf(" %x", sha256.Sum256(all.Bytes()))) {
		t.Error("deploy/testdata/chart.yaml was rendered from other files: run make charts")
	}
}

// TestChart_StartsTheProgram runs the chart's containers: first the migration, then the broker, each with the arguments
// and the environment that the rendered chart gives it, and asks what Kubernetes asks.
func TestChart_StartsTheProgram(t *testing.T) {
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	containers, configuration := chart(t)
	folder, addresses := t.TempDir(), map[string]string{"http": executable.FreeAddress(t),
		"private": executable.FreeAddress(t)}
	file := filepath.Join(folder, "broker.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(c container) *exec.Cmd {
		p := exec.Command(path, c.Args...)
		// as the secret holds them
		p.Dir, p.Env = folder, append(c.environ(t, file, addresses), "EODISPATCH_DATABASE=sqlite:a.db",
			"CLIENT_SECRET=secret")
		return p
	}
	if out, err := start(containers["migrate"]).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "to schema") {
		t.Fatalf("%v: %s", err, out)
	}
	c := containers["serve"]
	serve, log := start(c), &executable.Log{}
	serve.Stdout, serve.Stderr = log, log
	serving := log.Shows(`"msg":"serving"`)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer serve.Process.Kill()
	select {
	case <-serving:
	case <-time.After(3 * time.Minute):
		t.Fatalf("it does not serve:\n%s", log)
	}
	for _, question := range []string{addresses[c.ReadinessProbe.HTTPGet.Port] + c.ReadinessProbe.HTTPGet.Path,
		addresses[c.LivenessProbe.HTTPGet.Port] + c.LivenessProbe.HTTPGet.Path, addresses["http"] + "/health"} {
		answer, err := http.Get("http://" + question)
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s\n%s", question, answer.Status, log)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if text := log.String(); strings.Contains(text, "is unknown and was ignored") ||
		!strings.Contains(text, `"delay"`) {
		t.Errorf("the log:\n%s", text)
	}
}

// environ returns the container's variables, with free ports in place of those that its own network has, and the path
// of the mounted file.
func (c container) environ(t *testing.T, file string, addresses map[string]string) (all []string) {
	t.Helper()
	for _, e := range c.Env {
		switch e.Name {
		case "EODISPATCH_CONFIG":
			e.Value = file
		case "EODISPATCH_LISTEN":
			e.Value = c.replaced(t, e.Value, "http", addresses)
		case "EODISPATCH_TELEMETRY_LISTEN":
			e.Value = c.replaced(t, e.Value, "private", addresses)
		}
		all = append(all, e.Name+"="+e.Value)
	}
	return all
}

// replaced returns the address for a port's name, and checks that the container's port of that name is the one that the
// program gets, if it has any.
func (c container) replaced(t *testing.T, address, name string, addresses map[string]string) string {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == name && address != ":"+p.Port {
			t.Errorf("the port %s is %s, and the program listens at %s", name, p.Port, address)
		}
	}
	return addresses[name]
}
