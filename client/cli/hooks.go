package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// hooksCommand groups the commands about URLs that are notified of jobs.
func (a *app) hooksCommand() *cobra.Command {
	command := &cobra.Command{Use: "hooks", GroupID: "jobs", Short: "Notify a server when your jobs end",
		Long: "Notify a server when your jobs end. A hook is a URL that receives a signed message for each event, " +
			"at least once.\n\ndocs/webhooks.md describes the messages.",
		Example: "  eodispatch hooks add https://receiver.example.org/jobs --events failed,task_ended\n  eodispatch " +
			"hooks list"}
	command.AddCommand(a.hooksListCommand(), a.hooksAddCommand(), a.hooksRemoveCommand(), a.hooksTestCommand(),
		a.hooksLogCommand(), a.hooksResendCommand())
	return command
}

func (a *app) hooksListCommand() *cobra.Command {
	return &cobra.Command{Use: "list [ID]", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeTargets,
		Short:   "List your hooks, or those of a job or task",
		Long:    "List the hooks for all your jobs or, with ID, those for one job or task.\n\n" + idHelp,
		Example: "  eodispatch hooks list\n  eodispatch hooks list task-7",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			all, err := listHooks(ctx, c, args)
			if err != nil || a.json {
				return errors.Join(err, printEach(a, all))
			}
			return a.table("ID\tSTATE\tNEXT TRY\tEVENTS\tURL", func(row func(...any)) {
				for _, h := range all {
					row(h.ID, h.State, maybeMoment(h.NextTry), eventsOf(h), h.URL)
				}
			})
		})}
}

func listHooks(ctx context.Context, c *client.Client, args []string) ([]wire.Hook, error) {
	if len(args) == 0 {
		return c.Hooks(ctx)
	}
	t, err := parse(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	if t.task {
		return c.TaskHooks(ctx, t.id)
	}
	return c.JobHooks(ctx, t.id)
}

// printEach prints each of a list as JSON, in a line of its own.
func printEach[T any](a *app, all []T) error {
	for _, one := range all {
		if err := a.print(one); err != nil {
			return err
		}
	}
	return nil
}

// maybeMoment formats a time for people, "-" if there is none.
func maybeMoment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return moment(*t)
}

func eventsOf(h wire.Hook) string {
	events := strings.Join(h.Events, ", ")
	if len(h.Shares) > 0 {
		events += " (" + strings.Trim(fmt.Sprint(h.Shares), "[]") + " %)"
	}
	return events
}

// hookEvents are the events that a hook can receive.
var hookEvents = []string{"running", "finished", "failed", "canceled", "attention", "task_ended", "task_share"}

func (a *app) hooksAddCommand() *cobra.Command {
	var wanted wire.HookRequest
	command := &cobra.Command{Use: "add URL", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Short: "Add a URL to notify",
		Long: "Add a URL that is notified of your jobs, also those of tasks, and print its id and secret. The " +
			"secret verifies the signature of messages (Standard Webhooks) and is not shown again. The URL needs " +
			"https and a public address.",
		Example: "  eodispatch hooks add https://receiver.example.org/jobs\n  eodispatch hooks add " +
			"https://receiver.example.org/jobs --events failed,task_share --shares 10,50",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			wanted.URL = args[0]
			if len(wanted.Shares) > 0 && !slices.Contains(wanted.Events, "task_share") {
				return usage("--shares needs --events task_share")
			}
			h, err := c.AddHook(ctx, wanted)
			if err != nil || a.json {
				return a.printOr(err, h)
			}
			a.hint("%s is notified of: %s.\n"+
				"Keep the secret; it is not shown again. Test the hook with: eodispatch hooks test %s",
				oneLine(h.URL, 200), eventsOf(h.Hook), h.ID)
			_, err = fmt.Fprintf(a.Out, "id      %s\nsecret  %s\n", oneLine(h.ID, 200), oneLine(h.Secret, 200))
			return err
		})}
	command.Flags().StringSliceVar(&wanted.Events, "events", []string{"task_ended", "attention"},
		"events to send: "+strings.Join(hookEvents, ", "))
	command.Flags().IntSliceVar(&wanted.Shares, "shares", nil,
		"with task_share: percentages of a task's jobs; default: 25,50,75")
	// fails only for unknown flags
	_ = command.RegisterFlagCompletionFunc("events", cobra.FixedCompletions(hookEvents,
		cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (a *app) hooksRemoveCommand() *cobra.Command {
	return &cobra.Command{Use: "remove HOOK...", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeHooks,
		Short: "Delete hooks", Long: "Delete hooks, and drop the messages that wait for them.",
		Example: "  eodispatch hooks remove k3v7q2",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, id := range args {
				if err := c.DeleteHook(ctx, id); err != nil {
					return fmt.Errorf("hook %s is not deleted: %w", id, err)
				}
				if err := a.deleted(id, "Hook %s deleted."); err != nil {
					return err
				}
			}
			return nil
		})}
}

// testedWithin is how long a test waits for the receiver's answer: a try takes ten seconds at most.
const testedWithin = 30 * time.Second

func (a *app) hooksTestCommand() *cobra.Command {
	return &cobra.Command{Use: "test HOOK", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHooks,
		Short: "Send a test message to a hook and show the result",
		Long: fmt.Sprintf(
			"Send a test message to a hook, wait up to %v for the response, and show it. The exit code is %d if "+
				"the message did not arrive.", testedWithin, ExitUnsuccessful),
		Example: "  eodispatch hooks test k3v7q2",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := testHook(ctx, c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				err = a.print(d)
			}
			switch {
			case err != nil:
				return err
			case d.State == "delivered":
				a.hint("The test message arrived: the receiver responded with %d.", *d.Answer)
				return nil
			case d.Tried == nil:
				return &exitError{ExitRunning, fmt.Errorf("the test message has not been sent yet; see: eodispatch "+
					"hooks log %s", args[0])}
			}
			return &exitError{ExitUnsuccessful, fmt.Errorf("the test message did not arrive (HTTP status %s); it "+
				"will be retried. %s", orDash(d.Answer), oneLine(d.Notice, 500))}
		})}
}

// testHook sends a test and returns it when it was tried, or when too much time has passed.
func testHook(ctx context.Context, c *client.Client, hook string) (sent wire.Delivery, err error) {
	before, err := c.Deliveries(ctx, hook)
	if err == nil {
		err = c.TestHook(ctx, hook)
	}
	if err != nil {
		return sent, err
	}
	had := map[string]bool{}
	for _, d := range before {
		had[d.ID] = true
	}
	limit, again := time.After(testedWithin), time.NewTicker(time.Second)
	defer again.Stop()
	for {
		all, err := c.Deliveries(ctx, hook)
		if err != nil {
			return sent, err
		}
		if n := slices.IndexFunc(all, func(d wire.Delivery) bool { return d.Event == "test" && !had[d.ID] }); n >= 0 {
			sent = all[n]
		}
		if sent.Answer != nil || sent.Notice != "" || sent.State == "failed" {
			return sent, nil
		}
		select {
		case <-again.C:
		case <-limit:
			return sent, nil
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
}

func (a *app) hooksLogCommand() *cobra.Command {
	return &cobra.Command{Use: "log HOOK", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHooks,
		Short:   "Show the last messages to a hook",
		Long:    "Show the last 100 messages to a hook, newest first, with the responses of its receiver.",
		Example: "  eodispatch hooks log k3v7q2",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			all, err := c.Deliveries(ctx, args[0])
			if err != nil || a.json {
				return errors.Join(err, printEach(a, all))
			}
			return a.table("ID\tABOUT\tEVENT\tHAPPENED\tSTATE\tTRIES\tANSWER\tNEXT TRY\tNOTICE",
				func(row func(...any)) {
					for _, d := range all {
						row(d.ID, aboutOf(d), eventOf(d), moment(d.Happened), d.State, d.Tries, orDash(d.Answer),
							maybeMoment(d.NextTry), d.Notice)
					}
				})
		})}
}

// eventOf returns the event of a message, with the reason if a job or a task waits for the user.
func eventOf(d wire.Delivery) string {
	if d.Reason != "" {
		return d.Event + ": " + d.Reason
	}
	return d.Event
}

func aboutOf(d wire.Delivery) string {
	switch {
	case d.Job != nil:
		return target{false, *d.Job}.String()
	case d.Task != nil:
		return target{true, *d.Task}.String()
	}
	return "-"
}

func (a *app) hooksResendCommand() *cobra.Command {
	return &cobra.Command{Use: "resend HOOK MESSAGE", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeHooks,
		Short:   "Send a message to a hook again",
		Long:    "Send a message to a hook again; hooks log lists them. A hook that is gone becomes active again.",
		Example: "  eodispatch hooks resend k3v7q2 job-12-7-finished",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.SendAgain(ctx, args[0], args[1]); err != nil {
				return err
			}
			a.hint("%s will be sent again. See the result with: eodispatch hooks log %s", args[1], args[0])
			return nil
		})}
}

// completeHooks completes the id of a hook and, after it, that of a message.
func (a *app) completeHooks(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, c *client.Client, add func(string, string)) error {
		if len(args) == 1 && command.Name() == "resend" {
			all, err := c.Deliveries(ctx, args[0])
			for _, d := range all {
				add(d.ID, d.Event+", "+d.State)
			}
			return err
		}
		all, err := c.Hooks(ctx)
		for _, h := range all {
			add(h.ID, h.URL+", "+h.State)
		}
		return err
	})
}
