// Command eodispatch runs the broker, checks a configuration, and demonstrates the broker with simulated platforms.
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
	"github.com/eodispatch/eodispatch/web"
)

// version is set by the linker when a release is built.
var version = ""

// Exit codes of the process.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong arguments or configuration
)

// commands defines the command line.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the broker."`
	Doctor  doctorCommand  `cmd:"" help:"Check the configuration, the database, the identity provider and each platform."`
	Demo    demoCommand    `cmd:"" help:"Start a broker with simulated platforms in one process, run two jobs, and one task over many tiles."`
	Vault   vaultCommand   `cmd:"" help:"Create and rotate the keys that encrypt users' tokens."`
	Version versionCommand `cmd:"" help:"Print the version, and whether the page is part of the program."`
	Help    helpCommand    `cmd:"" help:"Show the help of a command."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`

	Restored restoredCommand `cmd:"" help:"Mark a database that was restored from a backup: ids skip ahead, and no account submits jobs before its jobs were compared with the platform's list."`
}

// console is the environment that a command runs in.
type console struct {
	out, err io.Writer
	environ  []string
	// signals returns a context that is canceled by the first SIGINT or SIGTERM. A second signal ends the process at once.
	signals func(context.Context) (context.Context, context.CancelFunc)
}

// errSaid makes a command fail that has already printed the cause.
var errSaid = errors.New("failed")

func main() {
	os.Exit(run(os.Args[1:], console{os.Stdout, os.Stderr, os.Environ(), onSignal}))
}

// run executes the command that args name and returns the exit code.
func run(args []string, c console) int {
	code := -1
	parser, err := kong.New(&commands{}, kong.Name("eodispatch"), kong.Writers(c.out, c.err),
		kong.Description("Accepts Earth-observation jobs over one HTTP interface and runs them on openEO back-ends and OGC API - Processes servers."),
		kong.Exit(func(n int) { code = n }), kong.Bind(c),
		kong.Vars{"version": versionLine()})
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

// exitCode prints err, if it is not nil, and returns the exit code for it.
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

// errorOf finds the domain error in the chain of err.
func errorOf(err error) (*dispatch.Error, bool) { return errors.AsType[*dispatch.Error](err) }

type versionCommand struct{}

func (versionCommand) Run(c console) error {
	_, err := fmt.Fprintln(c.out, versionLine())
	return err
}

// versionLine returns what the program is: its version, and whether it contains the page.
func versionLine() string {
	if web.Page() == nil {
		return "eodispatch " + ownVersion() + " (without the page, which make build adds)"
	}
	return "eodispatch " + ownVersion() + " (with the page)"
}

// ownVersion returns the version of the release, or the commit that was built.
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
