package program

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// algorithms is the folder of the demonstration's process graphs, and of records of its services.
const algorithms = "../../cmd/eodispatch/algorithms"

// demonstration is a broker as the command demo starts it, at platforms that the test controls.
type demonstration struct {
	world     *simulator.World
	neighbour *simulator.World // whose OGC server is a further platform, without a sign-in
	broker    string           // base URL
	documents string           // base URL of the process graphs
}

func startDemo(t *testing.T) *demonstration {
	t.Helper()
	neighbour, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { neighbour.Close() })
	s := &demonstration{world: startWorld(t), neighbour: neighbour}
	s.documents = Serve(t, http.FileServer(http.Dir(algorithms)))
	address, folder := executable.FreeAddress(t), t.TempDir()
	s.writeRecords(t, filepath.Join(folder, "records"))
	known := s.world.Credentials
	text := fmt.Sprintf(`
public_url: http://%[9]s
cors: {allowed_origins: ['http://localhost:*', 'http://127.0.0.1:*']}
database: sqlite:%[1]s/eodispatch.db
catalogue: {sources: ['%[1]s/records']}
development: true
freshness: 500ms
identity: {issuer: %[2]s, client_id: %[3]s, client_secret: %[4]s, command_line_client: portal}
vault: {keys: '%[10]s'}
platforms:
- {name: simulated-openeo, protocol: openeo, endpoint: %[5]s, access: user, issuer: %[7]s,
   exchange: {driver: keycloak-requested-issuer, alias: %[6]s}, limits: {jobs: 4, min_poll: 250ms}}
- {name: simulated-ogc, protocol: ogc-api-processes, endpoint: %[8]s, access: user, issuer: %[7]s,
   exchange: {driver: keycloak-requested-issuer, alias: %[6]s}, limits: {jobs: 4, min_poll: 250ms}}
- {name: neighbour, protocol: ogc-api-processes, endpoint: %[11]s, access: open, limits: {jobs: 2, min_poll: 250ms}}
`, folder, known.Issuer, known.BrokerID, known.BrokerSecret, s.world.OpenEOURL, simulator.PlatformAlias, known.Platform,
		s.world.OGCURL, address, identity.NewKey(time.Now()).Reveal(), neighbour.OGCURL)
	file := filepath.Join(folder, "eodispatch.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.world.IdP.TellLogouts("http://" + address + "/session/back-channel-sign-out")
	p := Start(t, "EODISPATCH_CONFIG="+file, "EODISPATCH_LISTEN="+address)
	t.Cleanup(func() { p.Stop(t) })
	s.broker = p.Address
	return s
}

// writeRecords writes the records of the catalogue with the addresses of the platforms.
func (s *demonstration) writeRecords(t *testing.T, folder string) {
	t.Helper()
	addresses := strings.NewReplacer("{openeo}", s.world.OpenEOURL, "{ogc}", s.world.OGCURL, "{neighbour}",
		s.neighbour.OGCURL, "{documents}", s.documents)
	files, err := filepath.Glob(algorithms + "/records/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(addresses.Replace(string(text)))
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMake_DemoEndsWithCtrlC: make demo says what it does, and ends on Ctrl-C without an error. The program is compiled
// already, and there is no page.
func TestMake_DemoEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	installed.Program(t, "make")
	binary, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	makefile, err := os.ReadFile("../../Makefile")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "Makefile"), makefile, 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "bin"), 0o700)
	}
	if err == nil {
		err = os.Symlink(binary, filepath.Join(folder, "bin", "eodispatch"))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := newPerson(t).programInTerminal("make", "-C", folder, "demo", "PROGRAM=echo compiled", "PAGE=")
	run.Await(t, "The page could not be built")
	run.Await(t, "the first time takes a few minutes")
	run.Await(t, "press Ctrl-C")
	run.types(t, "\x03")
	if code := run.ends(t); code != exitDone || strings.Contains(run.plainText(), "Error 1") {
		t.Errorf("exit %d:\n%s", code, run.plainText())
	}
}
