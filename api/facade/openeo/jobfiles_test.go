package openeo_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// proxied returns a world whose platform's files go through the broker, and a job that has finished there.
func proxied(t *testing.T) (w *world, path string) {
	t.Helper()
	w = running(t, func(_ string, s *simulator.OpenEO) {
		s.Life, s.LinkLife = simulator.Life{Run: 300 * time.Millisecond}, time.Hour
	})
	w.backends[0].ProxyAssets = true
	path = w.create(`{"process": ` + addition + `}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	return w, path
}

// fileOf returns the link to the one file of a batch job, below the server's address.
func (w *world) fileOf(path string) string {
	w.t.Helper()
	for _, a := range w.get(path+"/results", "Authorization", anna)["assets"].(map[string]any) {
		href := a.(map[string]any)["href"].(string)
		if !strings.HasPrefix(href, publicURL+"/files/") || !strings.HasSuffix(href, "/openEO.tif") {
			w.t.Fatalf("the file is at %s", href)
		}
		return strings.TrimPrefix(href, publicURL)
	}
	w.t.Fatal("no assets")
	return ""
}

func TestFiles_GoThroughTheBroker(t *testing.T) {
	t.Parallel()
	w, path := proxied(t)
	file := w.fileOf(path)
	whole := w.ask("GET", file, "")
	body := whole.Body.Bytes()
	if whole.Code != http.StatusOK || len(body) < 100 || !strings.HasPrefix(whole.Header().Get("Content-Type"),
		"image/tiff") || whole.Header().Get("Content-Security-Policy") != "sandbox" {
		t.Fatalf("%d %v, %d bytes", whole.Code, whole.Header(), len(body))
	}
	head := w.ask("HEAD", file, "")
	if head.Code != http.StatusOK || head.Header().Get("Content-Length") != whole.Header().Get("Content-Length") ||
		head.Header().Get("Accept-Ranges") != "bytes" {
		t.Errorf("HEAD: %d %v", head.Code, head.Header())
	}
	part := w.ask("GET", file, "", "Range", "bytes=10-19")
	if part.Code != http.StatusPartialContent || part.Body.String() != string(body[10:20]) ||
		!strings.HasPrefix(part.Header().Get("Content-Range"), "bytes 10-19/") {
		t.Errorf("a range: %d %v %q", part.Code, part.Header(), part.Body)
	}
	if got := w.ask("GET", file, "", "Range", "bytes=99999999-"); got.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range that is not there: %d", got.Code)
	}
	if got := w.ask("OPTIONS", file, "", "Origin", "https://editor.example.org"); got.Code != http.StatusNoContent ||
		!strings.Contains(got.Header().Get("Access-Control-Allow-Headers"), "Range") {
		t.Errorf("preflight: %d %v", got.Code, got.Header())
	}
}

// A link to a file ends with its time, and with its job; it cannot be forged.
func TestFiles_LinksEnd(t *testing.T) {
	t.Parallel()
	w, path := proxied(t)
	file := w.fileOf(path)
	results := w.get(path+"/results", "Authorization", anna)
	forged := strings.Replace(file, "/files/", "/files/A", 1)
	refusedWith(t, w.ask("GET", forged, ""), http.StatusNotFound, "NotFound")
	sealed := strings.TrimPrefix(strings.TrimPrefix(linkIn(t, results, "canonical"), root), "/results/")
	refusedWith(t, w.ask("GET", "/files/"+sealed+"/x", ""), http.StatusNotFound, "NotFound")
	w.now = w.now.Add(8 * 24 * time.Hour)
	refusedWith(t, w.ask("GET", file, ""), http.StatusGone, "ResultLinkExpired")
	w.now = time.Now()
	if got := w.ask("GET", file, ""); got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	w.is(http.StatusNoContent, "DELETE", path, "")
	refusedWith(t, w.ask("GET", file, ""), http.StatusNotFound, "NotFound")
}

// What the file's server sends is passed on while it arrives. If it breaks off, so does the response.
func TestFiles_AreStreamed(t *testing.T) {
	t.Parallel()
	w, path := proxied(t)
	file := w.fileOf(path)
	first, rest := make(chan struct{}), make(chan struct{})
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/signed/") {
			return false
		}
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "0123456789")
		_ = http.NewResponseController(rw).Flush()
		<-rest
		panic(http.ErrAbortHandler)
	}
	got := &watchedRecorder{header: http.Header{}, first: first}
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://broker"+file, nil)
		r.RemoteAddr = "192.0.2.1:1234"
		w.ServeHTTP(got, r)
	}()
	select {
	case <-first: // before the server has sent the rest
	case <-time.After(time.Minute):
		t.Error("nothing was passed on")
	}
	close(rest)
	if broken := <-done; broken != http.ErrAbortHandler {
		t.Errorf("ended with %v", broken)
	}
}

// watchedRecorder tells of the first bytes that are written to it.
type watchedRecorder struct {
	header http.Header
	first  chan struct{}
	begun  bool
}

func (w *watchedRecorder) Header() http.Header { return w.header }
func (w *watchedRecorder) WriteHeader(int)     {}
func (w *watchedRecorder) Flush()              {}
func (w *watchedRecorder) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		close(w.first)
	}
	return len(p), nil
}

// Files of a platform without the setting stay where they are.
func TestFiles_StayAtTheirPlatform(t *testing.T) {
	t.Parallel()
	w, path := proxied(t)
	file := w.fileOf(path)
	w.backends[0].ProxyAssets = false
	for _, a := range w.get(path+"/results", "Authorization", anna)["assets"].(map[string]any) {
		if href := a.(map[string]any)["href"].(string); !strings.HasPrefix(href, w.urls["cdse"]) {
			t.Errorf("the file is at %s", href)
		}
	}
	refusedWith(t, w.ask("GET", file, ""), http.StatusNotFound, "NotFound")
}
