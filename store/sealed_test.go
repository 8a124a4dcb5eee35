package store_test

import (
	"database/sql"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// sealedDatabase stores one encrypted text of each kind, with the key old.
func sealedDatabase(t *testing.T, s *store.Store) map[string]dispatch.SealedRow {
	t.Helper()
	ctx, in := t.Context(), dispatch.Sealed{Key: "old", Text: "x"}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	g := grant("r1", "bob")
	g.Sealed = in
	ok(s.KeepGrant(ctx, g))
	ok(s.Withdraw(ctx, "bob", "r1"))
	g = grant("g1", "ann")
	g.Sealed = in
	ok(s.KeepGrant(ctx, g))
	ok(s.KeepToken(ctx, dispatch.SealedToken{Name: "t1", Owner: "ann", Sealed: in, Expires: time.Now().Add(time.Hour)}))
	if first, err := s.UseOnce(ctx, "not sealed", time.Now().Add(time.Hour)); err != nil || !first {
		t.Fatal(first, err)
	}
	ok(s.AddSession(ctx, dispatch.Session{ID: "s1", Owner: "ann", Issuer: "https://idp", Created: start,
		Ends: time.Now().Add(time.Hour), Sealed: in}, 10))
	ok(s.AddHook(ctx, dispatch.Hook{ID: "h1", Owner: "ann", Sealed: in}, 10))
	rows := map[string]dispatch.SealedRow{}
	for _, r := range []dispatch.SealedRow{
		{Table: "grants", ID: "g1", Owner: "ann", Issuer: "https://idp"},
		{Table: "revocations", ID: "r1", Owner: dispatch.UserID("bob").Hash(), Issuer: "https://idp"},
		{Table: "hooks", ID: "h1", Owner: "ann"},
		{Table: "tokens", ID: "t1"},
		{Table: "sessions", ID: "s1", Owner: "ann", Issuer: "https://idp"},
	} {
		r.Sealed = in
		rows[r.Table] = r
	}
	return rows
}

func TestSealedRows(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		all := sealedDatabase(t, s)
		for table, want := range all {
			got, err := s.SealedRows(ctx, table, "new", "", 10)
			if diff := cmp.Diff([]dispatch.SealedRow{want}, got); err != nil || diff != "" {
				t.Errorf("%s: %v %s", table, err, diff)
			}
			for name, from := range map[string][2]string{"of its key": {"old", ""},
				"after the last": {"new", want.ID}} {
				if got, err := s.SealedRows(ctx, table, from[0], from[1], 10); err != nil || len(got) != 0 {
					t.Errorf("%s: %s: %+v, %v", table, name, got, err)
				}
			}
		}
		counts, err := s.SealedCounts(ctx)
		var want []dispatch.SealedCount
		for _, table := range slices.Sorted(maps.Keys(all)) {
			want = append(want, dispatch.SealedCount{Table: table, Key: "old", Rows: 1})
		}
		if diff := cmp.Diff(want, counts); err != nil || diff != "" {
			t.Error(err, diff)
		}
		for table, row := range all {
			changed := row
			changed.Text = "changed meanwhile"
			for r, want := range map[dispatch.SealedRow]bool{changed: false, row: true} {
				if done, err := s.Reseal(ctx, r, dispatch.Sealed{Key: "new", Text: "y"}); err != nil || done != want {
					t.Errorf("%s: resealed %v, %v; want %v", table, done, err, want)
				}
			}
			if got, err := s.SealedRows(ctx, table, "old", "", 10); err != nil || len(got) != 1 ||
				got[0].Sealed != (dispatch.Sealed{Key: "new", Text: "y"}) {
				t.Errorf("%s: %+v, %v", table, got, err)
			}
		}
	})
}

// TestSealedRows_AreOfAllTables: a table with encrypted texts that SealedRows does not know would be left out when keys
// change.
func TestSealedRows_AreOfAllTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	counts := sealedDatabase(t, s)
	tables := firstColumn(t, raw(t, file),
		`SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'sealed'`)
	for _, table := range tables {
		if _, known := counts[table]; !known {
			t.Errorf("the table %s has encrypted texts that nobody knows", table)
		}
	}
	if len(tables) != len(counts) || slices.Contains(tables, "") {
		t.Errorf("tables %v", tables)
	}
}

// firstColumn returns the first column of all rows.
func firstColumn(t *testing.T, db *sql.DB, text string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}
