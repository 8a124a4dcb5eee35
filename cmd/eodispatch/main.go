// Command eodispatch runs the broker, checks a configuration, demonstrates the broker with simulated platforms, and is
// the command line for the users of a broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/web"
)

// version is set by the linker when a release is built.
var version = ""

// Exit codes of the process. Package cli has further ones for the users' commands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong arguments or configuration
)

// console is the environment that a command runs in.
type console struct {
	out, err io.Writer
	environ  []string
	// signals returns a context that is canceled by the first SIGINT or SIGTERM. A second signal ends the process at
	// once.
	signals func(context.Context) (context.Context, context.CancelFunc)
}

// errSaid makes a command fail that has already printed the cause.
var errSaid = errors.New("failed")

func main() {
	os.Exit(run(arguments(os.Args), console{os.Stdout, os.Stderr, os.Environ(), onSignal}))
}

// run executes the command that args name and returns the exit code.
func run(args []string, c console) int {
	started := false
	root := newRoot(c)
	checked(root, &started)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(context.Background())
	if err != nil && !started {
		err = usageError{err, command.CommandPath()}
	}
	return exitCode(err, c.err)
}

// newRoot returns the program with all of its commands.
func newRoot(c console) *cobra.Command {
	root := &cobra.Command{Use: "eodispatch", Version: ownVersion(), SilenceErrors: true, SilenceUsage: true,
		Short: "Run Earth-observation jobs on openEO back-ends and OGC API - Processes servers",
		Long: `eodispatch runs Earth-observation jobs on openEO back-ends and OGC API - Processes servers. The same program is the
broker and the command line for its users.`,
		Example: `  eodispatch login https://broker.example.org
  eodispatch services ndvi
  eodispatch run ndvi_composite --area 5.05,51.2,5.15,51.25 --time 2024-06-01/2024-07-01 --wait --download results`,
		Args: cobra.ArbitraryArgs, RunE: missingCommand}
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetFlagErrorFunc(unknownFlag)
	cli.SetUsage(root)
	root.AddGroup(cli.Groups...)
	root.AddGroup(&cobra.Group{ID: "broker", Title: "Run a broker:"})
	root.AddCommand(cli.Commands(cli.Console{In: os.Stdin, Out: c.out, Err: c.err, Environ: c.environ,
		Signals: c.signals, Transport: newTrusting(), Outlines: outlines}, ownVersion())...)
	for _, command := range []*cobra.Command{serveCommandLine(c), doctorCommandLine(c), demoCommandLine(c),
		vaultCommandLine(c), restoredCommandLine(c), healthCommandLine(c),
		migrateCommandLine(c), backupCommandLine(c), purgeCommandLine(c), exportCommandLine(c), forgetCommandLine(c),
		importCommandLine(c), operatorCommandLine(c)} {
		command.GroupID = "broker"
		root.AddCommand(command)
	}
	root.AddCommand(versionCommandLine(c), referenceCommandLine(c), alembicCommandLine(c))
	root.SetHelpCommand(helpCommandLine(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// outlines returns the outlines of countries that the page draws; nil without the page.
func outlines() []byte {
	page := web.Page()
	if page == nil {
		return nil
	}
	files, err := fs.Glob(page, "page/countries-50m-*.json")
	if err != nil || len(files) != 1 {
		return nil
	}
	text, err := fs.ReadFile(page, files[0])
	if err != nil {
		return nil
	}
	return text
}

// exitCode prints err, if it is not nil, and returns the exit code for it.
func exitCode(err error, to io.Writer) int {
	_, misconfigured := errors.AsType[config.Faults](err)
	_, misused := errors.AsType[usageError](err)
	to = clean{to}
	switch {
	case err == nil:
		return exitDone
	case misconfigured || misused:
		fmt.Fprintln(to, err)
		return exitUsage
	case errors.Is(err, errSaid):
		return exitFailed
	}
	if _, ours := errorOf(err); ours {
		fmt.Fprintln(to, "eodispatch:", explained(err))
		return exitFailed
	}
	fmt.Fprintln(to, "eodispatch:", cli.Explain(err))
	return cli.ExitCode(err)
}

// errorOf finds the domain error in the chain of err.
func errorOf(err error) (*dispatch.Error, bool) { return errors.AsType[*dispatch.Error](err) }

func versionCommandLine(c console) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version, and whether the page is included",
		Args: cobra.NoArgs, Example: "  eodispatch version", RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.out, versionLine())
			return err
		}}
}

// versionLine returns what the program is: its version, and whether it contains the page.
func versionLine() string {
	page := "with the page"
	if web.Page() == nil {
		page = "without the page, which make build adds"
	}
	if commit := ownCommit(); commit != "" {
		page += ", commit " + commit
	}
	return "eodispatch " + ownVersion() + " (" + page + ")"
}

// ownVersion returns the version of the release, or else the commit that was built.
func ownVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// ownCommit returns the commit that was built, with its time; "": it is not known.
func ownCommit() string {
	info, _ := debug.ReadBuildInfo()
	return commitOf(info)
}

// versionOf returns the version that was set, or else one that names the commit, so that two builds without a version
// can be told apart.
func versionOf(set string, info *debug.BuildInfo) string {
	revision, _, modified := vcsOf(info)
	switch {
	case set != "":
		return set
	case revision == "":
		return "0.0.0-unknown"
	}
	return "0.0.0-" + revision[:min(12, len(revision))] + modified
}

func commitOf(info *debug.BuildInfo) string {
	revision, when, modified := vcsOf(info)
	if revision == "" {
		return ""
	}
	return strings.TrimSpace(revision + modified + " " + when)
}

// vcsOf returns the commit that was built, its time, and "-dirty" if files were changed after it.
func vcsOf(info *debug.BuildInfo) (revision, when, modified string) {
	if info == nil {
		return "", "", ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.time":
			when = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-dirty"
		}
	}
	return revision, when, modified
}
