package dispatch

import (
	"context"
	"strings"
	"time"
)

// endAttempts is how often a job that changes meanwhile is read again to end it.
const endAttempts = 10

// EndJob ends a job that does not end by itself, as failed, because an operator says so. What is known of it at its
// platform is canceled there if that is possible. Conflict: it has ended, or a request that submits it may be under
// way, whose run could not be found afterwards, so that a retry would be a second one.
func (b *Broker) EndJob(ctx context.Context, id JobID, reason string) (Job, error) {
	for range endAttempts {
		j, err := b.Store.Load(ctx, id)
		if err != nil {
			return Job{}, err
		}
		if j.Phase == Ended {
			return j, &Error{Kind: Conflict, Op: "dispatch.EndJob", Text: "The job has ended: it is " + string(j.Status) + "."}
		}
		g, err := b.agendaOf(ctx, j.Account, 1)
		if err != nil {
			return Job{}, err
		}
		if j.Phase.InDoubt() && g.Now.Before(j.SendBy) {
			return j, &Error{Kind: Conflict, Op: "dispatch.EndJob", RetryAfter: j.SendBy.Sub(g.Now),
				Text: "A request that submits the job may be under way until " + j.SendBy.UTC().Format(time.RFC3339) +
					". Repeat the command then."}
		}
		ended := endJob(j, Failed, EndedByOperator, "The operator of this service ended the job: "+strings.TrimSuffix(reason,
			".")+".")
		if j.Ref != (Ref{}) {
			ended = ended.withOrphan(j.Ref)
			ended.Due = g.Now
		}
		// nothing is known of its costs
		ended = planMetering(j, ended, Outcome{Asked: AskStatus, Report: Report{Partial: true}}, g.Now)
		ended = applyConsequences(j, ended, b.Timing.complete(), g.Now)
		saved, err := b.Store.Save(ctx, []Job{ended}, j.Account)
		if err != nil {
			return Job{}, err
		}
		if len(saved) == 1 {
			b.notifySaved(ctx, j, saved[0], nil)
			b.wake(j.Account)
			return saved[0], nil
		}
	}
	return Job{}, &Error{Kind: Conflict, Op: "dispatch.EndJob", Text: "The job keeps changing; repeat the request."}
}
