package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// onTarget adapts a function of one job or task.
func (a *app) onTarget(f func(context.Context, *client.Client, target) error) func(*cobra.Command, []string) error {
	return a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
		t, err := parse(ctx, c, args[0])
		if err != nil {
			return err
		}
		return f(ctx, c, t)
	})
}

// Orders of lists by creation.
const (
	oldestFirst = "created"
	newestFirst = "-created"
)

func (a *app) listCommand() *cobra.Command {
	var statuses, platforms []string
	f := client.Filter{}
	since, created, order, task, where, most := time.Duration(0), time.Duration(0), newestFirst, "", "", 0
	command := &cobra.Command{Use: "list", GroupID: "jobs", Args: cobra.NoArgs, Aliases: []string{"ls"},
		Short: "List your tasks and jobs, or the jobs of a task",
		Example: "  eodispatch list --status running,queued\n  eodispatch list --label project=hesbaye --created " +
			"720h\n  eodispatch list --task task-7 --status failed\n" +
			"  eodispatch list --task task-7 --where temporal_extent=2024-06-01/2024-07-01\n  eodispatch list --task " +
			"task-7 --where spatial_extent=31UFS",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) (err error) {
			f := f
			if since < 0 || created < 0 || most < 0 {
				return usage("--since, --created and --limit cannot be negative")
			}
			if f.Platforms = platforms; created > 0 {
				f.CreatedAfter = time.Now().Add(-created)
			}
			if f.Statuses, err = parseStatuses(statuses); err != nil {
				return err
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			if f.OldestFirst = order == oldestFirst; !f.OldestFirst && order != newestFirst {
				return usage("--sort %s: write %s (oldest first) or %s", order, oldestFirst, newestFirst)
			}
			if f.OldestFirst && task != "" {
				return usage("--sort: the jobs of a task are listed by number")
			}
			return a.list(ctx, c, f, inTask{task, where}, most)
		})}
	flags := command.Flags()
	statusFlag(command, &statuses, "with one of these statuses")
	flags.StringSliceVar(&platforms, "platform", nil, "on one of these platforms")
	flags.DurationVar(&since, "since", 0, "changed within this time, such as 24h")
	flags.DurationVar(&created, "created", 0, "submitted within this time, such as 24h")
	flags.StringArrayVar(&f.Labels, "label", nil, "with the label `KEY=VALUE`; repeatable: with all of them")
	flags.StringVar(&f.Title, "title", "", "with this text in the title, ignoring case")
	flags.StringVar(&f.Service, "service", "", "of this service, by its id in the catalogue or its application")
	flags.StringVar(&order, "sort", newestFirst, "created: oldest first; -created: newest first")
	flags.StringVar(&task, "task", "", "list the jobs of this task")
	flags.StringVar(&where, "where", "",
		"with --task: jobs with this value of a dimension, or its name, as `NAME=VALUE`")
	flags.IntVar(&most, "limit", 100, "maximum number of tasks, and of jobs; 0: all")
	_ = command.RegisterFlagCompletionFunc("platform", a.completePlatforms) // fail only for unknown flags
	_ = command.RegisterFlagCompletionFunc("task", a.completeTargets)
	_ = command.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{oldestFirst, newestFirst},
		cobra.ShellCompDirectiveNoFileComp))
	return command
}

// statusFlag adds the flag --status to a command.
func statusFlag(command *cobra.Command, statuses *[]string, help string) {
	command.Flags().StringSliceVar(statuses, "status", nil, help)
	var names []string
	for _, s := range wire.Statuses {
		names = append(names, string(s))
	}
	// fails only for unknown flags
	_ = command.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// parseStatuses returns nil for no names.
func parseStatuses(names []string) (statuses []wire.Status, err error) {
	for _, name := range names {
		if !slices.Contains(wire.Statuses, wire.Status(name)) {
			return nil, usage("--status %s: unknown status", name)
		}
		statuses = append(statuses, wire.Status(name))
	}
	return statuses, nil
}

// inTask selects jobs of a task.
type inTask struct {
	task  string // "": jobs of none
	where string // NAME=VALUE of a dimension; "": all
}

// jobs returns the jobs that are selected.
func (s inTask) jobs(ctx context.Context, c *client.Client, f client.Filter) (iter.Seq2[wire.ProcessingJobSummary,
	error], error) {
	t, err := parse(ctx, c, s.task)
	if err == nil && !t.task {
		err = usage("--task %s is a job", s.task)
	}
	if err != nil || s.where == "" {
		return c.TaskJobs(ctx, t.id, f), err
	}
	name, text, ok := strings.Cut(s.where, "=")
	if !ok || name == "" {
		return nil, usage("--where %q: write NAME=VALUE", s.where)
	}
	found, err := dimensionsOf(ctx, c, t, name)
	if err != nil {
		return nil, err
	}
	var ids []int64 // of all values that match: neither names nor values need to differ
	for _, v := range found[0].Values {
		if v.Name != "" && v.Name == text || isValue(v.Value, text) {
			ids = append(ids, v.Jobs...)
		}
	}
	if ids != nil {
		return only(c.TaskJobs(ctx, t.id, f), ids), nil
	}
	return nil, usage("--where %s: no job has this value; eodispatch show %s --by %s lists them", s.where, t, name)
}

// isValue reports whether a text stands for a value: as JSON, as it is shown, or FROM/TO for an interval.
func isValue(value json.RawMessage, text string) bool {
	if valueText(value, 0) == text {
		return true
	}
	var shown, given bytes.Buffer
	if json.Compact(&shown, value) != nil {
		return false
	}
	if span, err := interval(text); err == nil && shown.String() == string(span) {
		return true
	}
	return json.Compact(&given, []byte(text)) == nil && shown.String() == given.String()
}

// only yields the jobs with one of the ids.
func only(jobs iter.Seq2[wire.ProcessingJobSummary, error], ids []int64) iter.Seq2[wire.ProcessingJobSummary, error] {
	return func(yield func(wire.ProcessingJobSummary, error) bool) {
		for j, err := range jobs {
			if (err != nil || slices.Contains(ids, j.ID)) && !yield(j, err) {
				return
			}
		}
	}
}

// list prints elements as they arrive.
func (a *app) list(ctx context.Context, c *client.Client, f client.Filter, task inTask, most int) (err error) {
	rows := &listing{app: a}
	jobs := c.Jobs(ctx, f)
	if task.task == "" && task.where != "" {
		return usage("--where needs --task")
	}
	if task.task != "" {
		if jobs, err = task.jobs(ctx, c, f); err != nil {
			return err
		}
	} else {
		more, err := firstOf(c.Tasks(ctx, f), most, rows.task)
		if err != nil {
			return err
		}
		if more {
			a.hint("There are more tasks; see --limit.")
		}
	}
	more, err := firstOf(jobs, most, rows.job)
	if err != nil {
		return err
	}
	if more {
		a.hint("There are more jobs; see --limit.")
	}
	return rows.end()
}

// firstOf passes at most so many elements to row; 0: all. more reports whether there are others.
func firstOf[T any](all iter.Seq2[T, error], most int, row func(T) error) (more bool, err error) {
	n := 0
	for one, err := range all {
		if err != nil {
			return false, err
		}
		if n++; most > 0 && n > most {
			return true, nil
		}
		if err := row(one); err != nil {
			return false, err
		}
	}
	return false, nil
}

// listing prints tasks and jobs: JSON at once, a table at the end.
type listing struct {
	*app
	rows [][]any
}

func (l *listing) task(t wire.UpscalingTaskSummary) error {
	if l.json {
		return l.print(struct {
			Kind string `json:"message_type"`
			wire.UpscalingTaskSummary
		}{"task", t})
	}
	l.rows = append(l.rows, []any{target{true, t.ID}, t.Status, percent(t.Progress), moment(t.Created), "-", "-",
		t.Title, countsOf(t.Counts)})
	return nil
}

func (l *listing) job(j wire.ProcessingJobSummary) error {
	if l.json {
		return l.print(struct {
			Kind string `json:"message_type"`
			wire.ProcessingJobSummary
		}{"job", j})
	}
	l.rows = append(l.rows, []any{target{false, j.ID}, j.Status, percent(j.Progress), moment(j.Created),
		ranFor(j), costOf(j.Costs, j.CostUnit), j.Title, whyOf(j)})
	return nil
}

func (l *listing) end() error {
	if l.json {
		return nil
	}
	return l.table("ID\tSTATUS\tPROGRESS\tCREATED\tRAN FOR\tCOSTS\tTITLE\tDETAILS", func(row func(...any)) {
		for _, cells := range l.rows {
			row(cells...)
		}
	})
}

func percent(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *p)
}

// ranFor returns how long a job ran that has ended: by its platform, or by its times; a dash if that is not known.
func ranFor(j wire.ProcessingJobSummary) string {
	d := time.Duration(j.Duration * float64(time.Second))
	if d == 0 && j.Started != nil && j.Ended != nil {
		d = j.Ended.Sub(*j.Started)
	}
	switch {
	case d == 0:
		return "-"
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// costOf returns what a job cost; a dash if that is not known.
func costOf(costs *float64, unit string) string {
	if costs == nil {
		return "-"
	}
	return strings.TrimSpace(amount(*costs) + " " + unit)
}

// countsOf lists the counts of a task's jobs in the order in which a job passes through the statuses.
func countsOf(counts map[wire.Status]int) string {
	var all []string
	for _, s := range wire.Statuses {
		if n := counts[s]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(all, ", ")
}

// whyOf returns why a job failed, or what its owner should know.
func whyOf(j wire.ProcessingJobSummary) string {
	switch {
	case j.Failure != "":
		return oneLine(j.Failure, 300)
	case j.Attention != nil:
		return oneLine(j.Attention.Message, 300)
	case j.QueuePosition != nil:
		return fmt.Sprintf("%d ahead in the queue", *j.QueuePosition)
	}
	return ""
}

func (a *app) showCommand() *cobra.Command {
	by := ""
	command := &cobra.Command{Use: "show ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Show a job or a task, or the progress of a task by the values of a dimension",
		Long:              "Show a job or a task, or the progress of a task by the values of a dimension.\n\n" + idHelp,
		Example: "  eodispatch show job-42\n  eodispatch show @latest --json\n  eodispatch show task-7 --by " +
			"temporal_extent\n  eodispatch show task-7 --by all\n  eodispatch show task-7 --by platform",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if by != "" {
				return a.showDimensions(ctx, c, t, by)
			}
			if t.task {
				return a.showTask(ctx, c, t.id)
			}
			j, err := c.Job(ctx, t.id)
			if err != nil || a.json {
				return a.printOr(err, j)
			}
			a.fields([][2]string{{"job", t.String()}, {"title", j.Title}, {"name", j.Name},
				{"status", string(j.Status)}, {"progress", percent(j.Progress)}, {"platform", j.Platform},
				{"id there", j.PlatformJobID}, {"service", j.Service.Application}, {"created", moment(j.Created)},
				{"started", maybeMoment(j.Started)}, {"ended", maybeMoment(j.Ended)},
				{"ran for", ranFor(j.ProcessingJobSummary)}, {"costs", costOf(j.Costs, j.CostUnit)},
				{"updated", moment(j.Updated)},
				{"failure", j.Failure}, {"attention", attentionOf(j.Attention)}, {"queue", queueOf(j.QueuePosition)},
				{"starts", startOf(j.Forecast)}, {"ends", endOf(j.Forecast)}, {"warning", j.Warning},
				{"options", string(j.Options)}, {"labels", labelsOf(j.Labels)}, {"note", j.Note}})
			return a.showParametersOf(j.Parameters)
		})}
	command.Flags().StringVar(&by, "by", "",
		"progress of a task by the values of this dimension, such as temporal_extent; all: of every dimension; "+
			"platform: by platform")
	return command
}

// showDimensions prints how far a task is, by the values of one of its dimensions or, by "all", of each.
func (a *app) showDimensions(ctx context.Context, c *client.Client, t target, by string) error {
	if by == "platform" && t.task {
		return a.showPlatforms(ctx, c, t)
	}
	all, err := dimensionsOf(ctx, c, t, by)
	if err != nil || a.json {
		return a.printOr(err, map[string]any{"dimensions": all})
	}
	return a.table("DIMENSION\tVALUE\tSTATUS\tPROGRESS\tJOBS", func(row func(...any)) {
		for _, d := range all {
			for i, v := range d.Values {
				row(d.Name, cmp.Or(v.Name, valueText(v.Value, i)), v.Status, percent(&v.Progress), countsOf(v.Counts))
			}
		}
	})
}

// showPlatforms prints how far a task is at each of its platforms.
func (a *app) showPlatforms(ctx context.Context, c *client.Client, t target) error {
	all, err := c.TaskPlatforms(ctx, t.id)
	if err != nil || a.json {
		return a.printOr(err, map[string]any{"platforms": all})
	}
	return a.table("PLATFORM\tJOBS\tPER HOUR\tNOTE", func(row func(...any)) {
		for _, p := range all {
			row(p.Platform, cmp.Or(countsOf(p.Counts), "none"), strconv.FormatFloat(p.PerHour, 'f', -1, 64),
				cmp.Or(noteOf(p), "-"))
		}
	})
}

// noteOf says why no jobs run at a platform of a task, and since when, or what its owner has to do first; "" if there
// is nothing to say.
func noteOf(p wire.PlatformProgress) string {
	switch {
	case p.Unused != "":
		return "not used: " + p.Unused
	case p.State == "" || p.State == "ok" || p.State == "unknown":
		return strings.TrimSpace(p.Notice + " " + p.Link)
	}
	note := strings.ReplaceAll(p.State, "_", " ")
	if p.State == "unreachable" {
		if p.LastAnswer != nil {
			note += " since " + moment(*p.LastAnswer)
		} else {
			note += ", no response yet"
		}
	}
	why := p.Failure
	if why == "" && p.Attention != nil {
		why = p.Attention.Message
	}
	return strings.TrimSpace(note + ": " + oneLine(cmp.Or(why, p.Notice, "no reason is known"), 200) + " " + p.Link)
}

// dimensionsOf returns the dimension of a task with a name or, for "all", each.
func dimensionsOf(ctx context.Context, c *client.Client, t target, name string) ([]wire.DimensionProgress, error) {
	if !t.task {
		return nil, usage("%s is a job; tasks have dimensions", t)
	}
	all, err := c.TaskDimensions(ctx, t.id)
	if err != nil || name == "all" {
		return all, err
	}
	var names []string
	for _, d := range all {
		if d.Name == name {
			return []wire.DimensionProgress{d}, nil
		}
		names = append(names, d.Name)
	}
	return nil, usage("%s has no dimension %s; it has: %s", t, name, strings.Join(names, ", "))
}

// valueText returns a value in one line, which is its number if it is too long to be shown.
func valueText(value json.RawMessage, at int) string {
	if value == nil {
		return fmt.Sprintf("(value %d)", at+1)
	}
	return oneLine(strings.Trim(string(value), `"`), 80)
}

func (a *app) showTask(ctx context.Context, c *client.Client, id int64) error {
	t, err := c.TaskSummary(ctx, id)
	if err != nil || a.json {
		return a.printOr(err, t)
	}
	a.fields([][2]string{{"task", target{true, id}.String()}, {"title", t.Title}, {"status", string(t.Status) +
		pauseOf(t.Paused)}, {"progress", percent(t.Progress)}, {"jobs", countsOf(t.Counts)}, {"changing",
		changeOf(t.Changing)}, {"budget", budgetOf(t.Budget)}, {"ends", endOf(t.Forecast)}, {"rest", restOf(t.Rest)},
		{"platforms", placementsOf(t.Homes)}, {"service", t.Service.Application}, {"created", moment(t.Created)},
		{"updated", moment(t.Updated)}, {"attention", attentionOf(t.Attention)}, {"warning", t.Warning},
		{"labels", labelsOf(t.Labels)}, {"note", t.Note}})
	return nil
}

// placementsOf lists the platforms at which jobs of a task with several services may run, and the others with the
// reason why not.
func placementsOf(placements []wire.TaskHome) string {
	names := make([]string, 0, len(placements))
	for _, h := range placements {
		if h.Unused != "" {
			h.Platform += " (not used: " + strings.TrimSuffix(h.Unused, ".") + ")"
		}
		names = append(names, h.Platform)
	}
	return strings.Join(names, ", ")
}

// budgetOf describes what a task may cost and has cost.
func budgetOf(b *wire.TaskBudget) string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("%.6g of %.6g %s spent", b.Spent, b.Amount, b.Unit)
	if b.Expected > 0 {
		text += fmt.Sprintf(", about %.6g expected of running jobs", b.Expected)
	}
	return strings.Join(strings.Fields(text), " ")
}

// startOf and endOf tell when a job or task is expected to start and to end; "": that is not known.
func startOf(f *wire.Forecast) string {
	if f == nil || f.Start == nil {
		return ""
	}
	return between(*f.Start)
}

func endOf(f *wire.Forecast) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s, from %d finished jobs%s", between(f.End), f.Runs, basisOf(f.Basis))
}

// between shows a range of times to the minute, the day of the second only if it is another one.
func between(r wire.TimeRange) string {
	const minute = "2006-01-02 15:04"
	early, late := r.Early.Local(), r.Late.Local()
	last := late.Format(minute)
	if early.Format(time.DateOnly) == late.Format(time.DateOnly) {
		last = late.Format("15:04")
	}
	return early.Format(minute) + " to " + last
}

func basisOf(basis string) string {
	switch basis {
	case "task":
		return " of this task"
	case "area":
		return " over areas of this size"
	}
	return " of the service"
}

// changeOf says how far a change of the jobs of a task has come; "" if none is under way.
func changeOf(c *wire.TaskChange) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s, done for job %d of %d", c.Action, c.Done, c.Last)
}

// restOf tells what the waiting jobs of a task need; "" if that is not known.
func restOf(r *wire.TaskRest) string {
	if r == nil {
		return ""
	}
	text, about := fmt.Sprintf("%d jobs", r.Jobs), ", about "
	add := func(s *wire.Spread, write func(float64) string, unit string, runs int) {
		if s != nil {
			text += about + fmt.Sprintf("%s by %d finished jobs%s", strings.TrimSpace(spread(s, write)+" "+unit), runs,
				basisOf(r.Basis))
			about = ", "
		}
	}
	add(r.Costs, amount, r.CostUnit, r.CostRuns)
	add(r.Seconds, seconds, "", r.SecondsRuns)
	return text
}

// span rounds seconds as people say them.
func span(seconds float64) time.Duration {
	d := time.Duration(min(seconds, 1e9) * float64(time.Second))
	switch {
	case d > 10*time.Hour:
		return d.Round(time.Hour)
	case d > 10*time.Minute:
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}

// pauseOf follows the status of a task.
func pauseOf(paused bool) string {
	if paused {
		return ", paused"
	}
	return ""
}

// labelsOf returns labels in the order of their keys.
func labelsOf(labels map[string]string) string {
	texts := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, key+"="+labels[key])
	}
	return strings.Join(texts, ", ")
}

func attentionOf(a *wire.JobAttention) string {
	if a == nil {
		return ""
	}
	if a.Link != nil {
		return a.Message + " " + *a.Link
	}
	return a.Message
}

func queueOf(position *int) string {
	if position == nil {
		return ""
	}
	return fmt.Sprintf("%d before it", *position)
}

// fields prints those that have a value.
func (a *app) fields(all [][2]string) {
	for _, f := range all {
		if f[1] != "" && f[1] != "-" {
			fmt.Fprintf(a.Out, "%-10s %s\n", f[0], oneLine(f[1], 2000))
		}
	}
}

func (a *app) showParametersOf(raw wire.Object) error {
	var values map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &values) != nil || len(values) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out, "parameters")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(a.Out, "  %s = %s\n", oneLine(name, 100), oneLine(string(values[name]), 300))
	}
	return nil
}

func (a *app) logsCommand() *cobra.Command {
	follow := false
	command := &cobra.Command{Use: "logs JOB", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Show the platform's log of a job",
		Long:              "Show the platform's log of a job.\n\n" + idHelp,
		Example:           "  eodispatch logs job-42\n  eodispatch logs -f @latest",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if t.task {
				return usage("%s is a task; its jobs have the logs: eodispatch list --task %s", t, t)
			}
			seen, err := a.logs(ctx, c, t.id, 0)
			if err != nil || !follow {
				return err
			}
			return a.followLogs(ctx, c, t.id, seen)
		})}
	command.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until the job has ended")
	return command
}

func (a *app) provenanceCommand() *cobra.Command {
	return &cobra.Command{Use: "provenance ID", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Print the provenance of a job or task as PROV-JSON",
		Long: "Print the provenance of a job or task as PROV-JSON (W3C): the service, parameters, platform and its " +
			"software, times and costs. For a task it lists the jobs with the URLs of their own documents. It does " +
			"not name you.\n\n" + idHelp,
		Example: "  eodispatch provenance job-42 > provenance.json\n  eodispatch provenance task-7 > provenance.json",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			read := c.Provenance
			if t.task {
				read = c.TaskProvenance
			}
			p, err := read(ctx, t.id)
			return a.printOr(err, p)
		})}
}

// logsEvery is the pause between two reads of a log that is followed: each can be a request to the platform.
const logsEvery = 15 * time.Second

// followLogs prints the entries after the first seen ones as they come, until the job has ended. A new entry is no
// change of the job.
func (a *app) followLogs(ctx context.Context, c *client.Client, id int64, seen int) error {
	for {
		var j wire.ProcessingJob
		err := client.Persist(ctx, func() (err error) {
			if j, err = c.Job(ctx, id); err == nil { // before its log, which is complete when the job has ended
				seen, err = a.logs(ctx, c, id, seen)
			}
			return err
		})
		if err != nil || j.Status.Final() {
			return err
		}
		select {
		case <-time.After(logsEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logs prints the entries after the first seen ones, and returns how many there are.
func (a *app) logs(ctx context.Context, c *client.Client, id int64, seen int) (int, error) {
	for entry, err := range c.Log(ctx, id, seen) {
		if err != nil {
			return seen, err
		}
		seen++
		if a.json {
			err = a.print(entry)
		} else {
			_, err = fmt.Fprintf(a.Out, "%s %-7s %s\n", maybeMoment(entry.Time), oneLine(string(entry.Level), 20),
				printable(entry.Message))
		}
		if err != nil {
			return seen, err
		}
	}
	return seen, nil
}
