package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

func restoredCommandLine(c console) *cobra.Command {
	withoutListing := false
	command := configured(c, &cobra.Command{Use: "restored", Short: "Mark a database as restored from a backup",
		Args: cobra.NoArgs,
		Long: `Mark a database as restored from a backup: ids skip ahead, and no account submits jobs until its jobs
have been compared with the platform's list.`,
		Example: "  eodispatch restored --config broker.yaml",
	}, func(settings *config.Config, _ []string) error { return markRestored(c, settings, withoutListing) })
	command.Flags().BoolVar(&withoutListing, "without-listing", false,
		"also submit to platforms that cannot list their jobs; jobs that waited in the backup may run twice there")
	return command
}

// markRestored marks the database as restored. No broker may run meanwhile: it would go on to use the ids and jobs that
// it has in memory.
func markRestored(c console, settings *config.Config, withoutListing bool) error {
	return withDatabase(c, settings, openExisting, func(ctx context.Context, db *store.Store) error {
		if allowsSeveral(settings.Database.Reveal()) {
			if err := checkUnattended(ctx, c.out, db.LastServed); err != nil {
				return err
			}
		}
		mark, unlisted := dispatch.CompareFirst, "wait for eodispatch restored --without-listing"
		if withoutListing {
			mark, unlisted = dispatch.CompareIfLists, "submit jobs at once"
		}
		n, err := db.MarkRestored(ctx, mark)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "ids skip ahead by %d; %d accounts submit no jobs until their platform's list has "+
			"been compared; those at platforms without a list %s\n", dispatch.SkippedIDs, n, unlisted)
		return err
	})
}

// unrecognized lists platform jobs that a restored database does not know, one line each.
func unrecognized(ctx context.Context, db *store.Store) (lines []string) {
	found, err := db.Unrecognized(ctx)
	if err != nil {
		return []string{"cannot read which jobs the restored database does not know: " + explained(err)}
	}
	for _, u := range found {
		lines = append(lines,
			fmt.Sprintf("job %s of account %s (%s, tag %s, seen %s) is not in the restored database: check it at "+
				"the platform", u.Ref.ID, u.Account, u.Status, u.Tag, u.Found.Format("2006-01-02 15:04:05Z07:00")))
	}
	return lines
}
