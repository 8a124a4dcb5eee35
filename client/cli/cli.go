// Package cli is the command line for users of a broker: it signs them in, submits jobs and tasks, follows them, and
// downloads their results. It stands on package client alone.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/eodispatch/eodispatch/client"
)

// Exit codes of the users' commands, besides 0 for success.
const (
	ExitFailed       = 1
	ExitUsage        = 2   // the arguments are wrong
	ExitCanceled     = 3   // the job or all jobs of the task were canceled
	ExitSignIn       = 4   // a sign-in is needed
	ExitUnsuccessful = 5   // the job failed, or jobs of the task did
	ExitPaused       = 6   // a task waits for its owner: its trial has ended, or its budget has no room
	ExitRunning      = 8   // the time of wait is over, and the job or task has not ended
	ExitInterrupted  = 130 // by Ctrl-C
)

// Console is the environment that commands run in.
type Console struct {
	In       io.Reader // questions are asked only if it and Err are a terminal. Optional
	Out, Err io.Writer
	Environ  []string
	// Signals returns a context that is canceled by the first interrupt.
	Signals func(context.Context) (context.Context, context.CancelFunc)
	// Transport sends all requests. nil: http.DefaultTransport.
	Transport http.RoundTripper
	// Outlines returns the outlines of countries as TopoJSON, in its object "countries"; nil if the program has none.
	// Optional.
	Outlines func() []byte
}

// Groups of commands in the help of the program.
var Groups = []*cobra.Group{
	{ID: "access", Title: "Sign in:"},
	{ID: "services", Title: "Find a service:"},
	{ID: "jobs", Title: "Run and follow jobs:"},
	{ID: "results", Title: "Get results:"},
}

// Commands returns the users' commands. version is sent to brokers.
func Commands(c Console, version string) []*cobra.Command {
	out := &output{Writer: c.Out}
	c.Out = out
	a := &app{Console: c, out: out, version: version}
	all := []*cobra.Command{
		a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.tokenCommand(), a.linkCommand(), a.permitCommand(),
		a.usageCommand(),
		a.servicesCommand(), a.serviceCommand(), a.paramsCommand(), a.platformsCommand(), a.gridsCommand(),
		a.tilesCommand(),
		a.runCommand(), a.upscaleCommand(), a.requestCommand(), a.listCommand(), a.showCommand(), a.watchCommand(),
		a.waitCommand(), a.logsCommand(), a.provenanceCommand(),
		a.cancelCommand(), a.pauseCommand(), a.resumeCommand(), a.retryCommand(), a.labelCommand(), a.deleteCommand(),
		a.hooksCommand(),
		a.resultsCommand(), a.downloadCommand(),
	}
	for _, command := range all {
		flags := command.Flags()
		if command.HasSubCommands() {
			flags = command.PersistentFlags()
		}
		flags.StringVar(&a.broker, "broker", "",
			"`NAME` or URL of the broker; default: $EODISPATCH_BROKER, or that of the last login")
		flags.BoolVar(&a.insecure, "insecure", false,
			"allow http to a broker or identity provider on another machine; anyone on the network can read your token")
		flags.BoolVar(&a.json, "json", false,
			"print JSON as in the OpenAPI document; lists and streams have one object per line")
		flags.BoolVarP(&a.quiet, "quiet", "q", false, "print no progress and no hints")
		_ = command.RegisterFlagCompletionFunc("broker", a.completeBrokers) // fails only for unknown flags
	}
	return all
}

// app is what all commands share.
type app struct {
	Console
	out     *output // Console.Out
	version string
	broker  string
	json    bool
	quiet   bool

	insecure bool
}

// run adapts the function of a command: it ends at the first interrupt.
func (a *app) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		ctx, stop := a.Signals(command.Context())
		defer stop()
		err := f(ctx, args)
		if err == nil {
			err = a.out.failure()
		}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return &exitError{ExitInterrupted, errors.New("interrupted")}
		}
		if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusUnauthorized &&
			a.env("EODISPATCH_TOKEN") != "" {
			return &exitError{ExitSignIn,
				fmt.Errorf("%s The token is from EODISPATCH_TOKEN: set a new one, or unset it to use the sign-in "+
					"of eodispatch login", e.Message)}
		}
		return err
	}
}

// onClient adapts the function of a command that calls the broker.
func (a *app) onClient(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return a.run(func(ctx context.Context, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return f(ctx, c, args)
	})
}

func (a *app) env(name string) string {
	for _, variable := range a.Environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// hint prints a line for people, unless they want none.
func (a *app) hint(format string, values ...any) {
	if !a.quiet {
		fmt.Fprintf(a.Err, format+"\n", values...)
	}
}

// output is where commands print. It keeps the first error, so that no command ends with success after a part of what
// it prints was lost.
type output struct {
	io.Writer
	mu  sync.Mutex
	err error
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Writer.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// confirm asks a question at a terminal and reports whether the answer is yes. Elsewhere nobody can be asked, and it
// reports true.
func (a *app) confirm(ctx context.Context, question string) (bool, error) {
	if !isTerminal(a.In) || !isTerminal(a.Err) {
		return true, nil
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read of a terminal does not end with ctx
		line, _ := bufio.NewReader(a.In).ReadString('\n') // at the end of the input the answer is no
		answer <- line
	}()
	select {
	case line := <-answer:
		return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))), nil
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return false, ctx.Err()
	}
}

// print writes v as JSON in one line.
func (a *app) print(v any) error { return json.NewEncoder(a.Out).Encode(v) }

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

func usage(format string, values ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, values...)}
}

// ExitCode returns the exit code for an error of a command, 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == 401 || client.IsCode(err, "SIGN_IN_REQUIRED") {
		return ExitSignIn
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode != "" {
		return ExitSignIn
	}
	return ExitFailed
}

// Explain returns the text of an error of a command, for a terminal: what happened, and what to do.
func Explain(err error) string { return printable(explain(err)) }

func explain(err error) string {
	if d, ok := errors.AsType[*doubt](err); ok {
		return fmt.Sprintf("%s\nIt may have been submitted. Repeat the command with --key %s, so that nothing is "+
			"submitted twice.", explain(d.error), d.key)
	}
	if e, ok := errors.AsType[*url.Error](err); ok && !errors.Is(err, context.Canceled) {
		host := e.URL
		if u, bad := url.Parse(e.URL); bad == nil {
			host = u.Scheme + "://" + u.Host
		}
		return fmt.Sprintf("cannot reach %s: %v. Check the address and the network, then run the command again.", host,
			e.Err)
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == 401 {
		return e.Message + " Run: eodispatch login"
	}
	return err.Error()
}
