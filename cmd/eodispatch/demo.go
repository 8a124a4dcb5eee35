package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/simulator"
	"github.com/eodispatch/eodispatch/web"
)

// algorithms holds the process graphs that the demonstration runs, and records of its services.
//
//go:embed algorithms
var algorithms embed.FS

type demoCommand struct {
	Application, Parameters string
	Keep                    bool
}

func demoCommandLine(c console) *cobra.Command {
	d := &demoCommand{}
	command := &cobra.Command{Use: "demo", Args: cobra.NoArgs,
		Short:   "Start a broker with simulated platforms, and run jobs on them",
		Long:    "Start a broker with simulated platforms in one process, run two jobs, and one task over many tiles.",
		Example: "  eodispatch demo --keep", RunE: func(*cobra.Command, []string) error { return d.Run(c) }}
	flags := command.Flags()
	flags.StringVar(&d.Application, "application", "",
		"run this openEO process instead of the built-in ones: a JSON document with id, parameters and "+
			"process_graph, as "+
			"`FILE|URL`")
	flags.StringVar(&d.Parameters, "parameters", "",
		"the parameters of that process, a JSON object in a `FILE`. Default: sample values made from the schemas in "+
			"the "+"document")
	flags.BoolVar(&d.Keep, "keep", false, "keep the broker running afterwards and print shell commands to try it")
	return command
}

// Run starts the simulated platforms and a broker, runs the jobs, and shows their results.
func (d *demoCommand) Run(c console) error {
	fmt.Fprintf(c.out, "eodispatch %s: starting a broker and simulated platforms\n", ownVersion())
	ctx, stop := c.signals(context.Background())
	defer stop()
	err := d.run(ctx, c)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		fmt.Fprintln(c.out, "stopped")
		return nil
	}
	return err
}

func (d *demoCommand) run(ctx context.Context, c console) (err error) {
	jobs, documents, err := d.jobs(ctx)
	if err != nil {
		return err
	}
	s, err := newDemoServers(ctx, c, documents, simulator.Life{Queue: time.Second, Run: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	token, err := s.signIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "signed in as %s\n\n", s.world.Credentials.User)
	for i := range jobs {
		jobs[i] = s.withAddresses(jobs[i])
	}
	if err := runAll(ctx, client{s.broker, token}, jobs, c.out); err != nil {
		return err
	}
	if d.Application == "" {
		if err := s.upscale(ctx, client{s.broker, token}, jobs[0], c.out); err != nil {
			return err
		}
	}
	if !d.Keep {
		return nil
	}
	s.explain(c.out, jobs[0], d.Application != "")
	<-ctx.Done()
	return nil
}

// jobs returns the requests to run, still without endpoints, and the documents that must be served for them.
func (d *demoCommand) jobs(ctx context.Context) ([]dispatch.Request, map[string][]byte, error) {
	if d.Application == "" {
		return demoJobs()
	}
	text, err := readAny(ctx, d.Application)
	if err != nil {
		return nil, nil, err
	}
	p, err := readProcess(text)
	if err != nil {
		return nil, nil, err
	}
	parameters, err := d.parameters(p)
	if err != nil {
		return nil, nil, err
	}
	r := openEOJob(p.ID, parameters)
	if isURL(d.Application) {
		r.Service.Application = d.Application
		return []dispatch.Request{r}, nil, nil
	}
	return []dispatch.Request{r}, map[string][]byte{p.ID + ".json": text}, nil
}

func (d *demoCommand) parameters(p process) (json.RawMessage, error) {
	if d.Parameters == "" {
		return p.sample()
	}
	text, err := os.ReadFile(d.Parameters)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not JSON", d.Parameters)
	}
	return text, err
}

const (
	demoArea   = `{"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}`
	demoBox    = `{"bbox": [5.05, 51.2, 5.15, 51.25]}`
	demoRegion = `{"type": "Polygon", "coordinates": [[[5.05, 51.05], [5.75, 51.05], [5.75, 51.45], [5.05, 51.45], [5.05, 51.05]]]}`
	demoSpan   = `["2024-06-01", "2024-07-01"]`
	ogcProcess = "ndvi"
)

// demoJobs returns one job for each protocol: a bundled NDVI composite for openEO, and the NDVI process of the OGC
// server.
func demoJobs() ([]dispatch.Request, map[string][]byte, error) {
	text, err := algorithms.ReadFile("algorithms/ndvi_composite.json")
	if err != nil {
		return nil, nil, err
	}
	ogc := dispatch.Request{Title: ogcProcess, Label: dispatch.OGCProcess, Format: "json",
		Service: dispatch.Service{Application: ogcProcess}, Parameters: json.RawMessage(`{"bbox": ` + demoBox + `}`)}
	return []dispatch.Request{
		openEOJob("ndvi_composite", json.RawMessage(`{"spatial_extent": `+demoArea+`, "temporal_extent": `+demoSpan+
			`}`)),
		ogc,
	}, map[string][]byte{"ndvi_composite.json": text}, nil
}

func openEOJob(id string, parameters json.RawMessage) dispatch.Request {
	return dispatch.Request{Title: id, Label: dispatch.OpenEO, Format: "gtiff", Parameters: parameters,
		Service: dispatch.Service{Application: id + ".json"}}
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// readAny reads a file, or the document at a URL.
func readAny(ctx context.Context, place string) ([]byte, error) {
	if !isURL(place) {
		return os.ReadFile(place)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	var text json.RawMessage
	return text, answer(request, &text)
}

// demoServers holds everything that a demonstration runs on.
type demoServers struct {
	world     *simulator.World
	neighbour *simulator.World // whose OGC server is a further platform, without a sign-in
	broker    string           // base URL
	documents string           // base URL of the served documents
	folder    string
	server    *http.Server // serves the documents
	stop      context.CancelFunc
	stopped   chan error
}

// newDemoServers starts the simulated platforms, a server for documents, and the broker.
func newDemoServers(ctx context.Context, c console, documents map[string][]byte, life simulator.Life) (s *demoServers,
	err error) {
	s = &demoServers{stop: func() {}, stopped: make(chan error, 1)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.folder, err = os.MkdirTemp("", "eodispatch-demo-"); err != nil {
		return s, err
	}
	if s.world, err = simulator.Start(simulator.Options{Seed: uint64(os.Getpid()), Life: life}); err != nil {
		return s, err
	}
	if s.neighbour, err = simulator.Start(simulator.Options{Seed: uint64(os.Getpid()), Life: life,
		Open: true}); err != nil {
		return s, err
	}
	if err = s.serveDocuments(documents); err != nil {
		return s, err
	}
	if err = s.startBroker(ctx); err != nil {
		return s, err
	}
	for _, line := range [][2]string{
		{"broker", s.broker + "  (its documentation: " + s.broker + "/docs)"}, {"page", pageAddress(s.broker)},
		{"openEO API", s.broker + "/openeo"}, {"OGC API", s.broker + "/ogcapi"},
		{"openEO back-end", s.world.OpenEOURL},
		{"OGC server", s.world.OGCURL}, {"another OGC server", s.neighbour.OGCURL},
		{"identity provider", s.world.IdPURL}, {"database and log", s.folder},
	} {
		fmt.Fprintf(c.out, "  %-18s %s\n", line[0], line[1])
	}
	return s, nil
}

// pageAddress returns the address of the page, or why there is none.
func pageAddress(broker string) string {
	if web.Page() == nil {
		return "not built; make demo builds it"
	}
	return broker + "/  (open it in a browser; sign in as alice)"
}

// serveDocuments serves documents on the loopback interface, where the broker and the simulated platform read them.
func (s *demoServers) serveDocuments(documents map[string][]byte) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bundled, err := algorithms.ReadFile("algorithms/ndvi_composite.json")
	if err != nil {
		return err
	}
	served := map[string][]byte{"ndvi_composite.json": bundled}
	maps.Copy(served, documents)
	mux := http.NewServeMux()
	for name, text := range served {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(text)
		})
	}
	s.documents = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(listener)
	return nil
}

// settings is the configuration file of the demonstration's broker.
const settings = `listen: %[9]s
public_url: http://%[9]s
cors: {allowed_origins: ['http://localhost:*', 'http://127.0.0.1:*']}
database: sqlite:%[1]s/eodispatch.db
catalogue: {sources: ['%[1]s/records']}
development: true
freshness: 500ms
telemetry: {listen: off}
identity: {issuer: %[2]s, client_id: %[3]s, client_secret: %[4]s, command_line_client: portal}
vault: {keys: '%[10]s'}
platforms:
- name: simulated-openeo
  protocol: openeo
  endpoint: %[5]s
  access: user
  exchange: {driver: keycloak-requested-issuer, alias: %[6]s}
  issuer: %[7]s
  limits: {jobs: 4, min_poll: 250ms}
- name: simulated-ogc
  protocol: ogc-api-processes
  endpoint: %[8]s
  access: user
  exchange: {driver: keycloak-requested-issuer, alias: %[6]s}
  issuer: %[7]s
  limits: {jobs: 4, min_poll: 250ms}
- name: neighbour
  protocol: ogc-api-processes
  endpoint: %[11]s
  access: open
  limits: {jobs: 2, min_poll: 250ms}
`

// startBroker runs the broker in the same way as the command serve, until s is closed.
func (s *demoServers) startBroker(ctx context.Context) error {
	if err := s.writeRecords(); err != nil {
		return err
	}
	known := s.world.Credentials
	listener, err := net.Listen("tcp", "127.0.0.1:0") // before the settings, which name the port
	if err != nil {
		return err
	}
	file := filepath.Join(s.folder, "eodispatch.yaml")
	text := fmt.Sprintf(settings, s.folder, known.Issuer, known.BrokerID, known.BrokerSecret,
		s.world.OpenEOURL, simulator.PlatformAlias, known.Platform, s.world.OGCURL, listener.Addr(),
		identity.NewKey(time.Now()).Reveal(), s.neighbour.OGCURL)
	settings, log, err := s.prepare(file, text)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.world.IdP.TellLogouts("http://" + listener.Addr().String() + "/session/back-channel-sign-out")
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	address := make(chan string, 1)
	go func() {
		defer log.Close()
		err := serveOn(ctx, func(string, string) (net.Listener, error) { return listener, nil }, settings, nil,
			&slog.LevelVar{}, newLog(settings.Log, log), func(a string) { address <- a })
		listener.Close() // also if the broker did not come to use it
		s.stopped <- err
	}()
	select {
	case a := <-address:
		s.broker = "http://" + a
		return nil
	case err := <-s.stopped:
		return err
	}
}

// prepare writes the configuration file and reads it as the command serve does, and creates the log.
func (s *demoServers) prepare(file, text string) (*config.Config, *os.File, error) {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	settings, err := config.Load(file, nil)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(s.folder, "eodispatch.log"))
	return settings, log, err
}

// writeRecords writes the records of the catalogue, with the addresses of the simulated platforms, to the folder
// records.
func (s *demoServers) writeRecords() error {
	addresses := strings.NewReplacer("{openeo}", s.world.OpenEOURL, "{ogc}", s.world.OGCURL, "{neighbour}",
		s.neighbour.OGCURL, "{documents}", s.documents)
	records, err := algorithms.ReadDir("algorithms/records")
	if err != nil {
		return err
	}
	folder := filepath.Join(s.folder, "records")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for _, r := range records {
		text, err := algorithms.ReadFile("algorithms/records/" + r.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, r.Name()), []byte(addresses.Replace(string(text))),
			0o600); err != nil {
			return err
		}
	}
	return nil
}

// close stops everything and removes the temporary folder.
func (s *demoServers) close() error {
	var errs []error
	s.stop()
	if s.broker != "" {
		errs = append(errs, <-s.stopped)
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.world != nil {
		errs = append(errs, s.world.Close())
	}
	if s.neighbour != nil {
		errs = append(errs, s.neighbour.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.folder))...)
}

func (s *demoServers) signIn(ctx context.Context) (string, error) {
	known := s.world.Credentials
	return signIn(ctx, known.Issuer, known.Client, known.User, known.Password)
}

// withAddresses fills in the endpoint and the document URL of a request.
func (s *demoServers) withAddresses(r dispatch.Request) dispatch.Request {
	r.Service.Endpoint = s.world.OGCURL
	if r.Label == dispatch.OpenEO {
		r.Service.Endpoint = s.world.OpenEOURL
		if !isURL(r.Service.Application) {
			r.Service.Application = s.documents + "/" + r.Service.Application
		}
	}
	return r
}

// upscale runs a request for each tile of a region and shows the progress of the task, whose jobs share the slots of
// the platform.
func (s *demoServers) upscale(ctx context.Context, c client, r dispatch.Request, out io.Writer) error {
	s.world.OpenEO.SetLife(simulator.Life{Queue: 300 * time.Millisecond, Run: 700 * time.Millisecond, Spread: 0.5})
	tiles, err := c.tiles(ctx, demoRegion, "20x20km")
	if err != nil {
		return err
	}
	r.Title, r.Parameters = "ndvi by tile", json.RawMessage(`{"temporal_extent": `+demoSpan+`}`)
	fmt.Fprintf(out, "\nthe same over a region: %d tiles of 20 km, four at a time\n\n", len(tiles))
	task, err := c.upscale(ctx, r, dispatch.Dimension{Name: "spatial_extent", Values: tiles})
	if err != nil {
		return err
	}
	shown := newProgress(ctx, out)
	task, err = follow(ctx, shown, r, task, func() (job, error) { return c.task(ctx, task.ID) })
	shown.end()
	if err != nil {
		return err
	}
	if task.Counts[string(dispatch.Finished)] != len(tiles) {
		return fmt.Errorf("task %d: %s", task.ID, task.Counts)
	}
	found, err := c.results(ctx, task.Jobs[0].ID)
	if err == nil && found == nil {
		err = fmt.Errorf("task %d has finished and its first job has no results", task.ID)
	}
	if err != nil {
		return err
	}
	found.show(out, fmt.Sprintf("%s: results of the first of %d tiles", r.Label, len(tiles)))
	return nil
}

// follow polls a job or task until it is over and shows its progress.
func follow(ctx context.Context, shown progress, r dispatch.Request, j job, read func() (job, error)) (job, error) {
	again := time.NewTicker(look)
	defer again.Stop()
	for shown.show(r, j); !j.ended(); shown.show(r, j) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return j, ctx.Err()
		}
		var err error
		if j, err = read(); err != nil {
			return j, err
		}
	}
	return j, nil
}

// runAll runs requests concurrently, shows their progress and then their results. It returns the first failure.
func runAll(ctx context.Context, c client, requests []dispatch.Request, out io.Writer) error {
	shown := newProgress(ctx, out)
	found, errs := make([]*collection, len(requests)), make([]error, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() { found[i], errs[i] = runOne(ctx, c, r, shown) })
	}
	all.Wait()
	shown.end()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, r := range requests {
		found[i].show(out, fmt.Sprintf("%s: results of %s", r.Label, r.Title))
	}
	return nil
}

// show prints the assets.
func (c *collection) show(out io.Writer, heading string) {
	fmt.Fprintf(out, "\n%s, STAC Collection %s\n", heading, c.ID)
	for _, name := range slices.Sorted(maps.Keys(c.Assets)) {
		a := c.Assets[name]
		fmt.Fprintf(out, "  %-20s %s\n  %20s %s\n", name, cmp.Or(a.Type, "-"), "", a.Href)
	}
}

// look is the polling interval.
const look = 250 * time.Millisecond

// runOne submits one job, follows it, and returns its results.
func runOne(ctx context.Context, c client, r dispatch.Request, shown progress) (*collection, error) {
	j, err := c.submit(ctx, r)
	if err != nil {
		return nil, err
	}
	if j, err = follow(ctx, shown, r, j, func() (job, error) { return c.job(ctx, j.ID) }); err != nil {
		return nil, err
	}
	if j.Status != string(dispatch.Finished) {
		return nil, fmt.Errorf("%s: job %d %s: %s", r.Label, j.ID, j.Status, j.Failure)
	}
	found, err := c.results(ctx, j.ID)
	if err == nil && found == nil {
		err = fmt.Errorf("%s: job %d has finished and has no results", r.Label, j.ID)
	}
	return found, err
}

// Shell commands that use the running broker. docs/portals.md shows those printed for the demonstration's own jobs.
const (
	demoSubmission = `curl -s $B/unit_jobs -H "$A" -H "$J" -d '{
  "title": "NDVI, June", "label": "openeo", "format": "gtiff",
  "service": {"endpoint": "'$OPENEO'", "namespace": null, "application": "'$APPLICATION'"},
  "parameters": {"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25},
                 "temporal_extent": ["2024-06-01", "2024-07-01"]}}'`
	demoLines = `J='Content-Type: application/json'
JOB=$(%s | tee /dev/stderr | sed -nE 's/^\{"id":([0-9]+),.*/\1/p')
while curl -s "$B/unit_jobs/$JOB?wait=30" -H "$A" | tee /dev/stderr | grep -qE '"status":"(created|submitted|queued|running)"'; do :; done
curl -s $B/unit_jobs/$JOB/results -H "$A"
curl -s $B/params -H "$A" -H "$J" -d '{"label": "openeo", "service": {"endpoint": "'$OPENEO'", "application": "'$APPLICATION'"}}'
curl -s $B/jobs_status -H "$A"
curl -s $B/tiles -H "$J" -d '{"grid": "20x20km", "aoi": {"type": "Polygon", "coordinates": [[[4,50],[5,50],[5,51],[4,51],[4,50]]]}}'
`
)

// demoCommands are the commands for scientists, which README shows too.
const demoCommands = `eodispatch login $B
eodispatch services
eodispatch run ndvi_composite --area 5.05,51.2,5.15,51.25 --time 2024-06-01/2024-07-01 --download june
eodispatch run ndvi_composite --area 5.05,51.05,5.75,51.45 --grid 20x20km --time 2024-06-01/2024-07-01 --download tiles
ls june tiles
`

// explain prints shell assignments, and commands that work with them.
func (s *demoServers) explain(out io.Writer, first dispatch.Request, own bool) {
	known := s.world.Credentials
	if web.Page() != nil {
		fmt.Fprintf(out, "\nOpen %s/ in a browser and sign in as alice.\n", s.broker)
	}
	fmt.Fprintf(out,
		"\nThe broker keeps running until you press Ctrl-C. In another terminal, paste these lines (the line of A "+
			"again "+"when its token has expired, after five minutes):\n\n"+
			"B=%s\nOPENEO=%s\nAPPLICATION=%s\n", s.broker, s.world.OpenEOURL, quoted(first.Service.Application))
	fmt.Fprintf(out,
		"A=\"Authorization: Bearer $(curl -s %s/protocol/openid-connect/token -d grant_type=password -d client_id=%s "+
			"-d "+"username=%s -d password=%s"+
			` | sed -E 's/.*"access_token":"([^"]+)".*/\1/')"`+"\n\n", known.Issuer, known.Client, known.User,
		known.Password)
	submission := demoSubmission
	if own {
		body, _ := json.Marshal(first) // cannot fail: it was encoded before
		submission = `curl -s $B/unit_jobs -H "$A" -H "$J" -d ` + quoted(string(body))
	}
	lines := fmt.Sprintf(demoLines, submission)
	if !own {
		lines += "\nOr, with this program in your PATH and alice in the browser that opens:\n\n" + demoCommands
	}
	fmt.Fprint(out, lines)
}

// quoted quotes a text for a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
