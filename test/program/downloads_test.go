package program

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
)

// pattern is a file of any size without any memory. Its content depends on the seed.
type pattern struct {
	seed byte
	size int64
}

func (p pattern) ReadAt(b []byte, from int64) (int, error) {
	n := int(min(int64(len(b)), p.size-from))
	for i := range n {
		at := from + int64(i)
		b[i] = p.seed + byte(at) + byte(at>>11)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// breaking aborts a connection at the tenth piece of a response.
type breaking struct {
	http.ResponseWriter
	pieces int
	broken *atomic.Int64
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.pieces++; b.pieces == 10 {
		b.broken.Add(1)
		panic(http.ErrAbortHandler)
	}
	n, err := b.ResponseWriter.Write(p)
	_ = http.NewResponseController(b.ResponseWriter).Flush() // the abort would drop what is buffered
	return n, err
}

const (
	bigFile   = 48 << 20 // bytes
	smallFile = 20_000
	mostRSS   = 60 << 10 // KiB that the program may occupy
)

// TestUsers_DownloadAThousandFiles downloads a job's results, 999 small files and a big one, through connections that
// break off at every tenth piece. The memory of the program does not grow with the files.
func TestUsers_DownloadAThousandFiles(t *testing.T) {
	t.Parallel()
	files, assets := map[string]pattern{}, map[string]any{}
	for i := range 1000 {
		name, p := fmt.Sprintf("tile-%d.tif", i), pattern{byte(i), smallFile}
		if i == 500 {
			p.size = bigFile
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(p, 0, p.size)); err != nil {
			t.Fatal(err)
		}
		files["/"+name] = p
		assets[name] = map[string]any{"type": "image/tiff", "file:size": p.size, "file:checksum": "1220" +
			hex.EncodeToString(sum.Sum(nil))}
	}
	var broken atomic.Int64
	store := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		p := files[r.URL.Path]
		http.ServeContent(&breaking{w, 0, &broken}, r, "", time.Time{}, io.NewSectionReader(p, 0, p.size))
	}))
	for name := range assets {
		assets[name].(map[string]any)["href"] = store + "/" + name
	}
	results, err := json.Marshal(map[string]any{"type": "Collection", "stac_version": "1.0.0", "id": "j",
		"assets": assets, "links": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	broker := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(results) // the program shows what is missing
	}))
	program, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), program, "download", "job-1", "--to", folder, "--broker", broker)
	command.Env = []string{"HOME=" + t.TempDir(), "EODISPATCH_TOKEN=a"}
	var printed strings.Builder
	command.Stdout, command.Stderr = &printed, &printed
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	occupied := WatchMemory(command.Process.Pid, ended)
	err = command.Wait()
	close(ended)
	if err != nil || !strings.Contains(printed.String(), "1000 files downloaded") {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	for _, name := range []string{"tile-0.tif", "tile-500.tif", "tile-999.tif"} {
		compare(t, filepath.Join(folder, name), files["/"+name])
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*.part*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if broken.Load() < 10 {
		t.Errorf("only %d connections broke off", broken.Load())
	}
	if peak := <-occupied; runtime.GOOS == "linux" && (peak == 0 || peak > mostRSS) {
		t.Errorf("the program occupied %d KiB", peak)
	}
}

// TestUsers_GetTheOtherFiles downloads results of which one file is gone: the others are fetched, and the exit code
// tells.
func TestUsers_GetTheOtherFiles(t *testing.T) {
	t.Parallel()
	store := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone.tif" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "content")
	}))
	broker := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"type": "Collection", "assets": {"gone": {"href": "%[1]s/gone.tif"}, "one": {"href": "%[1]s/one.tif"}, "two": {"href": "%[1]s/two.tif"}}}`, store)
	}))
	folder := filepath.Join(t.TempDir(), "results")
	environ := []string{"HOME=" + t.TempDir(), "EODISPATCH_TOKEN=a", "EODISPATCH_BROKER=" + broker}
	code, printed := try(t, environ, "download", "job-1", "--to", folder)
	if code != exitFailed || !strings.Contains(printed, "2 files downloaded") ||
		!strings.Contains(printed, "1 file could not be downloaded") ||
		!strings.Contains(printed, "gone.tif: "+strings.TrimPrefix(store, "http://")+
			" answers the link to the file with 404 Not Found") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}

// compare reads a file in pieces.
func compare(t *testing.T, path string, p pattern) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, want := sha256.New(), sha256.New()
	n, err := io.Copy(got, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(want, io.NewSectionReader(p, 0, p.size)); err != nil {
		t.Fatal(err)
	}
	if n != p.size || string(got.Sum(nil)) != string(want.Sum(nil)) {
		t.Errorf("%s has %d bytes of %d, or others", path, n, p.size)
	}
}
