package cli

import (
	"slices"
	"strings"

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
	helpColumns = 100 // of flags in --help
	manyFlags   = 20  // from which on they are grouped
)

// SetUsage has --help of a program's commands show flags in groups, in lines that a terminal does not break.
func SetUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("flagGroups", grouped)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(),
		"Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagGroups .LocalFlags}}", 1))
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
