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
)

const module = "github.com/eodispatch/eodispatch"

// mayImport names, for each folder, the folders of this module that its code may import. Tests may import more.
// Folders below one that is named follow it.
var mayImport = map[string][]string{
	"dispatch":     {},
	"budget":       {},
	"grid":         {"budget"},
	"upstream":     {"dispatch", "budget"},
	"parameters":   {"dispatch", "budget"},
	"stac":         {},
	"openeo":       {"dispatch", "budget", "upstream", "parameters", "stac"},
	"ogcapi":       {"dispatch", "budget", "upstream", "parameters", "stac"},
	"identity":     {"dispatch", "upstream"},
	"store":        {"dispatch"},
	"engine":       {"dispatch"},
	"dispatchtest": {"dispatch"},
	"simulator":    {},
	"web":          {},
	"api":          {"dispatch", "budget", "identity", "grid", "stac", "web"},
	"config":       {"dispatch", "identity", "upstream"},
	"history":      {},
	"fire":         {},
	"truth":        {},
	"realtest":     {},
	"cmd":          {"*"},
}

// thirdParty names the modules beyond the standard library that a folder may import; a folder that is not named may
// import any.
var thirdParty = map[string][]string{
	"dispatch": {},
	"stac":     {},
	"grid":     {},
}

func TestImports(t *testing.T) {
	eachFile(t, func(folder, path string, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || folder == "." {
			return
		}
		top, _, _ := strings.Cut(folder, "/")
		allowed, known := mayImport[top]
		if !known {
			t.Errorf("%s: the folder %s has no place in the house; see docs/architecture.md", path, top)
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			checkImport(t, path, top, allowed, name)
		}
	})
}

func checkImport(t *testing.T, path, top string, allowed []string, name string) {
	t.Helper()
	if own, ours := strings.CutPrefix(name, module+"/"); ours {
		target, _, _ := strings.Cut(own, "/")
		if target != top && !slices.Contains(allowed, target) && !slices.Contains(allowed, "*") {
			t.Errorf("%s: %s must not import %s", path, top, target)
		}
		return
	}
	modules, limited := thirdParty[top]
	outside := strings.Contains(strings.SplitN(name, "/", 2)[0], ".")
	if limited && outside && !slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(name, m) }) {
		t.Errorf("%s: %s must not import %s", path, top, name)
	}
}

func TestNoFolderIsADrawer(t *testing.T) {
	eachFile(t, func(folder, path string, _ *ast.File) {
		if slices.Contains([]string{"util", "utils", "common", "types", "models", "helpers", "internal"}, filepath.Base(folder)) {
			t.Errorf("%s: a folder is named for what it holds", path)
		}
	})
}

func TestEachPackageSaysWhatItIsFor(t *testing.T) {
	said := map[string]bool{}
	eachFile(t, func(folder, _ string, f *ast.File) {
		said[folder] = said[folder] || f.Doc != nil
	})
	for folder, ok := range said {
		if !ok {
			t.Errorf("%s: no file has a package comment", folder)
		}
	}
}

// confidential finds fields that are named for what must not be shown.
var confidential = regexp.MustCompile(`(?i)(secret|password|token|refresh|credential|privatekey)s?$`)

// plain are the fields of that kind that are texts all the same, with the reason.
var plain = map[string]string{
	"cmd/eodispatch/client.go token":     "the demonstration's own user",
	"cmd/eodispatch/client.go Token":     "as it comes in JSON",
	"config/legacy.go ClientCredentials": "as it comes in JSON",
	"identity/grants.go Refresh":         "as it comes in JSON, and is sealed in JSON",
	"identity/provider.go Token":         "an address",
}

// TestSecretsAreOfTheTypeThatHidesThem: a field that is named for a secret is no plain text.
func TestSecretsAreOfTheTypeThatHidesThem(t *testing.T) {
	eachFile(t, func(folder, path string, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") || folder == "simulator" {
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
		if is, ok := field.Type.(*ast.Ident); !ok || is.Name != "string" {
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

func TestTestsDoNotSleep(t *testing.T) {
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

// promise finds what a document names as the test that holds a sentence.
var promise = regexp.MustCompile("`([a-z/]+)/(Test[A-Za-z0-9]+)`")

// promising are the documents that name such tests, and at least how many.
var promising = map[string]int{"docs/reliability.md": 20, "docs/security.md": 80, "docs/platforms.md": 4, "docs/upgrade.md": 3}

func TestPromisesAreTested(t *testing.T) {
	for document, least := range promising {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		named := promise.FindAllStringSubmatch(string(text), -1)
		if len(named) < least {
			t.Errorf("only %d tests are named in %s", len(named), document)
		}
		for _, n := range named {
			if !hasTest(n[1], n[2]) {
				t.Errorf("%s: there is no %s in %s", document, n[2], n[1])
			}
		}
	}
}

func hasTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")) // of a good pattern
	return slices.ContainsFunc(files, func(file string) bool {
		code, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(code), "func "+name+"(t ")
	})
}
