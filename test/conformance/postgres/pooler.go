//go:build unix

package postgres

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/installed"
)

// NewPooler starts pgbouncer in front of a server, in transaction mode, and returns the address of the server's
// database through it.
func NewPooler(t testing.TB, s *Server) string {
	t.Helper()
	program := installed.Program(t, "pgbouncer", "/usr/sbin/pgbouncer")
	folder, err := os.MkdirTemp("", "pooler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	settings := filepath.Join(folder, "pgbouncer.ini")
	text := fmt.Sprintf(
		"[databases]\npostgres = user=postgres host=%s\n[pgbouncer]\npool_mode = transaction\nlisten_port = "+
			"6432\nlisten_addr =\nunix_socket_dir = %s\n"+
			"auth_type = any\nmax_client_conn = 1000\ndefault_pool_size = 40\n", s.folder, folder)
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	who, err := giveFolderTo(folder)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-q", settings)
	command.SysProcAttr = who
	run(t, command)
	socket := filepath.Join(folder, ".s.PGSQL.6432")
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("pgbouncer does not listen")
		}
	}
	return "postgres://postgres@/postgres?port=6432&host=" + url.QueryEscape(folder)
}
