package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Restored is what an account must wait for after its database was set back to an older state, by a restore or by a failover that lost
// commits. The database then lacks what was submitted since.
type Restored int

const (
	NotRestored    Restored = iota
	CompareFirst            // nothing is created or started until the account was compared with the platform's list
	CompareIfLists          // likewise, but an account of a platform without a list submits at once: its jobs may run twice
)

// Unrecognized is a job at a platform that has this installation's tag and is not in the database. It is neither adopted nor canceled.
type Unrecognized struct {
	Account Account
	Ref     Ref
	Tag     string
	Status  Status
	Found   time.Time // set by the store
}

// RestoredNotice is the Job.Notice of jobs that wait because their platform cannot be compared after a restore. The text is the broker's,
// not the platform's.
const RestoredNotice = "The broker's database was restored from an older state. This platform has no list of jobs to compare it with, so nothing " +
	"is submitted until the operator allows it."

// mustCompareNow reports whether the account must be compared with its platform's list, and can be at present.
func (v *visit) mustCompareNow(ending bool) bool {
	return v.agenda.Restored != NotRestored && !ending && v.pending == 0 && !time.Now().Before(v.resume) && !v.agenda.Now.Before(v.agenda.Hold)
}

// compare compares the account with its platform's list, and lets it submit again if that succeeded.
func (v *visit) compare(ctx context.Context) error {
	lister, can := v.backend.Platform.(Lister)
	if !can || !v.backend.Platform.TwoStep() { // without tags a list cannot be matched to jobs
		return v.withoutComparison(ctx)
	}
	t, ok, err := v.authorize(ctx)
	if err != nil || !ok {
		return err
	}
	listed, err := v.listAll(ctx, t, lister)
	switch {
	case Is(err, Unsupported):
		return v.withoutComparison(ctx)
	case Is(err, Conflict), DatabaseError(err) != nil:
		return err
	case err != nil:
		if Is(err, SignInRequired) { // the next attempt needs another token
			v.broker.Tokens.Invalidate(v.account, t)
		}
		err = v.backend.tokenError(err)
		v.broker.Log.WarnContext(ctx, "comparing a restored account with its platform failed", "account", string(v.account), "error", err)
		return v.broker.Store.Hold(ctx, v.account, max(v.timing.Check, retryAfter(err)), attentionFor(err), TextFor(err))
	}
	found, err := v.recognize(ctx, listed)
	if err != nil {
		return err
	}
	for _, u := range found {
		v.broker.Log.LogAttrs(ctx, slog.LevelWarn, "a job at the platform is not in the restored database", slog.String("account", string(u.Account)),
			slog.String("ref", u.Ref.ID), slog.String("tag", u.Tag), slog.String("status", string(u.Status)))
	}
	v.broker.Log.InfoContext(ctx, "a restored account was compared with its platform", "account", string(v.account), "unrecognized", len(found))
	return v.broker.Store.ClearRestored(ctx, v.account, found)
}

// withoutComparison lets the account submit without a comparison if the operator allowed that, and otherwise stores what it waits for.
func (v *visit) withoutComparison(ctx context.Context) error {
	if v.agenda.Restored == CompareIfLists {
		v.broker.Log.WarnContext(ctx, "a restored account goes on without being compared: its platform has no list", "account", string(v.account))
		return v.broker.Store.ClearRestored(ctx, v.account, nil)
	}
	v.broker.Log.WarnContext(ctx, "a restored account waits for the operator: its platform has no list; see eodispatch restored --without-listing", "account", string(v.account))
	return v.broker.Store.Hold(ctx, v.account, v.timing.Recheck, NeedsOperator, RestoredNotice)
}

// listAll lists the account's jobs below the platform's endpoint and below every other base that its jobs have.
func (v *visit) listAll(ctx context.Context, t Token, lister Lister) (all []Listed, err error) {
	bases, err := v.broker.Store.Bases(ctx, v.account)
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

func (v *visit) listBase(ctx context.Context, t Token, lister Lister, base string) (all []Listed, err error) {
	if err := v.broker.awaitSendTime(ctx, v.backend, v.account); err != nil {
		return nil, err
	}
	if err := v.renew(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, v.deadline())
	defer cancel()
	begun := time.Now()
	defer func() { v.broker.observer().RequestEnded(v.backend.Name, "list", time.Since(begun), err) }()
	for l, err := range lister.List(ctx, t, base) {
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// recognize applies a whole listing to a restored account, and returns the platform jobs that have not ended and are not in the database.
// Busy: a job changed meanwhile.
func (v *visit) recognize(ctx context.Context, listed []Listed) (found []Unrecognized, err error) {
	for _, l := range listed {
		t, ours := parseTag(v.broker.Installation, l.Tag)
		if !ours {
			continue
		}
		j, err := v.broker.Store.Load(ctx, t.job)
		if err != nil && !Is(err, NotFound) {
			return nil, err
		}
		known := err == nil && j.Account == v.account
		moved := err == nil && !known && j.Task != 0 && j.Phase == Waiting && !t.marks(j) // it ran here, and in the database it waits at another home
		if known || moved {
			if err := v.saveCompared(ctx, j, reconcile(j, t, l, v.timing, v.now())); err != nil {
				return nil, err
			}
		}
		if !(known && t.marks(j)) && !l.Report.Status.Final() {
			found = append(found, Unrecognized{Account: v.account, Ref: l.Ref, Tag: l.Tag, Status: l.Report.Status})
		}
	}
	return found, nil
}

// saveCompared saves a job that a comparison has changed.
func (v *visit) saveCompared(ctx context.Context, was, is Job) error {
	if is.Epoch == was.Epoch {
		return nil
	}
	saved, err := v.broker.Store.Save(ctx, []Job{is})
	if err == nil && len(saved) == 0 {
		err = &Error{Kind: Busy, Op: "dispatch.compare", Text: "The job was changed meanwhile."}
	}
	if err == nil {
		v.broker.notifySaved(ctx, was, saved[0], nil)
	}
	return err
}

// reconcile returns a job of a restored database after its platform listed an attempt of it. The attempt that is in the database is adopted;
// because it may have been started since, its status is read before anything else. An attempt that is not in the database was made later.
// The job is then not submitted again, and its owner must find out whether it ran.
func reconcile(j Job, t tag, l Listed, timing Timing, now time.Time) Job {
	was := j
	switch {
	case j.Phase != Waiting && j.Phase != Creating:
		return j
	case !t.marks(j):
		j.Phase, j.Status, j.Due = Creating, Unknown, now.Add(timing.UnknownCheck)
		j = applyConsequences(was, j.withAttention(SubmissionUnknown, ""), timing, now)
		j.Epoch = was.Epoch + 1 // even if the phase stays, so that responses to earlier requests do not count
		return j
	case t.attempt == j.Attempt && j.Phase == Creating && j.Status != Unknown:
		j.Phase, j.Ref, j.Status, j.Seen, j.SendBy, j.Due = Starting, l.Ref, Submitted, "", now, now
		return applyConsequences(was, j.withAttention(InDoubt, ""), timing, now)
	}
	return j
}
