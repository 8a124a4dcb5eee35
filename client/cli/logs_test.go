package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// quiet is a broker with a job that runs for an hour and logs an entry after a minute, but does not change meanwhile.
type quiet struct{ began time.Time }

func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	w, ran := httptest.NewRecorder(), time.Since(q.began)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/unit_jobs/4/logs" && ran >= time.Minute && r.URL.Query().Get("offset") == "0":
		fmt.Fprint(w, `{"logs":[{"level":"info","message":"halfway"}]}`)
	case r.URL.Path == "/unit_jobs/4/logs":
		fmt.Fprint(w, `{"logs":[]}`)
	case ran >= time.Hour:
		fmt.Fprint(w, `{"id":4,"status":"finished"}`)
	case r.Header.Get("If-None-Match") != "":
		time.Sleep(30 * time.Second)
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, `{"id":4,"status":"running"}`)
	}
	return w.Result(), nil
}

// timed notes when something is printed first.
type timed struct{ at time.Time }

func (t *timed) Write(text []byte) (int, error) {
	if t.at.IsZero() {
		t.at = time.Now()
	}
	return len(text), nil
}

func TestLogs_AreFollowedWhileTheJobDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, out := time.Now(), &timed{}
		a := &app{Console: Console{Out: out, Err: io.Discard, Transport: quiet{began},
			Environ: []string{"EODISPATCH_TOKEN=x", "HOME=" + t.TempDir()}}, broker: "https://b"}
		c, err := a.client()
		if err == nil {
			err = a.followLogs(t.Context(), c, 4, 0)
		}
		if late := out.at.Sub(began) - time.Minute; err != nil || out.at.IsZero() || late > logsEvery {
			t.Errorf("%v: printed %v late", err, late)
		}
		if ran := time.Since(began); ran < time.Hour || ran > time.Hour+time.Minute {
			t.Errorf("it ended after %v", ran)
		}
	})
}
