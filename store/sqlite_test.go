package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestOtherProcess is not a test of its own: other tests start it as a second process. It opens the file named by the
// environment, prints the result, and keeps the file open until it is killed.
func TestOtherProcess(t *testing.T) {
	file := os.Getenv("EODISPATCH_TEST_FILE")
	if file == "" {
		return
	}
	s, err := store.Open(t.Context(), "sqlite:"+file, conformance.NewStillClock(start))
	if err != nil {
		fmt.Printf("refused %v %s\n", dispatch.KindOf(err), dispatch.TextFor(err))
		return
	}
	defer s.Close()
	jobs := drafts(1)
	_, err = s.Accept(t.Context(), dispatch.Key{}, nil, jobs)
	fmt.Printf("opened %v %s\n", jobs[0].ID, dispatch.TextFor(err))
	if os.Getenv("EODISPATCH_TEST_STAY") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

// otherProcess starts one, and returns it with its first line of output.
func otherProcess(t *testing.T, file string, mode *syscall.SysProcAttr, env ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(readable(t), "-test.run=^TestOtherProcess$")
	cmd.Env = append(append(os.Environ(), "EODISPATCH_TEST_FILE="+file), env...)
	cmd.SysProcAttr = mode
	stdin, err := cmd.StdinPipe() // held open
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = stdin.Close() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, line
}

// readable returns a copy of this program that every user may run.
func readable(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	copied := filepath.Join(folder, "store.test")
	if err := errors.Join(os.WriteFile(copied, program, 0o755), os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	return copied
}

func drafts(n int) []dispatch.Draft {
	jobs := make([]dispatch.Draft, n)
	for i := range jobs {
		jobs[i] = dispatch.Draft{Body: []byte(`{"title":"t","parameters":{}}`), Job: dispatch.Job{
			Identity: dispatch.Identity{Number: i + 1, Owner: "ann"}, Target: dispatch.Target{Account: "p/shared"},
			Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	return jobs
}

func TestSQLite_RefusesASecondProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	other, line := otherProcess(t, file, nil, "EODISPATCH_TEST_STAY=1")
	if !strings.HasPrefix(line, "opened 1") {
		t.Fatal(line)
	}
	symbolic, folder := filepath.Join(t.TempDir(), "symbolic.db"), filepath.Join(t.TempDir(), "folder")
	if err := errors.Join(os.Symlink(file, symbolic), os.Symlink(filepath.Dir(file), folder)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, symbolic, filepath.Join(folder, filepath.Base(file))} {
		_, err := store.Open(t.Context(), "sqlite:"+name, conformance.NewStillClock(start))
		if !dispatch.Is(err, dispatch.Conflict) || !strings.Contains(dispatch.TextFor(err), name+
			" is in use by another process") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if _, err := s.Load(t.Context(), 1); err != nil {
		t.Errorf("what the killed process kept: %v", err)
	}
}

func TestSQLite_UnwritableFolder(t *testing.T) {
	folder, err := os.MkdirTemp("", "store") // other users may enter it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(file+".lock", 0o644), os.Chmod(folder, 0o555)); err != nil {
		t.Fatal(err)
	}
	_, line := otherProcess(t, file, nobody())
	if !strings.HasPrefix(line, "refused unavailable The database file "+file+" cannot be written") {
		t.Errorf("said %q", line)
	}
	after, err := os.ReadFile(file)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestSQLite_UnwritableFile(t *testing.T) {
	folder, err := os.MkdirTemp("", "store")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{folder: 0o777, file: 0o444, file + ".lock": 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	_, line := otherProcess(t, file, nobody())
	if !strings.HasPrefix(line, "refused unavailable The database cannot be written. ("+file+")") {
		t.Errorf("said %q", line)
	}
}

// nobody is a user whom read-only files stop, unlike root.
func nobody() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// raw opens the same file beside the store.
func raw(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAccept_FailureInTheMiddleStoresNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if _, err := raw(t,
		file).Exec(`CREATE TRIGGER t AFTER INSERT ON jobs WHEN NEW.number = 700 BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
		Dimension: "d"}
	_, err := s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, task, drafts(1000))
	if !dispatch.Is(err, dispatch.Internal) {
		t.Errorf("error %v", err)
	}
	for _, table := range []string{"jobs", "requests", "tasks", "keys", "accounts"} {
		var n int
		if err := raw(t, file).QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows in %s, %v", n, table, err)
		}
	}
}

// A small disk is mounted where that is allowed; elsewhere the database's own size limit replaces it. The migrations
// alone fill two megabytes.
func TestSQLite_FullDisk(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "d.db")
	mounted := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=6m") == nil
	if mounted {
		defer syscall.Unmount(folder, syscall.MNT_DETACH)
	}
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if !mounted {
		store.LimitPages(t, s, 900)
	}
	kept := 0
	for {
		jobs := drafts(500)
		_, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs)
		if err != nil {
			if !dispatch.Is(err, dispatch.Unavailable) || dispatch.DatabaseError(err) == nil ||
				dispatch.TextFor(err) != "The database's disk is full." {
				t.Errorf("error %v", err)
			}
			break
		}
		kept += len(jobs)
	}
	records, err := s.Records(t.Context(), "ann", dispatch.Page{})
	if err != nil || len(records) != kept || kept == 0 {
		t.Errorf("%d are there, %d were kept, %v", len(records), kept, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSQLite_InMemory(t *testing.T) {
	s := open(t, "sqlite::memory:", conformance.NewStillClock(start))
	jobs := drafts(3)
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
		t.Fatal(err)
	}
	if records, err := s.Records(t.Context(), "ann", dispatch.Page{}); err != nil || len(records) != 3 {
		t.Errorf("%d jobs, %v", len(records), err)
	}
}

func TestOpen_RefusesWhatIsNoDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("This is a letter to my aunt.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for dsn, kind := range map[string]dispatch.Kind{"sqlite:" + file: dispatch.Misconfigured,
		"mysql://x":                           dispatch.Misconfigured,
		"postgres://ann:canary@127.0.0.1:1/x": dispatch.Unavailable, "postgres://ann:canary@[/x": dispatch.Misconfigured,
		"sqlite:" + file + "/none/d.db": dispatch.Unavailable} {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := store.Open(ctx, dsn, conformance.NewStillClock(start))
		stop()
		if !dispatch.Is(err, kind) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
