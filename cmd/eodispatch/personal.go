package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// ofUser is [configured] for a command about one user, whom a flag names.
func ofUser(c console, command *cobra.Command, run func(*config.Config, dispatch.UserID) error) *cobra.Command {
	name := command.Flags().String("user", "",
		"the claim `SUB` of the user's tokens, or 'ISSUER SUB' for another issuer than identity.issuer")
	_ = command.MarkFlagRequired("user") // the flag exists
	return configured(c, command, func(settings *config.Config, _ []string) error {
		if strings.Contains(*name, "://") && strings.Contains(*name, " ") {
			return run(settings, dispatch.UserID(*name))
		}
		return run(settings, dispatch.UserID(settings.Identity.Issuer+" "+*name))
	})
}

func exportCommandLine(c console) *cobra.Command {
	return ofUser(c, &cobra.Command{Use: "export", Short: "Print all that the database holds about a user",
		Args: cobra.NoArgs,
		Long: `Print all that the database holds about a user, without secrets: one row as JSON per line. Brokers may run. Logs also
name users.`,
		Example: "  eodispatch export --config broker.yaml --user 7c9e6679-7425-40de-944b-e07fc1f90ae7 > user.jsonl",
	}, func(settings *config.Config, user dispatch.UserID) error { return export(c, settings, user) })
}

// export prints the rows of a user.
func export(c console, settings *config.Config, user dispatch.UserID) error {
	return withDatabase(c, settings, openToRead, func(ctx context.Context, db *store.Store) error {
		out := bufio.NewWriter(c.out)
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		n := 0
		err := db.Export(ctx, user, func(o store.Owned) error {
			n++
			return lines.Encode(o)
		})
		if err == nil && n == 0 {
			err = &dispatch.Error{Kind: dispatch.NotFound, Op: "export",
				Text: fmt.Sprintf("The database holds nothing of the user %s.", user)}
		}
		return errors.Join(err, out.Flush())
	})
}

type forgetCommand struct {
	cancels bool
	wait    time.Duration
}

func forgetCommandLine(c console) *cobra.Command {
	f := &forgetCommand{}
	command := ofUser(c, &cobra.Command{Use: "forget", Short: "Delete all that the database holds about a user",
		Args: cobra.NoArgs,
		Long: `Delete all that the database holds about a user. Unless --cancel cancels them first, the user must not have unfinished
jobs. On PostgreSQL brokers may run. On SQLite no broker may use the file; it cancels jobs at platforms when it runs
again, so repeat this command then. Logs, backups, platforms and the identity provider are not changed.`,
		Example: "  eodispatch forget --config broker.yaml --user 7c9e6679-7425-40de-944b-e07fc1f90ae7 --cancel",
	}, func(settings *config.Config, user dispatch.UserID) error {
		return withDatabase(c, settings, openExisting, func(ctx context.Context, db *store.Store) error {
			return f.forget(ctx, c, settings, db, user)
		})
	})
	command.Flags().BoolVar(&f.cancels, "cancel", false, "cancel the user's unfinished jobs, and wait for their end")
	command.Flags().DurationVar(&f.wait, "wait", 10*time.Minute, "how long to wait with --cancel")
	return command
}

// forget deletes, and writes an audit line. It does not name the user, so that it may be kept.
func (f *forgetCommand) forget(ctx context.Context, c console, settings *config.Config, db *store.Store,
	user dispatch.UserID) error {
	if f.cancels {
		if err := f.cancel(ctx, db, user, allowsSeveral(settings.Database.Reveal())); err != nil {
			return err
		}
	}
	deleted, revocations, err := db.Forget(ctx, user)
	if dispatch.Is(err, dispatch.Conflict) {
		return advised(err, "Wait until they have, or cancel them with --cancel.")
	}
	if err != nil {
		return err
	}
	var rows int64
	for _, n := range deleted {
		rows += n
	}
	newLog(settings.Log.Level, settings.Log.Format, c.err).Info("audit", "action", "forget", "user_sha256", user.Hash(),
		"jobs", deleted["jobs"], "rows", rows)
	fmt.Fprintf(c.out, "%d jobs, %d rows in all\n", deleted["jobs"], rows)
	if revocations > 0 {
		fmt.Fprintf(c.out,
			"%d permissions to act for the user will be revoked at the identity provider, and then deleted, when a "+
				"broker runs\n", revocations)
	}
	return nil
}

// cancel cancels the user's jobs. It waits for their ends if a broker may be running.
func (f *forgetCommand) cancel(ctx context.Context, db *store.Store, user dispatch.UserID, running bool) error {
	if err := db.CancelAll(ctx, user); err != nil {
		return err
	}
	n, err := db.Unended(ctx, user)
	if err != nil || n == 0 {
		return err
	}
	if !running {
		return &dispatch.Error{Kind: dispatch.Conflict, Op: "forget", Text: fmt.Sprintf(
			"%d jobs of the user are at platforms. They are canceled there when the broker runs: start it, stop it "+
				"once they have ended, and run this command again.", n)}
	}
	within, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	if err := db.AwaitEnds(within, user); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "forget", Text: fmt.Sprintf(
		"The jobs of the user are canceled, but had not all ended after %v: check that a broker runs, and run this "+
			"command again.", f.wait)}
}

// advised returns a domain error with a sentence that says what to do.
func advised(err error, advice string) error {
	e, ok := errorOf(err)
	if !ok {
		return err
	}
	more := *e
	more.Text += " " + advice
	return &more
}
