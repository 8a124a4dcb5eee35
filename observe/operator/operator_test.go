package operator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/operator"
)

// nothing is a store without content.
type nothing struct{ operator.Operations }

func (nothing) OperatorHolds(context.Context) ([]dispatch.OperatorHold, error) { return nil, nil }
func (nothing) HoldScope(context.Context, dispatch.OperatorHold) error         { return nil }
func (nothing) HasAccount(_ context.Context, a dispatch.Account) (bool, error) {
	return a == "p/shared", nil
}

// handler returns the interface of a broker with a platform p.
func handler(log slog.Handler) http.Handler {
	return operator.Handler(operator.Config{Store: nothing{}, Log: slog.New(log), Platforms: []string{"p"}, Key: "key"})
}

// from returns a request of ann from this machine, with the key.
func from(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:9090"
	r.Header.Set(operator.Header, "ann")
	operator.Sign(r, []byte(body), "key", time.Now())
	return r
}

func TestHandler_ServesThisMachineOnly(t *testing.T) {
	h := handler(slog.DiscardHandler)
	for _, row := range []struct {
		from, to, who string
		want          int
	}{
		{"127.0.0.1:4711", "127.0.0.1:9090", "ann", http.StatusOK},
		{"[::1]:4711", "localhost:9090", "ann", http.StatusOK},
		{"10.0.0.7:4711", "127.0.0.1:9090", "ann", http.StatusForbidden},
		{"127.0.0.1:4711", "evil.example:9090", "ann", http.StatusForbidden}, // a page whose name leads here
		{"127.0.0.1:4711", "10.0.0.7:9090", "ann", http.StatusForbidden},
		// a page in a browser sends no such header
		{"127.0.0.1:4711", "127.0.0.1:9090", "", http.StatusUnprocessableEntity},
	} {
		r := from(http.MethodGet, "/operator/holds", "")
		r.RemoteAddr, r.Host = row.from, row.to
		r.Header.Set(operator.Header, row.who)
		operator.Sign(r, nil, "key", time.Now())
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.want {
			t.Errorf("from %s to %s as %q: %d %s", row.from, row.to, row.who, w.Code, w.Body)
		}
	}
}

// TestHandler_NeedsTheKey: a proxy on the machine that sends no header of its own is distinguished from the command by
// the key. What was signed cannot be changed, or sent again later.
func TestHandler_NeedsTheKey(t *testing.T) {
	h := handler(slog.DiscardHandler)
	for name, change := range map[string]func(*http.Request) *http.Request{
		"no header":      func(r *http.Request) *http.Request { r.Header.Del("Authorization"); return r },
		"the key itself": func(r *http.Request) *http.Request { r.Header.Set("Authorization", "Bearer key"); return r },
		"no proof": func(r *http.Request) *http.Request {
			r.Header.Set("Authorization", "Eodispatch-HMAC 1.a.")
			return r
		},
		"another key":  func(r *http.Request) *http.Request { operator.Sign(r, nil, "key2", time.Now()); return r },
		"an empty key": func(r *http.Request) *http.Request { operator.Sign(r, nil, "", time.Now()); return r },
		"long ago": func(r *http.Request) *http.Request {
			operator.Sign(r, nil, "key", time.Now().Add(-2*time.Minute))
			return r
		},
		"in the future": func(r *http.Request) *http.Request {
			operator.Sign(r, nil, "key", time.Now().Add(2*time.Minute))
			return r
		},
		"another name":    func(r *http.Request) *http.Request { r.Header.Set(operator.Header, "bob"); return r },
		"another method":  func(r *http.Request) *http.Request { r.Method = http.MethodDelete; return r },
		"another address": func(r *http.Request) *http.Request { r.URL.RawQuery = "scope=p"; return r },
		"another body": func(r *http.Request) *http.Request {
			r.Body = io.NopCloser(strings.NewReader("{}"))
			return r
		},
	} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, change(from(http.MethodGet, "/operator/holds", ""))); w.Code != http.StatusForbidden ||
			w.Header().Get("Eodispatch-Proof") != "" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	keyless := operator.Handler(operator.Config{Store: nothing{}, Log: slog.New(slog.DiscardHandler)})
	r := from(http.MethodGet, "/operator/holds", "")
	operator.Sign(r, nil, "", time.Now())
	if keyless.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
}

// TestHandler_AcceptsARequestOnce: what has read a request cannot repeat it, and as long as a request could be accepted
// it is remembered.
func TestHandler_AcceptsARequestOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := operator.Handler(operator.Config{Store: nothing{}, Platforms: []string{"p"}, Key: "key",
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	send := func(authorization string) (status int, sent string) {
		r := from(http.MethodGet, "/operator/holds", "")
		operator.Sign(r, nil, "key", now.Add(time.Minute)) // of a clock that is as fast as it may be
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, r.Header.Get("Authorization")
	}
	status, once := send("")
	if other, _ := send(""); status != http.StatusOK || other != http.StatusOK {
		t.Errorf("%d, another %d", status, other)
	}
	for range 4 {
		if status, _ := send(once); status != http.StatusForbidden {
			t.Errorf("again at %v: %d", now, status)
		}
		now = now.Add(time.Minute)
		if status, _ := send(""); status != http.StatusOK {
			t.Errorf("another at %v: %d", now, status)
		}
	}
}

// TestVerify: what listens in place of the broker gets no key, and its answer is not taken for the broker's.
func TestVerify(t *testing.T) {
	r := from(http.MethodGet, "/operator/holds", "")
	if strings.Contains(fmt.Sprint(r.Header), "key") {
		t.Errorf("the key is sent: %v", r.Header)
	}
	w := httptest.NewRecorder()
	handler(slog.DiscardHandler).ServeHTTP(w, r)
	body := w.Body.Bytes()
	if err := operator.Verify(r, w.Result(), body, "key"); err != nil || w.Code != http.StatusOK {
		t.Errorf("%d, %v", w.Code, err)
	}
	forged := w.Result()
	forged.StatusCode = http.StatusConflict
	unproven := w.Result()
	unproven.Header.Del("Eodispatch-Proof")
	for name, err := range map[string]error{
		"another text":       operator.Verify(r, w.Result(), []byte("[1]"), "key"),
		"another status":     operator.Verify(r, forged, body, "key"),
		"no proof":           operator.Verify(r, unproven, body, "key"),
		"of another request": operator.Verify(from(http.MethodGet, "/operator/holds", ""), w.Result(), body, "key"),
	} {
		if err == nil {
			t.Error(name)
		}
	}
}

func TestHandler_IsNotServedThroughAProxy(t *testing.T) {
	h := handler(slog.DiscardHandler)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"} {
		r := from(http.MethodGet, "/operator/holds", "")
		r.Header.Set(name, "10.0.0.7")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("with %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestHandler_RefusesWhatIsWrong(t *testing.T) {
	var log strings.Builder
	h := handler(slog.NewTextHandler(&log, nil))
	for body, want := range map[string]int{
		`{"scope": "p", "notice": "updates"}`:               http.StatusOK,
		`{"scope": "p/shared", "notice": "updates"}`:        http.StatusOK,
		`{"scope": "q", "notice": "updates"}`:               http.StatusUnprocessableEntity,
		`{"scope": "p/shard", "notice": "updates"}`:         http.StatusUnprocessableEntity,
		`{"scope": "p/", "notice": "updates"}`:              http.StatusUnprocessableEntity,
		`{"scope": "p", "notice": " "}`:                     http.StatusUnprocessableEntity,
		`{`:                                                 http.StatusUnprocessableEntity,
		`{"notice": "` + strings.Repeat("a", 70_000) + `"}`: http.StatusUnprocessableEntity,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, from(http.MethodPost, "/operator/holds", body))
		if w.Code != want {
			t.Errorf("%.40s: %d %s", body, w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "msg=audit action=hold operator=ann"); n != 2 {
		t.Errorf("%d changes are audited:\n%s", n, &log)
	}
}

// unknownJobs is a store with jobs in every kind of trouble.
type unknownJobs struct{ nothing }

func (unknownJobs) Troubled(_ context.Context, setAside bool, _ int) (jobs []dispatch.Job, err error) {
	for id, j := range []dispatch.Job{{Target: dispatch.Target{Account: "p/shared"},
		Condition: dispatch.Condition{Attention: dispatch.SubmissionUnknown}}, {
		Target: dispatch.Target{Account: "p/shared"}, Condition: dispatch.Condition{Attention: dispatch.Stalled}},
		{Target: dispatch.Target{Account: "q/shared"},
			Condition: dispatch.Condition{Attention: dispatch.SubmissionUnknown}},
		{Target: dispatch.Target{Account: "p/ann"},
			Condition: dispatch.Condition{Attention: dispatch.SubmissionUnknown}},
		{Target: dispatch.Target{Account: "p/bob"},
			Condition: dispatch.Condition{Attention: dispatch.SubmissionUnknown}}} {
		j.ID = dispatch.JobID(id + 1)
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// TestHandler_EndsWhatIsUnknown checks that one request ends all jobs of a platform, or of an account, whose submission
// is unknown, and no others.
func TestHandler_EndsWhatIsUnknown(t *testing.T) {
	for _, row := range []struct{ body, want, ended string }{
		{`{"scope": "p", "reason": "restored"}`, `{"ended":2,"left":1}`, "[1 5]"},
		{`{"scope": "p/shared", "reason": "restored"}`, `{"ended":1,"left":0}`, "[1]"},
		{`{"scope": "p", "reason": " "}`, "Give a reason", "[]"},
		{`{"scope": "other", "reason": "restored"}`, "Unknown platform", "[]"},
	} {
		var ended []dispatch.JobID
		end := func(_ context.Context, id dispatch.JobID, reason string) (dispatch.Job, error) {
			if id == 4 {
				return dispatch.Job{}, &dispatch.Error{Kind: dispatch.Conflict, Text: "The job has ended."}
			}
			ended = append(ended, id)
			return dispatch.Job{Identity: dispatch.Identity{ID: id}}, nil
		}
		h := operator.Handler(operator.Config{Store: unknownJobs{}, End: end, Platforms: []string{"p"}, Key: "key",
			Log: slog.New(slog.DiscardHandler)})
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, from(http.MethodPost, "/operator/ends", row.body)); !strings.Contains(w.Body.String(),
			row.want) || fmt.Sprint(ended) != row.ended {
			t.Errorf("%s: %s, ended %v", row.body, w.Body, ended)
		}
	}
}
