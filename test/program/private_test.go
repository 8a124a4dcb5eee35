//go:build unix

package program

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// askPrivate returns the response of a private listener; 0 and why if there is none.
func askPrivate(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// awaitPrivate waits until a private listener's response contains what is wanted.
func awaitPrivate(t *testing.T, address, path, want string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(3 * time.Minute); ; <-again.C {
		_, body := askPrivate(t, address, path)
		if strings.Contains(body, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has no %q: %s", path, want, body)
		}
	}
}

// TestStart_WaitsForTheDatabase: the process waits for a server that does not answer, says so at /ready, and serves
// once it does. While the server is gone later it is not ready.
func TestStart_WaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	server, w, private := postgres.NewServer(t), startWorld(t), executable.FreeAddress(t)
	server.Stop(t)
	environ := append(acting(t, w, "127.0.0.1:0", server.URL, named("k")), "EODISPATCH_TELEMETRY_LISTEN="+private)
	p := executable.Launch(t, executable.Released, environ, "serve")
	awaitPrivate(t, private, "/ready", "not ready: the database does not respond")
	if status, _ := askPrivate(t, private, "/live"); status != http.StatusOK {
		t.Errorf("not live: %d", status)
	}
	p.Log.Await(t, "waiting for it")
	server.Start(t)
	awaitPrivate(t, private, "/ready", "ready\n")
	p.Log.Await(t, `"msg":"serving"`)
	server.Stop(t)
	awaitPrivate(t, private, "/ready", "not ready: the database does not respond")
	server.Start(t)
	awaitPrivate(t, private, "/ready", "ready\n")
	if got := p.Stop(t); got != exitDone {
		t.Errorf("exit %d:\n%s", got, p.Log)
	}
}

// A signal ends the wait for the database, and the process ends well. A database that refuses the program is a mistake,
// for which it does not wait.
func TestStart_EndsWhileItWaits(t *testing.T) {
	t.Parallel()
	server, w := postgres.NewServer(t), startWorld(t)
	refused := strings.Replace(server.URL, "/postgres?", "/absent?", 1)
	off := "EODISPATCH_TELEMETRY_LISTEN=off"
	if got, printed := try(t, append(acting(t, w, "127.0.0.1:0", refused, named("k")), off),
		"serve"); got != exitFailed {
		t.Errorf("exit %d:\n%s", got, printed)
	}
	server.Stop(t)
	p := executable.Launch(t, executable.Released, append(acting(t, w, "127.0.0.1:0", server.URL, named("k")), off),
		"serve")
	p.Log.Await(t, "waiting for it")
	if got := p.Stop(t); got != exitDone {
		t.Errorf("exit %d:\n%s", got, p.Log)
	}
}

// TestStop_IsAnnouncedFirst: from SIGTERM on the process is not ready, and serves for shutdown_delay.
func TestStop_IsAnnouncedFirst(t *testing.T) {
	t.Parallel()
	w, private := startWorld(t), executable.FreeAddress(t)
	p := Start(t, append(deployed(w, asUser, asUser), "EODISPATCH_TELEMETRY_LISTEN="+private,
		"EODISPATCH_SHUTDOWN_DELAY=1h")...)
	awaitPrivate(t, private, "/ready", "ready\n")
	p.Send(t, syscall.SIGTERM)
	awaitPrivate(t, private, "/ready", "not ready: stopping")
	runBoth(t, w, SignIn(t, w, p.Address))
	p.Send(t, syscall.SIGTERM) // a second signal ends the process at once
	p.AwaitEnd(t, time.Minute)
}

// value returns the sum of the series of a metric whose labels contain a text.
func value(body, metric, labels string) (sum float64) {
	for _, m := range regexp.MustCompile(`(?m)^`+metric+`\{([^}]*)\} (\S+)$`).FindAllStringSubmatch(body, -1) {
		if strings.Contains(m[1], labels) {
			n, _ := strconv.ParseFloat(m[2], 64)
			sum += n
		}
	}
	return sum
}

// TestMetrics_OfThreeReplicas: what each replica counts adds up to what happened, and what the database holds is shown
// by one of them.
func TestMetrics_OfThreeReplicas(t *testing.T) {
	t.Parallel()
	w, tables, key := startWorld(t), postgres.Database(t), named("k")
	var private []string
	const each = 1
	for range 3 {
		private = append(private, executable.FreeAddress(t))
		p := Start(t, append(acting(t, w, executable.FreeAddress(t), tables, key), "EODISPATCH_TELEMETRY_LISTEN="+
			private[len(private)-1])...)
		t.Cleanup(func() { p.Stop(t) })
		c := Client{p.Address, w.IdP.Mint(simulator.BrokerRealm, "alice", w.Credentials.Client,
			simulator.TokenFaults{})}
		for range each {
			runBoth(t, w, c)
		}
	}
	all := func() (together string, bodies []string) {
		for _, address := range private {
			_, body := askPrivate(t, address, "/metrics")
			bodies = append(bodies, body)
		}
		return strings.Join(bodies, ""), bodies
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(3 * time.Minute); ; <-again.C {
		together, bodies := all()
		if value(together, "eodispatch_jobs", `status="ended"`) == 6*each {
			checkMetrics(t, together, bodies, 3*each)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the jobs that ended are not shown:\n%s", together)
		}
	}
}

func checkMetrics(t *testing.T, together string, bodies []string, jobs float64) {
	t.Helper()
	for _, platform := range []string{`platform="eo"`, `platform="ogc"`} {
		for _, metric := range []string{"eodispatch_jobs_accepted_total", "eodispatch_jobs_total", "eodispatch_jobs"} {
			if got := value(together, metric, platform); got != jobs {
				t.Errorf("%s{%s} is %v, not %v", metric, platform, got, jobs)
			}
		}
		if got := value(together, "eodispatch_platform_requests_total",
			`op="create",outcome="ok",`+platform); got != jobs {
			t.Errorf("%v creates at %s", got, platform)
		}
	}
	counting := 0
	for _, body := range bodies {
		if strings.Contains(body, "\neodispatch_census_timestamp_seconds ") {
			counting++
		}
		for _, want := range []string{"eodispatch_notifications_connected 1",
			`eodispatch_db_connections{pool="visit",state="max"} 8`, "eodispatch_ready 1",
			`eodispatch_build_info{commit="`, "go_goroutines ",
			`eodispatch_http_requests_total{code="201",method="POST",route="/unit_jobs"} 2`} {
			if !strings.Contains(body, "\n"+want) {
				t.Errorf("%q is missing in:\n%s", want, body)
			}
		}
	}
	if counting != 1 {
		t.Errorf("%d replicas count", counting)
	}
	if got := value(together, "eodispatch_tokens_total", `outcome="ok"`); got == 0 {
		t.Error("no token was counted")
	}
}
