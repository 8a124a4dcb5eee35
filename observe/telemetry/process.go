package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Process reads the state of this process at each scrape.
type Process struct {
	Unsaved       func() int  // responses of platforms that wait to be saved
	Streams       func() int  // open WebSockets
	Notifications func() bool // whether notifications of other processes arrive; nil: the database has none
	Pools         func() []Pool
	Refusals      func() map[string]int64 // how often each budget has refused an input
	Durability    func() *Durability      // nil: not known, or the database is no server
}

// Pool is the state of a pool of connections to the database.
type Pool struct {
	Name            string
	Used, Idle, Max int
	Waited          float64 // for how many seconds statements waited for a connection
}

// Observe reads the state of the process from now on.
func (t *Telemetry) Observe(p Process) {
	t.process.read.Store(&p)
	t.stats.durability.Store(&p.Durability)
}

// processState collects the state of the process.
type processState struct{ read atomic.Pointer[Process] }

var (
	unsavedDesc = description("unsaved_responses",
		"Responses of platforms in memory that the database did not store.")
	streamsDesc       = description("websocket_clients", "Open WebSockets.")
	notificationsDesc = description("notifications_connected",
		"1 if notifications of other processes arrive; otherwise this process polls every two seconds.")
	connectionsDesc = description("db_connections", "Connections to the database, by pool.", "pool", "state")
	waitedDesc      = description("db_wait_seconds_total", "How long statements waited for a connection.", "pool")
	refusalsDesc    = description("budget_refusals_total", "Inputs beyond a bound of docs/security.md.", "bound")
)

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (s *processState) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{unsavedDesc, streamsDesc, notificationsDesc, connectionsDesc,
		waitedDesc, refusalsDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *processState) Collect(to chan<- prometheus.Metric) {
	p := s.read.Load()
	if p == nil {
		return
	}
	to <- gauge(unsavedDesc, float64(p.Unsaved()))
	to <- gauge(streamsDesc, float64(p.Streams()))
	if p.Notifications != nil {
		to <- gauge(notificationsDesc, one(p.Notifications()))
	}
	for _, pool := range p.Pools() {
		pool.collect(to)
	}
	for bound, n := range p.Refusals() {
		to <- prometheus.MustNewConstMetric(refusalsDesc, prometheus.CounterValue, float64(n), bound)
	}
}

func (p Pool) collect(to chan<- prometheus.Metric) {
	to <- gauge(connectionsDesc, float64(p.Used), p.Name, "used")
	to <- gauge(connectionsDesc, float64(p.Idle), p.Name, "idle")
	to <- gauge(connectionsDesc, float64(p.Max), p.Name, "max")
	to <- prometheus.MustNewConstMetric(waitedDesc, prometheus.CounterValue, p.Waited, p.Name)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
