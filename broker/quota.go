package broker

import (
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (b *Broker) quotas(a dispatch.Account) []dispatch.Quota {
	all := []dispatch.Quota{b.overallQuota()}
	if backend := b.BackendNamed(a.Platform()); backend != nil && backend.Quota != (dispatch.Quota{}) {
		all = append(all, dispatch.Quota{Account: a, Live: backend.Quota.Live, Daily: backend.Quota.Daily,
			Costs: backend.Quota.Costs})
	}
	return all
}

func (b *Broker) overallQuota() dispatch.Quota {
	return dispatch.Quota{Live: b.UserJobs, Daily: b.UserDaily, Bytes: b.UserBytes}
}

// MostLabelCharges is how many charges UsageByLabel tells apart at most.
const MostLabelCharges = 1000

// UsageByLabel is Usage with the charges of each account and month told apart by the value of a label. Charges without
// a Label are the rest: of runs without that label, of months whose costs by label are no longer kept, and beyond
// MostLabelCharges. Invalid if the text is not the key of a label.
func (b *Broker) UsageByLabel(ctx context.Context, u dispatch.UserID, label string) ([]dispatch.Usage, error) {
	if !dispatch.LabelKey.MatchString(label) {
		return nil, &dispatch.Error{Kind: dispatch.Invalid, Op: "dispatch.UsageByLabel", Text: dispatch.BadLabelKey,
			Faults: []dispatch.Fault{{Loc: []any{"query", "label"}, Msg: dispatch.BadLabelKey, Type: "value_error"}}}
	}
	// read first, so that they are no more than the whole
	parts, err := b.Records.LabelCharges(ctx, u, label, MostLabelCharges)
	if err != nil {
		return nil, err
	}
	all, err := b.Usage(ctx, u)
	for i, use := range all {
		rest := slices.Clone(use.Charges)
		all[i].Charges = nil
		for _, p := range parts {
			if p.Account == use.Account {
				rest = without(rest, p.Charge)
				all = dispatch.AddCharge(all, p.Account, p.Charge)
			}
		}
		for _, c := range rest {
			if c.Runs != 0 || c.Costs != 0 {
				all = dispatch.AddCharge(all, use.Account, c)
			}
		}
	}
	return all, err
}

// without subtracts a part from the charge of its month and unit.
func without(all []dispatch.Charge, part dispatch.Charge) []dispatch.Charge {
	for i, c := range all {
		if c.Month == part.Month && c.Unit == part.Unit {
			all[i].Costs, all[i].Runs = dispatch.RoundAmount(c.Costs-part.Costs), c.Runs-part.Runs
		}
	}
	return all
}

// Usage counts a user's jobs at each account, and how many of them were submitted in the last 24 hours. An account with
// a quota is included even while the user has no jobs there.
func (b *Broker) Usage(ctx context.Context, u dispatch.UserID) ([]dispatch.Usage, error) {
	all, err := b.Records.Usage(ctx, u, dispatch.Day)
	for _, backend := range b.Backends {
		a := backend.Account(u)
		i := slices.IndexFunc(all, func(use dispatch.Usage) bool { return use.Account == a })
		switch {
		case backend.Quota == (dispatch.Quota{}):
		case i < 0:
			all = append(all, dispatch.Usage{Account: a, Quota: backend.Quota})
		default:
			all[i].Quota = backend.Quota
		}
	}
	return all, err
}
