// Package documents reads the lines of the documentation that tests run.
package documents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Block returns the first block of a language under a heading of a file, whose path begins at the root of the module.
func Block(t testing.TB, file, heading, language string) string {
	t.Helper()
	return Blocks(t, file, heading, language)[0]
}

// Blocks returns all blocks of a language between a heading of a file and the next one. If there are none, the test
// fails.
func Blocks(t testing.TB, file, heading, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	const fence = "```"
	under, in := false, "" // the heading; the fence and language of a block
	var block strings.Builder
	for line := range strings.Lines(string(text)) {
		mark := strings.TrimSpace(line)
		switch {
		case in != "" && mark == fence:
			if under && in == fence+language {
				all = append(all, block.String())
			}
			in = ""
		case in != "":
			block.WriteString(line)
		case strings.HasPrefix(mark, fence):
			in = mark
			block.Reset()
		case strings.HasPrefix(line, "#"):
			under = mark == heading
		}
	}
	switch {
	case in != "":
		t.Fatalf("a block of %s is not closed", file)
	case len(all) == 0:
		t.Fatalf("%s has no block of %s under %q", file, language, heading)
	}
	return all
}

// root returns the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			t.Fatal("the test does not run in the module")
		}
	}
}
