package dispatch

import (
	"cmp"
	"slices"
)

// Usage is how much of an account an owner uses.
type Usage struct {
	Account Account
	Quota   Quota    // of the owner there; not set by the store
	Live    int      // jobs that have not ended
	Lately  int      // jobs submitted within the time given to Records.Usage
	Jobs    int      // all jobs that are stored
	Costs   *float64 // of the jobs whose costs the platform reported, in its own unit; nil: it reported none
	// what all the owner's runs there cost, those of deleted jobs and of attempts before a retry too; newest month
	// first
	Charges []Charge
}

// Charge is what runs of a user cost at an account in a month. Charges in different units are not comparable and never
// added.
type Charge struct {
	Month string // of the report, in UTC: 2026-11
	Unit  string // of the platform; "": it names none
	Costs float64
	Runs  int // whose costs the platform reported
	// the value of the label by which charges are told apart; nil: the runs have none, or there is no such label
	Label *string
}

// AccountCharge is a charge at an account.
type AccountCharge struct {
	Account Account
	Charge
}

// LabelCostsLife is how long costs by label are kept. Every job may have a label of its own, so that their number is
// that of the jobs.
const LabelCostsLife = 2 * 365 * Day

// AddCharge adds a charge to the usage of an account.
func AddCharge(all []Usage, a Account, c Charge) []Usage {
	i := slices.IndexFunc(all, func(u Usage) bool { return u.Account == a })
	if i < 0 {
		i, all = len(all), append(all, Usage{Account: a})
	}
	all[i].Charges = append(all[i].Charges, c)
	slices.SortFunc(all[i].Charges, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(b.Month, a.Month), cmp.Compare(a.Unit, b.Unit), compareLabels(a.Label, b.Label))
	})
	return all
}

// compareLabels compares values of a label; none is after all.
func compareLabels(a, b *string) int {
	switch {
	case a != nil && b != nil:
		return cmp.Compare(*a, *b)
	case a != nil:
		return -1
	case b != nil:
		return 1
	}
	return 0
}
