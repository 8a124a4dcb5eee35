package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
)

// WriteReference writes a table of all keys in Markdown, and one of each section.
func WriteReference(page io.Writer) {
	top := reflect.TypeFor[Config]()
	fmt.Fprintln(page, "## Keys")
	writeTable(page, top)
	for _, f := range fields(top) {
		if f.isSectionOf(top) {
			fmt.Fprintf(page, "\n### %s\n\n%s\n", f.key, asCode(f.Tag.Get("doc")))
			writeTable(page, below(f.Type))
		}
	}
}

func writeTable(page io.Writer, schema reflect.Type) {
	fmt.Fprint(page, "\n| key (default) | meaning |\n|---|---|\n")
	for _, r := range rowsOf(schema, "") {
		if len(r.variables) > 0 {
			r.meaning = append(r.meaning, "also "+strings.Join(r.variables, ", "))
		}
		fmt.Fprintf(page, "| %s | %s |\n", strings.Join(r.keys, ", "), strings.Join(r.meaning, "; "))
	}
}

// row describes in Markdown a key that has a tag doc, and the keys after it that have none.
type row struct{ keys, meaning, variables []string }

func rowsOf(schema reflect.Type, before string) (rows []row) {
	for _, f := range fields(schema) {
		inner, doc, key := below(f.Type), f.Tag.Get("doc"), before+f.key
		switch {
		case f.isSectionOf(schema):
			continue
		case inner.Kind() == reflect.Struct && doc == "":
			if f.Type.Kind() == reflect.Slice {
				key += "[]"
			}
			rows = append(rows, rowsOf(inner, key+".")...)
			continue
		case doc != "":
			rows = append(rows, row{meaning: f.meaning()})
		}
		key = "`" + key + "`"
		if f.Tag.Get("restart") != "" {
			key += "†"
		}
		if initially := f.Tag.Get("default"); initially != "" {
			key += " (`" + initially + "`)"
		}
		r := &rows[len(rows)-1]
		r.keys = append(r.keys, key)
		if variable := f.Tag.Get("variable"); variable != "" {
			r.variables = append(r.variables, "`"+variable+"`")
		}
	}
	return rows
}

// isSectionOf reports whether the keys below a key of a schema have a section of their own.
func (f field) isSectionOf(schema reflect.Type) bool {
	return schema == reflect.TypeFor[Config]() && below(f.Type).Kind() == reflect.Struct && f.Tag.Get("doc") != ""
}

// below returns the type of a key's value, or of the elements of a list.
func below(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		return t.Elem()
	}
	return t
}

// meaning returns the tag doc, and what it does not say of the values that the other tags permit.
func (f field) meaning() []string {
	parts := []string{asCode(f.Tag.Get("doc"))}
	for _, one := range strings.Fields(f.Tag.Get("oneof")) {
		if !strings.Contains(parts[0], "`"+one+"`") {
			return append([]string{"`" + strings.ReplaceAll(f.Tag.Get("oneof"), " ", "`, `") + "`"}, parts...)
		}
	}
	if least := f.Tag.Get("least"); least != "" {
		parts = append(parts, "at least `"+least+"`")
	}
	return parts
}

// code matches what is code in the tag doc, where a backquote would end the tag.
var code = regexp.MustCompile(`(^|[ (\[])'([^']+)'`)

func asCode(text string) string { return code.ReplaceAllString(text, "$1`$2`") }
