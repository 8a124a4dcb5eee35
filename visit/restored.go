package visit

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mustCompareNow reports whether the account must be compared with its platform's list, and can be at present.
func (v *visit) mustCompareNow(ending bool) bool {
	return v.agenda.Restored != dispatch.NotRestored && !ending && v.pending == 0 && !time.Now().Before(v.resume) &&
		!v.agenda.Now.Before(v.agenda.Hold)
}

// compare compares the account with its platform's list, and lets it submit again if that succeeded.
func (v *visit) compare(ctx context.Context) error {
	lister, can := v.backend.Platform.(dispatch.Lister)
	if !can || !v.backend.Platform.TwoStep() { // without tags a list cannot be matched to jobs
		return v.withoutComparison(ctx)
	}
	t, ok, err := v.authorize(ctx)
	if err != nil || !ok {
		return err
	}
	listed, err := v.listAll(ctx, t, lister)
	switch {
	case dispatch.Is(err, dispatch.Unsupported):
		return v.withoutComparison(ctx)
	case dispatch.Is(err, dispatch.Conflict), dispatch.DatabaseError(err) != nil:
		return err
	case err != nil:
		if dispatch.Is(err, dispatch.SignInRequired) { // the next attempt needs another token
			v.visits.Tokens.Invalidate(v.account, t)
		}
		err = v.backend.TokenError(err)
		v.visits.Log.WarnContext(ctx, "comparing a restored account with its platform failed", "account",
			string(v.account), "error", err)
		return v.visits.Store.Hold(ctx, v.account, max(v.timing.Check, dispatch.RetryAfter(err)),
			dispatch.AttentionFor(err), dispatch.TextFor(err))
	}
	found, err := v.recognize(ctx, listed)
	if err != nil {
		return err
	}
	for _, u := range found {
		v.visits.Log.LogAttrs(ctx, slog.LevelWarn, "a job at the platform is not in the restored database",
			slog.String("account", string(u.Account)),
			slog.String("ref", u.Ref.ID), slog.String("tag", u.Tag), slog.String("status", string(u.Status)))
	}
	v.visits.Log.InfoContext(ctx, "a restored account was compared with its platform", "account", string(v.account),
		"unrecognized", len(found))
	return v.visits.Store.ClearRestored(ctx, v.account, found)
}

// withoutComparison lets the account submit without a comparison if the operator allowed that, and otherwise stores
// what it waits for.
func (v *visit) withoutComparison(ctx context.Context) error {
	if v.agenda.Restored == dispatch.CompareIfLists {
		v.visits.Log.WarnContext(ctx, "a restored account goes on without being compared: its platform has no list",
			"account", string(v.account))
		return v.visits.Store.ClearRestored(ctx, v.account, nil)
	}
	v.visits.Log.WarnContext(ctx,
		"a restored account waits for the operator: its platform has no list; see eodispatch restored "+
			"--without-listing", "account", string(v.account))
	return v.visits.Store.Hold(ctx, v.account, v.timing.Recheck, dispatch.NeedsOperator, dispatch.RestoredNotice)
}

// listAll lists the account's jobs below the platform's endpoint and below every other base that its jobs have.
func (v *visit) listAll(ctx context.Context, t dispatch.Token, lister dispatch.Lister) (all []dispatch.Listed,
	err error) {
	bases, err := v.visits.Store.Bases(ctx, v.account)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(bases, "") {
		bases = append(bases, "")
	}
	for _, base := range bases {
		listed, err := v.listBase(ctx, t, lister, base)
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

func (v *visit) listBase(ctx context.Context, t dispatch.Token, lister dispatch.Lister,
	base string) (all []dispatch.Listed, err error) {
	if err := v.visits.AwaitSendTime(ctx, v.backend, v.account); err != nil {
		return nil, err
	}
	if err := v.renew(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, v.deadline())
	defer cancel()
	begun := time.Now()
	defer func() { v.visits.Observing().RequestEnded(v.backend.Name, "list", time.Since(begun), err) }()
	for l, err := range lister.List(ctx, t, base) {
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// recognize applies a whole listing to a restored account, and returns the platform jobs that have not ended, are not
// in the database, and were not adopted. Busy: a job changed meanwhile.
func (v *visit) recognize(ctx context.Context, listed []dispatch.Listed) (found []dispatch.Unrecognized, err error) {
	ids, attempts := attemptsByJob(v.visits.Installation, listed)
	for _, id := range ids {
		if err := v.renew(ctx); err != nil {
			return nil, err
		}
		j, err := v.visits.Store.Load(ctx, id)
		if err != nil && !dispatch.Is(err, dispatch.NotFound) {
			return nil, err
		}
		if err == nil {
			after := v.reconcile(j, attempts[id])
			if err := v.saveCompared(ctx, j, after); err != nil {
				return nil, err
			}
			j = after
		}
		for _, a := range attempts[id] {
			if !(j.Account == v.account && a.tag.Marks(j)) && !a.Report.Status.Final() {
				found = append(found, dispatch.Unrecognized{Account: v.account, Ref: a.Ref, Tag: a.Tag,
					Status: a.Report.Status})
			}
		}
	}
	return found, nil
}

// listedAttempt is a listed platform job that carries the tag of an attempt of this installation.
type listedAttempt struct {
	dispatch.Listed
	tag dispatch.Tag
}

// attemptsByJob returns the listed attempts of each job of an installation, latest first, each platform job once, and
// the ids in their order.
func attemptsByJob(installation string, listed []dispatch.Listed) (ids []dispatch.JobID,
	attempts map[dispatch.JobID][]listedAttempt) {
	attempts = map[dispatch.JobID][]listedAttempt{}
	seen := map[dispatch.Ref]bool{}
	for _, l := range listed {
		if t, ours := dispatch.ParseTag(installation, l.Tag); ours && !seen[l.Ref] {
			seen[l.Ref] = true
			attempts[t.Job] = append(attempts[t.Job], listedAttempt{l, t})
		}
	}
	for _, ofJob := range attempts {
		slices.SortStableFunc(ofJob, func(a, b listedAttempt) int { return cmp.Compare(b.tag.Attempt, a.tag.Attempt) })
	}
	return slices.Sorted(maps.Keys(attempts)), attempts
}

func (v *visit) saveCompared(ctx context.Context, before, after dispatch.Job) error {
	if after.Epoch == before.Epoch {
		return nil
	}
	saved, err := v.visits.Store.Save(ctx, []dispatch.Job{after})
	if err == nil && len(saved) == 0 {
		err = &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.compare", Text: "The job was changed meanwhile."}
	}
	if err == nil {
		v.visits.Hub.NotifySaved(ctx, before, saved[0], nil)
	}
	return err
}

// reconcile returns a job of a restored database after its platform listed attempts of it, latest first. The attempt
// that the database lost or was not sure of is adopted, with the status that the list shows. If there are several, or
// the job waits at another account, nobody knows which of them counts: the job then ends as failed, so that it holds no
// slot and its owner may retry it.
func (v *visit) reconcile(j dispatch.Job, attempts []listedAttempt) dispatch.Job {
	lost := slices.DeleteFunc(slices.Clone(attempts), func(a listedAttempt) bool { return !a.mayBelongTo(j) })
	elsewhere := j.Account != v.account
	switch now := v.now(); {
	case len(lost) == 0, elsewhere && j.Phase != dispatch.Waiting:
		return j
	case elsewhere, len(lost) > 1 && lost[0].tag.Attempt == lost[1].tag.Attempt, lost[0].tag.Attempt <= j.Attempt &&
		!lost[0].tag.Marks(j):
		return dispatch.ApplyConsequences(j, dispatch.EndJob(j, dispatch.Failed, dispatch.SubmissionUnknown,
			unsettledText(lost)), v.timing, now)
	default:
		return v.adopt(j, lost[0], now)
	}
}

// mayBelongTo reports whether the listed attempt is the one that j is not sure of, or was made after the backup.
func (a listedAttempt) mayBelongTo(j dispatch.Job) bool {
	if a.tag.Marks(j) {
		return a.tag.Attempt == j.Attempt && j.Phase == dispatch.Creating
	}
	switch {
	// of an earlier job that had the same id
	case !a.Created.IsZero() && a.Created.Before(j.Created.Add(-dispatch.ClockSetBack)):
		return false
	case j.Phase == dispatch.Waiting, j.Phase == dispatch.Creating:
		return true
	}
	// This attempt failed after the backup, or had failed, and its owner retried it.
	return a.tag.Attempt > j.Attempt && j.Desired == dispatch.WantRun && (j.Phase != dispatch.Ended || j.Retryable())
}

// adopt makes a listed attempt that of j. Because it may have been started since it was listed, the start is in doubt
// unless the list shows that the job runs or has ended.
func (v *visit) adopt(j dispatch.Job, a listedAttempt, now time.Time) dispatch.Job {
	before := j
	if j.Phase != dispatch.Waiting && j.Phase != dispatch.Creating {
		j = j.Retry(now)
	}
	if !a.tag.Marks(j) {
		j.Nonces = j.Nonces.With(a.tag.Attempt, a.tag.Nonce)
	}
	j.Phase, j.Attempt, j.Ref, j.Status, j.Seen, j.SendBy, j.Due = dispatch.Starting, a.tag.Attempt, a.Ref,
		dispatch.Submitted, "", now, now
	j.Tries, j.Refused, j.Begun = 0, time.Time{}, 0
	j = dispatch.ApplyConsequences(before, j.WithAttention(dispatch.InDoubt, ""), v.timing, now)
	return dispatch.Next(j, v.complete(dispatch.Outcome{Asked: dispatch.AskStatus, Attempt: j.Attempt, Epoch: j.Epoch,
		Ref: a.Ref, Report: a.Report}, now), now)
}

// unsettledText is the Job.Failure of a job whose submissions after a backup could not be told apart.
func unsettledText(attempts []listedAttempt) string {
	refs := make([]string, len(attempts))
	for i, a := range attempts {
		refs[i] = a.Ref.ID
	}
	return "The broker's database was restored from a backup older than the submission of this job. At the " +
		"platform it may be " + strings.Join(refs[:min(len(refs), 5)], " or ") + ". Check there before you retry it."
}
