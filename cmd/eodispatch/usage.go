package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// usageError is the error of arguments that cannot be used.
type usageError struct {
	err     error
	command string // whose help lists what can be given
}

// newUsageError wraps what the parser reports.
func newUsageError(err error) error {
	command := "eodispatch"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		command = cmp.Or(parse.Context.Selected(), parse.Context.Model.Node).FullPath()
	}
	return usageError{err, command}
}

// Error says in one line what is wrong and in a second what to do.
func (e usageError) Error() string {
	return fmt.Sprintf("eodispatch: %s\nRun \"%s --help\" to see what can be given.", strings.Join(strings.Fields(e.err.Error()), " "), e.command)
}

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to explain. Without one, the program is explained."`
}

// Run prints what --help of the command prints.
func (h *helpCommand) Run(c *kong.Context) error {
	named, err := kong.Trace(c.Kong, h.Command)
	if err = errors.Join(err, named.Error); err != nil {
		return usageError{err, "eodispatch"}
	}
	return named.PrintUsage(false)
}
