// Command figures prints how large and how connected the code and its documentation are: each row with what is counted.
// It is run in the folder of the project: go run -C tools ./figures ..
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const (
	module  = "github.com/eodispatch/eodispatch"
	columns = 120 // of a line, with tabs of four
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	c, err := count(root)
	if err != nil {
		return err
	}
	all, err := packages.Load(&packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedFiles |
		packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps},
		"./...")
	if err != nil {
		return err
	}
	row("lines of Go without tests, the simulator and test/", "%d", c.code)
	row("lines of Go tests, with test/", "%d", c.tests)
	row("lines of SQL, of the page (TypeScript, CSS), of Python", "%d, %d, %d", c.sql, c.page, c.python)
	row("lines of more than 120 columns: Go, TypeScript", "%d, %d", c.wide, c.wideScript)
	row("folders at the top with product code in Go", "%d", len(c.folders))
	name, lines := largest(c.packages)
	row("largest package: lines", "%s: %d", name, lines)
	row("words: README, docs, docs/why", "%d, %d, %d", c.readme, c.docs, c.why)
	for _, p := range all {
		if p.PkgPath == module+"/dispatch" {
			row("fields of Job, at its top", "%d", fields(p, "Job"))
		}
	}
	port, methods := widest(all)
	row("interface with most methods", "%s: %d", port, methods)
	for _, folder := range []string{"dispatch", "visit", "broker", "store", "api"} {
		for _, p := range all {
			if p.PkgPath == module+"/"+folder {
				up, calls := upward(p)
				row("calls between files of "+folder+" that go up", "%.0f %% of %d",
					100*float64(up)/float64(max(calls, 1)), calls)
			}
		}
	}
	return nil
}

func row(what, format string, args ...any) {
	fmt.Printf("%-58s %s\n", what, fmt.Sprintf(format, args...))
}

// counts are what files hold.
type counts struct {
	code, tests, sql, page, python int
	wide, wideScript               int
	readme, docs, why              int
	folders, packages              map[string]int
}

// count reads the files of the project, without those that are generated, installed or built.
func count(root string) (c counts, err error) {
	c.folders, c.packages = map[string]int{}, map[string]int{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if slices.Contains([]string{"node_modules", "dist", ".git", "testdata", "bin"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".sql", ".ts", ".tsx", ".css", ".py", ".md":
			text, err := os.ReadFile(path)
			if err == nil {
				c.add(filepath.ToSlash(name), text)
			}
			return err
		}
		return nil
	})
	return c, err
}

func (c *counts) add(name string, text []byte) {
	lines, folder := bytes.Count(text, []byte("\n")), filepath.Dir(name)
	top, _, _ := strings.Cut(name, "/")
	switch filepath.Ext(name) {
	case ".go":
		c.wide += wide(text)
		if strings.HasSuffix(name, "_test.go") || top == "test" || top == "tools" {
			c.tests += lines
			return
		}
		c.code += lines
		c.packages[folder] += lines
		if top != "web" && top != "deploy" {
			c.folders[top] += lines
		}
	case ".sql":
		c.sql += lines
	case ".ts", ".tsx", ".css":
		if name != "web/src/api/schema.ts" { // generated
			c.page += lines
			c.wideScript += wide(text)
		}
	case ".py":
		c.python += lines
	case ".md":
		switch words := len(bytes.Fields(text)); {
		case name == "README.md":
			c.readme = words
		case folder == "docs/why":
			c.why += words
		case folder == "docs":
			c.docs += words
		}
	}
}

func wide(text []byte) (n int) {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len([]rune(string(line)))+3*bytes.Count(line, []byte("\t")) > columns {
			n++
		}
	}
	return n
}

func largest(sizes map[string]int) (string, int) {
	name := slices.MaxFunc(slices.Collect(maps.Keys(sizes)), func(a, b string) int { return sizes[a] - sizes[b] })
	return name, sizes[name]
}

func fields(p *packages.Package, name string) int {
	if s, ok := p.Types.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
		return s.NumFields()
	}
	return 0
}

// widest returns the interface of the product with most methods, those that it embeds among them.
func widest(all []*packages.Package) (name string, methods int) {
	for _, p := range all {
		if strings.HasPrefix(p.PkgPath, module+"/test/") {
			continue
		}
		for _, one := range p.Types.Scope().Names() {
			typeName, ok := p.Types.Scope().Lookup(one).(*types.TypeName)
			if !ok {
				continue
			}
			if port, ok := typeName.Type().Underlying().(*types.Interface); ok && port.NumMethods() > methods {
				name, methods = p.Name+"."+one, port.NumMethods()
			}
		}
	}
	return name, methods
}

// upward counts the calls between files of a package, and those of them that go up: against the order of files in which
// fewest do, as far as a greedy search finds it (Eades, Lin and Smyth, 1993).
func upward(p *packages.Package) (up, all int) {
	calls := map[[2]string]int{}
	for _, f := range p.Syntax {
		from := p.Fset.Position(f.Pos()).Filename
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var name *ast.Ident
			switch fun := ast.Unparen(call.Fun).(type) {
			case *ast.Ident:
				name = fun
			case *ast.SelectorExpr:
				name = fun.Sel
			default:
				return true
			}
			if f, ok := p.TypesInfo.Uses[name].(*types.Func); ok && f.Pkg() == p.Types {
				if to := p.Fset.Position(f.Pos()).Filename; to != from {
					calls[[2]string{from, to}]++
				}
			}
			return true
		})
	}
	place := order(calls)
	for edge, n := range calls {
		all += n
		if place[edge[0]] > place[edge[1]] {
			up += n
		}
	}
	return up, all
}

// order gives each file its place, callers first.
func order(calls map[[2]string]int) map[string]int {
	left := map[string]bool{}
	for edge := range calls {
		left[edge[0]], left[edge[1]] = true, true
	}
	place := map[string]int{}
	for next := 0; len(left) > 0; next++ {
		best, most := "", 0
		for _, file := range slices.Sorted(maps.Keys(left)) {
			balance := 0
			for edge, n := range calls {
				switch {
				case !left[edge[0]] || !left[edge[1]]:
				case edge[0] == file:
					balance += n
				case edge[1] == file:
					balance -= n
				}
			}
			if best == "" || balance > most {
				best, most = file, balance
			}
		}
		place[best] = next
		delete(left, best)
	}
	return place
}
