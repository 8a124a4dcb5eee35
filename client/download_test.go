package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// fileServer serves content with ranges and an ETag. Every response breaks off after cut bytes, unless cut is 0.
type fileServer struct {
	content  []byte
	etag     string
	cut      int
	requests atomic.Int64
	refuse   func(n int64, w http.ResponseWriter) bool // answers request n itself
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	if s.refuse != nil && s.refuse(n, w) {
		return
	}
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	if s.cut > 0 {
		w = &cutter{ResponseWriter: w, left: s.cut}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
}

// cutter aborts a connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, _ := c.ResponseWriter.Write(p[:c.left]) // the connection is aborted anyway
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		c.left -= n
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func contentOf(n int) []byte {
	content, source := make([]byte, n), rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content) // never fails
	return content
}

func checksum(content []byte) string { return fmt.Sprintf("1220%x", sha256.Sum256(content)) }

// fetch downloads from a server and returns what is there afterwards.
func fetch(t *testing.T, s *fileServer, change func(*client.File)) (content []byte, fetched bool, err error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	f := client.File{Href: server.URL + "/file?signature=secret",
		Path: filepath.Join(t.TempDir(), "folder", "file.tif")}
	if change != nil {
		change(&f)
	}
	var d client.Downloader
	fetched, err = d.Fetch(t.Context(), f)
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the signed link: %v", err)
	}
	content, _ = os.ReadFile(f.Path)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Path), "*.part*")); err == nil && len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return content, fetched, err
}

func TestFetch_ContinuesWhereItBrokeOff(t *testing.T) {
	t.Parallel()
	s := &fileServer{content: contentOf(1 << 20), etag: `"one"`, cut: 100_000}
	got, _, err := fetch(t, s, func(f *client.File) { f.Checksum, f.Size = checksum(s.content), int64(len(s.content)) })
	if err != nil || !bytes.Equal(got, s.content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if n := s.requests.Load(); n > 30 {
		t.Errorf("%d requests for eleven pieces", n)
	}
}

// The part of an earlier process is continued if the server still has that version, and else dropped.
func TestFetch_ContinuesTheEarlierProcess(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		etag  string
		bytes int64
	}{{`"one"`, 600}, {`"two"`, 1000}} {
		s := &fileServer{content: contentOf(1000), etag: `"one"`}
		s.etag = row.etag
		var received int64
		server := httptest.NewServer(s)
		path := filepath.Join(t.TempDir(), "file")
		for name, text := range map[string][]byte{".part": s.content[:400], ".part.version": []byte(`"one"`)} {
			if err := os.WriteFile(path+name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := client.Downloader{Received: func(n int64) { received += max(0, n) }}
		_, err := d.Fetch(t.Context(), client.File{Href: server.URL, Path: path})
		server.Close()
		if got, _ := os.ReadFile(path); err != nil || !bytes.Equal(got, s.content) || received != row.bytes {
			t.Errorf("%s: %d bytes received, %d are there: %v", row.etag, received, len(got), err)
		}
	}
}

func TestFetch_OnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := &fileServer{content: []byte("new")}
	write := func(text string) func(*client.File) {
		return func(f *client.File) {
			f.Size = 3
			if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o700), os.WriteFile(f.Path, []byte(text),
				0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, fetched, err := fetch(t, s, write("old")); string(got) != "old" || fetched || err != nil ||
		s.requests.Load() != 0 {
		t.Errorf("%q, %v, %v, %d requests", got, fetched, err, s.requests.Load())
	}
	if got, fetched, err := fetch(t, s, write("torn")); string(got) != "new" || !fetched || err != nil {
		t.Errorf("%q, %v, %v", got, fetched, err)
	}
}

func TestFetch_RenewsAnExpiredLink(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 404, 410} {
		s := &fileServer{content: []byte("content"), refuse: func(n int64, w http.ResponseWriter) bool {
			if n == 1 {
				w.WriteHeader(status)
			}
			return n == 1
		}}
		got, _, err := fetch(t, s, func(f *client.File) {
			href := f.Href
			f.Href = strings.Replace(f.Href, "/file", "/old", 1)
			f.Renew = func(ctx context.Context) (string, error) { return href, nil }
		})
		if err != nil || string(got) != "content" {
			t.Errorf("%d: %q, %v", status, got, err)
		}
	}
}

func TestFetch_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(int64, http.ResponseWriter) bool {
		return func(_ int64, w http.ResponseWriter) bool { w.WriteHeader(status); return true }
	}
	for name, row := range map[string]struct {
		refuse func(int64, http.ResponseWriter) bool
		change func(*client.File)
		want   string
	}{
		"forbidden": {refuse: answer(403), want: "file.tif: 127.0.0.1:"},
		"gone for good": {refuse: answer(404), change: func(f *client.File) {
			f.Renew = func(context.Context) (string, error) {
				return f.Href, nil
			}
		}, want: "404 Not Found"},
		"no results": {refuse: answer(410), change: func(f *client.File) {
			f.Renew = func(context.Context) (string, error) { return "", errors.New("deleted") }
		}, want: "no new link is to be had: deleted"},
		"length": {change: func(f *client.File) { f.Size = 5 }, want: client.ErrCorrupt.Error()},
		"checksum": {change: func(f *client.File) { f.Checksum = checksum([]byte("other")) },
			want: client.ErrCorrupt.Error()},
		"no address": {change: func(f *client.File) { f.Href = "s3://bucket/file" }, want: `"s3" address`},
	} {
		got, _, err := fetch(t, &fileServer{content: []byte("content"), refuse: row.refuse}, row.change)
		if err == nil || !strings.Contains(err.Error(), row.want) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestFetch_KeepsThePartOfAFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no device that is always full")
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	folder := t.TempDir()
	up := strings.Repeat("../", strings.Count(folder, "/"))
	if err := os.Symlink(up+"dev/full", filepath.Join(folder, "file.tif.part")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&fileServer{content: contentOf(1000), etag: `"one"`})
	defer server.Close()
	d := client.Downloader{Root: root}
	_, err = d.Fetch(t.Context(), client.File{Href: server.URL, Path: strings.TrimPrefix(folder, "/") + "/file.tif"})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
}

// In a folder that others can write to, a link must not lead the content to another file.
func TestFetch_FollowsNoLinkOutOfTheFolder(t *testing.T) {
	t.Parallel()
	s := &fileServer{content: []byte("content"), etag: `"one"`}
	server := httptest.NewServer(s)
	defer server.Close()
	for _, planted := range []string{"file.tif", "file.tif.part", "file.tif.part.version", "below"} {
		folder, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.WriteFile(other, []byte("old"), 0o600),
			os.Symlink(other, filepath.Join(folder, planted))); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			t.Fatal(err)
		}
		path := "file.tif"
		if planted == "below" {
			path = filepath.Join(planted, path)
		}
		d := client.Downloader{Root: root}
		_, err = d.Fetch(t.Context(), client.File{Href: server.URL, Path: path})
		if text, _ := os.ReadFile(other); string(text) != "old" {
			t.Errorf("%s: the other file is %q", planted, text)
		}
		text, _ := root.ReadFile(path)
		if (err == nil) != (string(text) == "content") || planted == "file.tif" && err != nil {
			t.Errorf("%s: %q, %v", planted, text, err)
		}
		_ = root.Close() // nothing was written by it
	}
}

func TestFetch_LeavesNoEmptyPart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var d client.Downloader
	if _, err := d.Fetch(t.Context(), client.File{Href: server.URL,
		Path: filepath.Join(folder, "file.tif")}); err == nil {
		t.Error("there is no such file")
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// refusing is a network on which nobody answers until a time.
type refusing struct{ until time.Time }

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if time.Now().Before(r.until) {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: request, ContentLength: 7,
		Body: io.NopCloser(strings.NewReader("content"))}, nil
}

func TestFetch_OutlivesAnOutageAsLongAsItsPatience(t *testing.T) {
	t.Parallel()
	for outage, fetched := range map[time.Duration]bool{4 * time.Minute: true, 20 * time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			d := client.Downloader{Patience: 10 * time.Minute,
				HTTP: &http.Client{Transport: refusing{time.Now().Add(outage)}}}
			_, err := d.Fetch(t.Context(), client.File{Href: "https://files.example.org/f",
				Path: filepath.Join(t.TempDir(), "f")})
			if (err == nil) != fetched {
				t.Errorf("an outage of %v: %v", outage, err)
			}
		})
	}
}

func TestPersist_OutlivesOutagesAndReportsRefusals(t *testing.T) {
	t.Parallel()
	lost := &url.Error{Op: "GET", URL: "https://broker.example.org", Err: syscall.ECONNREFUSED}
	for name, row := range map[string]struct {
		err    error
		lasts  time.Duration
		passed bool
	}{
		"no network for two hours": {lost, 2 * time.Hour, true},
		"a proxy without a broker": {&client.Error{Status: http.StatusBadGateway}, 5 * time.Minute, true},
		"a fault of the broker that stays": {&client.Error{Status: http.StatusInternalServerError}, 2 * time.Hour,
			false},
		"a deleted job": {&client.Error{Status: http.StatusNotFound}, time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			end := time.Now().Add(row.lasts)
			err := client.Persist(t.Context(), func() error {
				if time.Now().Before(end) {
					return row.err
				}
				return nil
			})
			if (err == nil) != row.passed {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestFileNames_AreSafeAndDiffer(t *testing.T) {
	t.Parallel()
	names := client.FileNames(map[string]wire.Asset{
		"a":                         {Href: "https://files.example.org/1/openEO.tif?x=1"},
		"b":                         {Href: "https://files.example.org/2/OPENEO.tif"},
		"../../etc/passwd":          {Href: "https://files.example.org/"},
		"c":                         {Href: "https://files.example.org/..%2f..%2fx.tif"},
		"d.json":                    {Href: "https://files.example.org/download"},
		"e":                         {Href: "https://files.example.org/collection.json"},
		strings.Repeat("long", 100): {Href: "https://files.example.org/" + strings.Repeat("ü", 200) + ".tif"},
		"con":                       {Href: ":"},
		"f":                         {Href: "https://files.example.org/Item.json"},
		"g":                         {Href: "https://files.example.org/collection.json.new"},
		"h":                         {Href: "https://files.example.org/item.json.new"},
		"i":                         {Href: "https://files.example.org/items.json"},
	})
	seen := map[string]bool{}
	for key, name := range names {
		if name == "" || seen[strings.ToLower(name)] || len(name) > 240 || strings.ContainsAny(name, `/\:`) ||
			strings.HasPrefix(name, ".") {
			t.Errorf("%q is stored as %q", key, name)
		}
		seen[strings.ToLower(name)] = true
	}
	if names["a"] != "openEO.tif" || names["d.json"] != "d.json" || len(names) != 12 {
		t.Error(names)
	}
	for _, needed := range []string{"collection.json", "collection.json.new", "item.json", "item.json.new",
		"items.json"} {
		if seen[needed] {
			t.Errorf("an asset is stored as %s, which the folder of results needs itself", needed)
		}
	}
}

func TestFileNames_AreNoneThatAFolderOrWindowsNeeds(t *testing.T) {
	t.Parallel()
	long := "https://files.example.org/" + strings.Repeat("x", 200)
	names := client.FileNames(map[string]wire.Asset{
		"a": {Href: "https://files.example.org/COM9.tif"}, "b": {Href: "https://files.example.org/conin$.txt"},
		"c": {Href: "https://files.example.org/x.PART"},
		"d": {Href: "https://files.example.org/LPT5.a.b"}, strings.Repeat("y", 149) + ". z": {Href: ":"},
		"e": {Href: long + ".tif"}, "f": {Href: long + ".tif"}, "g": {Href: long + ".tif"},
		strings.Repeat("k", 200): {Href: long + ".tif"}, strings.Repeat("k", 201): {Href: long + ".tif"},
	})
	seen := map[string]bool{}
	for key, name := range names {
		lower := strings.ToLower(name)
		if seen[lower] || len(name) > 152 || strings.TrimRight(name, ". ") != name ||
			strings.HasSuffix(lower, ".part") ||
			strings.HasPrefix(lower, "com9.") || strings.HasPrefix(lower, "conin$.") ||
			strings.HasPrefix(lower, "lpt5.") {
			t.Errorf("%q is stored as %q", key, name)
		}
		seen[lower] = true
	}
}

// A server that sends without end must not fill the disk.
func TestFetch_StopsAtTheSizeOfTheFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	var most, now int64
	d := client.Downloader{Received: func(n int64) { now += n; most = max(most, now) }}
	_, err := d.Fetch(t.Context(), client.File{Href: server.URL, Path: filepath.Join(t.TempDir(), "f"), Size: 10})
	if !errors.Is(err, client.ErrCorrupt) || most > 1<<20 {
		t.Errorf("%v, after %d bytes", err, most)
	}
}

// Values that a platform puts into its results are data URIs, which become files as others do.
func TestFetch_OfADataURI(t *testing.T) {
	t.Parallel()
	for href, want := range map[string]string{
		"data:application/json;base64,eyJtZWFuIjogMC41fQ==": `{"mean": 0.5}`,
		"data:text/plain,50%20%25%2C%20m":                   "50 %, m",
		"data:,":                                            "",
		"DATA:text/plain;charset=utf-8;BASE64,c8OkZQ":       "s\u00e4e", "data:;base64,%2B%2B8%3D": "\xfb\xef",
		"data:text/plain,a,b+c": "a,b+c",
	} {
		path, received := filepath.Join(t.TempDir(), "value"), int64(0)
		d := client.Downloader{Received: func(n int64) { received += n }}
		fetched, err := d.Fetch(t.Context(), client.File{Href: href, Path: path})
		if text, bad := os.ReadFile(path); err != nil || bad != nil || !fetched || string(text) != want ||
			received != int64(len(want)) {
			t.Errorf("%s: %q, %v, %v", href, text, err, bad)
		}
		if fetched, err := d.Fetch(t.Context(), client.File{Href: href, Path: path}); err != nil || fetched {
			t.Errorf("%s again: %v, %v", href, fetched, err)
		}
	}
	for href, file := range map[string]client.File{
		"data:text/plain": {}, "data:text/plain,%zz": {}, "data:;base64,a!": {}, "data:text/plain,abc": {Size: 4},
		"data:text/plain,abd": {Checksum: "1220" + strings.Repeat("0", 64)},
	} {
		folder := t.TempDir()
		file.Href, file.Path = href, filepath.Join(folder, "value")
		_, err := new(client.Downloader).Fetch(t.Context(), file)
		if left, _ := os.ReadDir(folder); err == nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", href, err, left)
		}
	}
	names := client.FileNames(map[string]wire.Asset{"mean": {Href: "data:application/json;base64,MQ=="},
		"unit":  {Href: "data:text/plain;charset=utf-8,m"},
		"a.csv": {Href: "data:text/csv,1"}, "x": {Href: "data:application/x-y,1"},
		"z": {Href: "data:,/etc/passwd.txt"}})
	if got := fmt.Sprint(names); got != "map[a.csv:a.csv mean:mean.json unit:unit.txt x:x z:z.txt]" {
		t.Error(got)
	}
}
