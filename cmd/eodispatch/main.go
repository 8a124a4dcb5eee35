// Command eodispatch is the broker, and what comes with it: a check of a configuration, and a demonstration that needs
// nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
)

// version is set when a release is built.
var version = ""

// What the process exits with.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong arguments or configuration
)

// commands is the command line.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the broker."`
	Doctor  doctorCommand  `cmd:"" help:"Check the configuration, the database, the identity provider and each platform."`
	Demo    demoCommand    `cmd:"" help:"Start everything in one process, with simulated platforms, run two jobs, and one over many tiles."`
	Vault   vaultCommand   `cmd:"" help:"The keys with which users' tokens are sealed."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Help    helpCommand    `cmd:"" help:"Explain a command."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`

	Restored restoredCommand `cmd:"" help:"Mark a database that was restored from an older state: ids skip ahead, and accounts submit nothing until their platform's list was compared."`
}

// console is where a command runs.
type console struct {
	out, err io.Writer
	environ  []string
	// signals gives a context that ends with the first signal to stop. The second ends the process at once.
	signals func(context.Context) (context.Context, context.CancelFunc)
}

// errSaid is the error of a command that has said what is wrong.
var errSaid = errors.New("failed")

func main() {
	os.Exit(run(os.Args[1:], console{os.Stdout, os.Stderr, os.Environ(), onSignal}))
}

// run carries out the arguments and gives the exit code.
func run(args []string, c console) int {
	code := -1
	parser, err := kong.New(&commands{}, kong.Name("eodispatch"), kong.Writers(c.out, c.err),
		kong.Description("Accepts Earth-observation jobs over one HTTP interface and runs them on openEO back-ends and OGC API - Processes servers."),
		kong.Exit(func(n int) { code = n }), kong.Bind(c),
		kong.Vars{"version": "eodispatch " + ownVersion()})
	if err != nil {
		fmt.Fprintln(c.err, err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	switch {
	case code >= 0: // --help or --version was printed
		return code
	case err != nil:
		return exitCode(newUsageError(err), c.err)
	}
	return exitCode(command.Run(), c.err)
}

// exitCode says what went wrong, each in one line.
func exitCode(err error, to io.Writer) int {
	_, misconfigured := errors.AsType[config.Faults](err)
	_, misused := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return exitDone
	case misconfigured || misused:
		fmt.Fprintln(to, err)
		return exitUsage
	case !errors.Is(err, errSaid):
		fmt.Fprintln(to, "eodispatch:", explained(err))
	}
	return exitFailed
}

// errorOf finds the error that crossed a package's border.
func errorOf(err error) (*dispatch.Error, bool) { return errors.AsType[*dispatch.Error](err) }

type versionCommand struct{}

func (versionCommand) Run(c console) error {
	_, err := fmt.Fprintln(c.out, "eodispatch", ownVersion())
	return err
}

// ownVersion is what was built: a release, or a commit.
func ownVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "0.0.0-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "0.0.0"
}
