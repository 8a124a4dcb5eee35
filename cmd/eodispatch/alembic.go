package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
)

// alembic is the program by which the chart of the APEx Dispatch API migrates its database. The image has a link of
// this name to this program.
const alembic = "alembic"

// arguments returns the arguments of a process from its command line. By the name alembic the process is that command.
func arguments(line []string) []string {
	if len(line) > 0 && filepath.Base(line[0]) == alembic {
		return append([]string{alembic}, line[1:]...)
	}
	return line[min(1, len(line)):]
}

// alembicCommandLine answers what the chart of the APEx Dispatch API runs before a new version, in an environment that
// names the database alone.
func alembicCommandLine(c console) *cobra.Command {
	command := &cobra.Command{Use: alembic, Hidden: true, Args: cobra.ArbitraryArgs, RunE: missingCommand}
	upgrade := &cobra.Command{Use: "upgrade head", Short: "Migrate the database of DATABASE_URL",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"head"}, RunE: func(*cobra.Command, []string) error {
			trustOwnRoots()
			settings, err := config.LoadDatabase(c.environ)
			if err != nil {
				return err
			}
			return migrate(c, settings)
		}}
	command.AddCommand(upgrade)
	return command
}
