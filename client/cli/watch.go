package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{Use: "watch ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets, Short: "Show the progress of a job or task until its end",
		Long: `Show the progress of a job or task until its end. Ctrl-C ends only the display; the jobs continue.

` + idHelp + exitHelp,
		Example: "  eodispatch watch task-7\n  eodispatch watch @latest --json",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			return a.follow(ctx, c, t, "watch "+t.String(), nil)
		})}
}

const exitHelp = `

The exit code is 0 if all jobs finished, 3 if all were canceled, 5 if some did not finish, 6 if the task waits for your
decision, and 8 after the timeout of wait.

A task waits for your decision when its trial has ended or its budget has no room, and none of its jobs runs any more.
eodispatch resume runs the rest, with --budget within a higher budget; eodispatch cancel does not. Paused tasks are
waited for.`

func (a *app) waitCommand() *cobra.Command {
	limit := time.Duration(0)
	command := &cobra.Command{Use: "wait ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Wait for the end of a job or task",
		Long:              "Wait for the end of a job or task, without showing progress.\n\n" + idHelp + exitHelp,
		Example: `  eodispatch wait task-7 && eodispatch download task-7 --to results
  eodispatch wait job-42 --timeout 10m`,
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if limit < 0 {
				return usage("--timeout cannot be negative")
			}
			over := errors.New("the timeout is over")
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, limit, over)
				defer cancel()
			}
			w := &watching{app: a, target: t, shown: noDisplay{}}
			err := w.run(ctx, c, nil)
			if err != nil && context.Cause(ctx) == over {
				return &exitError{ExitRunning, fmt.Errorf("%s has not ended within %v", t, limit)}
			}
			return w.conclude(err)
		})}
	command.Flags().DurationVar(&limit, "timeout", 0, "maximum time to wait; default: no limit")
	return command
}

// display shows the progress of a job or task.
type display interface {
	show(w *watching) // after each change
	note(line string) // a line that stays
	end()
}

type noDisplay struct{}

func (noDisplay) show(*watching) {}
func (noDisplay) note(string)    {}
func (noDisplay) end()           {}

// watching is what is known of a job or task that is followed.
type watching struct {
	*app
	target
	shown display

	status   wire.Status
	progress *float64
	counts   map[wire.Status]int // of a task
	paused   bool                // a task
	why      *wire.JobAttention
	rest     *wire.TaskRest            // of a task
	printed  string                    // the code of the attention of which a line was shown
	failed   map[int64]bool            // jobs of which a line was shown
	last     wire.ProcessingJobSummary // of a job
	// jobs before the next one of a task in the queue; nil: none waits, or it is not known
	before  *int
	began   time.Time
	endedAt int // number of ended jobs when the watch began

	mu sync.Mutex // held while any of the above is used, as a task's place in the queue is read beside its stream
}

// follow shows a job or task until it ends. comeBack is the command that goes on after an interrupt; each is called for
// each job that has changed, optional.
func (a *app) follow(ctx context.Context, c *client.Client, t target, comeBack string,
	each func(wire.ProcessingJobSummary)) error {
	w := &watching{app: a, target: t, shown: a.display(t)}
	err := w.run(ctx, c, each)
	w.shown.end()
	if ctx.Err() != nil {
		a.hint("%s continues. Go on with: eodispatch %s", t, comeBack)
		return err
	}
	return w.conclude(err)
}

// run follows the target to its end.
func (w *watching) run(ctx context.Context, c *client.Client, each func(wire.ProcessingJobSummary)) error {
	w.began, w.failed = time.Now(), map[int64]bool{}
	if w.task {
		return w.runTask(ctx, c, each)
	}
	for j, err := range c.WatchJob(ctx, w.id) {
		if err != nil {
			return err
		}
		w.status, w.progress, w.last, w.why = j.Status, j.Progress, j.ProcessingJobSummary, j.Attention
		w.sayWait()
		if err := w.record(client.Update{Jobs: []wire.ProcessingJobSummary{w.last}}, each); err != nil {
			return err
		}
	}
	return nil
}

func (w *watching) runTask(ctx context.Context, c *client.Client, each func(wire.ProcessingJobSummary)) error {
	within, stop := context.WithCancel(ctx)
	reading, looking := sync.WaitGroup{}, false
	defer reading.Wait()
	defer stop()
	for u, err := range c.WatchTask(ctx, w.id) {
		if err != nil {
			return err
		}
		if u.Interrupted != nil {
			w.shown.note("Connection lost; reconnecting …")
			continue
		}
		ended, err := w.take(u, each)
		if err != nil || ended {
			return err
		}
		if _, hidden := w.shown.(noDisplay); !hidden && !looking {
			looking = true
			reading.Go(func() { w.readPlace(within, c) })
		}
	}
	return nil
}

// take notes an update of a task and reports whether the task has ended.
func (w *watching) take(u client.Update, each func(wire.ProcessingJobSummary)) (ended bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range u.Tasks {
		if w.status == "" {
			w.endedAt, _ = wire.Ended(t.Counts)
		}
		w.status, w.progress, w.counts, w.paused, w.why, w.rest = t.Status, t.Progress, t.Counts, t.Paused, t.Attention,
			t.Rest
	}
	w.sayWait()
	return w.status.Final() || w.stopped(), w.record(u, each)
}

// ownerDecides are the attentions of a paused task that nobody but its owner ends.
var ownerDecides = []string{"trial_ended", "budget_reached", "budget_unusable"}

// kept reports whether the rest of a task waits until its owner has decided about it.
func (w *watching) kept() bool {
	return w.paused && w.why != nil && slices.Contains(ownerDecides, w.why.Code)
}

// stopped reports whether a task waits for its owner, and none of its jobs runs or is being submitted any more.
func (w *watching) stopped() bool {
	ended, all := wire.Ended(w.counts)
	waiting := w.counts[wire.Created]
	if w.rest != nil { // else it is not known how many of them are being submitted
		waiting = min(waiting, w.rest.Jobs)
	}
	return w.kept() && ended+waiting == all
}

// ownerActs are the attentions of jobs that wait until their owner does something.
var ownerActs = []string{"paused", "sign_in_required"}

// sayWait says once why a task or a job waits for its owner, while it is waited for. Without a display it is a hint.
func (w *watching) sayWait() {
	code := ""
	if w.why != nil && (w.kept() || slices.Contains(ownerActs, w.why.Code)) {
		code = w.why.Code
	}
	if code != "" && code != w.printed && !w.stopped() {
		line := fmt.Sprintf("%s: %s", w.target, oneLine(w.why.Message, 300))
		if w.why.Link != nil {
			line += " " + *w.why.Link
		}
		if _, hidden := w.shown.(noDisplay); hidden {
			w.hint("%s", line)
		} else {
			w.shown.note(line)
		}
	}
	w.printed = code
}

// goOn returns how the owner decides about the rest of a task.
func (w *watching) goOn() string {
	resume := map[string]string{"budget_reached": " --budget AMOUNT", "budget_unusable": " --budget none"}[w.why.Code]
	rest := ""
	if w.rest != nil {
		rest = "The rest: " + restOf(w.rest) + ". "
	}
	return rest + fmt.Sprintf("Run the rest with: eodispatch resume %s%s; run none of it with: eodispatch cancel %[1]s",
		w.target, resume)
}

const placeEvery = 15 * time.Second

// readPlace reads, again and again, how many jobs are before the next one of the task, which no stream contains. Errors
// are left to the stream to report.
func (w *watching) readPlace(ctx context.Context, c *client.Client) {
	again := time.NewTicker(placeEvery)
	defer again.Stop()
	for {
		w.mu.Lock()
		waits := w.counts[wire.Created] > 0
		w.mu.Unlock()
		var before *int
		if waits {
			for j, err := range c.TaskJobs(ctx, w.id, client.Filter{Statuses: []wire.Status{wire.Created},
				PageSize: 1}) {
				if err == nil {
					before = j.QueuePosition
				}
				break
			}
		}
		w.mu.Lock()
		moved := (before == nil) != (w.before == nil) || before != nil && *before != *w.before
		if w.before = before; moved && ctx.Err() == nil { // else a log would get a line for each new estimate
			w.shown.show(w)
		}
		w.mu.Unlock()
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// record notes the jobs of an update and shows the result.
func (w *watching) record(u client.Update, each func(wire.ProcessingJobSummary)) error {
	if w.json {
		if err := w.printUpdate(u); err != nil {
			return err
		}
	}
	for _, j := range u.Jobs {
		if j.Status != wire.Failed {
			delete(w.failed, j.ID) // it may be retried
		} else if !w.failed[j.ID] {
			w.failed[j.ID] = true
			if w.task { // the end of a single job is printed anyway
				w.shown.note(fmt.Sprintf("%s failed: %s", target{false, j.ID}, whyOf(j)))
			}
		}
		if each != nil {
			each(j)
		}
	}
	w.shown.show(w)
	return nil
}

// printUpdate prints an object for each task and job.
func (w *watching) printUpdate(u client.Update) error {
	l := &listing{app: w.app}
	for _, t := range u.Tasks {
		if err := l.task(t); err != nil {
			return err
		}
	}
	for _, j := range u.Jobs {
		if err := l.job(j); err != nil {
			return err
		}
	}
	return nil
}

// summary is the last object of a stream.
type summary struct {
	Kind   string              `json:"message_type"`
	ID     string              `json:"id"`
	Status wire.Status         `json:"status"`
	Counts map[wire.Status]int `json:"counts,omitempty"`
}

// conclude returns an error of the watching or, if there is none, prints the last object of the stream and returns the
// error of a job or task that has ended without success.
func (w *watching) conclude(err error) error {
	if err == nil && w.json {
		err = w.print(summary{"summary", w.target.String(), w.status, w.counts})
	}
	if err != nil {
		return err
	}
	ended, all := wire.Ended(w.counts)
	switch {
	case w.task && w.stopped():
		return &exitError{ExitPaused, fmt.Errorf("%s waits for your decision: %s. %s %s", w.target,
			countsOf(w.counts), oneLine(w.why.Message, 300), w.goOn())}
	case w.status == wire.Canceled:
		return &exitError{ExitCanceled, fmt.Errorf("%s was canceled", w.target)}
	case w.status == wire.Failed && !w.task:
		return &exitError{ExitUnsuccessful, fmt.Errorf("%s failed: %s", w.target, whyOf(w.last))}
	case w.task && w.counts[wire.Finished] < all:
		return &exitError{ExitUnsuccessful,
			fmt.Errorf("%s has ended: %s. Show the reasons with: eodispatch list --task %s --status failed; try "+
				"again with: eodispatch retry %s", w.target, countsOf(w.counts), w.target, w.target)}
	case !w.task && !w.status.Final(), w.task && ended < all:
		return fmt.Errorf("%s has not ended", w.target)
	}
	return nil
}

// state is the line that is shown for the present state.
func (w *watching) state(now time.Time) string {
	line := string(w.status)
	if w.task {
		line += ": " + countsOf(w.counts) + pauseOf(w.paused)
	}
	if w.progress != nil && !w.status.Final() {
		line += " " + percent(w.progress)
	}
	if n := w.last.QueuePosition; n != nil && !w.status.Final() {
		line += fmt.Sprintf(", %d ahead in the queue", *n)
	}
	if w.before != nil && *w.before > 0 && w.counts[wire.Created] > 0 {
		line += fmt.Sprintf(", %d ahead of its next job in the queue", *w.before)
	}
	if rest := w.estimate(now); rest > 0 {
		line += fmt.Sprintf(", about %v left", rest)
	}
	return line
}

// estimate returns how long the rest of a task will take at the rate of the jobs that have ended since the watch began;
// 0: not known.
func (w *watching) estimate(now time.Time) time.Duration {
	ended, all := wire.Ended(w.counts)
	since, past := ended-w.endedAt, now.Sub(w.began)
	if since < 3 || past < 5*time.Second || ended == all {
		return 0
	}
	return (past / time.Duration(since) * time.Duration(all-ended)).Round(time.Second)
}
