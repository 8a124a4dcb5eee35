package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/eodispatch/eodispatch/client"
)

// forgetful deletes at the first request and loses the response.
type forgetful struct{ deleted bool }

func (l *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.deleted {
		l.deleted = true
		return nil, fmt.Errorf("connection reset")
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"error_code":"JOB_NOT_FOUND","message":"There is no such job."}`)
	return w.Result(), nil
}

func TestDelete_SucceedsIfItsResponseWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("http://127.0.0.1:1", client.Options{HTTP: &http.Client{Transport: &forgetful{}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), 4); err != nil {
			t.Errorf("after a lost response: %v", err)
		}
		if err := c.Delete(t.Context(), 4); !client.IsCode(err, "JOB_NOT_FOUND") {
			t.Errorf("at the first attempt: %v", err)
		}
	})
}

// A server that does not know If-Range sends a part of the file that it has now.
func TestFetch_MixesNoVersionsByAServerWithoutIfRange(t *testing.T) {
	t.Parallel()
	now := bytes.Repeat([]byte("new "), 250)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("ETag", `"two"`)
		if r.Header.Get("Range") == "bytes=400-" {
			w.Header().Set("Content-Range", "bytes 400-999/1000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(now[400:])
			return
		}
		_, _ = w.Write(now)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "file")
	for suffix, text := range map[string]string{".part": string(bytes.Repeat([]byte("old "), 100)),
		".part.version": `"one"`} {
		if err := os.WriteFile(path+suffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := new(client.Downloader).Fetch(t.Context(), client.File{Href: server.URL, Path: path})
	if got, _ := os.ReadFile(path); err != nil || !bytes.Equal(got, now) {
		t.Errorf("%v after %d requests: the file begins with %.8q", err, requests.Load(), got)
	}
}
