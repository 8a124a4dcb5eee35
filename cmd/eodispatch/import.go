package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/store/apex"
)

type importCommand struct {
	from   string
	dryRun bool
}

func importCommandLine(c console) *cobra.Command {
	i := &importCommand{}
	command := configured(c, &cobra.Command{Use: "import", Short: "Import jobs and tasks from the APEx Dispatch API",
		Args: cobra.NoArgs,
		Long: `Import jobs and tasks from the database of the APEx Dispatch API (MySQL, MariaDB or PostgreSQL), which is only read.
They keep their ids, owners, parameters, statuses and platform ids; running jobs are followed from then on. Nothing is
submitted. Stop the deployed service and all brokers first. If the command is interrupted, run it again.`,
		Example: `  eodispatch import --dry-run --config broker.yaml --from env:OLD_DATABASE_URL
  eodispatch import --config broker.yaml --from env:OLD_DATABASE_URL`,
	}, func(settings *config.Config, _ []string) error { return i.run(c, settings) })
	command.Flags().StringVar(&i.from, "from", "",
		"URL of that database, mysql://USER:PASSWORD@HOST:PORT/NAME or postgresql://…; env:NAME or file:PATH keep "+
			"the password secret")
	command.Flags().BoolVar(&i.dryRun, "dry-run", false, "only list what would be imported, and what cannot be and why")
	_ = command.MarkFlagRequired("from") // the flag exists
	return command
}

// run takes over, or counts.
func (i *importCommand) run(c console, settings *config.Config) error {
	address, err := secretOf(i.from, c)
	if err != nil {
		return err
	}
	ctx, stop := c.signals(context.Background())
	defer stop()
	from, err := apex.Open(ctx, address)
	if err != nil {
		return err
	}
	defer from.Close()
	b := broker.New(nil, dispatch.Setup{Backends: platforms(settings, nil)})
	work := apex.Import{Issuer: settings.Identity.Issuer, Adopt: b.Adopt}
	if i.dryRun {
		return countImport(ctx, settings, from, work, c)
	}
	db, err := openDatabase(ctx, settings)
	if err != nil {
		return err
	}
	defer db.Close()
	if allowsSeveral(settings.Database.Reveal()) {
		if err := checkUnattended(ctx, c.out, db.LastServed); err != nil {
			return err
		}
	}
	work.Keeper = db
	r, err := work.Run(ctx, from, progressOf(c.err))
	err = errors.Join(err, db.SkipIDs(context.WithoutCancel(ctx)))
	printReport(clean{c.out}, r, "imported", err == nil)
	return err
}

// countImport says what would be taken over.
func countImport(ctx context.Context, settings *config.Config, from *apex.Source, work apex.Import, c console) error {
	work.Keeper = emptyKeeper{}
	db, err := openToRead(ctx, settings)
	switch {
	case err == nil:
		defer db.Close()
		work.Keeper = reader{db}
	case dispatch.Is(err, dispatch.Misconfigured):
		fmt.Fprintf(c.out, "The database of the broker counts as empty: %s\n", dispatch.TextFor(err))
	default:
		return err
	}
	r, err := work.Run(ctx, from, progressOf(c.err))
	printReport(clean{c.out}, r, "would be imported", err == nil)
	return err
}

// reader is an apex.Keeper that stores nothing.
type reader struct{ kept *store.Store }

func (r reader) Import(ctx context.Context, t *dispatch.Task, jobs []dispatch.Draft) (dispatch.Imported, error) {
	return r.kept.WouldImport(ctx, t, jobs)
}

// emptyKeeper is an apex.Keeper without any jobs, that stores nothing.
type emptyKeeper struct{}

func (emptyKeeper) Import(_ context.Context, t *dispatch.Task, jobs []dispatch.Draft) (r dispatch.Imported, err error) {
	for _, j := range jobs {
		r.New = append(r.New, j.ID)
	}
	r.Task = t != nil
	return r, nil
}

// progressOf returns a function that prints every 10,000 jobs how many were read.
func progressOf(w io.Writer) func(apex.Report) {
	const step = 10_000
	last := 0
	return func(r apex.Report) {
		if n := r.Records() / step; n > last {
			last = n
			fmt.Fprintf(w, "%d jobs\n", r.Records())
		}
	}
}

// mostNamed is how many records a report names for each reason.
const mostNamed = 5

func printReport(w io.Writer, r apex.Report, did string, whole bool) {
	jobs := 0
	for _, s := range slices.Sorted(maps.Keys(r.Jobs)) {
		jobs += r.Jobs[s]
	}
	fmt.Fprintf(w, "%d tasks and %d jobs %s; %d of the jobs are followed at their platforms\n", r.Tasks, jobs, did,
		r.Reading)
	for _, s := range slices.Sorted(maps.Keys(r.Jobs)) {
		fmt.Fprintf(w, "  %-10s %d\n", s, r.Jobs[s])
	}
	if r.Present > 0 {
		fmt.Fprintf(w, "%d jobs had been imported before\n", r.Present)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		what := r.Refused[reason]
		more := ""
		if len(what) > mostNamed {
			more = fmt.Sprintf(" and %d more", len(what)-mostNamed)
		}
		fmt.Fprintf(w, "not imported: %s%s: %s\n", strings.Join(what[:min(mostNamed, len(what))], ", "), more, reason)
	}
	if !whole {
		fmt.Fprintln(w, "The import is not complete: run it again.")
	}
}

// secretOf returns what a flag names: a variable, a file, or itself.
func secretOf(text string, c console) (dispatch.Secret, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		for _, variable := range c.environ {
			if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
				return dispatch.Secret(value), nil
			}
		}
		return "", usageError{fmt.Errorf("the variable %s is not set", name), "eodispatch import"}
	}
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		value, err := os.ReadFile(path)
		return dispatch.Secret(strings.TrimSpace(string(value))), err
	}
	if u, err := url.Parse(text); err == nil && u.User != nil {
		if _, ok := u.User.Password(); ok {
			fmt.Fprintln(c.err, "other users of this machine can see the password in --from: write env:NAME or "+
				"file:PATH")
		}
	}
	return dispatch.Secret(text), nil
}
