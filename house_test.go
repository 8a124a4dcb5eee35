// Package eodispatch_test holds what is true of the whole tree: who may import whom, and that each package says what it
// is for.
package eodispatch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/api/call"
)

const module = "github.com/eodispatch/eodispatch"

// rule says what the code of a folder may import; tests may import more.
type rule struct {
	folder  string   // with those below it
	own     []string // folders of this module; "*" stands for all
	outside bool     // modules of others
}

// row matches a line of the table in docs/architecture.md: folders, what they hold, and what they may import.
var row = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| [^|]+ \\| ([^|]+) \\|$")

// rules reads that table. "standard library" means no module of others, "modules of others" nothing of this one,
// "everything" all of it.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		r := rule{outside: true}
		for name := range strings.SplitSeq(m[2], ", ") {
			switch name {
			case "standard library":
				r.outside = false
			case "everything":
				r.own = []string{"*"}
			case "(tests)", "modules of others": // nothing of this module
			default:
				r.own = append(r.own, name)
			}
		}
		for folder := range strings.SplitSeq(m[1], ", ") {
			r.folder = strings.Trim(folder, "`/")
			all = append(all, r)
		}
	}
	return all
}

// ruleFor gives the rule that holds for a folder: that of the longest name which it has or lies below.
func ruleFor(all []rule, folder string) (best rule, ok bool) {
	for _, r := range all {
		if (folder == r.folder || strings.HasPrefix(folder, r.folder+"/")) && len(r.folder) > len(best.folder) {
			best, ok = r, true
		}
	}
	return best, ok
}

func TestImports_FollowTheTable(t *testing.T) {
	all := rules(t)
	eachFile(t, func(folder, path string, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || folder == "." {
			return
		}
		r, ok := ruleFor(all, folder)
		if !ok {
			t.Errorf("%s: the table in docs/architecture.md has no row for the folder", path)
			return
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			checkImport(t, path, all, r, name)
		}
	})
}

func checkImport(t *testing.T, path string, all []rule, r rule, name string) {
	t.Helper()
	own, ours := strings.CutPrefix(name, module+"/")
	if !ours {
		if outside := strings.Contains(strings.SplitN(name, "/", 2)[0], "."); outside && !r.outside {
			t.Errorf("%s: %s must not import %s", path, r.folder, name)
		}
		return
	}
	target, _ := ruleFor(all, own)
	if target.folder != r.folder && !slices.Contains(r.own, target.folder) && !slices.Contains(r.own, "*") {
		t.Errorf("%s: %s must not import %s", path, r.folder, own)
	}
}

// TestTable_NamesFoldersThatExist: docs/architecture.md describes this tree, and each folder once.
func TestTable_NamesFoldersThatExist(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules(t) {
		for _, folder := range append(r.own, r.folder) {
			if _, err := os.Stat(folder); folder != "*" && err != nil {
				t.Errorf("the table names %s: %v", folder, err)
			}
		}
		if seen[r.folder] {
			t.Errorf("the table has two rows for %s", r.folder)
		}
		seen[r.folder] = true
	}
	if len(seen) < 15 {
		t.Errorf("the table has %d folders", len(seen))
	}
}

func TestFolders_AreNamedForWhatTheyHold(t *testing.T) {
	eachFile(t, func(folder, path string, _ *ast.File) {
		if slices.Contains([]string{"util", "utils", "common", "types", "models", "helpers", "internal"},
			filepath.Base(folder)) {
			t.Errorf("%s: a folder is named for what it holds", path)
		}
	})
}

func TestPackages_SayWhatTheyAreFor(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, func(folder, _ string, f *ast.File) {
		documented[folder] = documented[folder] || f.Doc != nil
	})
	for folder, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", folder)
		}
	}
}

// confidential finds fields that are named for what must not be shown.
var confidential = regexp.MustCompile(`(?i)(secret|password|token|refresh|credential|privatekey)s?$`)

// plain are the fields of that kind that are texts all the same, with the reason.
var plain = map[string]string{
	"client/wire/hooks.go Secret":        "as it is shown once in JSON",
	"api/facade/stac/search.go Token":    "of a page",
	"client/wire/requests.go Secret":     "as a request has it in JSON",
	"cmd/eodispatch/client.go token":     "the demonstration's own user",
	"cmd/eodispatch/client.go Token":     "as it comes in JSON",
	"config/legacy.go ClientCredentials": "as it comes in JSON",
	"identity/grants.go Refresh":         "as it comes in JSON, and is sealed in JSON",
	"identity/provider.go Token":         "an address",
}

// TestSecrets_AreOfTheTypeThatHidesThem: a field that is named for a secret is no plain text.
func TestSecrets_AreOfTheTypeThatHidesThem(t *testing.T) {
	eachFile(t, func(folder, path string, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(folder, "test/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				checkFields(t, path, s)
			}
			return true
		})
	})
}

func checkFields(t *testing.T, path string, s *ast.StructType) {
	t.Helper()
	for _, field := range s.Fields.List {
		if star, ok := field.Type.(*ast.StarExpr); ok {
			field.Type = star.X
		}
		if ident, ok := field.Type.(*ast.Ident); !ok || ident.Name != "string" {
			continue
		}
		for _, name := range field.Names {
			if confidential.MatchString(name.Name) && plain[path+" "+name.Name] == "" {
				t.Errorf("%s: %s must be a dispatch.Secret, or named for what it is", path, name.Name)
			}
		}
	}
}

// sleep finds sleeping tests. In a synctest bubble time is free, so there it is allowed.
var sleep = regexp.MustCompile(`\btime\.Sleep\(`)

func TestTests_DoNotSleep(t *testing.T) {
	eachFile(t, func(_, path string, _ *ast.File) {
		if !strings.HasSuffix(path, "_test.go") || path == "house_test.go" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sleep.Match(text) && !strings.Contains(string(text), "testing/synctest") {
			t.Errorf("%s: wait for the event, or run in synctest", path)
		}
	})
}

// TestLines_AreShort: a line has at most 120 columns, where a tab has four, unless a part of it is raw text, or a
// literal that nothing can break.
func TestLines_AreShort(t *testing.T) {
	eachFile(t, func(_, path string, _ *ast.File) {
		raw := rawLines(t, path)
		for i, line := range strings.Split(read(t, path), "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if columns > 120 && !raw[i+1] && !unbroken.MatchString(line) {
				t.Errorf("%s:%d has %d columns", path, i+1, columns)
			}
		}
	})
}

// unbroken finds a literal of more than 30 characters without a blank.
var unbroken = regexp.MustCompile(`"[^" ]{30,}"`)

// rawLines returns the lines of a file that hold a part of a raw string.
func rawLines(t *testing.T, path string) map[int]bool {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(l.Value, "`") {
			for line := files.Position(l.Pos()).Line; line <= files.Position(l.End()).Line; line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

// TestMissingPrograms_AreHandledInOnePlace: test/installed decides whether a test is skipped or fails.
func TestMissingPrograms_AreHandledInOnePlace(t *testing.T) {
	eachFile(t, func(folder, path string, _ *ast.File) {
		if folder != "test/installed" && strings.Contains(read(t, path), `Getenv("`+`CI")`) {
			t.Errorf("%s asks whether it runs in continuous integration: use test/installed", path)
		}
	})
}

// eachFile visits every Go file that is not generated, its folder and path with slashes, relative to the root.
func eachFile(t *testing.T, visit func(folder, path string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."), d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err == nil && !ast.IsGenerated(f) {
			visit(filepath.ToSlash(filepath.Dir(path)), filepath.ToSlash(path), f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	// numbered finds the promises of a page, such as S1.
	numbered = regexp.MustCompile(`(?m)^- \*\*([RS][0-9]+)\.\*\* `)
	// testName finds a test that test/promises.md names, with its folder.
	testName = regexp.MustCompile("`([a-z/]+)/((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// TestPromises_AreTested: the promises of docs/security.md and docs/reliability.md are numbered in order, each has an
// entry in test/promises.md, and all tests that this file names exist.
func TestPromises_AreTested(t *testing.T) {
	entries := promises(t)
	for page, letter := range map[string]string{"docs/security.md": "S", "docs/reliability.md": "R"} {
		found := numbered.FindAllStringSubmatch(read(t, page), -1)
		if len(found) < 50 {
			t.Errorf("%s has %d promises", page, len(found))
		}
		for i, m := range found {
			if want := letter + strconv.Itoa(i+1); m[1] != want {
				t.Errorf("%s numbers a promise %s, want %s", page, m[1], want)
			}
			if entries[m[1]] == "" {
				t.Errorf("test/promises.md has no entry for %s", m[1])
			}
			delete(entries, m[1])
		}
	}
	for key := range entries { // the rest are sections of other pages
		page, heading, _ := strings.Cut(key, ", ")
		if heading == "" || !strings.Contains(read(t, page), "# "+heading+"\n") {
			t.Errorf("test/promises.md has an entry for %q, which is no promise and no section of a page", key)
		}
	}
}

// promises reads test/promises.md: for each promise or section of a page the list of its tests, which exist.
func promises(t *testing.T) map[string]string {
	t.Helper()
	entries := map[string]string{}
	for _, item := range strings.Split(read(t, "test/promises.md"), "\n- ")[1:] {
		key, tests, _ := strings.Cut(item, ": `")
		found := testName.FindAllStringSubmatch("`"+tests, -1)
		if entries[key] != "" || len(found) == 0 {
			t.Errorf("test/promises.md has two entries for %s, or one without tests", key)
		}
		for _, m := range found {
			if !hasTest(m[1], m[2]) {
				t.Errorf("%s: there is no %s in %s", key, m[2], m[1])
			}
		}
		entries[key] = tests
	}
	return entries
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func hasTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")) // of a good pattern
	return slices.ContainsFunc(files, func(file string) bool {
		code, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(code), "\nfunc "+name+"(")
	})
}

// run finds commands in docs/testing.md: a folder and, where there is one, what -run is to match.
var run = regexp.MustCompile("`go test ((?:\\./[a-z/]+ ?)+)(?:-run '?([A-Za-z_]+)'?)?[^`]*`")

// TestTestingPage_CommandsRunTests: each command of docs/testing.md names folders and tests that exist.
func TestTestingPage_CommandsRunTests(t *testing.T) {
	text, err := os.ReadFile("docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := run.FindAllStringSubmatch(string(text), -1)
	if len(commands) < 8 {
		t.Errorf("only %d commands are found", len(commands))
	}
	for _, c := range commands {
		for _, folder := range strings.Fields(c[1]) {
			if !hasTestLike(folder, c[2]) {
				t.Errorf("%s runs no test in %s", c[0], folder)
			}
		}
	}
}

// hasTestLike reports whether a folder has a test whose name contains a word.
func hasTestLike(folder, word string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")) // of a good pattern
	test := regexp.MustCompile(`(?m)^func Test\w*` + word)
	return slices.ContainsFunc(files, func(file string) bool {
		code, err := os.ReadFile(file)
		return err == nil && test.Match(code)
	})
}

// shares finds code in which goroutines share memory by other means than atomic values alone.
var shares = regexp.MustCompile(`(?m)^\s*go \w|\.Go\(|\bsync\.(Mutex|RWMutex|Map|Cond|WaitGroup)\b`)

// TestMakefile_RunsTheRaceDetector: packages in which goroutines share memory run under the race detector.
func TestMakefile_RunsTheRaceDetector(t *testing.T) {
	raced := variable(t, "RACED")
	shared := map[string]bool{}
	eachFile(t, func(folder, path string, _ *ast.File) {
		product := !strings.HasPrefix(folder, "test/") && !strings.HasPrefix(folder, "tools/")
		if product && !strings.HasSuffix(path, "_test.go") && shares.MatchString(read(t, path)) {
			shared[folder] = true
		}
	})
	for folder := range shared {
		if !matches(raced, folder) {
			t.Errorf("goroutines share memory in %s, and RACED in the Makefile has no ./%[1]s", folder)
		}
	}
	if len(shared) < 15 {
		t.Errorf("goroutines share memory in %d packages", len(shared))
	}
}

// TestMakefile_RunsWhatTheRaceDetectorLeavesOut: tests that are left out under the race detector run without it, as
// their packages are in LEFT_OUT. They call detector.Skip themselves, by which .ci/left-out finds them.
func TestMakefile_RunsWhatTheRaceDetectorLeavesOut(t *testing.T) {
	raced, leftOut := variable(t, "RACED"), variable(t, "LEFT_OUT")
	call := regexp.MustCompile(`(?m)^func (\w+)\([^\n]*\{\n(?:\t[^\n]*\n|\n)*?\tdetector\.Skip\(`)
	found := 0
	eachFile(t, func(folder, path string, _ *ast.File) {
		text := read(t, path)
		calls := strings.Count(text, "detector.Skip(")
		if path == "house_test.go" || calls == 0 {
			return
		}
		found += calls
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "Test") {
				t.Errorf("%s: %s calls detector.Skip in place of the test", path, m[1])
			}
		}
		if matches(raced, folder) && !slices.Contains(leftOut, "./"+folder) {
			t.Errorf("%s leaves tests out, and LEFT_OUT in the Makefile has no ./%s", path, folder)
		}
	})
	if found == 0 {
		t.Error("nothing is left out")
	}
}

// variable returns the words of a variable of the Makefile.
func variable(t *testing.T, name string) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + ` = ((?:.*\\\n)*.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if line == nil {
		t.Fatalf("the Makefile has no line %s", name)
	}
	return strings.Fields(strings.ReplaceAll(line[1], "\\\n", " "))
}

// matches reports whether patterns of the command go name a folder.
func matches(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		root, below := strings.CutSuffix(strings.TrimPrefix(pattern, "./"), "/...")
		return folder == root || below && strings.HasPrefix(folder, root+"/")
	})
}

// TestErrorCodes_AreDescribed: docs/portals.md says of each code what a program does, and of no other.
func TestErrorCodes_AreDescribed(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/portals.md"), "\n## Errors\n")
	table, _, _ = strings.Cut(table, "\n## ")
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(table, -1) {
		described[m[1]] = true
	}
	for _, code := range call.Codes {
		if !described[code] {
			t.Errorf("docs/portals.md does not describe %s", code)
		}
	}
	for code := range described {
		if !slices.Contains(call.Codes, code) {
			t.Errorf("docs/portals.md describes %s, which nothing sends", code)
		}
	}
}
