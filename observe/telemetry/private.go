package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ServeOperators adds an interface for operators, below /operator/.
func (t *Telemetry) ServeOperators(h http.Handler) { t.operators.Store(&h) }

func (t *Telemetry) serveOperators(w http.ResponseWriter, r *http.Request) {
	h := t.operators.Load()
	if h == nil {
		http.Error(w, "the broker is starting", http.StatusServiceUnavailable)
		return
	}
	(*h).ServeHTTP(w, r)
}

// Handler returns what the private listener serves: /metrics, /ready, /live, profiles below /debug/pprof/, and the
// interface for operators. It asks for no sign-in.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry}))
	mux.Handle("GET /ready", &t.readiness)
	// fails if the client is gone
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "live") })
	mux.HandleFunc("/operator/", t.serveOperators)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return namedPlainly(mux)
}

// namedPlainly refuses requests from this machine that name it by a domain name: a page in a browser here whose name
// leads to this machine would read what it should not. An IP address, or a name without a dot such as localhost, is
// no page's. Monitoring on other machines may use any name.
func namedPlainly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		_, named := netip.ParseAddr(strings.Trim(host, "[]"))
		from, _ := netip.ParseAddrPort(r.RemoteAddr)
		if named != nil && strings.Contains(host, ".") && from.Addr().Unmap().IsLoopback() {
			http.Error(w, "name this machine by an IP address, or as localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Server returns a server for [Telemetry.Handler]. A profile may take some minutes, so responses have no time limit.
func (t *Telemetry) Server() *http.Server {
	return &http.Server{Handler: t.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10}
}

// NotReady makes /ready answer no, with the reason.
func (t *Telemetry) NotReady(reason string) { t.readiness.set(reason, nil) }

// Ready makes /ready answer yes while check returns nil, which it does if the database answers.
func (t *Telemetry) Ready(check func(context.Context) error) { t.readiness.set("", check) }

// readiness says whether the process should be sent requests.
type readiness struct {
	mu     sync.Mutex
	reason string // why not; "": as check says
	check  func(context.Context) error
}

func (r *readiness) set(reason string, check func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reason, r.check = reason, check
}

func (r *readiness) get() (reason string, check func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason, r.check
}

// ServeHTTP answers 200, or 503 with the reason.
func (r *readiness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	reason, check := r.get()
	if reason == "" {
		reason = failureOf(check(request.Context()))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if reason != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, "not ready:", reason) // fails if the client is gone
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
}

// failureOf returns why the database does not serve, without what its driver says; "" if it does.
func failureOf(err error) string {
	e, known := errors.AsType[*dispatch.Error](err)
	switch {
	case err == nil:
		return ""
	case known && e.Database && e.Text != "":
		return strings.ToLower(e.Text[:1]) + strings.TrimSuffix(e.Text[1:], ".")
	}
	return "the database does not respond"
}

var readyDesc = description("ready",
	"1 if the process has started and is not stopping; only /ready checks the database.")

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- readyDesc }

// Collect implements prometheus.Collector. It does not ask the database: a scrape must not wait for it.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	reason, _ := r.get()
	to <- gauge(readyDesc, one(reason == ""))
}
