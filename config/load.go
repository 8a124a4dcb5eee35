package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// prefix is the prefix of the variables that set keys.
const prefix = "EODISPATCH"

// testCatalogue names the folder that tests of this repository read, which CI sets for all programs. The keys of
// catalogue have variables of their own.
const testCatalogue = "EODISPATCH_CATALOGUE"

// Load reads the settings from a file, unless file is "", and from the environment (entries as in [os.Environ]).
// EODISPATCH_… variables take precedence over the file, and the file over the variables of the replaced service. The
// error is [Faults].
func Load(file string, environ []string) (*Config, error) {
	if file == "" {
		return load("", nil, environ)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, Faults{{Where: file, Text: fmt.Sprintf("the configuration cannot be read: %v", err)}}
	}
	return load(file, text, environ)
}

func load(file string, text []byte, environ []string) (*Config, error) {
	r, c, err := read(file, text, environ)
	if err != nil {
		return nil, err
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.line, b.line) })
		return nil, r.faults
	}
	c.Platforms = expand(c.Platforms)
	c.Notes = append(c.Notes, r.notes(c)...)
	return c, nil
}

// LoadDatabase reads the settings of the database alone, from the environment of a process that is given no others. It
// has no default. The error is [Faults].
func LoadDatabase(environ []string) (*Config, error) {
	r, c, err := read("", nil, environ)
	if err != nil {
		return nil, err
	}
	if _, set := r.at["database"]; !set {
		r.faults = Faults{{Where: "environment", Key: "database", Text: "is missing: set DATABASE_URL or " + prefix +
			"_DATABASE"}}
	}
	faults := slices.DeleteFunc(r.faults, func(f Fault) bool {
		return f.Key != "database" && f.Key != "database_direct"
	})
	if len(faults) > 0 {
		return nil, faults
	}
	return &Config{Database: c.Database, Direct: c.Direct}, nil
}

// read reads the settings, which may have faults. The error is that of a text that is not YAML.
func read(file string, text []byte, environ []string) (*reader, *Config, error) {
	root, err := parse(text)
	r := &reader{
		tree: tree{file: file, root: root, origin: map[*yaml.Node]string{}},
		env:  newVariables(environ),
		at:   map[string]*yaml.Node{"": root}, named: map[string]bool{},
		replaced: map[string]string{},
	}
	if err != nil {
		return nil, nil, syntaxFaults(file, text, err)
	}
	delete(r.env, testCatalogue)
	c := &Config{}
	r.addLegacy()
	r.addTraces()
	r.overlay(root, reflect.TypeFor[Config](), prefix, r.env)
	r.addDefaults()
	r.obeyKnative()
	r.readStruct(root, reflect.ValueOf(c).Elem(), "")
	r.finish(c)
	return r, c, nil
}

// expand turns a platform without a protocol into two platforms, each with its own accounts.
func expand(given []Platform) []Platform {
	var all []Platform
	for _, p := range given {
		if p.Protocol != "" {
			all = append(all, p)
			continue
		}
		p.Protocol, p.EitherProtocol = OpenEO, true
		all = append(all, p)
		p.Name, p.Protocol, p.TokenPrefix = p.Name+"-ogc", OGCProcess, ""
		p.StartSettlesAfter = 0
		all = append(all, p)
	}
	return all
}

// orchestration matches the variables that Kubernetes sets in each container for a service named eodispatch, without
// the prefix.
var orchestration = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)`)

// notes returns warnings about settings that an operator may not expect.
func (r *reader) notes(c *Config) []string {
	var notes []string
	if c.Development {
		notes = append(notes,
			"development: http, private addresses and literal secrets are allowed; do not use it in production")
	}
	known := keyNames(reflect.TypeFor[Config](), "")
	for name := range r.env {
		own, ours := strings.CutPrefix(name, prefix+"_")
		if !ours || name == imageListen || r.named[name] ||
			orchestration.MatchString(own) || slices.Contains(known, withoutIndexes(own)) {
			continue
		}
		if hint := closestWord(own, known); hint != "" {
			notes = append(notes, fmt.Sprintf("the variable %s is unknown and was ignored%s (without %s_)", name,
				hint, prefix))
		}
	}
	slices.Sort(notes)
	return notes
}

// keyNames returns the variables of all keys without the prefix; N stands for an index.
func keyNames(schema reflect.Type, before string) []string {
	var names []string
	for _, f := range fields(schema) {
		name := before + strings.ToUpper(f.key)
		names = append(names, name)
		if below, ok := structOf(f.Type); ok {
			names = append(names, keyNames(below, name+"_")...)
		} else if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			names = append(names, keyNames(f.Type.Elem(), name+"_N_")...)
		}
	}
	return names
}

// withoutIndexes replaces the numbers in a variable's name by N.
func withoutIndexes(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[i] = "N"
		}
	}
	return strings.Join(parts, "_")
}
