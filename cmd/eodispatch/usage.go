package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// usageError reports invalid command-line arguments.
type usageError struct {
	err     error
	command string // the command whose help lists the valid arguments
}

// newUsageError wraps an error of the parser.
func newUsageError(err error) error {
	command := "eodispatch"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		command = cmp.Or(parse.Context.Selected(), parse.Context.Model.Node).FullPath()
	}
	return usageError{err, command}
}

// Error states the mistake in one line and the command for help in a second.
func (e usageError) Error() string {
	return fmt.Sprintf("eodispatch: %s\nRun \"%s --help\" for the valid arguments.", strings.Join(strings.Fields(e.err.Error()), " "), e.command)
}

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command. Default: the whole program."`
}

// Run prints the --help of the command.
func (h *helpCommand) Run(c *kong.Context) error {
	named, err := kong.Trace(c.Kong, h.Command)
	if err = errors.Join(err, named.Error); err != nil {
		return usageError{err, "eodispatch"}
	}
	return named.PrintUsage(false)
}
