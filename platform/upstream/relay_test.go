package upstream_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// relayTo returns a server and a client that trusts it.
func relayTo(t *testing.T, h http.HandlerFunc) (*httptest.Server, *upstream.Client) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, upstream.New(upstream.Config{Trust: []string{s.URL}})
}

func TestRelay_PassesOnFilesAndRanges(t *testing.T) {
	file := strings.Repeat("0123456789", 100)
	s, client := relayTo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked with %v", r.Header)
		}
		w.Header().Set("Etag", `"1"`)
		http.ServeContent(w, r, "f.tif", time.Time{}, strings.NewReader(file))
	})
	for _, row := range []struct {
		header http.Header
		head   bool
		status int
		length string
		body   string
	}{
		{nil, false, 200, "1000", file},
		{nil, true, 200, "1000", ""},
		{http.Header{"Range": {"bytes=5-9"}}, false, 206, "5", "56789"},
		{http.Header{"Range": {"bytes=2000-"}}, false, 416, "", ""},
		{http.Header{"If-None-Match": {`"1"`}}, false, 304, "", ""},
	} {
		a, err := client.Relay(t.Context(), upstream.Relay{Op: "test", FileRequest: dispatch.FileRequest{
			URL: s.URL + "/f.tif", Head: row.head, Header: row.header}, Token: "secret", Origin: s.URL})
		if err != nil {
			t.Errorf("%+v: %v", row, err)
			continue
		}
		body, err := io.ReadAll(a.Body)
		if a.Body.Close(); a.Status != row.status || err != nil ||
			row.length != "" && (a.Header["Content-Length"][0] != row.length || string(body) != row.body) {
			t.Errorf("%+v: %d %v %s, %v", row, a.Status, a.Header, body, err)
		}
	}
}

// The token goes to the platform's own server only, also after a redirect.
func TestRelay_KeepsTheTokenAtThePlatform(t *testing.T) {
	got := map[string]string{}
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if got[r.URL.Host] = r.Header.Get("Authorization"); r.URL.Host == "files.example" {
			return respond(r, 200, "file"), nil
		}
		resp := respond(r, 302, "")
		resp.Header.Set("Location", "https://files.example/signed")
		return resp, nil
	})})
	a, err := client.Relay(t.Context(), upstream.Relay{Op: "test",
		FileRequest: file("https://platform.example/f"), Token: "secret", Origin: "https://platform.example/api"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if got["platform.example"] != "Bearer secret" || got["files.example"] != "" || len(got) != 2 {
		t.Errorf("sent %v", got)
	}
}

// Another server cannot have a user's token read what it chooses at the platform.
func TestRelay_NoTokenAfterAnotherServer(t *testing.T) {
	got := map[string]string{}
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if got[r.URL.Host] = r.Header.Get("Authorization"); r.URL.Host == "platform.example" {
			return respond(r, 200, "jobs"), nil
		}
		resp := respond(r, 302, "")
		resp.Header.Set("Location", "https://platform.example/api/jobs")
		return resp, nil
	})})
	a, err := client.Relay(t.Context(), upstream.Relay{Op: "test",
		FileRequest: file("https://files.example/f"), Token: "secret", Origin: "https://platform.example/api"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if got["platform.example"] != "" || got["files.example"] != "" || len(got) != 2 {
		t.Errorf("sent %v", got)
	}
}

// A link that is signed for GET alone is read by GET when only its headers are wanted.
func TestRelay_OfALinkForGetAlone(t *testing.T) {
	s, client := relayTo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "12345")
	})
	a, err := client.Relay(t.Context(), upstream.Relay{Op: "test", Origin: s.URL,
		FileRequest: dispatch.FileRequest{URL: s.URL, Head: true}})
	if err != nil || http.Header(a.Header).Get("Content-Length") != "5" {
		t.Fatalf("%+v, %v", a, err)
	}
}

func TestRelay_Refuses(t *testing.T) {
	other, _ := relayTo(t, func(http.ResponseWriter, *http.Request) { t.Error("another private server was asked") })
	s, _ := relayTo(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/private":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/token":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	client := upstream.New(upstream.Config{Trust: []string{s.URL, other.URL}})
	for at, kind := range map[string]dispatch.Kind{
		s.URL + "/private": dispatch.BadUpstream, s.URL + "/other": dispatch.BadUpstream,
		other.URL: dispatch.BadUpstream, s.URL + "/loop": dispatch.BadUpstream, s.URL + "/gone": dispatch.NotFound,
		s.URL + "/token": dispatch.SignInRequired,
		s.URL + "/empty": dispatch.BadUpstream, "https://10.0.0.1/f.tif": dispatch.BadUpstream,
		"ftp://a.example/f.tif": dispatch.BadUpstream,
	} {
		if _, err := client.Relay(t.Context(), upstream.Relay{
			Op: "test", FileRequest: file(at), Token: "secret", Origin: s.URL}); !dispatch.Is(err, kind) {
			t.Errorf("%s: %v, want %v", at, err, kind)
		}
	}
}

// A file is passed on while it arrives, and a server that sends nothing any more is given up.
func TestRelay_Streams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			stop := r.Context().Done()
			go func() { <-stop; to.CloseWithError(r.Context().Err()) }()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: from, Request: r}, nil
		})})
		a, err := client.Relay(t.Context(), upstream.Relay{Op: "test", FileRequest: file("https://files.example/f")})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		go func() { _, _ = to.Write([]byte("first")) }()
		begin := make([]byte, 5)
		if _, err := io.ReadFull(a.Body, begin); err != nil || !bytes.Equal(begin, []byte("first")) {
			t.Fatalf("%s, %v", begin, err)
		}
		asked := time.Now()
		if _, err := a.Body.Read(begin); !dispatch.Is(err, dispatch.Unavailable) || time.Since(asked) != time.Minute {
			t.Errorf("after %v: %v", time.Since(asked), err)
		}
	})
}

func file(at string) dispatch.FileRequest { return dispatch.FileRequest{URL: at} }
