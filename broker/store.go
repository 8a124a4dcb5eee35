package broker

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/catalogue/documents"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/visit"
)

// Store stores what clients submit and change. It is safe for concurrent use, also by several processes. All times are
// from its own clock. For an owner, a hidden object or an object of another owner is NotFound.
type Store interface {
	// Accept stores the task, if not nil, and the jobs, all or none, with the documents that define their services. It
	// fills in their ids and times, and as their attention and notice why their account submits nothing, as Record
	// shows it. It wakes their account. All jobs are of one account. A text that is not UTF-8 or contains a NUL is
	// Invalid. If the owner used the key within [dispatch.KeyLife] for the same fingerprint, nothing is stored and the
	// id of the task, or of the first job, stored then is returned as the KeyTarget; for another fingerprint: Conflict.
	// LimitReached, and nothing stored, if the owner would exceed a quota, however many requests and processes accept
	// at once.
	Accept(ctx context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
		within ...dispatch.Quota) (dispatch.KeyTarget, error)
	// FindKey returns what was stored when the user first used the key with this fingerprint. With another fingerprint:
	// Conflict. The zero value means that the key is new, or that its [dispatch.KeyLife] is over.
	FindKey(ctx context.Context, u dispatch.UserID, k dispatch.Key) (dispatch.KeyTarget, error)

	// Cancel stores that the owner no longer wants the job, and wakes its account. A waiting job ends with that. With
	// hide the owner does not see the job from now on, whether it has ended or not.
	Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (dispatch.Job, error)
	// CancelTask cancels all jobs of a task that have not ended, and ends its pause. With hide it hides the task and
	// all its jobs. It returns the account, which it wakes.
	CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, hide bool) (dispatch.Account, error)
	// Discard does what Cancel does with hide, and plans the removal of the job from its platform if the broker
	// submitted it, see [dispatch.Removal].
	Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Job, error)
	// DiscardTask does what CancelTask does with hide, and plans the removal of the jobs as Discard does.
	DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error)
	// PauseTask sets Job.Paused of the jobs of a task that may still be submitted: those that have not ended, and those
	// that failed. Jobs that wait are not due, and get the attention [dispatch.Paused]. It returns the account, which
	// it wakes. A paused task does not change, unless jobs of it would go on without its owner: on trial, or once costs
	// are known. Conflict if the task has ended.
	PauseTask(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.Account, error)
	// ResumeTask undoes PauseTask, and any other pause: its jobs that wait are due now, and a trial is over. A task
	// that is not paused does not change. If budget is not nil, it replaces that of the task, see
	// [dispatch.Budget.Replaced]; the zero value ends it. Conflict, and nothing changed, if the budget has no room for
	// another job.
	ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, budget *dispatch.Budget) (dispatch.Account,
		error)
	// CancelJobs cancels the chosen jobs of a task that have not ended. It returns the account, which it wakes, and the
	// number of those jobs. Invalid, and nothing changed, if the task has no job that the choice names.
	CancelJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice) (dispatch.Account, int,
		error)
	// RetryTask resets the chosen failed jobs of a task to waiting, see [dispatch.Job.Retry], and wakes the account. It
	// returns the account and the number of those jobs. LimitReached as in Accept, Invalid as in CancelJobs.
	RetryTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice,
		within ...dispatch.Quota) (dispatch.Account, int, error)
	// FinishChanges finishes the pause or resumption that Intend or Save has begun because of a budget, and what
	// CancelTask, DiscardTask, PauseTask, ResumeTask, CancelJobs and RetryTask have begun and nobody has continued for
	// idle, because their process died or their caller gave up. They change the jobs of a large task range by range,
	// each in its own commit: from the first one on, Intend submits no waiting job of a task that is being canceled or
	// paused, the jobs that a retry will add count in quotas, and the next change of the task comes after this one. It
	// returns the changes.
	FinishChanges(ctx context.Context, idle time.Duration) ([]dispatch.FinishedChange, error)
	// AnnotateJob changes the annotations of a job, and Job.Updated. Invalid, and nothing changed, if they would exceed
	// their bounds.
	AnnotateJob(ctx context.Context, u dispatch.UserID, id dispatch.JobID, c dispatch.AnnotationChange) error
	// AnnotateTask changes the annotations of a task, and Task.Edited, as AnnotateJob does those of a job.
	AnnotateTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.AnnotationChange) error

	// MarkAwaited makes statuses due that were read longer ago than fresh: now, but not sooner than gap after they were
	// read. The others become due when they are that old. It wakes the accounts of those that are due, except accounts
	// that have booked a send time for their next status read: their visit is planned for it, within a minute at the
	// latest. Statuses that are awaited already, and those that could not be read twice in a row, do not change, so
	// that a failing platform keeps its pauses. It returns the accounts that it woke, sorted.
	MarkAwaited(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh, gap time.Duration) ([]dispatch.Account,
		error)

	// SpreadTasks returns the tasks that have several placements and jobs that have not ended, by id. It notes those
	// whose jobs have all ended, so that they are not read again before one of them is retried.
	SpreadTasks(context.Context) ([]dispatch.SpreadTask, error)
	// MoveJobs moves jobs of a task that wait from one of its placements to another, as m specifies, wakes that one's
	// account, and returns how many it moved, and SpreadTask.Seen as it is then. It moves none if another process moved
	// some since the task was read, and a job only if nothing of it can be at a platform. LimitReached as in Accept.
	MoveJobs(ctx context.Context, m dispatch.JobMove, within ...dispatch.Quota) (moved int, seen int64, err error)

	// BeginSyncRun stores a synchronous run and fills in its id and time. The run is under way until it is ended, or
	// was not renewed for lapse. LimitReached as in Accept; Usage and quotas count the run like a job. Unavailable
	// while an operator holds the account or its platform.
	BeginSyncRun(ctx context.Context, r *dispatch.SyncRun, lapse time.Duration, within ...dispatch.Quota) error
	// RenewSyncRun confirms that a run is still under way.
	RenewSyncRun(ctx context.Context, id dispatch.JobID, lapse time.Duration) error
	// ClaimRef stores the platform job that was created for a run under way. Conflict, and nothing stored, if a job of
	// the run's account or another run has that identifier.
	ClaimRef(context.Context, dispatch.JobID, dispatch.Ref) error
	// EndSyncRun stores how and when a run ended, without its Ref. A run that has ended does not change again.
	EndSyncRun(context.Context, dispatch.SyncRun) error

	// CreateUnstarted stores an unstarted job, or task, which expires after life, and fills in its id, times and
	// version. Until it is started or expires, it counts in Quota.Live and Quota.Bytes like a job. LimitReached, and
	// Invalid for a text, as in Accept. If its key was used before, it only fills in the id, perhaps of a job or task
	// that was started or deleted since. Conflict if the key was used for another request.
	CreateUnstarted(ctx context.Context, n *dispatch.Unstarted, task bool, life time.Duration,
		within ...dispatch.Quota) error
	// ChangeUnstarted replaces the title and the body. Conflict if the version differs.
	ChangeUnstarted(ctx context.Context, n *dispatch.Unstarted, within ...dispatch.Quota) error
	// DeleteUnstarted deletes an unstarted job of its owner.
	DeleteUnstarted(context.Context, dispatch.UserID, dispatch.UnstartedID) error
	// Start deletes an unstarted job and stores the task and the jobs as Accept does, under its id, in one commit.
	// NotFound if another request has started or deleted it, Conflict if its version differs.
	Start(ctx context.Context, n dispatch.Unstarted, t *dispatch.Task, jobs []dispatch.Draft,
		within ...dispatch.Quota) error
}

// Records reads what owners see, see [Store].
//
// An owner's changes are numbered. Each transaction that changes anything of what the owner sees takes the next number,
// and numbers become visible in their order: who has read up to a number has missed nothing. No number is taken by what
// all waiting jobs of an account show while it is held, see [dispatch.ChangedPage].Holds, by what is derived when a
// record is read (a place in the queue, a platform that does not respond), nor when time alone changes a list: a
// synchronous run that lapses, an unstarted job that expires. Unstarted jobs and synchronous runs take numbers and are
// not listed.
type Records interface {
	// Record returns a job to its owner.
	Record(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error)
	// Records returns the owner's jobs that belong to no task, by creation.
	Records(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.Record, error)
	// RecordIncludingHidden returns the owner's job even if it is hidden. It serves clients that repeat a refused
	// request with the same key.
	RecordIncludingHidden(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error)
	// Document returns the document that defined a job's service when the job was accepted; nil if none was stored.
	Document(context.Context, dispatch.UserID, dispatch.JobID) ([]byte, error)

	// Task returns a task to its owner.
	Task(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// Tasks returns the owner's tasks, by creation. A task counts as changed when one of its jobs does.
	Tasks(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.TaskRecord, error)
	// TaskJobs returns a task's jobs by number, without those that the owner deleted.
	TaskJobs(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Page) ([]dispatch.Record, error)
	// FinishedJobs returns the finished jobs of a task after a position, in the order in which they finished, n at
	// most, without those that the owner deleted. They have Record.Value in place of Request.Parameters and
	// Request.Options.
	FinishedJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
		n int) ([]dispatch.Record, error)

	// ChangesSince returns the jobs of no task, and the tasks, of an owner that changed after a place. A task changes
	// with its jobs. With id it returns the task's jobs that changed, and NotFound if the owner has no such task. Of
	// the page, Limit and Most apply as in Records; [dispatch.MostChanged] are returned at most.
	ChangesSince(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace,
		p dispatch.Page) (dispatch.ChangedPage, error)
	// AnyAwaited reports whether a fresher status is awaited for any started job.
	AnyAwaited(context.Context, dispatch.UserID, dispatch.Scope) (bool, error)

	// SyncRuns returns the owner's synchronous runs, newest first. A run that was not renewed in time is Unknown.
	SyncRuns(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.SyncRun, error)
	// Unstarted returns an unstarted job to its owner.
	Unstarted(context.Context, dispatch.UserID, dispatch.UnstartedID) (dispatch.Unstarted, error)
	// UnstartedJobs returns the owner's unstarted jobs and tasks, newest first, with the beginnings of their bodies. Of
	// the filters only Page.Accounts applies.
	UnstartedJobs(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.Unstarted, error)

	// Waiting returns the jobs that wait in a queue, due or not, in their order from one rank to another, both
	// included, without paused ones.
	Waiting(ctx context.Context, a dispatch.Account, l dispatch.Queue, from, to dispatch.Rank) ([]dispatch.JobID, error)
	// WaitingBefore returns how many of the jobs that Waiting returns for a whole queue come before a rank.
	WaitingBefore(ctx context.Context, a dispatch.Account, l dispatch.Queue, to dispatch.Rank) (int, error)

	// Usage counts the owner's jobs at each account, including deleted ones until they are purged. Usage.Lately counts
	// those submitted within d, at most a [dispatch.Day].
	Usage(ctx context.Context, u dispatch.UserID, d time.Duration) ([]dispatch.Usage, error)
	// LabelCharges returns what the owner's runs cost by the value of a label: that of the job, or else of its task,
	// when the platform reported the costs. Newest month first, within a month the highest first, n at most, of the
	// last [dispatch.LabelCostsLife]. Later changes of labels change nothing.
	LabelCharges(ctx context.Context, u dispatch.UserID, label string, n int) ([]dispatch.AccountCharge, error)

	// FinishedRuns returns the owner's latest finished jobs of a service at an account, latest first, n at most, also
	// deleted ones until they are purged.
	FinishedRuns(ctx context.Context, u dispatch.UserID, a dispatch.Account, s dispatch.ServiceHash,
		n int) ([]dispatch.FinishedRun, error)
	// FinishedRunsOfTask returns the latest finished jobs of a task, latest first, n at most, without deleted ones. The
	// caller has read the task as its owner.
	FinishedRunsOfTask(ctx context.Context, id dispatch.TaskID, n int) ([]dispatch.FinishedRun, error)
	// FinishedRequests is FinishedRuns with FinishedRun.Body: the request, or what a task's job adds to the parameters;
	// empty if it has more than PartMost bytes.
	FinishedRequests(ctx context.Context, u dispatch.UserID, a dispatch.Account, s dispatch.ServiceHash,
		n int) ([]dispatch.FinishedRun, error)
	// Underway returns, for each job of a task that is at its platform, when the latest request to submit it is
	// certainly over, in no order. The caller has read the task as its owner.
	Underway(context.Context, dispatch.TaskID) ([]time.Time, error)
}

// Stores is what one store keeps for a broker and its parts.
type Stores interface {
	Store
	Records
	Items
	documents.Store
	visit.Store
}
