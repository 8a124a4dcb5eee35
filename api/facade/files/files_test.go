package files_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// serve serves the files of a platform, which sends what origin does.
func serve(t testing.TB, origin http.HandlerFunc) (*files.Facade, http.Handler) {
	t.Helper()
	at := httptest.NewServer(origin)
	t.Cleanup(at.Close)
	o := opener{url: at.URL + "/a.tif", client: upstream.New(upstream.Config{Development: true,
		Trust: []string{at.URL}})}
	backends := []*dispatch.Backend{{Name: "p", ProxyAssets: true, Access: dispatch.AccessUser, Platform: o}}
	passed := &files.Facade{Secret: "secret", Broker: &broker.Broker{Items: o, Records: o,
		Setup: &dispatch.Setup{Backends: backends, Tokens: o, Log: slog.New(slog.DiscardHandler)}}, Backends: backends}
	h := api.New(api.Config{Log: slog.New(slog.DiscardHandler), Facades: []facade.Facade{passed}})
	t.Cleanup(h.Close)
	return passed, h
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A link that differs in a bit, in its length or in its secret opens nothing, and no platform is asked.
func TestLinks_CannotBeChanged(t *testing.T) {
	asked := 0
	f, h := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked++ })
	link := linkTo(t, f, "", "ann")
	if got := get(h, link); got.Code != http.StatusOK || asked != 1 {
		t.Fatalf("the link itself: %d", got.Code)
	}
	sealed := strings.Split(link, "/")[2]
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	wrong := []string{"", ".", "..", "%2e%2e", sealed + "A", sealed[1:], sealed[:len(sealed)-4], sealed + "=",
		"A" + sealed, strings.Repeat("A", 8000), linkedBy(t, &files.Facade{Secret: "other", Backends: f.Backends})}
	for i := range raw {
		for bit := range 8 {
			changed := append([]byte{}, raw...)
			changed[i] ^= 1 << bit
			wrong = append(wrong, base64.RawURLEncoding.EncodeToString(changed))
		}
	}
	for _, each := range wrong {
		if got := get(h, "/files/"+each+"/a.tif"); got.Code != http.StatusNotFound {
			t.Errorf("%.40s: %d", each, got.Code)
		}
	}
	if asked != 1 {
		t.Errorf("the platform was asked %d times", asked)
	}
}

func linkedBy(t *testing.T, f *files.Facade) string {
	t.Helper()
	return strings.Split(linkTo(t, f, "", "ann"), "/")[2]
}

// The name at the end of a link says nothing about the file: whatever stands there, the same one is opened.
func TestLinks_OpenOneFile(t *testing.T) {
	var paths []string
	f, h := serve(t, func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.String()) })
	link := linkTo(t, f, "", "ann")
	sealed := link[:strings.LastIndex(link, "/")]
	for _, name := range []string{"", "/", "/b.tif", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc", "/a?x=1",
		"/http://10.0.0.1/"} {
		if got := get(h, sealed+name); got.Code != http.StatusOK && got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", name, got.Code)
		}
	}
	if f.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }; get(h, link).Code != http.StatusGone {
		t.Error("a link does not end")
	}
	if len(paths) == 0 {
		t.Error("no file was opened")
	}
	for _, p := range paths {
		if p != "/a.tif" {
			t.Errorf("the platform was asked for %s", p)
		}
	}
}

// What a client asks for of a file reaches its server, and what it may not see of the response stays: of the request
// nothing that names the user of the broker, of the response nothing but what describes the file.
func TestFiles_PassOnRangesAlone(t *testing.T) {
	var sent http.Header
	f, h := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Secret", "1")
		w.Header().Set("Location", "http://10.0.0.1/")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", 1000)))
	})
	link := linkTo(t, f, "", "ann")
	many := "bytes=" + strings.Repeat("0-,", 200) + "0-"
	for ranges, status := range map[string]int{"bytes=0-9": 206, "bytes=-1": 206, "bytes=2000-": 416, "bytes=5-1": 416,
		"x": 416, "bytes=0-0,2-2": 206, many: 200} {
		got := get(h, link, "Range", ranges, "Authorization", "Bearer of-broker", "Cookie", "a=b", "X-Forwarded-For",
			"::1", "Origin", "https://x.example")
		if got.Code != status || got.Body.Len() > 2000 {
			t.Errorf("%.20s: %d, %d bytes", ranges, got.Code, got.Body.Len())
		}
		for _, name := range []string{"Set-Cookie", "X-Secret", "Location"} {
			if got.Header().Get(name) != "" {
				t.Errorf("%s is passed on", name)
			}
		}
		if sent.Get("Range") != ranges || sent.Get("Authorization") != "Bearer t" || sent.Get("Cookie") != "" ||
			sent.Get("X-Forwarded-For") != "" || sent.Get("Origin") != "" {
			t.Errorf("sent to the platform: %v", sent)
		}
		if got.Header().Get("Content-Security-Policy") != "sandbox" || strings.Contains(got.Body.String(), "Bearer") {
			t.Errorf("%v", got.Header())
		}
	}
}
