package visit

import (
	"context"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// operatorHold is for how long an account is held at a time while an operator holds it. Then a visit looks again.
const operatorHold = time.Hour

// heldByOperator reports whether an operator holds the account, and makes the account's hold, which its waiting jobs
// show, follow.
func (v *visit) heldByOperator(ctx context.Context) (bool, error) {
	shown := v.agenda.Why == dispatch.HeldByOperator && v.agenda.Now.Before(v.agenda.Hold)
	switch {
	case v.agenda.Operator == "" && shown:
		v.agenda.Hold = time.Time{}
		v.notifyAccount()
		// wakes the account, so the visit reads the agenda again
		return true, v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
	case v.agenda.Operator == "":
		return false, nil
	case !shown || v.agenda.Hold.Sub(v.agenda.Now) < operatorHold/2:
		v.agenda.Why, v.agenda.Hold = dispatch.HeldByOperator, v.agenda.Now.Add(operatorHold)
		v.notifyAccount()
		return true, v.visits.Store.Hold(ctx, v.account, operatorHold, dispatch.HeldByOperator, v.agenda.Operator)
	}
	return true, nil
}

// notifyAccount signals to the users with waiting jobs of the account that these may look different.
func (v *visit) notifyAccount() {
	if v.backend.Access == dispatch.AccessUser {
		v.visits.Hub.NotifyUser(dispatch.UserID(v.account.Identity()))
		return
	}
	owners := map[dispatch.UserID]bool{}
	for _, l := range v.agenda.Queues {
		owners[l.Owner] = true
	}
	for u := range owners {
		v.visits.Hub.NotifyUser(u)
	}
}

// endAttempts is how often a job that changes meanwhile is read again to end it.
const endAttempts = 10

// EndJob ends a job that does not end by itself, as failed, because an operator says so. What is known of it at its
// platform is canceled there if that is possible. Conflict: it has ended, or a request that submits it may be under
// way, whose run could not be found afterwards, so that a retry would be a second one.
func (vs *Visits) EndJob(ctx context.Context, id dispatch.JobID, reason string) (dispatch.Job, error) {
	for range endAttempts {
		j, err := vs.Store.Load(ctx, id)
		if err != nil {
			return dispatch.Job{}, err
		}
		if j.Phase == dispatch.Ended {
			return j, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.EndJob",
				Text: "The job has ended: it is " + string(j.Status) + "."}
		}
		g, err := vs.AgendaOf(ctx, j.Account, 1)
		if err != nil {
			return dispatch.Job{}, err
		}
		if j.Phase.InDoubt() && g.Now.Before(j.SendBy) {
			return j, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.EndJob", RetryAfter: j.SendBy.Sub(g.Now),
				Text: "A request that submits the job may be under way until " + j.SendBy.UTC().Format(time.RFC3339) +
					". Repeat the command then."}
		}
		ended := dispatch.EndJob(j, dispatch.Failed, dispatch.EndedByOperator,
			"The operator of this service ended the job: "+strings.TrimSuffix(reason, ".")+".")
		if j.Ref != (dispatch.Ref{}) {
			ended = ended.WithOrphan(j.Ref)
			ended.Due = g.Now
		}
		// nothing is known of its costs
		ended = dispatch.PlanMetering(j, ended, dispatch.Outcome{Asked: dispatch.AskStatus,
			Report: dispatch.Report{Partial: true}}, g.Now)
		ended = dispatch.ApplyConsequences(j, ended, vs.Timing.Complete(), g.Now)
		saved, err := vs.Store.Save(ctx, []dispatch.Job{ended}, j.Account)
		if err != nil {
			return dispatch.Job{}, err
		}
		if len(saved) == 1 {
			vs.Hub.NotifySaved(ctx, j, saved[0], nil)
			vs.Hub.Wake(j.Account)
			return saved[0], nil
		}
	}
	return dispatch.Job{}, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.EndJob",
		Text: "The job keeps changing; repeat the request."}
}
