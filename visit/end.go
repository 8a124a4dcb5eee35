package visit

import (
	"context"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

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
			"The operator of this service ended the job: "+strings.TrimSuffix(reason,
				".")+".")
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
