package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// running is what run and upscale do after the submission.
type running struct {
	request
	wait     bool
	estimate bool
	saving
}

const runHelp = `SERVICE is the id of a service of the catalogue or, with --platform, of a process of a platform. --area and --time fill
the service's parameters of these types, whatever their names. Give other parameters with -p.

A task runs a job for each tile (--grid), each value in a file (--values), each part of --time (--split), or each value
of a parameter (--each). Several of these give a job for each combination, or with --zip pair the values in order.
"eodispatch show TASK --by NAME" shows the progress by one of them.

When a trial (--trial) has ended or the budget (--budget) has no room, --wait ends with exit code 6, and eodispatch
resume runs the rest.

`

func (a *app) runCommand() *cobra.Command {
	r := &running{request: request{app: a}}
	command := &cobra.Command{Use: "run SERVICE", GroupID: "jobs", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeServices,
		Short:             "Run a service: one job or, with --grid or --values, a task of many jobs",
		Long:              "Run a service.\n" + runHelp + areaHelp,
		Example: `  eodispatch run ndvi_composite --area 5.05,51.2,5.15,51.25 --time 2024-06-01/2024-07-01 --wait --download results
  eodispatch run ndvi_composite --area belgium.geojson --grid 20x20km --time 2024-06-01/2024-07-01
  eodispatch run ndvi --platform simulated-ogc -p bbox=@box.json
  eodispatch run -f request.json`}
	return r.complete(command, false)
}

func (a *app) upscaleCommand() *cobra.Command {
	r := &running{request: request{app: a}}
	command := &cobra.Command{Use: "upscale SERVICE", GroupID: "jobs", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeServices,
		Short:             "Run a service over many tiles or values, as a task",
		Long:              "Run a service over many tiles or values.\n" + runHelp + areaHelp,
		Example: `  eodispatch upscale ndvi_composite --area belgium.geojson --grid 20x20km --time 2024-06-01/2024-07-01 --wait
  eodispatch upscale ndvi_composite --values dates.txt --dimension temporal_extent --area 4,50,5,51
  eodispatch upscale ndvi_composite --area belgium.geojson --grid 20x20km --time 2024-01-01/2025-01-01 --split month
  eodispatch upscale ndvi_composite --area 4,50,5,51 --time 2024-06-01/2024-07-01 --each max_cloud_cover=10,30,50
  eodispatch upscale ndvi_composite --area 4,50,5,51 --each temporal_extent=@seasons.json --each title=spring,summer --zip`}
	return r.complete(command, true)
}

func (r *running) complete(command *cobra.Command, task bool) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		return r.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := r.build(ctx, c, args, command.Flags())
			if err == nil {
				err = r.saving.check()
			}
			if err == nil && task && !d.isTask() {
				err = usage("upscale needs --grid, --values, --split, --each, or a file with a dimension; run " +
					"submits one job")
			}
			if err != nil {
				return err
			}
			if r.estimate {
				return r.showEstimate(ctx, c, d)
			}
			return r.submit(ctx, c, d)
		})(command, args)
	}
	r.request.flags(command)
	command.Flags().BoolVar(&r.estimate, "estimate", false,
		"submit nothing; show the expected cost, from your finished jobs of the service")
	command.Flags().BoolVarP(&r.wait, "wait", "w", false, "show the progress and wait for the end")
	r.saving.flags(command, "download", "download the results to this `FOLDER` as they become available (implies "+
		"--wait)")
	return command
}

// submit submits the request and does what the flags say then.
func (r *running) submit(ctx context.Context, c *client.Client, d document) error {
	key := cmp.Or(r.key, client.NewKey())
	t, made, err := create(ctx, c, d, key)
	if err != nil {
		return inDoubt(err, key)
	}
	if !r.wait && r.folder == "" {
		if r.json {
			return r.print(made)
		}
		fmt.Fprintln(r.Out, t)
		r.hint("Submitted. Follow it with: eodispatch watch %s", t)
		return nil
	}
	if !r.json {
		fmt.Fprintln(r.Out, t)
	}
	if r.folder != "" {
		return r.downloadWhileRunning(ctx, c, t, r.saving)
	}
	return r.follow(ctx, c, t, "watch "+t.String(), nil)
}

// inDoubt adds to an error how to submit the request again, if nobody knows whether the broker has it: there was no
// response, or one by a server in front of the broker.
func inDoubt(err error, key string) error {
	_, lost := errors.AsType[*url.Error](err)
	if e, ok := errors.AsType[*client.Error](err); ok {
		lost = e.Code == client.NotABroker && e.Status >= http.StatusInternalServerError
	}
	if !lost {
		return err
	}
	return &doubt{err, key}
}

// doubt is the error of a submission that may have succeeded.
type doubt struct {
	error
	key string
}

func (d *doubt) Unwrap() error { return d.error }

// showEstimate prints what the request is expected to cost and how long it is expected to run.
func (r *running) showEstimate(ctx context.Context, c *client.Client, d document) (err error) {
	var e wire.Estimate
	if d.isTask() {
		e, err = c.EstimateTask(ctx, d.UpscalingTaskRequest)
	} else {
		e, err = c.Estimate(ctx, d.BaseJobRequest)
	}
	if err != nil || r.json {
		return r.printOr(err, e)
	}
	shown := func(s *wire.Spread, write func(float64) string, unit string, runs int, basis string) string {
		if s == nil {
			return fmt.Sprintf("unknown: only %d of your finished jobs show it", runs)
		}
		text := strings.TrimSpace(spread(s, write) + " " + unit)
		if runs == 0 {
			return text + ", as the provider states"
		}
		return text + fmt.Sprintf(", from %d finished jobs", runs) +
			map[string]string{"area": " over areas of this size"}[basis]
	}
	fmt.Fprintf(r.Out, "jobs      %d\ncosts     %s\nrun time  %s\n", e.Jobs,
		shown(e.Costs, amount, e.CostUnit, e.CostRuns, e.CostBasis),
		shown(e.Seconds, seconds, "for each job", e.SecondsRuns, e.SecondsBasis))
	if e.Balance != nil {
		fmt.Fprintf(r.Out, "balance   %s %s\n", amount(e.Balance.Value), e.Balance.Unit)
	}
	if e.Warning != "" {
		r.hint("%s", e.Warning)
	}
	return nil
}

// spread returns an expected value with its bounds, or it alone if nothing else is expected.
func spread(s *wire.Spread, write func(float64) string) string {
	low, likely, high := write(s.Low), write(s.Likely), write(s.High)
	if low == likely && high == likely {
		return likely
	}
	return low + " to " + high + ", likely " + likely
}

// seconds writes a time as people say it.
func seconds(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1fs", n)
	}
	return span(n).String()
}

// amount writes a number with four digits, or more if it is a large one.
func amount(n float64) string {
	if math.Abs(n) >= 1e4 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.4g", n)
}

// create submits a job or a task.
func create(ctx context.Context, c *client.Client, d document, key string) (target, any, error) {
	if !d.isTask() {
		j, err := c.Submit(ctx, d.BaseJobRequest, key)
		return target{false, j.ID}, j, err
	}
	t, err := c.Upscale(ctx, d.UpscalingTaskRequest, key)
	return target{true, t.ID}, t, err
}
