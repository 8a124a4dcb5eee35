// Package telemetry counts what the broker does, in the form of Prometheus, and serves the private listener: metrics,
// readiness, liveness and profiles. Labels have few values, all from the configuration or the code: no user, job or
// address is one.
package telemetry

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eodispatch/eodispatch/dispatch"
)

const namespace = "eodispatch"

// Telemetry counts for one process. It is safe for concurrent use.
type Telemetry struct {
	registry  *prometheus.Registry
	readiness readiness
	process   processState
	stats     stats
	operators atomic.Pointer[http.Handler]

	requests        *prometheus.CounterVec
	requestDuration *prometheus.HistogramVec

	accepted    *prometheus.CounterVec
	ended       *prometheus.CounterVec
	jobDuration *prometheus.HistogramVec
	retries     *prometheus.CounterVec
	costs       *prometheus.CounterVec

	asked         *prometheus.CounterVec
	askedDuration *prometheus.HistogramVec
	tokens        *prometheus.CounterVec
	hookTries     *prometheus.CounterVec

	visits  *prometheus.CounterVec
	removed *prometheus.CounterVec
	leases  prometheus.Gauge
}

var _ dispatch.Observer = (*Telemetry)(nil)

// Buckets of the histograms, in seconds.
var (
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	jobBuckets     = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600,
		7 * 24 * 3600}
)

// New returns a Telemetry for a program of the given version. The process is not ready yet.
func New(version, commit string) *Telemetry {
	t := &Telemetry{registry: prometheus.NewRegistry()}
	t.readiness.reason = "starting"
	t.requests = counters("http_requests_total", "Requests of clients, by route; route \"\": none matched.", "route",
		"method", "code")
	t.requestDuration = histograms("http_request_duration_seconds", "Duration of requests, without streams.",
		requestBuckets, "route")
	t.accepted = counters("jobs_accepted_total", "Jobs that users submitted.", "platform")
	t.ended = counters("jobs_total", "Jobs that ended, without those canceled before they were submitted.", "platform",
		"outcome")
	t.jobDuration = histograms("job_duration_seconds",
		"Time from the acceptance of a job to its start (wait) and to its end (total).", jobBuckets, "platform",
		"phase")
	t.retries = counters("retries_total",
		"Failed requests to platforms that are repeated, by the attention of the job.", "platform", "reason")
	t.costs = counters("cost_units_total", "Costs of ended jobs that the platform reported, in its own unit.",
		"platform")
	t.asked = counters("platform_requests_total", "Requests to platforms, by operation and outcome.", "platform", "op",
		"outcome")
	t.askedDuration = histograms("platform_request_duration_seconds", "Duration of requests to platforms.",
		requestBuckets, "platform", "op")
	t.tokens = counters("tokens_total", "Tokens for platforms requested from identity providers, by outcome.",
		"platform", "outcome")
	t.hookTries = counters("hook_tries_total", "Messages sent to hooks, by outcome.", "outcome")
	t.visits = counters("visits_total", "Rounds of work for an account, by outcome.", "outcome")
	t.removed = counters("removed_total", "Rows deleted by age, or after their users deleted them.", "kind")
	for _, kind := range []string{"results", "requests", "jobs", "tasks", "keys"} {
		t.removed.WithLabelValues(kind)
	}
	t.leases = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "lease_held",
		Help: "Accounts that this process works on."})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help: "The program; the value is 1."}, []string{"version", "commit", "goversion"})
	build.WithLabelValues(version, commit, runtime.Version()).Set(1)
	t.registry.MustRegister(t.requests, t.requestDuration, t.accepted, t.ended, t.jobDuration, t.retries,
		t.costs, t.asked, t.askedDuration, t.tokens, t.hookTries,
		t.visits, t.removed, t.leases, build, &t.readiness, &t.process, &t.stats, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return t
}

// Offer begins the counters of platforms, and all others whose labels are known, at zero: a rate sees an increase
// only of what existed before.
func (t *Telemetry) Offer(platforms []string) {
	for _, p := range platforms {
		for _, each := range []*prometheus.CounterVec{t.accepted, t.costs} {
			each.WithLabelValues(p)
		}
		for _, s := range []dispatch.Status{dispatch.Finished, dispatch.Failed, dispatch.Canceled} {
			t.ended.WithLabelValues(p, string(s))
		}
		for _, phase := range []string{"wait", "total"} {
			t.jobDuration.WithLabelValues(p, phase)
		}
		for _, op := range []string{"create", "start", "status", "list", "cancel", "remove", "call"} {
			t.asked.WithLabelValues(p, op, outcome(nil))
			t.askedDuration.WithLabelValues(p, op)
		}
		t.retries.WithLabelValues(p, orNone(""))
		t.tokens.WithLabelValues(p, outcome(nil))
	}
	for _, arrived := range []string{"ok", "failed"} {
		t.hookTries.WithLabelValues(arrived)
	}
	t.visits.WithLabelValues(outcome(nil))
	t.requests.WithLabelValues("/unit_jobs", "POST", "201")
	t.requestDuration.WithLabelValues("/unit_jobs")
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, labels)
}

// RequestServed counts a request of a client. route is a pattern of the API; a status of 101 is a stream, whose
// duration shows nothing.
func (t *Telemetry) RequestServed(route, method string, status int, took time.Duration) {
	t.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status)).Inc()
	if status != 101 {
		t.requestDuration.WithLabelValues(route).Observe(took.Seconds())
	}
}

// methodLabel returns the method, which a client can choose, if it is one of HTTP's.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

// JobsAccepted implements dispatch.Observer.
func (t *Telemetry) JobsAccepted(platform string, n int) {
	t.accepted.WithLabelValues(platform).Add(float64(n))
}

// JobSaved implements dispatch.Observer.
func (t *Telemetry) JobSaved(before, after dispatch.Job) {
	platform, since := after.Account.Platform(), after.Moved.Sub(after.Created).Seconds()
	live := before.Phase != dispatch.Started && before.Phase != dispatch.Ended
	if after.Phase == dispatch.Started && live {
		t.jobDuration.WithLabelValues(platform, "wait").Observe(since)
	}
	if after.Phase == dispatch.Ended && before.Phase != dispatch.Ended {
		t.ended.WithLabelValues(platform, string(after.Status)).Inc()
		t.jobDuration.WithLabelValues(platform, "total").Observe(since)
	}
	if after.Phase == dispatch.Ended {
		t.addCosts(platform, before, after)
	}
	if after.Tries > before.Tries {
		t.retries.WithLabelValues(platform, orNone(string(after.Attention))).Inc()
	}
}

// addCosts counts what a job that has ended cost, whenever the platform reports it.
func (t *Telemetry) addCosts(platform string, before, after dispatch.Job) {
	more := dispatch.Bookable(after.AllCosts())
	if before.Phase == dispatch.Ended {
		more -= dispatch.Bookable(before.AllCosts())
	} else {
		more -= after.Spent // counted when the attempts before ended
	}
	if more > 0 {
		t.costs.WithLabelValues(platform).Add(more)
	}
}

func orNone(label string) string {
	if label == "" {
		return "none"
	}
	return label
}

// RequestEnded implements dispatch.Observer.
func (t *Telemetry) RequestEnded(platform, op string, took time.Duration, err error) {
	t.asked.WithLabelValues(platform, op, outcome(err)).Inc()
	t.askedDuration.WithLabelValues(platform, op).Observe(took.Seconds())
}

// JobAsked implements dispatch.Observer. Requests are counted by RequestEnded.
func (t *Telemetry) JobAsked(dispatch.Job, string, time.Duration, error) {}

// Acted implements dispatch.Observer. What users do is counted by their requests.
func (t *Telemetry) Acted(string, dispatch.Job) {}

// TokenRequested counts a token that an identity provider issued or refused.
func (t *Telemetry) TokenRequested(platform string, err error) {
	t.tokens.WithLabelValues(platform, outcome(err)).Inc()
}

// Removed counts what was deleted from the database.
func (t *Telemetry) Removed(kind string, n int64) { t.removed.WithLabelValues(kind).Add(float64(n)) }

// HookTried counts a message to a hook.
func (t *Telemetry) HookTried(arrived bool) {
	outcome := "failed"
	if arrived {
		outcome = "ok"
	}
	t.hookTries.WithLabelValues(outcome).Inc()
}

// outcome returns "ok", or the kind of the error.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return dispatch.KindOf(err).String()
}

// Visits returns a function that calls visit and counts it.
func (t *Telemetry) Visits(visit func(context.Context, dispatch.Lease) error) func(context.Context,
	dispatch.Lease) error {
	return func(ctx context.Context, l dispatch.Lease) (err error) {
		t.leases.Inc()
		ended := "panic"
		defer func() {
			t.leases.Dec()
			t.visits.WithLabelValues(ended).Inc()
		}()
		err = visit(ctx, l)
		ended = outcome(err)
		return err
	}
}
