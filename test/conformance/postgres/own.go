//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
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
	if errors.Is(s.err, errAbsent) && os.Getenv("CI") != "true" {
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
