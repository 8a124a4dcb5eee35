package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

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
func (s *Store) SealedRows(ctx context.Context, table, otherThan, after string, n int) ([]dispatch.SealedRow, error) {
	t := sealedTableNamed(table)
	found, err := list(ctx, s.on(s.read), func(r *dispatch.SealedRow) []any {
		r.Table = table
		return []any{&r.ID, &r.Owner, &r.Issuer, &r.Key, &r.Text}
	}, fmt.Sprintf(`
		SELECT %[1]s, %[2]s, %[3]s, key, sealed
		FROM %[4]s
		WHERE key <> '' AND key <> $1 AND %[1]s > $2
		ORDER BY %[1]s
		LIMIT CAST($3 AS BIGINT)`, t.id, t.owner, t.issuer, t.name), otherThan, after, n)
	return found, fail("SealedRows", err)
}

// Reseal stores another text of a row unless the row has changed since it was read.
func (s *Store) Reseal(ctx context.Context, r dispatch.SealedRow, to dispatch.Sealed) (bool, error) {
	t := sealedTableNamed(r.Table)
	n, err := exec(ctx, s.on(s.write), fmt.Sprintf(`
		UPDATE %s
		SET key = $1, sealed = $2
		WHERE %s = $3 AND key = $4 AND sealed = $5`, t.name, t.id), to.Key, to.Text, r.ID, r.Key, r.Text)
	return n > 0, fail("Reseal", err)
}

// SealedCounts counts the rows of all tables by their keys.
func (s *Store) SealedCounts(ctx context.Context) ([]dispatch.SealedCount, error) {
	parts := make([]string, len(sealedTables))
	for i, t := range sealedTables {
		parts[i] = fmt.Sprintf("SELECT '%s' AS name, key, count(*) AS n FROM %[1]s WHERE key <> '' GROUP BY key",
			t.name)
	}
	counts, err := list(ctx, s.on(s.read), func(c *dispatch.SealedCount) []any {
		return []any{&c.Table, &c.Key, number(&c.Rows)}
	}, strings.Join(parts, " UNION ALL ")+" ORDER BY name, key")
	return counts, fail("SealedCounts", err)
}
