package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	osuser "os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/observe/operator"
	"github.com/eodispatch/eodispatch/store"
)

// operatorWithin limits a request of an operator's command.
const operatorWithin = time.Minute

// operatorCommand asks the broker on this machine, at its private listener.
type operatorCommand struct {
	configFlags
	JSON bool
	c    console
}

func operatorCommandLine(c console) *cobra.Command {
	root := &cobra.Command{Use: "operator", Short: "Find stuck jobs, hold platforms, end jobs",
		Args: cobra.ArbitraryArgs, RunE: missingCommand,
		Long: `Commands for operators. They talk to the broker on this machine, at its private listener (telemetry.listen); in a
container, run them inside. The broker logs each change with the message "audit".

While a platform or an account is on hold, no replica submits its jobs. Jobs are accepted, and show the attention
held_by_operator with your reason; submitted jobs go on.`,
		Example: `  eodispatch operator jobs --config broker.yaml
  eodispatch operator hold cdse "CDSE is being updated until noon" --config broker.yaml
  eodispatch operator release cdse --config broker.yaml
  eodispatch operator history 4711 --config broker.yaml
  eodispatch operator end 4711 "the platform has lost the job" --config broker.yaml`}
	for _, one := range []struct {
		use, short, long, example string
		args                      cobra.PositionalArgs
		run                       func(*operatorCommand, []string) error
	}{
		{"jobs", "List jobs that need attention: in doubt, unknown, stalled, set aside, …", "",
			"  eodispatch operator jobs --config broker.yaml", cobra.NoArgs, (*operatorCommand).jobs},
		{"holds", "List all holds", "", "  eodispatch operator holds --config broker.yaml", cobra.NoArgs,
			(*operatorCommand).holds},
		{"hold PLATFORM|ACCOUNT REASON", "Submit nothing to a platform or for an account, until you release it",
			"Submit nothing to a platform, or for one of its accounts, until you release it. Users see the reason. " +
				"An account is written as in the log: PLATFORM/shared, PLATFORM/open or \"PLATFORM/ISSUER SUBJECT\".",
			"  eodispatch operator hold cdse \"CDSE is being updated until noon\" --config broker.yaml",
			cobra.ExactArgs(2), (*operatorCommand).hold},
		{"release PLATFORM|ACCOUNT", "End a hold", "", "  eodispatch operator release cdse --config broker.yaml",
			cobra.ExactArgs(1), (*operatorCommand).release},
		{"history JOB", "Show the history of a job: its changes and requests",
			"Show the history of a job: its changes, requests to the platform and the kinds of the responses, with " +
				"the texts that its owner may see. operator.history sets how long it is kept (default: a week). " +
				"Reads of an unchanged status are not listed.",
			"  eodispatch operator history 4711 --config broker.yaml", cobra.ExactArgs(1), (*operatorCommand).history},
		{"end JOB|PLATFORM|ACCOUNT REASON",
			"End a stuck job as failed, or all jobs of a platform or account with an unknown submission",
			`End a job that does not end by itself, as failed, for example because the platform has lost it. Its owner sees the
reason, and can retry it. It is canceled at the platform if possible.

With a platform or an account, written as for "operator hold", end all its jobs with the attention
submission_unknown.`,
			"  eodispatch operator end 4711 \"the platform has lost the job\" --config broker.yaml\n  eodispatch " +
				"operator end geo/shared \"the server was restarted\" --config broker.yaml",
			cobra.ExactArgs(2), (*operatorCommand).end},
	} {
		o := &operatorCommand{c: c}
		below := &cobra.Command{Use: one.use, Short: one.short, Long: one.long, Example: one.example, Args: one.args,
			RunE: func(_ *cobra.Command, args []string) error { return one.run(o, args) }}
		o.flags(below)
		below.Flags().BoolVar(&o.JSON, "json", false, "print the broker's response as JSON")
		root.AddCommand(below)
	}
	return root
}

func (o *operatorCommand) jobs([]string) error {
	var all []operator.Job
	return o.show(http.MethodGet, "/operator/jobs", nil, &all, func(w io.Writer) {
		fmt.Fprintln(w, "JOB\tATTENTION\tSTATUS\tSINCE\tACCOUNT\tAT PLATFORM\tTEXT")
		for _, j := range all {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", j.ID, j.Attention, j.Status, stamp(j.Moved), j.Account,
				cmp.Or(j.Ref, "-"), j.Text)
		}
	})
}

func (o *operatorCommand) holds([]string) error {
	var all []operator.Hold
	return o.show(http.MethodGet, "/operator/holds", nil, &all, func(w io.Writer) {
		fmt.Fprintln(w, "HELD\tSINCE\tBY\tREASON")
		for _, h := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Scope, stamp(h.Since), h.By, h.Notice)
		}
	})
}

func (o *operatorCommand) hold(args []string) error {
	var h operator.Hold
	return o.show(http.MethodPost, "/operator/holds", operator.Hold{Scope: args[0], Notice: args[1]}, &h,
		func(w io.Writer) {
			fmt.Fprintf(w, "%s is on hold. Release it with: eodispatch operator release %q\n", h.Scope, h.Scope)
		})
}

func (o *operatorCommand) release(args []string) error {
	var h operator.Hold
	return o.show(http.MethodDelete, "/operator/holds?scope="+url.QueryEscape(args[0]), nil, &h, func(w io.Writer) {
		fmt.Fprintf(w, "%s is released\n", h.Scope)
	})
}

// numberOf returns the number of a job, which users know as job-4711.
func numberOf(job string) string { return strings.TrimPrefix(job, "job-") }

func (o *operatorCommand) history(args []string) error {
	var all []operator.Event
	path := "/operator/jobs/" + url.PathEscape(numberOf(args[0])) + "/events"
	return o.show(http.MethodGet, path, nil, &all, func(w io.Writer) {
		if len(all) == 0 {
			fmt.Fprintf(w, "The history has no entry of job %s.\n", numberOf(args[0]))
			return
		}
		fmt.Fprintln(w, "TIME\tWHAT\tOUTCOME\tTOOK\tPHASE\tSTATUS\tATTENTION\tATTEMPT\tDETAIL")
		for _, e := range all {
			took := "-"
			if e.Took > 0 {
				took = strconv.FormatFloat(e.Took, 'f', 3, 64) + " s"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", stamp(e.At), e.What, cmp.Or(e.Outcome, "-"), took,
				e.Phase, e.Status, cmp.Or(e.Attention, "-"), e.Attempt, e.Detail)
		}
	})
}

func (o *operatorCommand) end(args []string) error {
	job := numberOf(args[0])
	if _, err := strconv.ParseInt(job, 10, 64); err != nil {
		return o.endUnknown(args)
	}
	var j operator.Job
	body := map[string]string{"reason": args[1]}
	return o.show(http.MethodPost, "/operator/jobs/"+url.PathEscape(job)+"/end", body, &j, func(w io.Writer) {
		fmt.Fprintf(w, "job %d has ended: %s\n", j.ID, j.Text)
	})
}

func (o *operatorCommand) endUnknown(args []string) error {
	var n operator.Ended
	return o.show(http.MethodPost, "/operator/ends", operator.Ends{Scope: args[0], Reason: args[1]}, &n,
		func(w io.Writer) {
			fmt.Fprintf(w, "%d jobs of %s have ended\n", n.Ended, args[0])
			if n.Left > 0 {
				fmt.Fprintf(w, "%d changed meanwhile: see eodispatch operator jobs, and repeat the command\n", n.Left)
			}
		})
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// show sends a request and prints the answer: as a table, or as it is.
func (o *operatorCommand) show(method, path string, body, into any, table func(io.Writer)) error {
	text, err := o.ask(method, path, body)
	if err != nil {
		return err
	}
	if o.JSON {
		_, err = o.c.out.Write(text)
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	w := tabwriter.NewWriter(clean{o.c.out}, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// ask returns the broker's answer.
func (o *operatorCommand) ask(method, path string, body any) ([]byte, error) {
	settings, err := o.load(o.c)
	if err != nil {
		return nil, err
	}
	if settings.Telemetry.Listen == config.TelemetryOff {
		return nil, config.Faults{{Where: "operator", Key: "telemetry.listen", Text: "is off: there is nothing to ask"}}
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), operatorWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+reachable(settings.Telemetry.Listen)+path,
		bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	key, err := store.ReadOperatorKey(ctx, settings.Database.Reveal(), wallClock{})
	if err != nil {
		return nil, fmt.Errorf("cannot read the broker's key from its database: %w", err)
	}
	request.Header.Set(operator.Header, self())
	operator.Sign(request, sent, key, time.Now())
	response, err := direct.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no broker responds at telemetry.listen on this machine: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := operator.Verify(request, response, text, key); err != nil {
		// quoted: nobody answers for it
		return nil, fmt.Errorf("%w: it responds with %d, %.300q", err, response.StatusCode, text)
	}
	if response.StatusCode == http.StatusOK {
		return text, nil
	}
	var f operator.Fault
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f.Error = response.Status
	}
	return nil, errors.New(f.Error)
}

// self names the person who runs the command, for the audit.
func self() string {
	if u, err := osuser.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}
