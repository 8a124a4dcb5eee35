package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ledgerRows is how many rows Usage reads at most: those of some years.
const ledgerRows = 1000

// withLedger adds what an owner's runs cost to the usage of each account.
func withLedger(
	ctx context.Context, q querier, usage []dispatch.Usage, u dispatch.UserID,
) ([]dispatch.Usage, error) {
	charges, err := listAs(ctx, q, func(c *dispatch.AccountCharge) []any {
		return []any{text(&c.Account), &c.Month, &c.Unit, &c.Costs, number(&c.Runs)}
	}, roundedCharge, `
		SELECT account, month, unit, costs, runs
		FROM ledger
		WHERE owner = $1
		ORDER BY month DESC, account, unit
		LIMIT CAST($2 AS BIGINT)`,
		u, ledgerRows)
	for _, c := range charges {
		usage = dispatch.AddCharge(usage, c.Account, c.Charge)
	}
	return usage, err
}

// highestCharge returns what an owner's runs at an account cost in the month of now, in the unit in which they cost
// most.
func highestCharge(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, now int64,
) (dispatch.Charge, error) {
	highest := dispatch.Charge{Month: at(now).Format("2006-01")}
	err := q.QueryRowContext(ctx, `
		SELECT unit, costs
		FROM ledger
		WHERE owner = $1 AND account = $2 AND month = $3 AND costs > 0
		ORDER BY costs DESC, unit
		LIMIT 1`, u, a, highest.Month).Scan(&highest.Unit, &highest.Costs)
	highest.Costs = rounded(highest.Costs)
	return highest, missing(err)
}

func roundedCharge(c *dispatch.AccountCharge) (dispatch.AccountCharge, error) {
	c.Costs = rounded(c.Costs)
	return *c, nil
}

// rounded returns a sum of costs without its rounding errors.
func rounded(costs float64) float64 { return dispatch.RoundAmount(costs) }
