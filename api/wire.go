package api

import (
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func retriesOf(j dispatch.Job) *wire.JobRetries {
	if j.Retries == 0 {
		return nil
	}
	return &wire.JobRetries{Allowed: j.Retries, Done: j.Retried}
}

// costUnit returns the unit of a job's costs; "" if there are none.
func costUnit(j dispatch.Job) string {
	if j.AllCosts() == nil {
		return ""
	}
	return j.Unit
}

// usageOf returns what a job used; nil if nothing is known.
func usageOf(m dispatch.Metered) *wire.JobUsage {
	if m == (dispatch.Metered{}) {
		return nil
	}
	return &wire.JobUsage{CPU: (*wire.Amount)(m.CPU), Memory: (*wire.Amount)(m.Memory), Input: (*wire.Amount)(m.Input)}
}

func (a *api) taskHomes(t dispatch.TaskRecord) (homes []wire.TaskHome) {
	for _, h := range t.Request.Homes {
		one := wire.TaskHome{Platform: h.Account.Platform(), Service: wire.ServiceDetails(h.Service), Unused: h.Unused,
			Notice: h.Notice}
		if h.Notice != "" && a.SignInLink != nil {
			one.Link = a.SignInLink(h.Account)
		}
		homes = append(homes, one)
	}
	return homes
}

func (a *api) job(r dispatch.Record) wire.ProcessingJob {
	return wire.ProcessingJob{ProcessingJobSummary: a.summary(r), Options: wire.Object(r.Request.Options),
		Updated: r.Updated.UTC()}
}

// task returns a task without its jobs.
func (a *api) task(t dispatch.TaskRecord) wire.UpscalingTask {
	return wire.UpscalingTask{UpscalingTaskSummary: a.taskSummary(t), Service: wire.ServiceDetails(t.Request.Service),
		Updated: t.Updated.UTC(),
		Jobs:    []wire.ProcessingJobSummary{}}
}

func (a *api) taskSummary(t dispatch.TaskRecord) wire.UpscalingTaskSummary {
	return wire.UpscalingTaskSummary{ID: int64(t.ID), Title: t.Request.Title, Label: string(t.Request.Label),
		Status: a.shown(t.Counts.Status()), Paused: t.Paused, Changing: changeOf(t.Change), Homes: a.taskHomes(t),
		Budget: budgetOf(t), Trial: t.Trial, Counts: a.counts(t.Counts), Progress: &t.Progress,
		Created: t.Created.UTC(),
		Attention: a.attention(dispatch.Job{Target: dispatch.Target{Account: t.Account},
			Condition: dispatch.Condition{Attention: t.Attention}}), Warning: t.Request.Warning,
		Annotations: wire.Annotations(t.Annotations), Forecast: forecastOf(t.Forecast), Rest: restOf(t.Rest)}
}

// changeOf returns a change as it is shown; nil if there is none.
func changeOf(c dispatch.Change) *wire.TaskChange {
	if c == (dispatch.Change{}) {
		return nil
	}
	action, _, _ := strings.Cut(c.Action, " ")
	return &wire.TaskChange{Action: action, Done: c.Done, Last: c.Last}
}

// forecastOf returns a forecast as it is shown; nil if there is none.
func forecastOf(f *dispatch.Forecast) *wire.Forecast {
	if f == nil {
		return nil
	}
	shown := &wire.Forecast{End: timeRange(f.End), Runs: f.Runs, Basis: string(f.Basis)}
	if f.Start != nil {
		start := timeRange(*f.Start)
		shown.Start = &start
	}
	return shown
}

func timeRange(r dispatch.TimeRange) wire.TimeRange {
	return wire.TimeRange{Early: r.Early.UTC(), Late: r.Late.UTC()}
}

// restOf returns what is left of a task as it is shown; nil if that is not known.
func restOf(r *dispatch.Rest) *wire.TaskRest {
	if r == nil {
		return nil
	}
	return &wire.TaskRest{Jobs: r.Jobs, Costs: (*wire.Spread)(r.Costs), CostUnit: r.Unit, CostRuns: r.Charged,
		Seconds: (*wire.Spread)(r.Took), SecondsRuns: r.Timed, Basis: string(r.Basis)}
}

// budgetOf returns the budget of a task; nil if it has none.
func budgetOf(t dispatch.TaskRecord) *wire.TaskBudget {
	if t.Spending == nil {
		return nil
	}
	use := t.Budget.Use(*t.Spending)
	return &wire.TaskBudget{Amount: use.Amount, Unit: use.Unit, Spent: use.Spent, Expected: use.Expected}
}

func (a *api) summary(r dispatch.Record) wire.ProcessingJobSummary {
	return wire.ProcessingJobSummary{
		ID:                int64(r.ID),
		Title:             r.Request.Title,
		Name:              r.Name(),
		Label:             string(r.Request.Label),
		Status:            a.shown(r.Status),
		Service:           wire.ServiceDetails(r.Request.Service),
		Parameters:        wire.Object(r.Request.Parameters),
		ParametersDeleted: r.Pruned,
		Attention:         a.attention(r.Job),
		Warning:           r.Request.Warning,
		Failure:           r.Failure,
		Progress:          r.Progress,
		Created:           r.Created.UTC(),
		Started:           known(r.Started),
		Ended:             known(r.EndTime()),
		Checked:           known(r.Checked),
		QueuePosition:     r.Ahead,
		TaskID:            int64(r.Task),
		Platform:          r.Account.Platform(),
		PlatformJobID:     r.Ref.ID,
		Format:            r.Request.Format,
		Costs:             r.AllCosts(),
		CostUnit:          costUnit(r.Job),
		Usage:             usageOf(r.Metered),
		Retries:           retriesOf(r.Job),
		Duration:          r.Duration.Seconds(),
		Annotations:       wire.Annotations(r.Annotations),
		Forecast:          forecastOf(r.Forecast),
	}
}

func (a *api) shown(s dispatch.Status) wire.Status {
	if s == dispatch.Submitted && a.Compat.SubmittedAsCreated {
		return wire.Created
	}
	return wire.Status(s)
}

func (a *api) counts(jobs dispatch.Counts) map[wire.Status]int {
	shown := map[wire.Status]int{}
	for s, n := range jobs {
		shown[a.shown(s)] += n
	}
	return shown
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

var attentions = map[dispatch.Attention]string{
	dispatch.InDoubt: "The platform did not respond when the job was submitted. The broker is finding out " +
		"whether the platform accepted it. You need not do anything.",
	dispatch.SubmissionUnknown: "The broker cannot find out whether the platform accepted the job. It may be running " +
		"there. Check on the platform, then submit the job again or delete it.",
	dispatch.NotTaken: "The platform accepts no more jobs at the moment. The job is submitted as soon as it " +
		"accepts jobs again.",
	dispatch.Full: "The platform accepts no more jobs of your account, or of the account that you share, " +
		"while others are there. The job is submitted when one of them ends.",
	dispatch.GivenUp: "The platform refused the job for so long that the broker gave up. Retry its task, or " +
		"submit the job again.",
	dispatch.Unreachable: "The platform does not respond. The status is the last known one. The broker keeps " +
		"asking.",
	dispatch.NeedsSignIn: "The job needs your sign-in to continue at the platform. Sign in again, and link your " +
		"account there if you have not.",
	dispatch.NeedsOperator: "The platform refuses the broker's credentials or configuration. The operator of this " +
		"service must correct them; then the job continues.",
	dispatch.CancelUnsupported: "The platform cannot cancel jobs. The job may run there to its end.",
	dispatch.Missing: "The platform does not find this job. The broker looks for it for some more minutes " +
		"before it reports the job as lost.",
	dispatch.Lost: "The platform no longer knows this job.",
	dispatch.Retrying: "The job failed, and is submitted again: at another platform of its task if one is " +
		"free to run it, else at the same one after a pause.",
	dispatch.Paused: "The task is paused. Jobs that wait are submitted after you resume it; jobs that were " +
		"submitted go on.",
	dispatch.BudgetReached: "Another job would exceed the budget of this task. It is paused; jobs that were " +
		"submitted go on. Resume it with a higher budget, or cancel it.",
	dispatch.CostsAwaited: "The task has a budget, and the platform has not reported yet what its first jobs " +
		"cost. The others are submitted as soon as it has. You need not do anything.",
	dispatch.BudgetUnusable: "The platform reports no costs for the jobs of this task, or costs in another unit " +
		"than that of its budget, so that the budget cannot be kept. Resume the task with a budget in the unit of its " +
		"costs, or without one, or cancel it.",
	dispatch.Trial: "The first jobs of this task run on trial. The others are submitted after you resume it.",
	dispatch.TrialEnded: "The first jobs of this task, which ran on trial, have ended. Look at their results " +
		"and costs, then resume the task to run the others, or cancel it.",
	dispatch.Stalled: "The platform has reported no progress of this job for hours. It may hang there. It " +
		"continues unless you cancel it.",
	dispatch.RefusedForbidden: "The platform does not permit this for your account. Ask its operator for permission, " +
		"or choose another platform.",
	dispatch.RefusedUnsupported: "The platform does not support this. Choose another service or platform.",
	dispatch.Overdue: "The job took longer than the max_duration that it was submitted with, and was " +
		"canceled. Submit it again with more time, or without that option.",
	dispatch.ServiceChanged: "The document that defines the service has changed since this was accepted. Waiting " +
		"jobs are still submitted, and run with the document as it is then, unless they are pinned (options.pin).",
	dispatch.ApplicationUnreachable: "The document at the application's address cannot be fetched. Check that the " +
		"address is right and that it can be read without a sign-in. " +
		"A job that waits for it is tried again at increasing intervals. The platform is not the cause.",
	dispatch.SetAside: "The broker crashed three times in a row while it submitted this job, and does not " +
		"submit it again by itself. Retry its task, submit the job again, or delete it. If this happens again, tell the " +
		"operator of this service.",
	dispatch.ApplicationInvalid: "The document at the application's address defines no service, or is refused. Correct " +
		"it, or submit with another address.",
	dispatch.NotRemoved: "The job has ended, and its copy at the platform, with the results, could not be " +
		"deleted there. Delete it at the platform if you need to.",
	dispatch.HeldByOperator: "The operator of this service submits nothing to the platform at present. The job is " +
		"submitted when that ends; jobs that were submitted go on.",
	dispatch.EndedByOperator: "The operator of this service ended this job. Retry its task, or submit the job again.",
	dispatch.NoPlatform: "The platform of this job is no longer configured. The operator of this service must " +
		"configure it again.",
}

// Advice returns what an attention means, and what the owner of the job or the task can do; "" for one that it does not
// know.
func Advice(why dispatch.Attention) string { return attentions[why] }

func (a *api) attention(j dispatch.Job) *wire.JobAttention {
	if j.Attention == dispatch.None {
		return nil
	}
	shown := wire.JobAttention{Code: string(j.Attention), Message: attentions[j.Attention]}
	switch {
	case j.Notice == "":
	case j.Attention == dispatch.ApplicationUnreachable:
		shown.Message += " " + j.Notice
	// it was submitted; or the platform was not asked
	case j.Attention == dispatch.SetAside, j.Notice == dispatch.RestoredNotice:
		shown.Message = j.Notice
	case j.Attention == dispatch.NoPlatform: // the notice says the same
	case j.Attention == dispatch.HeldByOperator:
		shown.Message += " The operator says: " + j.Notice
	default:
		shown.Message += " The platform says: " + j.Notice
	}
	if j.Attention == dispatch.NeedsSignIn && a.SignInLink != nil {
		if link := a.SignInLink(j.Account); link != "" {
			shown.Link, shown.Action = &link, "give_access"
			if slices.Contains(a.Linked, j.Account.Platform()) {
				shown.Action = "sign_in"
			}
		}
	}
	return &shown
}
