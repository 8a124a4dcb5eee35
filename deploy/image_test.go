//go:build linux

package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

// imageConfig is what the tests read of the configuration of an image.
type imageConfig struct {
	Architecture string
	RootFS       struct{ Type string }
	Config       struct {
		User, WorkingDir     string
		Env, Entrypoint, Cmd []string
		Labels               map[string]string
		Healthcheck          struct{ Test []string }
	}
}

// pack makes an image of the program for the architecture of this machine.
func pack(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	release(t, "1.2.3", folder, "programs", "image")
	return filepath.Join(folder, "image")
}

// open has skopeo check and copy the image of an architecture, and returns its configuration and the file of its layer.
func open(t testing.TB, folder, architecture string) (config imageConfig, layer string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	output(t, installed.Program(t, "skopeo"), "--override-arch", architecture, "copy", "--insecure-policy",
		"oci:"+folder+":1.2.3", "dir:"+copied)
	var m struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	decode(t, filepath.Join(copied, "manifest.json"), &m)
	blob := func(digest string) string { return filepath.Join(copied, strings.TrimPrefix(digest, "sha256:")) }
	decode(t, blob(m.Config.Digest), &config)
	if len(m.Layers) != 1 {
		t.Fatalf("%d layers", len(m.Layers))
	}
	return config, blob(m.Layers[0].Digest)
}

func decode(t testing.TB, file string, value any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// held is what tar lists in the image of TestImage_IsReproducible.
const held = `
lrwxrwxrwx 0/0 0 2023-11-14 22:13:20 alembic -> eodispatch
drwx------ 65532/65532 0 2023-11-14 22:13:20 data/
-rwxr-xr-x 0/0 90000 2023-11-14 22:13:20 eodispatch
-rw-r--r-- 0/0 2 2023-11-14 22:13:20 sbom.cdx.json
drwxrwxrwt 0/0 0 2023-11-14 22:13:20 tmp/`

// TestImage_IsReproducible: the same programs give the same image, with one for each architecture.
func TestImage_IsReproducible(t *testing.T) {
	folder := t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} {
		program := filepath.Join(folder, "eodispatch-1.2.3-linux-"+architecture)
		if err := errors.Join(os.WriteFile(program, bytes.Repeat([]byte("for "+architecture), 10_000), 0o600),
			os.WriteFile(program+".cdx.json", []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SYSTEMS", "linux/amd64 linux/arm64")
	release(t, "1.2.3", folder, "image", "sums")
	first := string(read(t, filepath.Join(folder, "SHA256SUMS")))
	release(t, "1.2.3", folder, "image", "sums")
	if second := string(read(t, filepath.Join(folder, "SHA256SUMS"))); second != first {
		t.Errorf("%s\nnow\n%s", first, second)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		config, layer := open(t, filepath.Join(folder, "image"), architecture)
		list := output(t, "tar", "--utc", "--full-time", "--numeric-owner", "-tvzf", layer)
		if got := regexp.MustCompile(` +`).ReplaceAllString(list, " "); got != strings.TrimSpace(held) {
			t.Errorf("%s: it has\n%s", architecture, got)
		}
		if config.Architecture != architecture || config.RootFS.Type != "layers" ||
			config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" {
			t.Errorf("%s: %+v", architecture, config)
		}
	}
}

// unpack unpacks a layer with its owners, where the user of the image gets to.
func unpack(t testing.TB, layer, root string) {
	t.Helper()
	output(t, "tar", "-xzf", layer, "--same-owner", "--numeric-owner", "--preserve-permissions", "-C", root)
	for _, above := range []string{root, filepath.Dir(root)} {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// command returns the program in the image's files alone, as its user, with its environment and least settings.
func command(config imageConfig, root, private string, args ...string) *exec.Cmd {
	c := exec.Command(config.Config.Entrypoint[0], args...)
	c.Dir = config.Config.WorkingDir
	c.Env = append(config.Config.Env, "EODISPATCH_LISTEN=127.0.0.1:0", "EODISPATCH_TELEMETRY_LISTEN="+private,
		"EODISPATCH_IDENTITY_ISSUER=https://auth.example.org", "EODISPATCH_IDENTITY_CLIENT_ID=api",
		`EODISPATCH_PLATFORMS=[{"name": "a", "protocol": "openeo", "endpoint": "https://a.example.org", "access": "open"}]`)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return c
}

func megabytes(t testing.TB, file string) float64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// BenchmarkPerformanceOfTheImage measures the time from the start of the program in the image until it serves, with a
// new database and with one that is there, and the size of the image's layer. It needs root.
func BenchmarkPerformanceOfTheImage(b *testing.B) {
	config, layer := open(b, pack(b), runtime.GOARCH)
	root := b.TempDir()
	unpack(b, layer, root)
	start := func() time.Duration {
		var log executable.Log
		serve := command(config, root, "off", config.Config.Cmd...)
		serve.Stderr = &log
		serving, begun := log.Shows(`"msg":"serving"`), time.Now()
		if err := serve.Start(); err != nil {
			b.Fatal(err)
		}
		<-serving
		took := time.Since(begun)
		_ = serve.Process.Signal(syscall.SIGTERM) // it runs
		if err := serve.Wait(); err != nil {
			b.Fatalf("%v\n%s", err, &log)
		}
		return took
	}
	const times = 9
	var first, again []time.Duration
	for b.Loop() {
		for range times {
			files, err := filepath.Glob(filepath.Join(root, "data", "*"))
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
			if err != nil {
				b.Fatal(err)
			}
			first, again = append(first, start()), append(again, start())
		}
	}
	slices.Sort(first)
	slices.Sort(again)
	b.ReportMetric(float64(first[len(first)/2].Milliseconds()), "ms/first-start")
	b.ReportMetric(float64(again[len(again)/2].Milliseconds()), "ms/start")
	b.ReportMetric(megabytes(b, layer), "MB/layer")
}

// TestImage_Runs starts the program in the image's files alone, as its user, with its environment, and asks for its
// health.
func TestImage_Runs(t *testing.T) {
	if os.Geteuid() != 0 && !installed.Required() {
		t.Skip("only root may change the root folder")
	}
	root := t.TempDir()
	config, layer := open(t, pack(t), runtime.GOARCH)
	if size := megabytes(t, layer); size > 26 || config.Config.User != "65532:65532" {
		t.Errorf("the layer has %.1f MB: %+v", size, config)
	}
	unpack(t, layer, root)
	if target, err := os.Readlink(filepath.Join(root, "alembic")); err != nil || target != "eodispatch" ||
		!slices.Contains(config.Config.Env, "PATH=/") {
		t.Errorf("alembic is not found: %q, %v, %q", target, err, config.Config.Env)
	}
	private := executable.FreeAddress(t)
	inside := func(args ...string) *exec.Cmd { return command(config, root, private, args...) }
	var log executable.Log
	serve := inside(config.Config.Cmd...)
	serve.Stdout, serve.Stderr = &log, &log
	if out, err := inside("health").CombinedOutput(); err == nil {
		t.Errorf("healthy before it runs: %s", out)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer serve.Process.Kill()
	select {
	case <-log.Shows(`"msg":"serving"`):
	case <-time.After(3 * time.Minute):
		t.Fatalf("it does not serve:\n%s", &log)
	}
	if out, err := inside(config.Config.Healthcheck.Test[2]).CombinedOutput(); err != nil || string(out) != "ready\n" {
		t.Errorf("%v: %s\n%s", err, out, &log)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}
