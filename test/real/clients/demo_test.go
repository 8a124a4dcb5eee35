package clients

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/documents"
	"github.com/eodispatch/eodispatch/test/executable"
)

// keepDemo starts `eodispatch demo --keep` and returns the assignments that it prints for pasting.
func keepDemo(t *testing.T) (assignments string) {
	t.Helper()
	binary, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	demo := exec.Command(binary, "demo", "--keep")
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = demo.Process.Signal(syscall.SIGTERM) // fails if it has ended
		_ = demo.Wait()
	})
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "A="):
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return assignments + line + "\n"
		case assignments != "" || strings.HasPrefix(line, "B="):
			assignments += line + "\n"
		default:
			fmt.Fprintln(&said, line)
		}
	}
	t.Fatalf("it prints no lines to paste: %v\n%s", lines.Err(), &said)
	return ""
}

// browser stands for the user's browser: it opens the address that a client shows, and chooses alice there.
const browser = `
import re, sys, threading, urllib.request
class Shown:
    def __init__(self, out): self.out = out
    def __getattr__(self, name): return getattr(self.out, name)
    def write(self, text):
        self.out.write(text)
        for address in re.findall(r"http://\S+/device\?user_code=\S+", text):
            threading.Thread(target=lambda: urllib.request.urlopen(address + "&as=alice").read()).start()
sys.stdout = Shown(sys.stdout)
`

// TestDemo_RunsAllLines: a new user who has the demonstration running follows the document. No line is changed.
func TestDemo_RunsAllLines(t *testing.T) {
	block := func(heading, language string) string {
		return strings.Join(documents.Blocks(t, clientsPage, heading, language), "\n")
	}
	const first, python = "# Clients of the standards", "python"
	names, wait := block(first, python), block("## OGC API - Processes", python)
	type walk struct{ installed, lines, shows, want string }
	walks := map[string]walk{
		"openEO Python": {"openeo-0.53", names + block("### openEO Python client", python) +
			block("### MultiBackendJobManager", python), "print(job.status(), service_job.status(), files[0].name, " +
			"database.read()['status'].value_counts().to_dict())", "finished finished openEO.tif {'finished': 50}"},
		"OWSLib": {"ogcapi-clients", names + wait + block("### OWSLib", python),
			"print(job['status'], len(results['assets']))", "successful 1"},
		"OWSLib at one platform": {"ogcapi-clients", names + wait + block("### OWSLib", python) +
			block("### One platform", python) + block("### Created first", python),
			"print(at_once['mean'], mean, later['status'], ended(started)['status'])", "0.77 0.77 created successful"},
		"ogc-api-processes-client": {"ogcapi-clients", names + wait + block("### ogc-api-processes-client", python),
			"print(job['status'], len(results['assets']))", "successful 1"},
		"cuiman": {"cuiman", names + block("### cuiman", python),
			"print(job.status.value, len(results['assets']))", "successful 1"},
		"openEO JavaScript": {"javascript", block("### openEO JavaScript client", "js"),
			"console.log((await connection.getJob(job.id)).title)", "from JavaScript"},
	}
	walks["openEO Python, signed in by its user"] = walk{"openeo-0.53", browser + names +
		strings.ReplaceAll(documents.Blocks(t, clientsPage, "### openEO Python client", python)[0],
			"authenticate_oidc_access_token(token)", "authenticate_oidc()"),
		"print(job.status(), connection.describe_account()['name'])", "finished alice"}
	assignments := keepDemo(t)
	for name, walk := range walks {
		t.Run(name, func(t *testing.T) {
			program := folderOf(t, walk.installed) + "/python"
			lines := walk.lines + "\n" + walk.shows + "\n"
			if walk.installed == "javascript" {
				program = "bash '" + source(t, "../../../.ci/node") + "' node"
				lines = "(async () => {" + lines + "})().catch((e) => { console.error(e); process.exit(1); });"
			}
			folder := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, "bash", "-c", "set -eu\n"+assignments+block(first, "sh")+"exec "+program+" -")
			c.Dir, c.Stdin = folder, strings.NewReader(lines)
			c.Env = append(c.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder, "XDG_DATA_HOME="+folder,
				"NODE_PATH="+filepath.Join(folderOf(t, "javascript"), "node_modules"))
			shown, err := c.CombinedOutput()
			if text := strings.TrimSpace(string(shown)); err != nil || !strings.HasSuffix(text, walk.want) {
				t.Errorf("%v; it shows:\n%s", err, text)
			}
		})
	}
}
