package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Quota limits how many jobs a user may have, and how large their requests may be together.
type Quota struct {
	Account Account // the account that it limits; "": all accounts together
	Live    int     // jobs that have not ended; 0: any number
	Daily   int     // jobs submitted within a [Day], including deleted ones; 0: any number
	// that the platform reported in the present month (UTC), in each of its units; 0: any; set only with Account
	Costs float64
	// of the requests of jobs that have not ended, the shared part of a task once; 0: any number; set only without Account
	Bytes int64
}

// QuotaUse is a user's present use of what a [Quota] limits.
type QuotaUse struct {
	Live, Lately int
	Bytes        int64
	Charge       Charge // of the unit with the highest costs of the month
}

// Day is the period in which submitted jobs count for Quota.Daily.
const Day = 24 * time.Hour

const (
	whenOlder = time.Hour   // Retry-After of Daily: by then some of the jobs may be older than a Day
	whenEnded = time.Minute // Retry-After of Live and Bytes: by then one of many jobs may have ended
)

// Admit returns nil if a user may have n more jobs whose requests have the given number of bytes together; otherwise
// LimitReached. A request for nothing more, such as a retry of a task in which nothing failed, exceeds no quota, even
// if the user has more than a quota that was lowered.
func (q Quota) Admit(has QuotaUse, n int, bytes int64) error {
	where := ""
	if q.Account != "" {
		where = " at " + q.Account.Platform()
	}
	switch {
	case n == 0 && bytes == 0:
		return nil
	case q.Live > 0 && has.Live+n > q.Live:
		return &Error{Kind: LimitReached, Op: "dispatch.Accept", RetryAfter: whenEnded,
			Text: fmt.Sprintf("A user may have %d jobs%s that have not ended. You have %d, and ask for %d.", q.Live, where,
				has.Live, n)}
	case q.Daily > 0 && has.Lately+n > q.Daily:
		return &Error{Kind: LimitReached, Op: "dispatch.Accept", RetryAfter: whenOlder,
			Text: fmt.Sprintf("A user may submit %d jobs%s in 24 hours. You submitted %d, and ask for %d.", q.Daily, where,
				has.Lately, n)}
	case q.Costs > 0 && has.Charge.Costs >= q.Costs:
		return &Error{Kind: LimitReached, Op: "dispatch.Accept", RetryAfter: whenOlder,
			Text: fmt.Sprintf(
				"A user's jobs%s may cost %v%s in a month. Yours have cost %v since the first of %s (UTC). Submit again next "+
					"month, or ask the operator of this service.",
				where, q.Costs, spaced(has.Charge.Unit), has.Charge.Costs, has.Charge.Month)}
	case q.Bytes > 0 && has.Bytes+bytes > q.Bytes:
		return &Error{Kind: LimitReached, Op: "dispatch.Accept", RetryAfter: whenEnded,
			Text: fmt.Sprintf(
				"The requests of a user's jobs that have not ended may take %d bytes together. Yours take %d, and you ask for "+
					"%d more.", q.Bytes, has.Bytes, bytes)}
	}
	return nil
}

// spaced returns a unit as it follows an amount.
func spaced(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

// quotas returns the quotas that apply to a user's jobs at an account.
func (b *Broker) quotas(a Account) []Quota {
	all := []Quota{b.overallQuota()}
	if backend := b.backendNamed(a.Platform()); backend != nil && backend.Quota != (Quota{}) {
		all = append(all, Quota{Account: a, Live: backend.Quota.Live, Daily: backend.Quota.Daily, Costs: backend.Quota.Costs})
	}
	return all
}

// overallQuota returns the quota of a user for all accounts together.
func (b *Broker) overallQuota() Quota {
	return Quota{Live: b.UserJobs, Daily: b.UserDaily, Bytes: b.UserBytes}
}

// checkEntitled returns Forbidden if the requesting user may not run jobs at the backend.
func (b *Backend) checkEntitled(ctx context.Context) error {
	if b.Entitled == nil || b.Entitled(ctx) {
		return nil
	}
	return &Error{Kind: Forbidden, Op: "dispatch.admit",
		Text: fmt.Sprintf("Your sign-in does not entitle you to use %s. Ask the operator of this service.", b.Name)}
}

// MostLabelCharges is how many charges UsageByLabel tells apart at most.
const MostLabelCharges = 1000

// UsageByLabel is Usage with the charges of each account and month told apart by the value of a label. Charges without
// a Label are the rest: of runs without that label, of months of which costs by label are not kept any more, and beyond
// MostLabelCharges. Invalid if the text is not the key of a label.
func (b *Broker) UsageByLabel(ctx context.Context, u UserID, label string) ([]Usage, error) {
	if !labelKey.MatchString(label) {
		return nil, &Error{Kind: Invalid, Op: "dispatch.UsageByLabel", Text: badLabelKey,
			Faults: []Fault{{Loc: []any{"query", "label"}, Msg: badLabelKey, Type: "value_error"}}}
	}
	// read first, so that they are no more than the whole
	parts, err := b.Store.LabelCharges(ctx, u, label, MostLabelCharges)
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
				all = AddCharge(all, p.Account, p.Charge)
			}
		}
		for _, c := range rest {
			if c.Runs != 0 || c.Costs != 0 {
				all = AddCharge(all, use.Account, c)
			}
		}
	}
	return all, err
}

// without subtracts a part from the charge of its month and unit.
func without(all []Charge, part Charge) []Charge {
	for i, c := range all {
		if c.Month == part.Month && c.Unit == part.Unit {
			all[i].Costs, all[i].Runs = RoundAmount(c.Costs-part.Costs), c.Runs-part.Runs
		}
	}
	return all
}

// Usage counts a user's jobs at each account, and how many of them were submitted in the last 24 hours. An account with
// a quota is included even while the user has no jobs there.
func (b *Broker) Usage(ctx context.Context, u UserID) ([]Usage, error) {
	all, err := b.Store.Usage(ctx, u, Day)
	for _, backend := range b.Backends {
		a := backend.Account(u)
		i := slices.IndexFunc(all, func(has Usage) bool { return has.Account == a })
		switch {
		case backend.Quota == (Quota{}):
		case i < 0:
			all = append(all, Usage{Account: a, Quota: backend.Quota})
		default:
			all[i].Quota = backend.Quota
		}
	}
	return all, err
}
