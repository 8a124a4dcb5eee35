package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usageError reports invalid command-line arguments.
type usageError struct {
	err     error
	command string // the command whose help lists the valid arguments
}

// Error states the mistake in one line and the command for help in a second.
func (e usageError) Error() string {
	return fmt.Sprintf("eodispatch: %s\nRun \"%s --help\" for the valid arguments.",
		strings.Join(strings.Fields(e.err.Error()), " "), e.command)
}

func (e usageError) Unwrap() error { return e.err }

// missingCommand is the RunE of a command that has others below it.
func missingCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("a command is missing"), command.CommandPath()}
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if command.SuggestionsMinimumDistance == 0 {
		command.SuggestionsMinimumDistance = 2
	}
	if near := command.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf(", did you mean %q?", near[0])
	}
	return usageError{errors.New(text), command.CommandPath()}
}

// unknownFlag returns the error for wrong flags of a command: a misspelled command below it explains a flag that it
// does not have.
func unknownFlag(command *cobra.Command, err error) error {
	if args := command.Flags().Args(); command.HasSubCommands() && len(args) > 0 {
		return errors.Unwrap(missingCommand(command, args)) // run adds the command
	}
	return err
}

// checked has every command report that its arguments were right, or else name those that it expects: cobra's error
// counts them.
func checked(command *cobra.Command, started *bool) {
	if inner := command.RunE; inner != nil {
		command.RunE = func(command *cobra.Command, args []string) error {
			*started = true
			return inner(command, args)
		}
	}
	if check := command.Args; check != nil && !command.HasSubCommands() {
		command.Args = func(command *cobra.Command, args []string) error {
			err := check(command, args)
			if err == nil || strings.HasPrefix(err.Error(), "invalid argument") {
				return err
			}
			name, expected, _ := strings.Cut(command.Use, " ")
			return fmt.Errorf("%s: expected %s (%d given)", name, cmp.Or(expected, "no arguments"), len(args))
		}
	}
	for _, below := range command.Commands() {
		checked(below, started)
	}
}

// helpCommandLine prints the --help of a command.
func helpCommandLine(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Show the help of a command", Example: "  eodispatch help run",
		ValidArgsFunction: func(_ *cobra.Command, args []string,
			_ string) (names []string, _ cobra.ShellCompDirective) {
			named, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, below := range named.Commands() {
				if below.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}, RunE: func(_ *cobra.Command, args []string) error {
			named, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return missingCommand(root, append(rest, args...))
			}
			named.InitDefaultHelpFlag() // as --help does
			named.InitDefaultVersionFlag()
			return named.Help()
		}}
}
