package program

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// message is what a subscriber got.
type message struct {
	path   string
	header http.Header
	body   []byte
}

// isSigned reports whether a message is signed with a key as Standard Webhooks describes.
func (o message) isSigned(key string) bool {
	sum := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(sum, "%s.%s.%s", o.header.Get("Webhook-Id"), o.header.Get("Webhook-Timestamp"), o.body)
	return o.header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// subscriber keeps what it gets. The first message to /repeated is refused.
func subscriber(t *testing.T) (url string, got <-chan message) {
	all := make(chan message, 100)
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Authorization") != "" {
			t.Errorf("%s %v %v", r.Method, r.Header, err)
		}
		if r.URL.Path == "/repeated" && refused.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		all <- message{r.URL.Path, r.Header, body}
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func awaitMessage(t *testing.T, got <-chan message) message {
	t.Helper()
	select {
	case one := <-got:
		return one
	case <-time.After(3 * time.Minute):
		t.Fatal("the subscriber got no message")
		return message{}
	}
}

// TestOGCAPI_Subscriber: a subscriber gets the status of a job that begins, and at its end the results in the form that
// the client asked for, or its status. What it refuses is sent again. A job or a task that was successful tells first
// that it ran, however fast it was. What has a secret is signed.
func TestOGCAPI_Subscriber(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{Run: time.Second})
	url, got := subscriber(t)

	location, j := s.execute("echo", `{"inputs": {"message": "a", "pause": 3000}, "subscriber": {"successUri": "`+url+
		`/late", "inProgressUri": "`+url+`/running", "failedUri": "`+url+`/failed"}}`, "Prefer", "respond-async")
	var info ogcJob
	if one := awaitMessage(t, got); one.path != "/running" || json.Unmarshal(one.body, &info) != nil ||
		info.JobID != j.JobID || info.Status != "running" || linkTo(info.Links, "self") != location {
		t.Errorf("%s: %s", one.path, one.body)
	}
	s.decode(s.do("DELETE", location, ""), http.StatusOK, &info)
	if one := awaitMessage(t, got); one.path != "/failed" || json.Unmarshal(one.body, &info) != nil ||
		info.JobID != j.JobID || info.Status != "dismissed" {
		t.Errorf("%s: %s", one.path, one.body)
	}

	s.execute("composite",
		`{"inputs": {"spatial_extent": {"bbox": [5.05, 51.2, 5.15, 51.25]}, "temporal_extent": ["2024-06-01", "2024-07-01"]},
		"subscriber": {"successUri": "`+url+`/repeated", "failedUri": "`+url+`/failed"}}`)
	var c struct {
		Type   string
		Assets map[string]any
	}
	if one := awaitMessage(t, got); one.path != "/repeated" || json.Unmarshal(one.body, &c) != nil ||
		c.Type != "Collection" || len(c.Assets) == 0 {
		t.Errorf("%s: %s", one.path, one.body)
	}

	location, _ = s.execute("ndvi",
		`{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}, "outputs": {"stac": {"transmissionMode": "reference"}},
		"subscriber": {"successUrl": "`+url+`/misspelled", "inProgressUri": "`+url+`/began"}}`)
	if one := awaitMessage(t, got); one.path != "/began" || json.Unmarshal(one.body, &info) != nil ||
		info.Status != "running" {
		t.Errorf("%s: %s", one.path, one.body)
	}
	var linked map[string]struct{ Href string }
	if one := awaitMessage(t, got); one.path != "/misspelled" || json.Unmarshal(one.body, &linked) != nil ||
		linked["stac"].Href != location+"/results/stac" {
		t.Errorf("%s: %s", one.path, one.body)
	}

	key := strings.Repeat("k", 32)
	s.execute("ndvi",
		`{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.35, 51.25]}, "eodispatch:tiles": "20x20km"}, "subscriber": {"successUri": "`+url+`/tiles", "failedUri": "`+url+`/failed", "inProgressUri": "`+url+`/some",
		"eodispatch:secret": "whsec_`+base64.StdEncoding.EncodeToString([]byte(key))+`"}}`)
	if one := awaitMessage(t, got); one.path != "/some" || !one.isSigned(key) || json.Unmarshal(one.body,
		&info) != nil || info.Status != "running" || !strings.HasPrefix(info.JobID, "t-") {
		t.Errorf("%s: %s", one.path, one.body)
	}
	if one := awaitMessage(t, got); one.path != "/tiles" || !one.isSigned(key) ||
		json.Unmarshal(one.body, &linked) != nil ||
		!strings.Contains(string(s.do("GET", linked["stac"].Href, "").text), `"Collection"`) {
		t.Errorf("%s: %s", one.path, one.body)
	}
}

func TestOGCAPI_SubscriberRefused(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	for text, body := range map[string]string{
		"must be an object": `{"inputs": {"message": "a"}, "subscriber": "https://example.org"}`,
		"URL":               `{"inputs": {"message": "a"}, "subscriber": {"successUri": "mailto:anna"}}`,
		"16 to 64 " +
			"bytes": `{"inputs": {"message": "a"}, "subscriber": {"successUri": "https://example.org", "eodispatch:secret": "short"}}`,
		"are URLs": `{"inputs": {"message": "a"}, "subscriber": {"failedUri": 7}}`,
	} {
		a := s.do("POST", "/processes/echo/execution", body, "Prefer", "respond-async")
		if s.refused(a, http.StatusBadRequest, ""); !strings.Contains(string(a.text), text) {
			t.Errorf("%s: %s", body, a.text)
		}
	}
}

// TestOGCAPI_SubscriberOfAJobCreatedFirst: the body of such a job is stored as it is, so it contains no secret.
func TestOGCAPI_SubscriberOfAJobCreatedFirst(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	url, _ := subscriber(t)
	const job = `{"process": "echo", "inputs": {"message": "a"}, "subscriber": {"failedUri": "%s"%s}}`
	signed := fmt.Sprintf(job, url, `, "eodispatch:secret": "whsec_`+strings.Repeat("c2Vj", 8)+`"`)
	at := s.do("POST", "/jobs", fmt.Sprintf(job, url, ""), "Prefer", "status=created").header.Get("Location")
	for _, a := range []reply{s.do("POST", "/jobs", signed, "Prefer", "status=created"), s.do("PATCH", at, signed)} {
		if s.refused(a, http.StatusBadRequest, ""); !strings.Contains(string(a.text), "eodispatch:secret") {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	if a := s.do("POST", "/jobs", signed, "Prefer", "respond-async"); a.status != http.StatusCreated {
		t.Errorf("started at once: %d %s", a.status, a.text)
	}
}
