package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// syntaxError is what the YAML parser says about a file that is not YAML, with the line in front ("line 3: …"). The parser
// leaves out the line when it is the first.
type syntaxError string

func (e syntaxError) Error() string { return string(e) }

// syntaxFaults reports why a file cannot be parsed. Tabs in front of a line are the usual cause, and the parser often names
// the line before them or none, so each such line is reported instead of the parser's own error.
func syntaxFaults(file string, text []byte, err error) Faults {
	e, ok := errors.AsType[syntaxError](err)
	if !ok {
		return Faults{{Where: file, Text: err.Error()}}
	}
	line, problem := e.parts()
	if faults := tabFaults(file, string(text)); slices.ContainsFunc(faults, func(f Fault) bool { return f.line == line || f.line == line+1 }) {
		return faults
	}
	return Faults{{Where: fmt.Sprintf("%s:%d", file, line), Text: "this is not YAML: " + problem, line: line}}
}

// parts separates the line, counted from 1, from the problem.
func (e syntaxError) parts() (line int, problem string) {
	number, rest, _ := strings.Cut(strings.TrimPrefix(string(e), "line "), ": ")
	line, err := strconv.Atoi(number)
	if err != nil {
		return 1, string(e)
	}
	return line, rest
}

// tabFaults reports each line that has a tab among the white space in front of its text.
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
