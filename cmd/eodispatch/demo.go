package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/simulator"
	"github.com/eodispatch/eodispatch/web"
)

// algorithms holds the process graphs that the demonstration runs, and records of its services.
//
//go:embed algorithms
var algorithms embed.FS

const demoHelp = `Start a broker with simulated platforms in one process, and run commands for scientists against it: a job for each
protocol, and a task over many tiles.`

func demoCommandLine(c console) *cobra.Command {
	keep := false
	command := &cobra.Command{Use: "demo", Args: cobra.NoArgs,
		Short: "Start a broker with simulated platforms, and run jobs on them", Long: demoHelp,
		Example: "  eodispatch demo --keep", RunE: func(*cobra.Command, []string) error { return demonstrate(c, keep) }}
	command.Flags().BoolVar(&keep, "keep", false, "keep the broker running, and print commands to try")
	return command
}

// demonstrate starts the simulated platforms and a broker, and runs commands against it.
func demonstrate(c console, keep bool) error {
	fmt.Fprintf(c.out, "eodispatch %s: starting a broker and simulated platforms\n", ownVersion())
	ctx, stop := c.signals(context.Background())
	defer stop()
	err := demonstrateUntil(ctx, c, keep)
	if ctx.Err() != nil {
		fmt.Fprintln(c.out, "stopped")
		return nil
	}
	return err
}

// demonstrateUntil does so until ctx is done; without keep, until the commands have ended.
func demonstrateUntil(ctx context.Context, c console, keep bool) (err error) {
	s, err := newDemoServers(ctx, c, simulator.Life{Queue: time.Second, Run: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.runCommands(ctx, c); err != nil || !keep {
		return err
	}
	s.explain(c.out)
	<-ctx.Done()
	return nil
}

// runCommands runs the demonstration's commands as a shell would, signed in as its user.
func (s *demoServers) runCommands(ctx context.Context, c console) error {
	token, err := s.signIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "signed in as %s\n", s.world.Credentials.User)
	if err := s.awaitServices(ctx, token); err != nil {
		return err
	}
	environ := append([]string{"EODISPATCH_BROKER=" + s.broker, "EODISPATCH_TOKEN=" + token,
		"XDG_STATE_HOME=" + s.folder}, c.environ...)
	user := console{c.out, c.err, environ, func(context.Context) (context.Context, context.CancelFunc) {
		return ctx, func() {}
	}}
	for i, line := range demoRuns {
		line = append(slices.Clone(line), "--download", filepath.Join(s.folder, fmt.Sprintf("results-%d", i+1)))
		words := []string{"eodispatch"}
		for _, word := range line {
			words = append(words, cli.Quoted(word))
		}
		fmt.Fprintf(c.out, "\n$ %s\n", strings.Join(words, " "))
		if run(line, user) != exitDone {
			return errSaid
		}
		s.world.OpenEO.SetLife(simulator.Life{Queue: 300 * time.Millisecond, Run: 700 * time.Millisecond, Spread: 0.5})
	}
	return nil
}

// awaitServices waits until the broker has read the records of its catalogue, with which it begins when it starts.
func (s *demoServers) awaitServices(ctx context.Context, token string) error {
	c, err := client.New(s.broker, client.Options{Token: func(context.Context) (string, error) { return token, nil }})
	if err != nil {
		return err
	}
	for {
		for _, err := range c.Services(ctx, "") {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// demoRuns are the commands that the demonstration runs: a job for each protocol, and a task.
var demoRuns = [][]string{
	{"run", "ndvi_composite", "--area", "5.05,51.2,5.15,51.25", "--time", "2024-06-01/2024-07-01"},
	{"run", "ndvi", "--platform", "simulated-ogc", "-p", `bbox={"bbox":[5.05,51.2,5.15,51.25]}`},
	{"run", "ndvi_composite", "--area", "5.05,51.05,5.75,51.45", "--grid", "20x20km", "--time",
		"2024-06-01/2024-07-01"},
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
func newDemoServers(ctx context.Context, c console, life simulator.Life) (s *demoServers, err error) {
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
	if err = s.serveDocuments(); err != nil {
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

// serveDocuments serves the process graphs on the loopback interface, where the broker and the simulated platform read
// them.
func (s *demoServers) serveDocuments() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	graphs, err := fs.Sub(algorithms, "algorithms")
	if err != nil {
		return err
	}
	s.documents = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: http.FileServerFS(graphs), ReadHeaderTimeout: 10 * time.Second}
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
			&slog.LevelVar{}, newLog(settings.Log.Level, settings.Log.Format, log), func(a string) { address <- a })
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

// signIn obtains the user's token by the password grant, which only a demonstration should use.
func (s *demoServers) signIn(ctx context.Context) (string, error) {
	known := s.world.Credentials
	app := oauth2.Config{ClientID: known.Client, Endpoint: oauth2.Endpoint{
		TokenURL: known.Issuer + "/protocol/openid-connect/token", AuthStyle: oauth2.AuthStyleInParams}}
	token, err := app.PasswordCredentialsToken(ctx, known.User, known.Password)
	if err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

// demoLines are shell commands that use the running broker, which docs/portals.md shows too.
const demoLines = `J='Content-Type: application/json' LAST=$(mktemp) TAG=$(mktemp)
JOB=$(curl -s $B/unit_jobs -H "$A" -H "$J" -d '{
  "title": "NDVI, June", "label": "openeo", "format": "gtiff",
  "service": {"endpoint": "'$OPENEO'", "namespace": null, "application": "'$APPLICATION'"},
  "parameters": {"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25},
                 "temporal_extent": ["2024-06-01", "2024-07-01"]}}' | tee /dev/stderr | sed -nE 's/^\{"id":([0-9]+),.*/\1/p')
until grep -qE '"status":"(finished|failed|canceled)"' $LAST; do
  curl -fsS --retry 9 --etag-compare $TAG --etag-save $TAG "$B/unit_jobs/$JOB?wait=30" -H "$A" -o $LAST || break
done; cat $LAST
curl -s $B/unit_jobs/$JOB/results -H "$A"
curl -s $B/params -H "$A" -H "$J" -d '{"label": "openeo", "service": {"endpoint": "'$OPENEO'", "application": "'$APPLICATION'"}}'
curl -s $B/jobs_status -H "$A"
curl -s $B/tiles -H "$J" -d '{"grid": "20x20km", "aoi": {"type": "Polygon", "coordinates": [[[4,50],[5,50],[5,51],[4,51],[4,50]]]}}'
`

// demoCommands are the commands for scientists, which README shows too.
const demoCommands = `eodispatch login $B
eodispatch services
eodispatch run ndvi_composite --area 5.05,51.2,5.15,51.25 --time 2024-06 --download june
eodispatch run ndvi_composite --area 5.05,51.05,5.75,51.45 --grid 20x20km --time 2024-06 --download tiles --vrt
ls june tiles
`

// explain prints shell assignments, and commands that work with them.
func (s *demoServers) explain(out io.Writer) {
	known := s.world.Credentials
	if web.Page() != nil {
		fmt.Fprintf(out, "\nOpen %s/ in a browser and sign in as alice.\n", s.broker)
	}
	fmt.Fprintf(out, "\n"+
		"The broker runs until you press Ctrl-C. In another terminal, paste these lines (and the line of A "+
		"again when its token has expired, after five minutes):\n\nB=%s\nOPENEO=%s\n"+
		"APPLICATION=%s\n", s.broker, s.world.OpenEOURL, s.documents+"/ndvi_composite.json")
	fmt.Fprintf(out,
		"A=\"Authorization: Bearer $(curl -s %s/protocol/openid-connect/token -d grant_type=password -d client_id=%s "+
			"-d username=%s -d password=%s"+
			` | sed -E 's/.*"access_token":"([^"]+)".*/\1/')"`+"\n\n", known.Issuer, known.Client, known.User,
		known.Password)
	fmt.Fprint(out, demoLines,
		"\nOr, with this program in your PATH and alice in the browser that opens:\n\n", demoCommands)
}
