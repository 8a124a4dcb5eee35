package crashes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
)

// versionHeading matches the heading of a version in CHANGELOG.md, such as "## 0.1.0 (719ccb8)".
var versionHeading = regexp.MustCompile(`(?m)^## (\S+) \(([0-9a-f]{7,40})\)$`)

// previous builds the program of the last version in CHANGELOG.md from its commit.
var previous = sync.OnceValues(func() (string, error) {
	commit, err := lastVersion()
	if err != nil {
		return "", err
	}
	folder, err := executable.Folder()
	if err != nil {
		return "", err
	}
	source := filepath.Join(folder, "previous-source")
	if err := checkOut(commit, source); err != nil {
		return "", err
	}
	return executable.Build(source, "previous")()
})

func lastVersion() (commit string, err error) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		return "", err
	}
	heading := versionHeading.FindSubmatch(text)
	if heading == nil {
		return "", errors.New("CHANGELOG.md names no version with its commit")
	}
	commit = string(heading[2])
	if out, err := exec.Command("git", "-C", "../..", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("commit %s of version %s is not in this clone, run git fetch --unshallow: %w\n%s", commit, heading[1], err, out)
	}
	return commit, nil
}

// checkOut writes the files of a commit into a new folder.
func checkOut(commit, folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	files, err := exec.Command("git", "-C", "../..", "archive", "--format=tar", commit).Output()
	if err != nil {
		return fmt.Errorf("git archive %s: %w", commit, err)
	}
	unpack := exec.Command("tar", "-x", "-C", folder)
	unpack.Stdin = bytes.NewReader(files)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w\n%s", err, out)
	}
	return nil
}

// TestVersions_SideBySide replaces the last version with this one as docs/upgrade.md describes, while clients submit to both and jobs
// of both protocols run. It checks that no job is lost or runs twice, that no account is visited by two replicas at once, and that
// limits.jobs holds.
func TestVersions_SideBySide(t *testing.T) {
	t.Parallel()
	s := briefly()
	s.run = max(s.run, 2*time.Second)
	c := newCluster(t, s)
	c.processes, c.executes = &simulator.OGC{Life: simulator.Life{Run: s.run, Slots: slots}}, s.jobs/accounts
	c.db = database(t, c.dsn)

	old := c.launchOf(previous) // creates the tables
	present := c.launch()       // migrates them
	c.submitToBoth(old, present)
	c.bothWork(old, present)
	c.sameTasks(old, present)

	c.progress(0.1)
	old.stop(t)
	restarted := c.launchOf(previous) // it accepts the newer schema, because it was written before programs checked
	c.sameTasks(restarted, present)
	c.progress(0.4)
	replacement := c.launch()
	restarted.stop(t)
	c.finish(present, replacement)
	c.check()
	c.checkProcesses()
}

// submitToBoth submits half of each platform's jobs through one replica and half through the other. The replicas alternate between
// platforms.
func (c *cluster) submitToBoth(a, b replica) {
	c.t.Helper()
	for _, half := range [][2]replica{{a, b}, {b, a}} {
		for i := range c.platforms {
			c.give(half[i%2], i, c.jobs/accounts/2)
		}
		c.execute(half[0], c.executes/2)
	}
}

// execute submits a task of the given number of jobs for the OGC platform. Each job has a different mark, by which the platform
// counts its runs.
func (c *cluster) execute(r replica, jobs int) {
	c.t.Helper()
	marks := make([]string, jobs)
	for n := range marks {
		marks[n] = fmt.Sprintf("replica-%d-job-%d", r.number, n)
	}
	task := map[string]any{"title": "fire", "label": "ogc_api_process", "format": "json",
		"service":    map[string]any{"endpoint": public(accounts), "application": "ndvi"},
		"parameters": map[string]any{"bbox": map[string]any{"bbox": []float64{5, 51.2, 5.1, 51.3}}},
		"dimension":  map[string]any{"name": "marker", "values": marks}}
	if err := r.ask(c.t.Context(), http.MethodPost, "/upscale_tasks", "", task, nil); err != nil {
		c.t.Fatal(err)
	}
}

// bothWork waits until both replicas have visited accounts.
func (c *cluster) bothWork(a, b replica) {
	c.t.Helper()
	visits := func() (by [2]int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, all := range c.served {
			for n, r := range []replica{a, b} {
				if slices.ContainsFunc(all, func(s served) bool { return s.replica == r.number }) {
					by[n]++
				}
			}
		}
		return by
	}
	if !until(3*time.Minute, func() bool { by := visits(); return by[0] > 0 && by[1] > 0 }) {
		c.t.Fatalf("number of accounts visited by each replica: %v", visits())
	}
	c.t.Logf("number of accounts visited by each replica: %v", visits())
}

// sameTasks reads the tasks and their jobs from both replicas. Each must be able to read what the other has written.
func (c *cluster) sameTasks(a, b replica) {
	c.t.Helper()
	for _, r := range []replica{a, b} {
		var list struct {
			Tasks []struct {
				ID int64 `json:"id"`
			} `json:"upscaling_tasks"`
		}
		if err := r.ask(c.t.Context(), http.MethodGet, "/jobs_status", "", nil, &list); err != nil || len(list.Tasks) != 2*(accounts+1) {
			c.t.Errorf("replica %d has %d tasks: %v", r.number, len(list.Tasks), err)
		}
		for _, task := range list.Tasks {
			if err := r.ask(c.t.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", task.ID), "", nil, nil); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// checkProcesses checks the promises at the OGC platform after all jobs have ended.
func (c *cluster) checkProcesses() {
	c.t.Helper()
	tags := c.processes.Oracle.Tally().Tags
	if len(tags) != c.executes {
		c.t.Errorf("the OGC platform has %d different jobs, want %d", len(tags), c.executes)
	}
	for tag, count := range tags {
		if count.Runs != 1 {
			c.t.Errorf("OGC platform: job %s ran %d times", tag, count.Runs)
		}
	}
}

// TestVersions_PlatformIsAddedToOneReplicaAfterTheOther runs one replica with a new platform and one without. It checks that jobs for
// the new platform start soon, and that neither replica shows them as platform_not_configured.
func TestVersions_PlatformIsAddedToOneReplicaAfterTheOther(t *testing.T) {
	t.Parallel()
	addPlatform(t, released)
}

func addPlatform(t *testing.T, binary func() (string, error)) {
	t.Helper()
	dsn := postgres.Database(t)
	life := simulator.Life{Run: time.Second}
	known, added := crash{life: life}.scene(t), crash{life: life}.scene(t)
	platforms := []map[string]any{
		{"name": "known", "protocol": "openeo", "endpoint": known.url, "access": "open"},
		{"name": "added", "protocol": "openeo", "endpoint": added.url, "access": "open"}}
	before := launch(t, binary, environment(t, dsn, platforms[:1]))
	after := launch(t, binary, environment(t, dsn, platforms))
	db := database(t, dsn)
	for n := 1; n <= 8; n++ {
		began := time.Now()
		for p, job := range map[*program]map[string]any{after: added.job, before: known.job} {
			if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", job, nil); err != nil {
				t.Fatal(err)
			}
		}
		noted := func() bool {
			for _, p := range []*program{before, after} {
				var text json.RawMessage
				if err := p.ask(t.Context(), http.MethodGet, "/jobs_status", "", nil, &text); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), string(dispatch.NoPlatform)) {
					t.Fatalf("platform_not_configured after %d jobs: %s", n, text)
				}
			}
			return added.oracle.Sum().Runs == n && known.oracle.Sum().Runs == n
		}
		if !until(time.Minute, noted) {
			t.Fatalf("job %d is not started after %v: %+v", n, time.Since(began), rowsOf(t, db))
		}
	}
	ended := func() bool {
		return !slices.ContainsFunc(rowsOf(t, db), func(r row) bool { return r.status != dispatch.Finished })
	}
	if !until(3*time.Minute, ended) {
		t.Errorf("not all jobs finish: %+v", rowsOf(t, db))
	}
	before.stop(t)
	after.stop(t)
}
