package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// LabelCharges returns what an owner's runs cost in each month, by the value that a label of their jobs had when the
// costs were reported.
func (s *Store) LabelCharges(
	ctx context.Context, u dispatch.UserID, label string, n int,
) ([]dispatch.AccountCharge, error) {
	charges, err := listAs(ctx, s.on(s.read), func(c *dispatch.AccountCharge) []any {
		return []any{text(&c.Account), &c.Month, &c.Unit, &c.Label, &c.Costs, number(&c.Runs)}
	}, roundedCharge, `
		SELECT account, month, unit, value, costs, runs
		FROM label_costs
		WHERE owner = $1 AND name = $2
		ORDER BY month DESC, costs DESC, account, unit, value
		LIMIT CAST($3 AS BIGINT)`,
		u, label, n)
	return charges, fail("LabelCharges", err)
}

// forgottenMonth returns the first month of which costs by label are kept.
func forgottenMonth(now int64) string { return at(now).Add(-dispatch.LabelCostsLife).Format("2006-01") }
