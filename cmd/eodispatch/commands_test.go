package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandShown matches the commands that documents show: in lines of code, and within a line.
var commandShown = regexp.MustCompile("(?m)(?:^(?:    .*?)?|`|\\()(?:/|bin/)?eodispatch ([a-z][^\n`#>|)]*)")

// prose matches sentences about the program that begin a line.
var prose = regexp.MustCompile(`^(accepts|is) `)

// TestDocuments_ShowCommandsThatExist: every command in README.md and docs/ exists, with its flags.
func TestDocuments_ShowCommandsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandShown.FindAllStringSubmatch(string(text), -1) {
			if prose.MatchString(m[1]) {
				continue
			}
			checked++
			if fault := faultOf(strings.Fields(strings.ReplaceAll(m[1], ",", " "))); fault != "" {
				t.Errorf("%s shows eodispatch %s: %s", filepath.Base(file), m[1], fault)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
}

// faultOf returns what is wrong with a command line; "": it can be run, apart from its values.
func faultOf(args []string) string {
	command, rest, err := newRoot(console{io.Discard, io.Discard, nil, nil}).Find(args)
	if err != nil || !command.HasParent() {
		return "there is no such command"
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
