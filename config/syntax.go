package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// syntaxError matches the YAML parser's error, which begins with the line ("line 3: …") unless that is the first.
type syntaxError string

func (e syntaxError) Error() string { return string(e) }

// syntaxFaults explains why a file is not YAML. Tabs in the indentation are the usual cause, and the parser often names
// the line before or none, so each line with such a tab is reported instead of the parser's error.
func syntaxFaults(file string, text []byte, err error) Faults {
	e, ok := errors.AsType[syntaxError](err)
	if !ok {
		return Faults{{Where: file, Text: err.Error()}}
	}
	line, problem := e.parts()
	if strings.HasPrefix(problem, "unknown anchor") { // the parser repeats its name, which may be a secret
		problem = "a value begins with * and is taken for an alias of an anchor that does not exist; put a text that " +
			"begins with * in quotes"
	}
	if faults := tabFaults(file, string(text)); slices.ContainsFunc(faults, func(f Fault) bool {
		return f.line == line || f.line == line+1
	}) {
		return faults
	}
	return Faults{{Where: fmt.Sprintf("%s:%d", file, line), Text: "this is not YAML: " + problem, line: line}}
}

// parts separates the line, counted from 1, from the description.
func (e syntaxError) parts() (line int, problem string) {
	number, rest, _ := strings.Cut(strings.TrimPrefix(string(e), "line "), ": ")
	line, err := strconv.Atoi(number)
	if err != nil {
		return 1, string(e)
	}
	return line, rest
}

// tabFaults reports each line that is indented with a tab.
func tabFaults(file, text string) (faults Faults) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if strings.Contains(indent, "\t") {
			faults = append(faults, Fault{Where: fmt.Sprintf("%s:%d", file, n), line: n,
				Text: "the line is indented with a tab, which YAML does not allow: use spaces"})
		}
	}
	return faults
}
