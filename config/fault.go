package config

import (
	"fmt"
	"strings"
)

// Fault is one fault of a configuration.
type Fault struct {
	Where string // file:line, or the name of a variable
	Key   string // such as platforms[0].endpoint; "" if the fault concerns no key
	Text  string // what is wrong and what to do; never contains a secret
	line  int
}

func (f Fault) String() string {
	if f.Key == "" {
		return f.Where + ": " + f.Text
	}
	return f.Where + ": " + f.Key + ": " + f.Text
}

// Faults is all faults of a configuration, in the order of the file. A Faults error is never empty.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// closestWord suggests the most similar known word; "" if none is similar.
func closestWord(word string, known []string) string {
	best, distance := "", 1+len(word)/3
	for _, k := range known {
		if d := edits(word, k); d <= distance {
			best, distance = k, d-1
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// edits returns the edit distance of two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
