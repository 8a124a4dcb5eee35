package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// chosen are the jobs of a task that flags name.
type chosen struct {
	jobs     []int64
	statuses []string
}

// any reports whether a job or status is named.
func (c *chosen) any() bool { return len(c.jobs)+len(c.statuses) > 0 }

func (a *app) cancelCommand() *cobra.Command {
	only := &chosen{}
	command := &cobra.Command{Use: "cancel ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Cancel a job, or the unfinished jobs of a task",
		Long: "Cancel a job, or the unfinished jobs of a task: all of them, unless --job or --status selects some. " +
			"Running jobs are canceled at the platform. Canceled jobs stay in the list, and results of finished " +
			"jobs are kept.\n\n" + idHelp,
		Example: "  eodispatch cancel job-42\n  eodispatch cancel task-7\n  eodispatch cancel task-7 --status " +
			"created,queued",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if t.task {
				made, err := cancelTask(ctx, c, t.id, only)
				return a.changed(t, made, err)
			}
			if only.any() {
				return usage("%s is a job; --job and --status select jobs of a task", t)
			}
			j, err := c.Cancel(ctx, t.id)
			if err != nil || a.json {
				return a.printOr(err, j)
			}
			a.hint("%s is %s.", t, j.Status)
			return nil
		})}
	command.PreRunE = func(command *cobra.Command, _ []string) error { return notEmpty(command.Flags(), "status") }
	jobFlag(command, &only.jobs)
	statusFlag(command, &only.statuses, "only jobs of the task with one of these statuses: --status created,queued")
	return command
}

// notEmpty refuses an empty value of some flags, as of a variable that is not set: without such a flag the request
// would be another, and might change or cost more.
func notEmpty(given *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if !given.Changed(name) {
			continue
		}
		value := given.Lookup(name).Value
		empty := value.String() == ""
		if list, ok := value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0
		}
		if empty {
			return usage("--%s has no value: give one, or omit it", name)
		}
	}
	return nil
}

func cancelTask(ctx context.Context, c *client.Client, id int64, only *chosen) (wire.UpscalingTaskSummary, error) {
	if !only.any() {
		return c.CancelTask(ctx, id)
	}
	statuses, err := parseStatuses(only.statuses)
	if err != nil {
		return wire.UpscalingTaskSummary{}, err
	}
	return c.CancelJobs(ctx, id, wire.JobChoice{Jobs: only.jobs, Status: statuses})
}

func (a *app) retryCommand() *cobra.Command {
	var jobs []int64
	command := &cobra.Command{Use: "retry ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Submit failed jobs of a task again",
		Long: "Submit the failed jobs of a task again, under the same ids: all of them, unless --job selects some. " +
			"If ID is a job of a task, only that job.\n\n" + idHelp,
		Example: "  eodispatch retry task-7\n  eodispatch retry task-7 --job 12,13\n  eodispatch retry job-12",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) (err error) {
			jobs := jobs
			if !t.task {
				if t, jobs, err = a.withinTask(ctx, c, t, jobs); err != nil {
					return err
				}
			}
			var made wire.UpscalingTaskSummary
			if len(jobs) == 0 {
				made, err = c.Retry(ctx, t.id)
			} else {
				made, err = c.RetryJobs(ctx, t.id, wire.JobChoice{Jobs: jobs})
			}
			if err == nil && made.Status.Final() {
				a.hint("Nothing is submitted: none of these jobs has failed.")
			}
			return a.changed(t, made, err)
		})}
	jobFlag(command, &jobs)
	return command
}

// jobFlag adds --job, which chooses jobs of a task.
func jobFlag(command *cobra.Command, jobs *[]int64) {
	command.Flags().Int64SliceVar(jobs, "job", nil, "only these jobs of the task, by `NUMBER`: --job 12,13")
	command.Flags().Lookup("job").DefValue = "" // or the help says that the default is []
}

// withinTask returns the task of a job, and the job as the only one chosen of it.
func (a *app) withinTask(ctx context.Context, c *client.Client, t target, chosen []int64) (task target, jobs []int64,
	err error) {
	if len(chosen) > 0 {
		return t, nil, usage("%s is a job; --job selects jobs of a task", t)
	}
	j, err := c.Job(ctx, t.id)
	if err == nil && j.TaskID == 0 {
		err = usage("only jobs of tasks can be retried, and %s is not one. Submit it again with: eodispatch run", t)
	}
	return target{true, j.TaskID}, []int64{t.id}, err
}

func (a *app) pauseCommand() *cobra.Command {
	return a.taskCommand("pause", (*client.Client).Pause, &cobra.Command{Short: "Pause a task",
		Long: "Pause a task: its waiting jobs are not submitted until you resume or cancel it. Submitted jobs go " +
			"on, and cost.\n\n" + idHelp,
		Example: "  eodispatch pause task-7\n  eodispatch resume task-7"})
}

func (a *app) resumeCommand() *cobra.Command {
	var budget string
	command := a.taskCommand("resume", func(c *client.Client, ctx context.Context, id int64) (wire.UpscalingTaskSummary,
		error) {
		switch budget {
		case "":
			return c.Resume(ctx, id)
		case "none":
			return c.ResumeWithin(ctx, id, 0)
		}
		amount, unit, err := parseBudget(budget)
		if err != nil {
			return wire.UpscalingTaskSummary{}, err
		}
		return c.ResumeWithin(ctx, id, amount, unit...)
	}, &cobra.Command{Short: "Resume a paused task, or one after its trial",
		Long: "Resume a paused task, or one whose trial has ended: its waiting jobs are submitted in turn. If the " +
			"budget is reached, give a higher one; if the platform charges in another unit, give it with that " +
			"unit; or give none.\n\n" + idHelp,
		Example: "  eodispatch resume task-7\n  eodispatch resume task-7 --budget 80\n  eodispatch resume task-7 " +
			"--budget none"})
	command.Flags().StringVar(&budget, "budget", "",
		"new budget of the task: an amount, with the unit if that was wrong (\"80 credits\"), or none")
	command.PreRunE = func(command *cobra.Command, _ []string) error { return notEmpty(command.Flags(), "budget") }
	return command
}

// taskCommand completes a command that changes a whole task.
func (a *app) taskCommand(verb string, change func(*client.Client, context.Context, int64) (wire.UpscalingTaskSummary,
	error), command *cobra.Command) *cobra.Command {
	command.Use, command.GroupID, command.Args, command.ValidArgsFunction = verb+" TASK", "jobs", cobra.ExactArgs(1),
		a.completeTargets
	command.RunE = a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
		if !t.task {
			return usage("%s is a job; %s takes a task", t, verb)
		}
		made, err := change(c, ctx, t.id)
		return a.changed(t, made, err)
	})
	return command
}

// changed prints a task after a change.
func (a *app) changed(t target, made wire.UpscalingTaskSummary, err error) error {
	if err != nil || a.json {
		return a.printOr(err, made)
	}
	a.hint("%s: %s%s", t, countsOf(made.Counts), pauseOf(made.Paused))
	return nil
}

func (a *app) labelCommand() *cobra.Command {
	note := ""
	command := &cobra.Command{Use: "label ID [KEY=VALUE | KEY-]...", GroupID: "jobs", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Change the labels and the note of a job or task",
		Long: "Change the labels and the note of a job or task: KEY=VALUE sets a label, KEY- removes it. Other " +
			"labels stay.\n\n" + idHelp,
		Example: "  eodispatch label task-7 project=hesbaye season=\n  eodispatch label job-42 project- --note " +
			"'cloudy, see task-7'"}
	command.Flags().StringVar(&note, "note", "", "note; empty: remove it")
	command.RunE = func(command *cobra.Command, args []string) error {
		return a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			change, err := annotationChange(args[1:])
			if err != nil {
				return err
			}
			if command.Flags().Changed("note") {
				change.Note = &note
			}
			return a.label(ctx, c, t, change)
		})(command, args)
	}
	return command
}

// annotationChange reads KEY=VALUE and KEY-.
func annotationChange(args []string) (c wire.AnnotationsPatch, err error) {
	for _, arg := range args {
		key, value, set := strings.Cut(arg, "=")
		if c.Labels == nil {
			c.Labels = map[string]*string{}
		}
		switch name, remove := strings.CutSuffix(arg, "-"); {
		case set && key != "":
			c.Labels[key] = &value
		case remove && name != "":
			c.Labels[name] = nil
		default:
			return c, usage("%q: write KEY=VALUE, or KEY- to remove a label", arg)
		}
	}
	return c, nil
}

// label changes the labels and the note of a job or task, and prints what it has then.
func (a *app) label(ctx context.Context, c *client.Client, t target, change wire.AnnotationsPatch) error {
	var made any
	var labels wire.Annotations
	if t.task {
		task, err := c.AnnotateTask(ctx, t.id, change)
		if made, labels = task, task.Annotations; err != nil {
			return err
		}
	} else {
		job, err := c.Annotate(ctx, t.id, change)
		if made, labels = job, job.Annotations; err != nil {
			return err
		}
	}
	if a.json {
		return a.print(made)
	}
	a.hint("%s: %s", t, oneLine(cmp.Or(labelsOf(labels.Labels), "no labels"), 2000))
	return nil
}

func (a *app) deleteCommand() *cobra.Command {
	var everywhere, yes bool
	command := &cobra.Command{Use: "delete ID...", GroupID: "jobs", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Cancel and delete jobs and tasks",
		Long: "Cancel and delete jobs and tasks. They disappear from the list. With --platform, the jobs and their " +
			"results are deleted at the platform too, once they have ended there. On a terminal, you are asked " +
			"before.\n\n" + idHelp,
		Example: "  eodispatch delete job-42 task-7\n  eodispatch delete task-7 --platform",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) (err error) {
			targets, names := make([]target, len(args)), make([]string, len(args))
			for i, arg := range args {
				if targets[i], err = parse(ctx, c, arg); err != nil {
					return err
				}
				if names[i] = targets[i].String(); targets[i].task {
					names[i] += " with all its jobs"
				}
			}
			if !yes {
				question := "Delete " + strings.Join(names, ", ") + "? Unfinished jobs are canceled."
				sure, err := a.confirm(ctx, question)
				if err == nil && !sure {
					a.hint("Nothing is deleted.")
				}
				if err != nil || !sure {
					return err
				}
			}
			for _, t := range targets {
				if err := remover(c, t, everywhere)(ctx, t.id); err != nil {
					return fmt.Errorf("%s is not deleted: %w", t, err)
				}
				if err := a.deleted(t.String(), "%s is deleted."); err != nil {
					return err
				}
			}
			return nil
		})}
	command.Flags().BoolVar(&everywhere, "platform", false, "delete the jobs and their results at the platform, too")
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}

// deleted reports that something was deleted.
func (a *app) deleted(id, hint string) error {
	if a.json {
		if err := a.print(map[string]string{"message_type": "deleted", "id": id}); err != nil {
			return err
		}
	}
	a.hint(hint, id)
	return nil
}

// remover returns what deletes a job or a task, at its platform too or not.
func remover(c *client.Client, t target, everywhere bool) func(context.Context, int64) error {
	switch {
	case t.task && everywhere:
		return c.DiscardTask
	case t.task:
		return c.DeleteTask
	case everywhere:
		return c.Discard
	}
	return c.Delete
}
