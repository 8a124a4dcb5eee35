package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandShown matches the commands that documents show: in lines of code, and within a line.
var commandShown = regexp.MustCompile("(?m)(?:^(?:  (?:  .*?)?)?|`|\\()(?:/|bin/)?eodispatch ([a-z][^\n`#>|)]*)")

// prose matches sentences about the program that begin a line.
var prose = regexp.MustCompile(`^(accepts|is) `)

// TestDocuments_ShowCommandsThatExist: every command in README.md and docs/ exists, with its flags.
func TestDocuments_ShowCommandsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"--help": examples(newRoot(console{io.Discard, io.Discard, nil, nil}))}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	checked := 0
	for file, text := range texts {
		for _, m := range commandShown.FindAllStringSubmatch(text, -1) {
			if prose.MatchString(m[1]) {
				continue
			}
			checked++
			line, _, _ := strings.Cut(m[1], " && ")
			if fault := faultOf(strings.Fields(strings.ReplaceAll(line, ",", " "))); fault != "" {
				t.Errorf("%s shows eodispatch %s: %s", file, m[1], fault)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
}

// examples returns the examples of a command and those below it.
func examples(command *cobra.Command) string {
	text := command.Example + "\n"
	for _, below := range command.Commands() {
		text += examples(below)
	}
	return text
}

// faultOf returns what is wrong with a command line; "": it can be run, apart from its values.
func faultOf(args []string) string {
	command, rest, err := newRoot(console{io.Discard, io.Discard, nil, nil}).Find(args)
	if err != nil || !command.HasParent() {
		return "there is no such command"
	}
	if end := slices.Index(rest, "--"); end >= 0 {
		rest = rest[:end]
	}
	for _, arg := range rest {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.Trim(name, "\"',.;:$)(")
		switch {
		case !strings.HasPrefix(arg, "-") || arg == "--" || arg == "-":
		case strings.HasPrefix(arg, "--") && command.Flags().Lookup(name) == nil &&
			command.InheritedFlags().Lookup(name) == nil:
			return "there is no flag --" + name
		case !strings.HasPrefix(arg, "--") && command.Flags().ShorthandLookup(name) == nil:
			return "there is no flag -" + name
		}
	}
	if word := strings.Join(rest, " "); command.HasSubCommands() && regexp.MustCompile(`^[a-z]+`).MatchString(word) {
		return "it has no command " + word
	}
	return ""
}
