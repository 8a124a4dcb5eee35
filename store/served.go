package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// renewAndCount renews the lease like renew, and records that so many slots were given away, see write.
func renewAndCount(ctx context.Context, q tx, l dispatch.Lease, now int64, ttl time.Duration, slots int) error {
	if slots == 0 {
		return renew(ctx, q, l, now, ttl)
	}
	n, err := exec(ctx, q, `
		UPDATE accounts
		SET lease_until = $1, served = served + $2
		WHERE id = $3 AND generation = $4`, now+ttl.Microseconds(), slots, l.Account, l.Generation)
	return changed("Renew", n, err)
}
