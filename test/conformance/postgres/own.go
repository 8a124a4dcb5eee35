//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/jackc/pgx/v5"
)

// Server is a server for one test, which the test may stop and freeze. It ends with the test.
type Server struct {
	URL string // URL of its only database
	server
}

// NewServer starts a server. Where PostgreSQL is not installed the test is skipped; with CI=true it fails.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	t.Cleanup(s.stop)
	s.start()
	if errors.Is(s.err, errAbsent) && !installed.Required() {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	s.URL = s.url
	return s
}

// Stop stops the server like pg_ctl stop -m immediate.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-s.ended
}

// Start starts the server again after Stop.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.again(); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops all processes of the server by SIGSTOP. The kernel still accepts connections for it.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.each(t, syscall.SIGSTOP)
	t.Cleanup(func() { s.each(t, syscall.SIGCONT) }) // a frozen server cannot be stopped
}

// Thaw resumes a frozen server.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	s.each(t, syscall.SIGCONT)
}

// each signals first the postmaster, which starts no more processes while it is frozen, and then its children.
func (s *Server) each(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	for _, pid := range children(t, s.cmd.Process.Pid) {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// ReadOnly makes all transactions of the server read-only, including those of existing connections, or reverts that.
func (s *Server) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	Exec(t, s.URL, fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %t", on))
	Exec(t, s.URL, "SELECT pg_reload_conf()")
}

// NewStandby starts a standby of the server, which receives its changes and can be read.
func (s *Server) NewStandby(t testing.TB) *Server {
	t.Helper()
	standby := &Server{}
	t.Cleanup(standby.stop)
	standby.startFrom("pg_basebackup", "-h", s.folder, "-U", "postgres", "--no-sync", "-c", "fast", "-X", "stream",
		"-R")
	if standby.err != nil {
		t.Fatal(standby.err)
	}
	standby.URL = standby.url
	until(t, func() bool { return s.standbys(t) > 0 })
	return standby
}

// standbys counts those that receive the changes.
func (s *Server) standbys(t testing.TB) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Synchronous makes each commit wait until a standby has it.
func (s *Server) Synchronous(t testing.TB) {
	t.Helper()
	Exec(t, s.URL, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	Exec(t, s.URL, "SELECT pg_reload_conf()")
}

// Promote makes a standby a server that can be written.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	Exec(t, s.URL, "SELECT pg_promote()")
}

// Either returns the address of whichever of two servers can be written.
func Either(a, b *Server) string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(a.folder+","+b.folder)
}

// children returns the child processes of parent, read from Linux's /proc.
func children(t testing.TB, parent int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(text), ") ") // a name may contain blanks
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}
