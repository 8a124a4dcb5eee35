package performance

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	faraway   = 40 * time.Millisecond // round trip
	farTask   = 500                   // jobs
	farPosts  = 160                   // jobs that 16 clients post
	farAtOnce = 8                     // requests
)

// BenchmarkPerformanceOfDistance measures what users wait for when platforms are far away, over TLS: each against what
// the distance allows, and against a client without the broker that sends the same requests to the platform and keeps
// its connections.
func BenchmarkPerformanceOfDistance(b *testing.B) {
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := newTable(b, "SQLite, 8 requests at once", "measured", "of what the distance allows",
		"of a bare client", "aim")
	for _, roundTrip := range []time.Duration{0, faraway} {
		for _, label := range []dispatch.Label{dispatch.OpenEO, dispatch.OGCProcess} {
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
				d := newDistance(b, w, label, protocol, roundTrip)
				d.measure(b, func(what string, broker, bare, bound time.Duration, aim string) {
					ratio := "-"
					if bound > 0 {
						ratio = fmt.Sprintf("%.2f", float64(broker)/float64(bound))
					} else {
						aim = ""
					}
					table(fmt.Sprintf("%v, %s, %s: %s", roundTrip, label, protocol, what),
						broker.Round(time.Millisecond/10).String(), ratio,
						fmt.Sprintf("%.2f of %v", float64(broker)/float64(bare), bare.Round(time.Millisecond/10)), aim)
				})
				d.stop(b)
			}
		}
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		exchange := exchange(b, protocol)
		table(fmt.Sprintf("%v, %s: a token exchange", faraway, protocol), exchange.Round(time.Millisecond/10).String(),
			fmt.Sprintf("%.2f", float64(exchange)/float64(faraway)), "", "1.3")
	}
}

// distance is a broker, and a platform that is far away.
type distance struct {
	*race
	bare      *http.Client
	roundTrip time.Duration
	steps     int // requests for a job
	live      func(simulator.Life)
}

func newDistance(b *testing.B, w *simulator.World, label dispatch.Label, protocol string,
	roundTrip time.Duration) *distance {
	r, adapter := newRaceAt(b, label, farAtOnce)
	at, client, authority := far(b, r, protocol, roundTrip)
	d := &distance{race: r, bare: client, roundTrip: roundTrip, steps: 2}
	r.url = at
	switch p := r.platform.(type) {
	case *simulator.OGC:
		d.live, d.steps = p.SetLife, 1
	case *simulator.OpenEO:
		d.live = p.SetLife
	}
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": adapter, "endpoint": r.url, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000, "requests": farAtOnce}}})
	r.programs = []*executable.Program{program.Start(b, append(benchmarked(w),
		"EODISPATCH_PLATFORMS="+string(platforms), "SSL_CERT_FILE="+authority)...)}
	r.client = fast{program.SignIn(b, w, r.programs[0].Address)}
	r.warm(b)
	return d
}

// far serves a handler over TLS at a distance. It returns its URL, a client that trusts it, and a file with its
// certificate.
func far(b *testing.B, h http.Handler, protocol string, roundTrip time.Duration) (
	at string, client *http.Client, authority string) {
	b.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = protocol == "HTTP/2"
	s.StartTLS()
	b.Cleanup(s.Close)
	l, err := simulator.Distant(s.Listener.Addr().String(), roundTrip)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	authority = filepath.Join(b.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		b.Fatal(err)
	}
	client = s.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = farAtOnce
	return "https://" + l.Addr().String(), client, authority
}

// measure measures each thing with the broker and without, and reports it with the time that the distance allows.
func (d *distance) measure(b *testing.B, report func(what string, broker, bare, bound time.Duration, aim string)) {
	body := d.single()
	var posts, creates []time.Duration
	for range 20 {
		posts = append(posts, took(func() { d.client.mustPost(b, body, nil) }))
		creates = append(creates, took(func() { d.submit(b, 1) }))
	}
	report("POST /unit_jobs, median of 20", median(posts), median(creates), d.roundTrip, "1.3")

	begun := d.begun()
	several := took(func() {
		inParallel(farPosts, 16, func(int) { d.client.mustPost(b, body, nil) })
		d.await(b, begun+farPosts)
	})
	same := took(func() { inParallel(farPosts, farAtOnce, func(int) { d.submit(b, d.steps) }) })
	report(fmt.Sprintf("POST by 16 clients, %d jobs", farPosts), several, same, d.bound(farPosts), "1.3")

	begun = d.begun()
	task := d.job()
	name, value := d.dimension()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, farTask)}
	text, _ := json.Marshal(task) // cannot fail: only strings and numbers
	whole := took(func() { d.client.must(b, http.MethodPost, "/upscale_tasks", text, nil); d.await(b, begun+farTask) })
	same = took(func() { inParallel(farTask, farAtOnce, func(int) { d.submit(b, d.steps) }) })
	report(fmt.Sprintf("a task of %d", farTask), whole, same, d.bound(farTask), "1.2")
	d.statuses(b, report)
	d.results(b, report)
}

// bound returns what the distance allows for the requests of n jobs.
func (d *distance) bound(n int) time.Duration {
	return time.Duration(n*d.steps) * d.roundTrip / farAtOnce
}

// statuses reports how long a listing of 1,000 jobs takes, by which visits read their statuses. No user waits for it:
// what users see is read before.
func (d *distance) statuses(b *testing.B, report func(string, time.Duration, time.Duration, time.Duration, string)) {
	client := upstream.New(upstream.Config{Development: true, Transport: d.bare.Transport})
	var lister dispatch.Lister = openeo.New(openeo.Config{Name: "p", Endpoint: d.url, Client: client})
	if d.label == dispatch.OGCProcess {
		lister = ogcapi.New(ogcapi.Config{Endpoint: d.url, Client: client})
	}
	list := func() {
		n := 0
		for _, err := range lister.List(b.Context(), dispatch.Token{}, "") {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == 1000 {
				return
			}
		}
		b.Fatalf("%d jobs are listed", n)
	}
	list() // it also reads what the platform publishes
	before := d.oracle.Requests("GET /jobs")
	list()
	pages := d.oracle.Requests("GET /jobs") - before
	var ours, bare []time.Duration
	for range 5 {
		ours = append(ours, took(list))
		next := d.api() + "/jobs?limit=1000"
		bare = append(bare, took(func() {
			for range pages { // each page names the next one
				var page struct{ Links []struct{ Rel, Href string } }
				d.get(b, next, &page)
				for _, l := range page.Links {
					if l.Rel == "next" {
						next = l.Href
					}
				}
			}
		}))
	}
	report(fmt.Sprintf("a listing of 1,000 jobs, %d pages, median of 5", pages), median(ours), median(bare),
		time.Duration(pages)*d.roundTrip, "1.1")
}

// api returns the base URL of the platform's API.
func (d *distance) api() string {
	if d.label == dispatch.OpenEO {
		return d.url + "/openeo/1.2"
	}
	return d.url
}

// results reports how long the results of a finished job take.
func (d *distance) results(b *testing.B, report func(string, time.Duration, time.Duration, time.Duration, string)) {
	d.live(simulator.Life{Run: time.Millisecond})
	var j program.Job
	d.client.mustPost(b, d.single(), &j)
	for !j.Ended() {
		d.client.must(b, http.MethodGet, fmt.Sprintf("/unit_jobs/%d", j.ID), nil, &j)
	}
	path := d.api() + "/jobs/" + d.submit(b, d.steps) + "/results"
	<-time.After(100 * time.Millisecond) // it runs for a millisecond
	var broker, bare []time.Duration
	for range 10 {
		broker = append(broker, took(func() {
			d.client.must(b, http.MethodGet, fmt.Sprintf("/unit_jobs/%d/results", j.ID), nil, nil)
		}))
		bare = append(bare, took(func() { d.get(b, path, nil) }))
	}
	report("results, median of 10", median(broker), median(bare), d.roundTrip, "1.3")
}

// begun returns how many jobs have started.
func (d *distance) begun() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.started
}

// await waits until n jobs have started.
func (d *distance) await(b *testing.B, n int) {
	for end := time.Now().Add(5 * time.Minute); d.begun() < n; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d of %d jobs started within five minutes", d.begun(), n)
		}
	}
}

// submit sends the first requests of a job to the platform, without the broker, and returns its identifier.
func (d *distance) submit(b *testing.B, steps int) string {
	if d.label == dispatch.OGCProcess {
		header := d.send(b, d.api()+"/processes/"+program.NDVI+"/execution", `{"inputs": {"bbox": `+program.Box+`}}`)
		return header.Get("Location")[strings.LastIndex(header.Get("Location"), "/")+1:]
	}
	jobs := d.api() + "/jobs"
	const graph = `{"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}`
	id := d.send(b, jobs, `{"process": {"process_graph": `+graph+`}}`).Get("OpenEO-Identifier")
	if steps == 2 {
		d.send(b, jobs+"/"+id+"/results", "")
	}
	return id
}

func (d *distance) send(b *testing.B, url, body string) http.Header {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Prefer", "respond-async")
	return d.do(b, request, nil)
}

func (d *distance) get(b *testing.B, url string, into any) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	d.do(b, request, into)
}

func (d *distance) do(b *testing.B, request *http.Request, into any) http.Header {
	request.Header.Set("Accept", "application/json")
	response, err := d.bare.Do(request)
	if err != nil {
		b.Error(err)
		return http.Header{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		b.Errorf("%s: %s %v: %s", request.URL, response.Status, err, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			b.Error(err)
		}
	}
	return response.Header
}

// exchange returns how much longer the first job of a user takes, for which a token is exchanged at a provider that is
// far away, than the second one. The platform is near.
func exchange(b *testing.B, protocol string) time.Duration {
	idp := &simulator.IdP{}
	at, _, authority := far(b, idp, protocol, faraway)
	idp.URL = at
	platform := httptest.NewServer(&simulator.OpenEO{Issuer: idp.Issuer(simulator.PlatformRealm),
		Check: idp.Check(simulator.PlatformRealm)})
	b.Cleanup(platform.Close)
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_IDENTITY_ISSUER="+idp.Issuer(simulator.BrokerRealm), "SSL_CERT_FILE="+authority,
		"EODISPATCH_IDENTITY_CLIENT_ID=eodispatch-api", "EODISPATCH_IDENTITY_CLIENT_SECRET=eodispatch-api-secret",
		"EODISPATCH_IDENTITY_SESSION_GRANTS=false",
		fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "user",
			"issuer": %q, "exchange": {"driver": "keycloak-broker", "alias": %q}}]`, platform.URL,
			idp.Issuer(simulator.PlatformRealm), simulator.PlatformAlias))
	// cannot fail: only strings
	body, _ := json.Marshal(map[string]any{"title": "far", "label": dispatch.OpenEO, "format": "json",
		"parameters": map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"},
			"spatial_extent": json.RawMessage(program.Area)},
		"service": map[string]any{"endpoint": platform.URL, "application": "ndvi_composite"}})
	var more []time.Duration
	for i := range 21 {
		user := fmt.Sprintf("user-%d", i)
		idp.Link(user, user)
		c := fast{program.Client{Broker: p.Address,
			Token: idp.Mint(simulator.BrokerRealm, user, "portal", simulator.TokenFaults{})}}
		first := took(func() { c.mustPost(b, body, nil) })
		second := took(func() { c.mustPost(b, body, nil) })
		more = append(more, first-second)
	}
	p.Stop(b)
	return median(more[1:]) // the first one also reads what the provider publishes
}
