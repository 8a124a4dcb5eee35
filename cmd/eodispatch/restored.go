package main

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

type restoredCommand struct {
	configured
	WithoutListing bool `help:"Also submit to platforms that have no list of jobs to compare with. Jobs that were waiting in the restored state may then run twice there."`
}

// Run marks the database. On SQLite no broker may serve meanwhile, on PostgreSQL none should.
func (r *restoredCommand) Run(c console) error {
	settings, err := r.load(c)
	if err != nil {
		return err
	}
	ctx, stop := c.signals(context.Background())
	defer stop()
	kept, err := store.Open(ctx, settings.Database.Reveal(), wallClock{})
	if err != nil {
		return err
	}
	defer kept.Close()
	mark := dispatch.CompareFirst
	if r.WithoutListing {
		mark = dispatch.CompareIfLists
	}
	n, err := kept.MarkRestored(ctx, mark)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "ids skip ahead by %d; %d accounts submit nothing until their platform's list was compared\n", dispatch.SkippedIDs, n)
	return err
}

// unrecognized tells which jobs at platforms a restored database does not know, one a line. A database that cannot be opened
// is the check's to report.
func unrecognized(ctx context.Context, settings *config.Config) (lines []string) {
	kept, err := store.Open(ctx, settings.Database.Reveal(), wallClock{})
	if err != nil {
		return nil
	}
	defer kept.Close()
	found, err := kept.Unrecognized(ctx)
	if err != nil {
		return []string{"jobs that a restored database does not know cannot be read: " + explained(err)}
	}
	for _, u := range found {
		lines = append(lines, fmt.Sprintf("job %s at account %s (%s, tag %s, seen %s) is not in the restored database: look at it at the platform",
			u.Ref.ID, u.Account, u.Status, u.Tag, u.Found.Format("2006-01-02 15:04:05Z07:00")))
	}
	return lines
}
