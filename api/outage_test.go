package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func away(err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Record", Text: "The database does not answer.",
		Err: err, Database: true}
}

// Every error of the database is answered as an outage of the database: a statement that exceeded its deadline, a
// commit whose end is not known, a server that refuses the broker, and wrapped errors.
func TestOutage_DatabaseIsNotThePlatform(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	of := func(k dispatch.Kind) error {
		return &dispatch.Error{Kind: k, Op: "store.Commit", Text: "The database does not answer.", Database: true}
	}
	for _, err := range []error{away(context.DeadlineExceeded), away(errors.New("connection refused")),
		of(dispatch.Uncertain), of(dispatch.Misconfigured),
		&dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Token", Text: "The identity provider gives no token.",
			Err: away(errors.New("x"))}, errors.Join(errors.New("not closed"), away(errors.New("x")))} {
		w.fail = err
		a := ask(h, "GET", "/unit_jobs/1", "")
		if f := failed(t, a, 503, "SERVICE_UNAVAILABLE"); a.Header().Get("Retry-After") != "5" ||
			f.Message != "The database does not answer." {
			t.Errorf("%v: %v %s", err, a.Header(), a.Body)
		}
	}
}

// The database is away for a minute while clients send requests and check its health every second; later it is away
// again.
func TestOutage_IsLoggedOnce(t *testing.T) {
	for name, recovers := range map[string]string{"by health checks": "/health", "by requests": "/jobs_status"} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { outages(t, recovers) }) })
	}
}

func outages(t *testing.T, recovers string) {
	w := newWorld()
	h := New(w.config())
	for n := 1; n <= 2; n++ {
		w.fail, w.down = away(errors.New("canary-cause")), away(errors.New("canary-cause"))
		for range 60 {
			failed(t, ask(h, "GET", "/unit_jobs/1", ""), 503, "SERVICE_UNAVAILABLE")
			failed(t, ask(h, "GET", "/health", "", "Authorization", ""), 503, "SERVICE_UNAVAILABLE")
			// it needs no database, and tells nothing of it
			if a := ask(h, "GET", "/grids", ""); a.Code != http.StatusOK {
				t.Fatal(a.Code, a.Body)
			}
			time.Sleep(time.Second)
		}
		if lost, back := strings.Count(w.log.String(), "canary-cause"), strings.Count(w.log.String(),
			`"msg":"database available again"`); lost != n || back != n-1 {
			t.Fatalf("outage %d: logged as lost %d times, as back %d times", n, lost, back)
		}
		time.Sleep(time.Minute)
		if a := ask(h, "GET", "/grids", ""); a.Code != http.StatusOK ||
			strings.Count(w.log.String(), `"msg":"database available again"`) != n-1 {
			t.Fatalf("back before the database answers")
		}
		w.fail, w.down = nil, nil
		for range 20 {
			if a := ask(h, "GET", recovers, ""); a.Code != http.StatusOK {
				t.Fatal(a.Code, a.Body)
			}
			time.Sleep(time.Second)
		}
		if back := strings.Count(w.log.String(), `"msg":"database available again"`); back != n {
			t.Fatalf("outage %d: logged as back %d times", n, back)
		}
		if want := fmt.Sprint(`"refused":`, 120); strings.Count(w.log.String(), want) != n {
			t.Errorf("not %s", want)
		}
	}
}
