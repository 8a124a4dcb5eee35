//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/observe/telemetry"
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
	server, w, private := postgres.NewServer(t), startWorld(t), executable.FreeAddress(t)
	server.Stop(t)
	var out screen
	ctx, stop := context.WithCancel(t.Context())
	environ := append(acting(t, w, "127.0.0.1:0", server.URL, named("k")), "EODISPATCH_TELEMETRY_LISTEN="+private)
	code := make(chan int, 1)
	go func() { code <- run([]string{"serve"}, testConsole(ctx, &out, environ...)) }()
	awaitPrivate(t, private, "/ready", "not ready: the database does not answer")
	if status, _ := askPrivate(t, private, "/live"); status != http.StatusOK {
		t.Errorf("not live: %d", status)
	}
	out.await(t, "the start waits for it")
	server.Start(t)
	awaitPrivate(t, private, "/ready", "ready\n")
	out.await(t, `"msg":"serving"`)
	server.Stop(t)
	awaitPrivate(t, private, "/ready", "not ready: the database does not answer")
	server.Start(t)
	awaitPrivate(t, private, "/ready", "ready\n")
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("exit %d:\n%s", got, &out)
	}
}

// A signal ends the wait for the database, and the process ends well. A database that refuses the program is a mistake,
// for which it does not wait.
func TestStart_EndsWhileItWaits(t *testing.T) {
	server, w := postgres.NewServer(t), startWorld(t)
	var out screen
	refused := strings.Replace(server.URL, "/postgres?", "/absent?", 1)
	if got := run([]string{"serve"}, testConsole(t.Context(), &out, append(acting(t, w, "127.0.0.1:0", refused,
		named("k")), "EODISPATCH_TELEMETRY_LISTEN=off")...)); got != exitFailed {
		t.Errorf("exit %d:\n%s", got, &out)
	}
	server.Stop(t)
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"serve"}, testConsole(ctx, &out, append(acting(t, w, "127.0.0.1:0", server.URL, named("k")),
			"EODISPATCH_TELEMETRY_LISTEN=off")...))
	}()
	out.await(t, "the start waits for it")
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("exit %d:\n%s", got, &out)
	}
}

// TestStop_IsAnnouncedFirst: from SIGTERM on the process is not ready, and serves for shutdown_delay.
func TestStop_IsAnnouncedFirst(t *testing.T) {
	w, private := startWorld(t), executable.FreeAddress(t)
	p := startProgram(t, append(deployed(w, asUser, asUser), "EODISPATCH_TELEMETRY_LISTEN="+private,
		"EODISPATCH_SHUTDOWN_DELAY=1h")...)
	awaitPrivate(t, private, "/ready", "ready\n")
	p.Send(t, syscall.SIGTERM)
	awaitPrivate(t, private, "/ready", "not ready: stopping")
	runBoth(t, w, signedIn(t, w, p.Address))
	p.Send(t, syscall.SIGTERM) // a second signal ends the process at once
	p.AwaitEnd(t, time.Minute)
}

func TestStop_WaitsForItsDelay(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	synctest.Test(t, func(t *testing.T) {
		for _, delay := range []time.Duration{0, 5 * time.Second} {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, stop)
			begun := time.Now()
			s := &service{seen: telemetry.New("1", ""), log: log}
			if err, ended := s.serving(ctx, nil, nil, delay); err != nil || ended ||
				time.Since(begun) != time.Minute+delay {
				t.Errorf("%v %v after %v", err, ended, time.Since(begun))
			}
		}
		failed := make(chan error, 1)
		failed <- errors.New("port")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, ended := (&service{seen: telemetry.New("1", ""), log: log}).serving(ctx, failed, nil, time.Hour); !ended {
			t.Error("a server that has failed is waited for")
		}
	})
}

// The default address may be taken by another replica on the machine; one that was chosen must work.
func TestPrivateListener_AddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenPrivately(config.Telemetry{Listen: l.Addr().String()}, telemetry.New("1", ""),
		slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it does not fail")
	}
	if l, err := net.Listen("tcp", config.TelemetryDefault); err == nil {
		defer l.Close() // otherwise another process has it
	}
	var out screen
	p, err := listenPrivately(config.Telemetry{Listen: config.TelemetryDefault}, telemetry.New("1", ""),
		slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil || p.server != nil || !strings.Contains(out.String(), "metrics and readiness are not served") {
		t.Errorf("%v %v\n%s", p, err, &out)
	}
	p.close()
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
	w, tables, key := startWorld(t), postgres.Database(t), named("k")
	var private []string
	const each = 1
	for range 3 {
		private = append(private, executable.FreeAddress(t))
		p := startProgram(t, append(acting(t, w, executable.FreeAddress(t), tables, key), "EODISPATCH_TELEMETRY_LISTEN="+
			private[len(private)-1])...)
		t.Cleanup(func() { p.Stop(t) })
		c := client{p.Address, w.IdP.Mint(simulator.BrokerRealm, "alice", w.Credentials.Client, simulator.TokenFaults{})}
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
		if got := value(together, "eodispatch_platform_requests_total", `op="create",outcome="ok",`+platform); got != jobs {
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
