package store

import (
	"path/filepath"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/eodispatch/eodispatch/test/detector"
)

// SQLite parses and plans a prepared statement anew at each use if its plan may depend on a parameter: if a term with
// a bare parameter, such as status = ?, could imply the condition of a partial index. That takes longer than most
// statements. Such a term is written with CAST(? AS …).
func TestPlan_SQLiteKeepsPreparedStatements(t *testing.T) {
	detector.Skip(t)
	file := filepath.Join(t.TempDir(), "d.db")
	s, err := Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := openRaw(t, file)
	for _, each := range recordStatements(t) {
		if db.plansAnew(t, each.text) {
			t.Errorf("the plan of a statement of %s depends on a parameter:\n%s", each.op, each.text)
		}
	}
}

const pointer = 8 // bytes, at most

// rawSQLite is a connection without database/sql, which does not tell how statements are prepared.
type rawSQLite struct {
	tls *libc.TLS
	db  uintptr
}

func openRaw(t *testing.T, file string) rawSQLite {
	tls := libc.NewTLS()
	t.Cleanup(tls.Close)
	name, err := libc.CString(file)
	if err != nil {
		t.Fatal(err)
	}
	defer libc.Xfree(tls, name)
	out := tls.Alloc(pointer)
	defer tls.Free(pointer)
	if rc := sqlite3.Xsqlite3_open_v2(tls, name, out, sqlite3.SQLITE_OPEN_READWRITE, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("%s: %d", file, rc)
	}
	r := rawSQLite{tls, libc.AtomicLoadPUintptr(out)}
	t.Cleanup(func() { sqlite3.Xsqlite3_close_v2(tls, r.db) })
	return r
}

// plansAnew reports whether the plan of a statement depends on a parameter.
func (r rawSQLite) plansAnew(t *testing.T, query string) bool {
	text, err := libc.CString(query)
	if err != nil {
		t.Fatal(err)
	}
	defer libc.Xfree(r.tls, text)
	out := r.tls.Alloc(pointer)
	defer r.tls.Free(pointer)
	if rc := sqlite3.Xsqlite3_prepare_v2(r.tls, r.db, text, -1, out, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("%s: %d", query, rc)
	}
	prepared := libc.AtomicLoadPUintptr(out)
	defer sqlite3.Xsqlite3_finalize(r.tls, prepared)
	for n := range sqlite3.Xsqlite3_bind_parameter_count(r.tls, prepared) {
		sqlite3.Xsqlite3_bind_null(r.tls, prepared, n+1)
	}
	sqlite3.Xsqlite3_step(r.tls, prepared) // nothing is expected of it without values
	return sqlite3.Xsqlite3_stmt_status(r.tls, prepared, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0) > 0
}
