//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

// pack runs this command for the architecture of this machine. A program without the race detector compresses ten times
// as fast.
func pack(t testing.TB) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "image")
	c := exec.Command("go", "run", "./deploy/image", "-out", folder, "-version", "1.2.3", "-revision", "abc",
		"-created", "1700000000", "-architectures", runtime.GOARCH)
	c.Dir = filepath.Join("..", "..")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// packed writes an image of a file.
func packed(t *testing.T, program string) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "image")
	if err := write(folder, "1.2.3", []image{{runtime.GOARCH, program, []byte("{}"), time.Unix(1_700_000_000, 0).UTC(),
		labels("1.2.3", "abc")}}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// contents returns all files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The same program gives the same image, whenever and wherever it is packed; each blob has the name of its hash.
func TestImage_IsReproducible(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, bytes.Repeat([]byte("a program "), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := contents(t, packed(t, program)), contents(t, packed(t, program))
	if len(first) != 6 { // oci-layout, index.json; index, manifest, config, layer
		t.Errorf("%d files", len(first))
	}
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs", name)
		}
		if hash, blob := strings.CutPrefix(name, "blobs/sha256/"); blob && digestOf([]byte(text)) != "sha256:"+hash {
			t.Errorf("%s has another hash", name)
		}
	}
}

// blob reads what a descriptor refers to.
func blob(t testing.TB, folder string, d descriptor) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:")))
	if err != nil || int64(len(text)) != d.Size {
		t.Fatalf("%d bytes, not %d: %v", len(text), d.Size, err)
	}
	return text
}

func decode[T any](t testing.TB, text []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// open returns the configuration and the layer of the only image in a folder.
func open(t testing.TB, folder string) (imageConfig, []byte) {
	t.Helper()
	top, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := decode[index](t, blob(t, folder, decode[index](t, top).Manifests[0]))
	m := decode[manifest](t, blob(t, folder, all.Manifests[0]))
	return decode[imageConfig](t, blob(t, folder, m.Config)), blob(t, folder, m.Layers[0])
}

// unpack writes the files of a layer into a folder, with their owners.
func unpack(t testing.TB, layer []byte, folder string) {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if err == io.EOF {
			return
		}
		path := filepath.Join(folder, filepath.Clean("/"+h.Name))
		switch {
		case err != nil:
		case h.Typeflag == tar.TypeDir:
			err = os.Mkdir(path, 0o700)
		case h.Typeflag == tar.TypeSymlink:
			if err = os.Symlink(h.Linkname, path); err == nil {
				continue
			}
		default:
			var text []byte
			if text, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err == nil {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err == nil {
			err = os.Chmod(path, fs.FileMode(h.Mode&0o777))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unpackForAll unpacks a layer where the user of the image gets to.
func unpackForAll(t testing.TB, layer []byte, root string) {
	t.Helper()
	unpack(t, layer, root)
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
		"EODISPATCH_IDENTITY_ISSUER=https://auth.example.org",
		"EODISPATCH_IDENTITY_CLIENT_ID=api",
		`EODISPATCH_PLATFORMS=[{"name": "a", "protocol": "openeo", "endpoint": "https://a.example.org", "access": "open"}]`)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return c
}

// BenchmarkPerformanceOfTheImage measures the time from the start of the program in the image until it serves, with a
// new database and with one that is there, and the size of the image's layer. It needs root.
func BenchmarkPerformanceOfTheImage(b *testing.B) {
	config, layer := open(b, pack(b))
	root := b.TempDir()
	unpackForAll(b, layer, root)
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
	b.ReportMetric(float64(len(layer))/1e6, "MB/layer")
}

// TestImage_Runs starts the program in the image's files alone, as its user, with its environment, and asks for its
// health.
func TestImage_Runs(t *testing.T) {
	if os.Geteuid() != 0 && !installed.Required() {
		t.Skip("only root may change the root folder")
	}
	folder, root := pack(t), t.TempDir()
	t.Run("others read it", func(t *testing.T) { isReadByOthers(t, folder) })
	config, layer := open(t, folder)
	if len(layer) > 25<<20 {
		t.Errorf("the layer has %d bytes", len(layer))
	}
	unpackForAll(t, layer, root)
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

// isReadByOthers has skopeo read the image.
func isReadByOthers(t *testing.T, folder string) {
	t.Helper()
	out, err := exec.Command(installed.Program(t, "skopeo"), "inspect", "oci:"+folder+":1.2.3").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := decode[struct {
		Architecture, Os string
		Labels           map[string]string
		Layers           []string
	}](t, out)
	if got.Architecture != runtime.GOARCH || got.Os != "linux" ||
		got.Labels["org.opencontainers.image.version"] != "1.2.3" || len(got.Layers) != 1 {
		t.Errorf("%s", out)
	}
	copied := filepath.Join(t.TempDir(), "copy") // reads and checks all blobs
	if out, err := exec.Command("skopeo", "copy", "--insecure-policy", "oci:"+folder+":1.2.3", "oci:"+copied+
		":copy").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
