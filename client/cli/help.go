package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the flags of commands with many, by what they are for. Others come last.
var flagGroups = []struct {
	title string
	names []string
}{
	{"Service", []string{"platform", "at", "endpoint", "protocol", "namespace", "also"}},
	{"Area and tiles", []string{"area", "grid", "buffer", "min-area", "merge", "order"}},
	{"Time", []string{"time", "split"}},
	{"Parameters and their values", []string{"parameter", "values", "dimension", "each", "zip", "option", "format"}},
	{"Costs", []string{"estimate", "budget", "trial"}},
	{"Results", []string{"wait", "download", "layout", "vrt", "to", "follow"}},
	{"Request", []string{"file", "key", "title", "label", "note"}},
}

const (
	helpColumns = 100 // of texts in --help
	manyFlags   = 20  // from which on they are grouped
)

// SetUsage has --help of a program's commands show flags in groups, in lines that a terminal does not break.
func SetUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("flagGroups", grouped)
	cobra.AddTemplateFunc("paragraphs", paragraphs)
	root.SetHelpTemplate("{{with or .Long .Short}}{{paragraphs .}}\n\n{{end}}{{.UsageString}}")
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(),
		"Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagGroups .LocalFlags}}", 1))
}

// paragraphs breaks the lines of a text; an empty line separates its paragraphs.
func paragraphs(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, paragraph := range all {
		var lines strings.Builder
		column := 0
		for word := range strings.FieldsSeq(paragraph) {
			width := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+width > helpColumns:
				lines.WriteString("\n")
				column = 0
			default:
				lines.WriteString(" ")
				column++
			}
			lines.WriteString(word)
			column += width
		}
		all[i] = lines.String()
	}
	return strings.Join(all, "\n\n")
}

// grouped describes flags.
func grouped(flags *pflag.FlagSet) string {
	n := 0
	flags.VisitAll(func(f *pflag.Flag) { n++ })
	if n < manyFlags {
		return "Flags:\n" + strings.TrimRight(flags.FlagUsagesWrapped(helpColumns), "\n")
	}
	var texts []string
	var listed []string
	for _, group := range flagGroups {
		texts = addGroup(texts, group.title, flags, func(name string) bool {
			return slices.Contains(group.names, name)
		})
		listed = append(listed, group.names...)
	}
	texts = addGroup(texts, "Other flags", flags, func(name string) bool { return !slices.Contains(listed, name) })
	return strings.Join(texts, "\n\n")
}

// addGroup appends the description of those flags that belong to a group, if there are any.
func addGroup(texts []string, title string, flags *pflag.FlagSet, belongs func(name string) bool) []string {
	group := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if belongs(f.Name) {
			group.AddFlag(f)
		}
	})
	if !group.HasFlags() {
		return texts
	}
	return append(texts, title+":\n"+strings.TrimRight(group.FlagUsagesWrapped(helpColumns), "\n"))
}
