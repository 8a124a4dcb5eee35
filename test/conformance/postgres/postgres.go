// Package postgres provides tests with databases on a PostgreSQL server: the one named by EODISPATCH_TEST_POSTGRES, or
// one that it starts from the binaries installed on this machine.
package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/jackc/pgx/v5"
)

// Variable names a server to use.
const Variable = "EODISPATCH_TEST_POSTGRES"

// Run runs the tests of a package and stops the server that was started for them. Call it from TestMain.
func Run(m *testing.M) int {
	code := m.Run()
	dropTemplates()
	ours.stop()
	return code
}

// Database creates an empty database that ends with the test, and returns its URL. Without a server the test fails in
// continuous integration (CI=true), and is skipped elsewhere.
func Database(t testing.TB) string {
	t.Helper()
	return create(t, running(t), "")
}

// running returns the URL of the server.
func running(t testing.TB) string {
	t.Helper()
	server, err := serverURL()
	if errors.Is(err, errAbsent) && !installed.Required() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// create creates a database with a clause of CREATE DATABASE.
func create(t testing.TB, server, clause string) string {
	t.Helper()
	name := newName()
	Exec(t, server, "CREATE DATABASE "+name+clause)
	t.Cleanup(func() { Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return at(t, server, name)
}

// at returns the URL of a database of a server.
func at(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Exec runs statements on a connection of its own.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	ctx := context.Background() // it also runs after the test is over
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, statements).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

var (
	ours      server
	errAbsent = errors.New("there is no PostgreSQL server: install postgresql, or set " + Variable + " to a server's " +
		"URL")
)

func serverURL() (string, error) {
	if named := os.Getenv(Variable); named != "" {
		return named, nil
	}
	ours.once.Do(ours.start)
	return ours.url, ours.err
}

// Restart stops the server that was started for the tests of this package with a signal (see PostgreSQL's documentation
// for their meanings) and starts it again. It fails for a server given by Variable.
func Restart(t testing.TB, s os.Signal) {
	t.Helper()
	if ours.ended == nil {
		t.Fatal("the server was not started here")
	}
	if err := ours.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	<-ours.ended
	if err := ours.again(); err != nil {
		t.Fatal(err)
	}
}

// again starts a server that has ended.
func (s *server) again() (err error) {
	was := s.cmd
	for range 60 { // a process of the ended server may hold the shared memory for a moment
		s.cmd = exec.Command(was.Path, was.Args[1:]...)
		s.cmd.SysProcAttr = was.SysProcAttr
		if err = s.run(); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

// server is a server started by this package.
type server struct {
	once   sync.Once
	folder string
	url    string
	err    error
	cmd    *exec.Cmd
	ended  chan struct{}
}

func (s *server) start() {
	s.startFrom("initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8")
}

// startFrom starts a server on a folder that the given program of PostgreSQL makes; its argument -D is added.
func (s *server) startFrom(program string, args ...string) {
	bin, err := binaries()
	if err != nil {
		s.err = err
		return
	}
	if s.folder, s.err = os.MkdirTemp("", "postgres"); s.err != nil {
		return
	}
	who, err := giveFolderTo(s.folder)
	if err != nil {
		s.err = err
		return
	}
	data := filepath.Join(s.folder, "data")
	made := exec.Command(filepath.Join(bin, program), append(args, "-D", data)...)
	made.SysProcAttr = who
	if out, err := made.CombinedOutput(); err != nil {
		s.err = fmt.Errorf("%s: %w: %s", program, err, out)
		return
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-F", "-c", "listen_addresses=", "-c",
		"unix_socket_directories="+s.folder, "-c", "max_connections=600")
	s.cmd.SysProcAttr = who
	s.url = "postgres://postgres@/postgres?host=" + url.QueryEscape(s.folder)
	s.err = s.run()
}

// binaries returns the folder of the newest installed server.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errAbsent, err)
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// giveFolderTo gives the folder to a user as whom the server may run, because it refuses to run as root.
func giveFolderTo(folder string) (*syscall.SysProcAttr, error) {
	attr := dyingWithUs()
	if os.Geteuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(folder, int(uid), int(gid))
}

// run starts the server and returns once it accepts connections. The thread that starts it must live as long as the
// server: Linux takes the end of that thread for the end of the parent.
func (s *server) run() error {
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	s.ended = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(s.ended)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return ready(stderr)
}

func ready(log io.Reader) error {
	var lines strings.Builder
	r := bufio.NewReader(log)
	for {
		line, err := r.ReadString('\n')
		lines.WriteString(line)
		if err != nil {
			return fmt.Errorf("postgres ended: %s", lines.String())
		}
		if strings.Contains(line, "ready to accept ") {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return nil
		}
	}
}

func (s *server) stop() {
	if s.ended != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: its data is not needed
		<-s.ended
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}
