package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Uses of derived keys, see [Keyring.derived]. A new name makes what was encrypted before unreadable.
const (
	hookSecrets = "secrets of hooks"
	sessionKeys = "session"
)

// sealedKind is what one table of the database holds encrypted.
type sealedKind struct {
	table, what string
	derived     string // use of the derived keys that encrypt it; "": the keyring's own
	place       func(dispatch.SealedRow) []string
	// lasts is whether it is lost with its key. Other texts are made anew: a session by a sign-in, a token by an
	// exchange.
	lasts bool
}

// sealedKinds are all kinds of encrypted rows.
var sealedKinds = []sealedKind{
	{"grants", "grants", "", func(r dispatch.SealedRow) []string {
		return grantPlace(r.ID, dispatch.UserID(r.Owner).Hash(), r.Issuer)
	}, true},
	{"revocations", "revocations", "", func(r dispatch.SealedRow) []string {
		return grantPlace(r.ID, r.Owner, r.Issuer)
	}, true},
	{"hooks", "secrets of hooks", hookSecrets, func(r dispatch.SealedRow) []string { return hookPlace(r.ID, r.Owner) },
		true},
	{"tokens", "shared tokens", "", func(r dispatch.SealedRow) []string { return tokenPlace(r.ID) }, false},
	{"sessions", "sessions", sessionKeys, func(r dispatch.SealedRow) []string {
		return sessionPlace(r.ID, r.Owner, r.Issuer)
	}, false},
}

// ring returns the keys that encrypt rows of this kind.
func (k sealedKind) ring(r *Keyring) *Keyring {
	if k.derived == "" {
		return r
	}
	return r.derived(k.derived)
}

const (
	sample      = 100 // rows of a table that Readable decrypts
	rotatedRows = 100 // that Rotate reads at once
)

// Readable returns nil if the keys decrypt what the database holds and would lose without them, else Misconfigured for
// each key that is missing or another one. It looks at the names of the keys of all rows, and decrypts a sample. r is
// nil if no keys are configured.
func Readable(ctx context.Context, v SealedRows, r *Keyring) error {
	counts, err := v.SealedCounts(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, k := range sealedKinds {
		if !k.lasts {
			continue
		}
		for _, c := range counts {
			if c.Table == k.table && (r == nil || r.keys[c.Key] == nil) {
				faults = append(faults, missingKey(c.Key, fmt.Sprintf(", which %d %s need,", c.Rows, k.what)))
			}
		}
		if r == nil {
			continue
		}
		rows, err := v.SealedRows(ctx, k.table, "", "", sample)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if _, err := k.ring(r).open(row.Sealed, k.place(row)...); err != nil && r.keys[row.Key] != nil {
				faults = append(faults, fmt.Errorf("%s: %w", k.what, err))
				break
			}
		}
	}
	return errors.Join(faults...)
}

// Rotated is the number of rows of one kind that Rotate encrypted.
type Rotated struct {
	What string
	Rows int
}

// Rotate encrypts with the first key everything that other keys encrypted, and returns the numbers of rows. After a
// failure the other keys are still needed.
func Rotate(ctx context.Context, v SealedRows, r *Keyring) (all []Rotated, err error) {
	for _, k := range sealedKinds {
		n, failed := k.rotate(ctx, v, k.ring(r))
		all, err = append(all, Rotated{k.what, n}), errors.Join(err, failed)
	}
	return all, err
}

// rotate encrypts rows of one kind. Rows that no key decrypts stay as they are, and are a failure if they are lost
// without their key.
func (k sealedKind) rotate(ctx context.Context, v SealedRows, r *Keyring) (rotated int, failed error) {
	for after := ""; ; {
		rows, err := v.SealedRows(ctx, k.table, r.first, after, rotatedRows)
		if err != nil || len(rows) == 0 {
			return rotated, errors.Join(failed, err)
		}
		for _, row := range rows {
			secret, err := r.open(row.Sealed, k.place(row)...)
			if err != nil {
				if k.lasts && failed == nil {
					failed = fmt.Errorf("%s: %w", k.what, err)
				}
				continue
			}
			changed, err := v.Reseal(ctx, row, r.seal(secret,
				k.place(row)...)) // a row that a broker has changed is encrypted with its first key
			if err != nil {
				return rotated, errors.Join(failed, err)
			}
			if changed {
				rotated++
			}
		}
		after = rows[len(rows)-1].ID
	}
}
