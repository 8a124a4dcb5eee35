package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

var _ dispatch.SealedRows = (*Store)(nil)

// sealedTable names the columns of a table with encrypted texts that their encryption is bound to. Each such table has
// the columns key and sealed.
type sealedTable struct{ name, id, owner, issuer string }

// none is the expression for what a table has no column for.
const none = "''"

// sealedTables are all tables with encrypted texts.
var sealedTables = []sealedTable{
	{"grants", "id", "owner", "issuer"},
	{"revocations", "id", "owner_hash", "issuer"},
	{"hooks", "id", "owner", none},
	{"tokens", "name", none, none},
	{"sessions", "id", "owner", "issuer"},
}

func sealedTableNamed(name string) sealedTable {
	for _, t := range sealedTables {
		if t.name == name {
			return t
		}
	}
	panic("store: no encrypted texts in a table " + name)
}

// SealedRows returns up to n rows of a table that are not encrypted with the given key, in the order of their ids and
// after an id. Rows without an encrypted text have no key.
func (s *Store) SealedRows(ctx context.Context, table, otherThan, after string, n int) (found []dispatch.SealedRow,
	err error) {
	t := sealedTableNamed(table)
	text := fmt.Sprintf("SELECT %s, %s, %s, key, sealed FROM %s "+
		"WHERE key <> '' AND key <> $1 AND %s > $2 ORDER BY %s LIMIT $3",
		t.id, t.owner, t.issuer, t.name, t.id, t.id)
	rows, err := s.read.QueryContext(ctx, text, otherThan, after, n)
	if err != nil {
		return nil, fail("SealedRows", err)
	}
	defer rows.Close()
	for rows.Next() {
		r := dispatch.SealedRow{Table: table}
		if err := rows.Scan(&r.ID, &r.Owner, &r.Issuer, &r.Key, &r.Text); err != nil {
			return nil, fail("SealedRows", err)
		}
		found = append(found, r)
	}
	return found, fail("SealedRows", rows.Err())
}

// Reseal stores another text of a row unless the row has changed since it was read.
func (s *Store) Reseal(ctx context.Context, r dispatch.SealedRow, to dispatch.Sealed) (bool, error) {
	t := sealedTableNamed(r.Table)
	text := fmt.Sprintf("UPDATE %s SET key = $1, sealed = $2 WHERE %s = $3 AND key = $4 AND sealed = $5", t.name, t.id)
	done, err := s.write.ExecContext(ctx, text, to.Key, to.Text, r.ID, r.Key, r.Text)
	if err != nil {
		return false, fail("Reseal", err)
	}
	rows, err := done.RowsAffected()
	return rows > 0, fail("Reseal", err)
}

// SealedCounts counts the rows of all tables by their keys.
func (s *Store) SealedCounts(ctx context.Context) (counts []dispatch.SealedCount, err error) {
	parts := make([]string, len(sealedTables))
	for i, t := range sealedTables {
		parts[i] = fmt.Sprintf("SELECT '%s' AS name, key, count(*) AS n FROM %s WHERE key <> '' GROUP BY key", t.name,
			t.name)
	}
	rows, err := s.read.QueryContext(ctx, strings.Join(parts, " UNION ALL ")+" ORDER BY name, key")
	if err != nil {
		return nil, fail("SealedCounts", err)
	}
	defer rows.Close()
	for rows.Next() {
		var c dispatch.SealedCount
		if err := rows.Scan(&c.Table, &c.Key, &c.Rows); err != nil {
			return nil, fail("SealedCounts", err)
		}
		counts = append(counts, c)
	}
	return counts, fail("SealedCounts", rows.Err())
}
