package fire

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/simulator"
)

// disk is where a broker's database lies. It can be filled and freed.
type disk struct {
	t       *testing.T
	folder  string
	mounted bool
}

// newDisk mounts a disk of 16 MiB, where that is wished and allowed. Else the broker's files may not be written while the disk counts as full.
func newDisk(t *testing.T, mount bool) *disk {
	d := &disk{t: t, folder: t.TempDir()}
	d.mounted = mount && syscall.Mount("tmpfs", d.folder, "tmpfs", 0, "size=16m") == nil
	if d.mounted {
		t.Cleanup(func() { _ = syscall.Unmount(d.folder, syscall.MNT_DETACH) })
	}
	return d
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

func (d *disk) fill(p *program) {
	d.t.Helper()
	if !d.mounted {
		d.limit(p, 0)
		return
	}
	f, err := os.Create(d.filler())
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, endless{}); !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("the disk is not full: %v", err)
	}
}

func (d *disk) free(p *program) {
	d.t.Helper()
	if !d.mounted {
		d.limit(p, unix.RLIM_INFINITY)
		return
	}
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

// limit sets up to where the files of a program may be written, in bytes.
func (d *disk) limit(p *program, size uint64) {
	d.t.Helper()
	soft := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &soft, nil); err != nil {
		d.t.Fatal(err)
	}
}

// endless reads as zeros without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestADiskThatIsFullInMidWork fills the disk of the database while creates, starts and executes are under way, so that their answers
// come in while nothing can be saved, and frees it later. The program goes on by itself, and nothing is lost, doubled or in doubt.
func TestADiskThatIsFullInMidWork(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]bool{"a small disk": true, "a limit of files": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fillInMidWork(t, newDisk(t, mount))
		})
	}
}

func fillInMidWork(t *testing.T, d *disk) {
	const many = 12 // jobs at each platform
	answers := 3 * time.Second
	openEO := crash{life: simulator.Life{Run: 2 * time.Second}, faults: []simulator.Fault{
		{Route: create, Latency: answers, After: true}, {Route: begin, Latency: answers, After: true}}}.scene(t)
	ogc := crash{ogc: true, life: simulator.Life{Run: 2 * time.Second}, faults: []simulator.Fault{
		{Route: execute, Latency: answers, After: true}}}.scene(t)
	limits := map[string]any{"jobs": 10, "requests": 6, "send": "4s"}
	dsn := "sqlite:" + filepath.Join(d.folder, "fire.db")
	p := launch(t, released, environment(t, dsn, []map[string]any{
		{"name": "openeo", "protocol": "openeo", "endpoint": openEO.url, "access": "open", "limits": limits},
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": ogc.url, "access": "open", "limits": limits}}))
	one := maps.Clone(openEO.job)
	one["parameters"] = maps.Clone(openEO.job["parameters"].(map[string]any))
	openEO.overMany(many)
	ogc.job["dimension"] = map[string]any{"name": "marker", "values": marks(many)}
	for _, s := range []scene{openEO, ogc} {
		if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
			t.Fatal(err)
		}
	}
	underWay := func() bool {
		return openEO.oracle.Requests(begin) >= 1 && openEO.oracle.Requests(create) >= 8 && ogc.oracle.Requests(execute) >= 8
	}
	if !until(time.Minute, underWay) {
		t.Fatalf("too little is under way: %+v %+v", openEO.oracle.Tally().Routes, ogc.oracle.Tally().Routes)
	}

	db := database(t, dsn)
	d.fill(p)
	rest := time.After(fullFor())
	saved := rowsOf(t, db)
	err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "once", one, nil)
	if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") || !strings.Contains(err.Error(), `"SERVICE_UNAVAILABLE"`) {
		t.Errorf("while the disk is full a job is answered: %v", err)
	}
	<-rest
	known, given := refs(rowsOf(t, db)), openEO.oracle.Sum().Creates+ogc.oracle.Sum().Creates
	if known != refs(saved) || given <= known {
		t.Errorf("%d identifiers are saved after %d, of %d that were given", known, refs(saved), given)
	}
	t.Logf("the platforms gave %d identifiers, of which %d are saved", given, known)
	d.free(p)

	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "once", one, nil); err != nil {
		t.Errorf("after the disk was freed: %v", err)
	}
	settled := func() bool {
		for _, r := range rowsOf(t, db) {
			if r.status != dispatch.Finished {
				return false
			}
		}
		return true
	}
	if !until(2*time.Minute, settled) {
		t.Errorf("not all end well: %+v", rowsOf(t, db))
	}
	if n := len(rowsOf(t, db)); n != 2*many+1 {
		t.Errorf("%d jobs are kept of %d", n, 2*many+1)
	}
	p.stop(t)
	if n := openEO.oracle.Sum(); n.Creates != many+1 || n.Starts != many+1 || n.Runs != many+1 {
		t.Errorf("at the openEO platform: %+v", n)
	}
	if n, jobs := ogc.oracle.Sum(), len(ogc.oracle.Tally().Tags); n.Runs != many || jobs != many {
		t.Errorf("at the OGC platform, of %d jobs: %+v", jobs, n)
	}
}

// fullFor is how long the disk is full: longer than a lease, so that the responses outlive it.
func fullFor() time.Duration {
	if *full {
		return time.Minute
	}
	return 24 * time.Second
}

// marks are different texts by which the OGC platform counts jobs.
func marks(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("job-%d", i))
	}
	return all
}

// refs is how many jobs have an identifier at their platform.
func refs(rows []row) (n int) {
	for _, r := range rows {
		if r.ref != "" {
			n++
		}
	}
	return n
}
