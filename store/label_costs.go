package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// LabelCharges returns what an owner's runs cost in each month, by the value that a label of their jobs had when the costs were reported.
func (s *Store) LabelCharges(ctx context.Context, u dispatch.UserID, label string, n int) ([]dispatch.AccountCharge, error) {
	rows, err := s.queries(s.read).ListLabelCosts(ctx, u, label, int64(n))
	charges := make([]dispatch.AccountCharge, len(rows))
	for i, r := range rows {
		charges[i] = dispatch.AccountCharge{Account: r.Account,
			Charge: dispatch.Charge{Month: r.Month, Unit: r.Unit, Costs: rounded(r.Costs), Runs: int(r.Runs), Label: &r.Value}}
	}
	return charges, fail("LabelCharges", err)
}

// forgottenMonth returns the first month of which costs by label are kept.
func forgottenMonth(now int64) string { return at(now).Add(-dispatch.LabelCostsLife).Format("2006-01") }
