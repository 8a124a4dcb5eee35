package crashes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// disk is a disk for a broker's database. A test can fill and free it.
type disk struct {
	t       *testing.T
	folder  string
	mounted bool
}

// newDisk mounts a disk of 16 MiB if mount is set and permitted. Otherwise fill limits the size of the broker's files
// to zero, so that all writes fail.
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

// limit sets the maximum size in bytes of the files that a program writes.
func (d *disk) limit(p *program, size uint64) {
	d.t.Helper()
	soft := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_FSIZE, &soft, nil); err != nil {
		d.t.Fatal(err)
	}
}

// endless is an endless reader of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// fillable is a database whose disk a test can fill and free.
type fillable interface {
	dsn() string
	fill(*program)
	free(*program)
	exact() bool // whether every write fails while the disk is full
}

func (d *disk) dsn() string { return "sqlite:" + filepath.Join(d.folder, "fire.db") }
func (d *disk) exact() bool { return true }

// tablespace is a small disk for the tables of one PostgreSQL database. The write-ahead log is on another disk, because
// a server that cannot write its log shuts down, which is another test. Changes that fit into existing pages still
// succeed while the disk is full.
type tablespace struct {
	disk
	url string
}

func (s *tablespace) dsn() string { return s.url }
func (s *tablespace) exact() bool { return false }

// newTablespace returns false if the test may not mount disks.
func newTablespace(t *testing.T) (*tablespace, bool) {
	s := postgres.NewServer(t)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	parent := u.Query().Get("host")
	d := &tablespace{disk: disk{t: t, folder: filepath.Join(parent, "small"), mounted: true}}
	owner, err := os.Stat(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	of := owner.Sys().(*syscall.Stat_t)
	if syscall.Mount("tmpfs", d.folder, "tmpfs", 0, fmt.Sprintf("size=24m,mode=0700,uid=%d,gid=%d", of.Uid,
		of.Gid)) != nil {
		return nil, false
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.folder, syscall.MNT_DETACH) })
	postgres.Exec(t, s.URL, "CREATE TABLESPACE small LOCATION '"+d.folder+"'")
	postgres.Exec(t, s.URL, "CREATE DATABASE fire TABLESPACE small")
	u.Path = "/fire"
	d.url = u.String()
	return d, true
}

// refusing is a PostgreSQL database that rejects each change with the error of a full disk.
type refusing struct {
	t   *testing.T
	url string
}

func (r refusing) dsn() string { return r.url }
func (r refusing) exact() bool { return true }

// fill alters each table in its own transaction. Holding locks on several tables could deadlock with the broker's
// transactions, which lock them in another order.
func (r refusing) fill(*program) {
	postgres.Exec(r.t, r.url, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END$$`)
	postgres.Exec(r.t, r.url, `DO $$DECLARE name text; BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
				EXECUTE format('CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION full_disk()', name);
				COMMIT;
			END LOOP;
		END$$`)
}

func (r refusing) free(*program) {
	postgres.Exec(r.t, r.url,
		`CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN COALESCE(NEW, OLD); END$$`)
}

// TestFullDisk_InTheMiddleOfWork fills the disk of the database while creates, starts and executes are in progress, so
// that their responses arrive while nothing can be saved, and frees it later. The program must recover by itself, and
// no job may be lost, duplicated or in doubt.
func TestFullDisk_InTheMiddleOfWork(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]bool{"a small disk": true, "a limit of files": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fillInMidWork(t, newDisk(t, mount))
		})
	}
	t.Run("PostgreSQL, each change is refused", func(t *testing.T) {
		t.Parallel()
		fillInMidWork(t, refusing{t, postgres.Database(t)})
	})
	t.Run("PostgreSQL, a small disk", func(t *testing.T) {
		t.Parallel()
		d, mounted := newTablespace(t)
		if !mounted {
			t.Log("mounting is not permitted here; the test before covers a part of this one")
			return
		}
		fillInMidWork(t, d)
	})
}

// heldScenes returns two platforms that hold back responses until answer is called: those to all but the first creates
// and executes, and those to all starts.
func heldScenes(t *testing.T, answered int) (openEO, ogc scene, answer func()) {
	openEO = crash{life: simulator.Life{Run: 2 * time.Second}}.scene(t)
	ogc = crash{ogc: true, life: simulator.Life{Run: 2 * time.Second}}.scene(t)
	release := make(chan struct{})
	answer = sync.OnceFunc(func() { close(release) })
	openEO.behind(t, &holder{route: "/results", release: release, Handler: &holder{route: "/jobs", first: answered,
		release: release, Handler: openEO.handler}})
	ogc.behind(t, &holder{route: "/execution", first: answered, release: release, Handler: ogc.handler})
	t.Cleanup(answer) // runs before the servers are closed, which waits for requests
	return openEO, ogc, answer
}

func fillInMidWork(t *testing.T, d fillable) {
	const many, answered = 12, 3 // jobs per platform, and how many of them are answered before the disk is full
	openEO, ogc, answer := heldScenes(t, answered)
	limits := map[string]any{"jobs": 10, "requests": 6, "send": "15s"}
	dsn := d.dsn()
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
		return openEO.oracle.Requests(begin) >= 1 && openEO.oracle.Requests(create) > answered &&
			ogc.oracle.Requests(execute) > answered
	}
	if !until(3*time.Minute, underWay) {
		t.Fatalf("too few requests are in progress: %+v %+v", openEO.oracle.Tally().Routes, ogc.oracle.Tally().Routes)
	}

	db := database(t, dsn)
	d.fill(p)
	rest := time.After(fullFor())
	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "once", one, nil); !refusedAsFull(err) &&
		(d.exact() || err != nil) {
		t.Errorf("while the disk is full a job is answered: %v", err)
	}
	saved, more := rowsOf(t, db), 0
	answer()
	for _, path := range []string{"/upscale_tasks/1", "/jobs_status"} { // stored jobs can be read
		if err := p.ask(t.Context(), http.MethodGet, path, "", nil, nil); err != nil {
			t.Error(err)
		}
	}
	if !d.exact() {
		more = crowdOut(t, p, one)
	}
	<-rest
	known, given := refs(rowsOf(t, db)), openEO.oracle.Sum().Creates+ogc.oracle.Sum().Creates
	// a small transaction may still fit into what a larger one left of the log
	if d.exact() && (known < refs(saved) || given <= known) {
		t.Errorf("%d platform ids are saved, %d before the disk was full, of %d that the platforms assigned", known,
			refs(saved), given)
	}
	t.Logf("the platforms assigned %d ids, of which %d are saved", given, known)
	d.free(p)

	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "once", one, nil); err != nil {
		t.Errorf("submit after the disk was freed: %v", err)
	}
	if !until(5*time.Minute, func() bool { return allAre(t, rowsOf(t, db), dispatch.Finished) }) {
		t.Errorf("not all jobs finish: %+v", rowsOf(t, db))
	}
	if n := len(rowsOf(t, db)); n != 2*many+1+more {
		t.Errorf("%d jobs are stored, want %d", n, 2*many+1+more)
	}
	p.stop(t)
	ranOnce(t, openEO, ogc, many+1+more, many)
}

// ranOnce checks that the two platforms created, started and ran the given numbers of jobs, each once.
func ranOnce(t *testing.T, openEO, ogc scene, creates, executes int) {
	t.Helper()
	if n := openEO.oracle.Sum(); n.Creates != creates || n.Starts != creates || n.Runs != creates {
		t.Errorf("at the openEO platform: %+v", n)
	}
	if n, jobs := ogc.oracle.Sum(), len(ogc.oracle.Tally().Tags); n.Runs != executes || jobs != executes {
		t.Errorf("at the OGC platform, of %d jobs: %+v", jobs, n)
	}
}

func refusedAsFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "503 Service Unavailable") &&
		strings.Contains(err.Error(), `"SERVICE_UNAVAILABLE"`)
}

// crowdOut submits jobs, twelve at a time, until the existing pages are full, and returns the number of accepted jobs.
func crowdOut(t *testing.T, p *program, job any) (accepted int) {
	t.Helper()
	for refused := 0; refused == 0 && accepted < 400; {
		errs := make([]error, 12) // fewer than limits.user_requests, so that none waits for another
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", job, nil) })
		}
		all.Wait()
		for _, err := range errs {
			switch {
			case err == nil:
				accepted++
			case refusedAsFull(err):
				refused++
			default:
				t.Errorf("while the disk is full a job is answered: %v", err)
			}
		}
	}
	return accepted
}

// fullFor returns how long the disk is full: longer than a lease, so that the responses outlive it.
func fullFor() time.Duration {
	if *full {
		return time.Minute
	}
	return 36 * time.Second
}

// marks returns n different strings by which the OGC platform counts jobs.
func marks(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("job-%d", i))
	}
	return all
}

// refs counts the jobs whose platform id is saved.
func refs(rows []row) (n int) {
	for _, r := range rows {
		if r.ref != "" {
			n++
		}
	}
	return n
}
