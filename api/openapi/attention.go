package openapi

import "github.com/eodispatch/eodispatch/dispatch"

var Attentions = map[dispatch.Attention]string{
	dispatch.InDoubt: "The platform did not respond when the job was submitted. The broker is finding out " +
		"whether the platform accepted it. You need not do anything.",
	dispatch.SubmissionUnknown: "The broker cannot find out whether the platform accepted the job. It may be running " +
		"there. Check on the platform, then submit the job again or delete it.",
	dispatch.NotTaken: "The platform accepts no more jobs at the moment. The job is submitted as soon as it " +
		"accepts jobs again.",
	dispatch.Full: "The platform accepts no more jobs of your account, or of the account that you share, at once. " +
		"The job is submitted when one of them ends.",
	dispatch.GivenUp: "The platform refused the job for so long that the broker gave up. Retry its task, or " +
		"submit the job again.",
	dispatch.Unreachable: "The platform does not respond. The status is the last known one. The broker keeps asking.",
	dispatch.NeedsSignIn: "The job needs your sign-in to continue at the platform. Sign in again, and link your " +
		"account there if you have not.",
	dispatch.NeedsOperator: "The platform refuses the broker's credentials or configuration. The operator of this " +
		"service must correct them; then the job continues.",
	dispatch.CancelUnsupported: "The platform cannot cancel jobs. The job may run there to its end.",
	dispatch.Missing: "The platform does not find this job. The broker looks for it for some more minutes " +
		"before it reports the job as lost.",
	dispatch.Lost: "The platform no longer knows this job.",
	dispatch.Retrying: "The job failed, and is submitted again: at another free platform of its task, otherwise at " +
		"the same one after a pause.",
	dispatch.Paused: "The task is paused. Jobs that wait are submitted after you resume it; jobs that were " +
		"submitted go on.",
	dispatch.BudgetReached: "Another job would exceed the budget of this task. It is paused; jobs that were " +
		"submitted go on. Resume it with a higher budget, or cancel it.",
	dispatch.CostsAwaited: "The task has a budget, and the platform has not reported yet what its first jobs " +
		"cost. The others are submitted as soon as it has. You need not do anything.",
	dispatch.BudgetUnusable: "The platform reports no costs for the jobs of this task, or costs in another unit " +
		"than that of its budget, so that the budget cannot be kept. Resume the task with a budget in the unit of " +
		"its costs, or without one, or cancel it.",
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
		"submit it again by itself. Retry its task, submit the job again, or delete it. If this happens again, tell " +
		"the operator of this service.",
	dispatch.ApplicationInvalid: "The document at the application's address defines no service, or is refused. " +
		"Correct it, or submit with another address.",
	dispatch.NotRemoved: "The job has ended, and its copy at the platform, with the results, could not be " +
		"deleted there. Delete it at the platform if you need to.",
	dispatch.HeldByOperator: "The operator of this service has stopped submissions to this platform for now. The job " +
		"is submitted after that; submitted jobs go on.",
	dispatch.EndedByOperator: "The operator of this service ended this job. Retry its task, or submit the job again.",
	dispatch.NoPlatform: "The platform of this job is no longer configured. The operator of this service must " +
		"configure it again.",
}

// Advice returns what an attention means, and what the owner of the job or the task can do; "" for one that it does not
// know.
func Advice(why dispatch.Attention) string { return Attentions[why] }
