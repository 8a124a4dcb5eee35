package eodispatch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	benchmarkName = regexp.MustCompile("`([a-z/]*)([A-Z]\\w*)`")
	quoted        = regexp.MustCompile(`"([^"]+)"`)
)

// TestBenchmarks_HaveTheRowsOfThePage: docs/benchmarks.md names a benchmark for each figure, or a command of make, and
// the row or column of what it prints, which stands in its file.
func TestBenchmarks_HaveTheRowsOfThePage(t *testing.T) {
	page, err := os.ReadFile("docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 30 {
		t.Errorf("the table has %d rows", len(rows))
	}
	sources := benchmarkSources(t)
	for _, row := range rows {
		cells := strings.Split(row, "|")
		if len(cells) != 7 {
			t.Errorf("%d cells in %s", len(cells)-2, row)
			continue
		}
		checkBenchmark(t, sources, cells[2])
	}
}

// checkBenchmark checks one cell: names of benchmarks, and then rows of the last one.
func checkBenchmark(t *testing.T, sources map[string]string, cell string) {
	t.Helper()
	if strings.HasPrefix(cell, " `make ") {
		return
	}
	names := benchmarkName.FindAllStringSubmatch(cell, -1)
	if len(names) == 0 {
		t.Errorf("no benchmark in %q", cell)
	}
	for _, name := range names {
		source := ""
		for path, text := range sources {
			if strings.HasPrefix(path, name[1]) && strings.Contains(text, "func Benchmark"+name[2]+"(") {
				source = text
			}
		}
		if source == "" {
			t.Errorf("no benchmark %s", name[0])
		}
		for _, row := range quoted.FindAllStringSubmatch(cell, -1) {
			if !strings.Contains(source, row[1]) && row[1] != "ns/op" {
				t.Errorf("%s prints no row %q", name[0], row[1])
			}
		}
	}
}

// benchmarkSources returns the files with benchmarks by their paths.
func benchmarkSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, depth := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
		paths, err := filepath.Glob(depth + "_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "func Benchmark") {
				sources[path] = string(text)
			}
		}
	}
	return sources
}
