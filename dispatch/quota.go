package dispatch

import (
	"fmt"
	"strings"
	"time"
)

// Quota limits how many jobs a user may have, and how large their requests may be together.
type Quota struct {
	Account Account // the account that it limits; "": all accounts together
	Live    int     // jobs that have not ended; 0: any number
	Daily   int     // jobs submitted within a [Day], including deleted ones; 0: any number
	// that the platform reported in the present month (UTC), in each of its units; 0: any; set only with Account
	Costs float64
	// of the requests of jobs that have not ended, the shared part of a task once; 0: any number; set only without
	// Account
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
func (q Quota) Admit(use QuotaUse, n int, bytes int64) error {
	where := ""
	if q.Account != "" {
		where = " at " + q.Account.Platform()
	}
	text, again := "", whenEnded
	switch {
	case n == 0 && bytes == 0:
	case q.Live > 0 && use.Live+n > q.Live:
		text = fmt.Sprintf("A user may have %d unfinished jobs%s. You have %d, and request %d.", q.Live, where,
			use.Live, n)
	case q.Daily > 0 && use.Lately+n > q.Daily:
		again, text = whenOlder, fmt.Sprintf("A user may submit %d jobs%s in 24 hours. You submitted %d, and "+
			"request %d.", q.Daily, where, use.Lately, n)
	case q.Costs > 0 && use.Charge.Costs >= q.Costs:
		again, text = whenOlder, fmt.Sprintf("A user's jobs%s may cost %v%s in a month. Yours have cost %v since the "+
			"first of %s (UTC). Submit again next month, or ask the operator of this service.", where, q.Costs,
			strings.TrimSuffix(" "+use.Charge.Unit, " "), use.Charge.Costs, use.Charge.Month)
	case q.Bytes > 0 && use.Bytes+bytes > q.Bytes:
		text = fmt.Sprintf("The requests of a user's unfinished jobs may take %d bytes together. Yours take %d, and "+
			"this one %d more.", q.Bytes, use.Bytes, bytes)
	}
	if text == "" {
		return nil
	}
	return &Error{Kind: LimitReached, Op: "dispatch.Accept", RetryAfter: again, Text: text}
}
