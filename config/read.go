package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Bounds of all values, so that calculations with them do not overflow.
const (
	largest    = 1_000_000_000
	shortest   = time.Millisecond
	longest    = 10 * 365 * 24 * time.Hour
	mostSecret = 1 << 20 // bytes of a file that holds a secret
)

// reader converts a tree to a Config and collects faults.
type reader struct {
	tree
	env      variables
	at       map[string]*yaml.Node // the node of each key that is set
	literals []string              // keys whose secret is in the file itself
	named    map[string]bool       // variables that secrets refer to
	replaced map[string]string     // the variables of the replaced service that set keys
	faults   Faults
}

func (r *reader) fail(n *yaml.Node, key, format string, args ...any) {
	f := Fault{Where: r.placeOf(n), Key: key, Text: fmt.Sprintf(format, args...)}
	if r.origin[n] == "" {
		f.line = n.Line
	}
	r.faults = append(r.faults, f)
}

// failAt reports a fault of a key at the key's place, or at that of the nearest key around it. It reports one fault for
// each key.
func (r *reader) failAt(key, format string, args ...any) {
	if r.failed(key) {
		return
	}
	for around := key; ; around = around[:max(0, strings.LastIndexAny(around, ".["))] {
		if n, ok := r.at[around]; ok {
			r.fail(n, key, format, args...)
			return
		}
	}
}

func (r *reader) failed(key string) bool {
	return slices.ContainsFunc(r.faults, func(f Fault) bool { return f.Key == key })
}

// failedBelow reports whether the key, or a key below it, has a fault.
func (r *reader) failedBelow(key string) bool {
	return slices.ContainsFunc(r.faults, func(f Fault) bool {
		return f.Key == key || strings.HasPrefix(f.Key, key+"[")
	})
}

// failedIn reports whether the variable has a fault.
func (r *reader) failedIn(variable string) bool {
	return slices.ContainsFunc(r.faults, func(f Fault) bool { return f.Where == variable })
}

func (r *reader) readStruct(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "write a mapping of keys to values")
		return
	}
	known := fields(v.Type())
	r.checkKeys(n, known, path)
	for _, f := range known {
		key := join(path, f.key)
		value := member(n, f.key)
		if value != nil && !isNull(value) {
			r.at[key] = value
			r.read(value, v.FieldByIndex(f.Index), key, f)
			continue
		}
		r.setDefault(v.FieldByIndex(f.Index), f, key)
	}
}

// setDefault sets the default of an absent key and of the keys below it.
func (r *reader) setDefault(v reflect.Value, f field, path string) {
	if v.Kind() == reflect.Struct {
		r.readStruct(newMapping(), v, path)
		return
	}
	if text, ok := f.Tag.Lookup("default"); ok {
		r.read(scalar(text), v, path, f)
	}
}

func (r *reader) checkKeys(n *yaml.Node, known []field, path string) {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.key
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if line, twice := seen[key.Value]; twice {
			r.fail(key, join(path, key.Value), "the key is duplicated: it is first set in line %d", line)
		} else if !slices.Contains(names, key.Value) {
			r.fail(key, join(path, key.Value), "the key is not known%s", closestWord(key.Value, names))
		}
		seen[key.Value] = key.Line
	}
}

func (r *reader) read(n *yaml.Node, v reflect.Value, path string, f field) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.read(n, v.Elem(), path, f)
	case v.Kind() == reflect.Struct:
		r.readStruct(n, v, path)
	case v.Type() == typeOfJSON:
		r.readJSON(n, v, path)
	case v.Kind() == reflect.Slice:
		r.readList(n, v, path, f)
	case n.Kind != yaml.ScalarNode:
		r.fail(n, path, "write a single value")
	default:
		r.readScalar(n, v, path, f)
	}
}

func (r *reader) readList(n *yaml.Node, v reflect.Value, path string, f field) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, path, "write a list")
		return
	}
	for i, item := range n.Content {
		key := path + "[" + strconv.Itoa(i) + "]"
		item = follow(item)
		r.at[key] = item
		if isNull(item) {
			r.fail(item, key, "the element is empty: write a value or remove it")
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if !isNull(item) {
			r.read(item, element, key, f)
		}
		v.Set(reflect.Append(v, element))
	}
}

var typeOfJSON = reflect.TypeFor[json.RawMessage]()

// readJSON reads a mapping of any content as a JSON object.
func (r *reader) readJSON(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "write a mapping")
		return
	}
	value, err := jsonValue(n)
	if err != nil {
		r.fail(n, path, "cannot be written as JSON: %v", err)
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		r.fail(n, path, "cannot be written as JSON: %v", err)
		return
	}
	v.SetBytes(text)
}

// jsonValue returns the value of a node for JSON. Unlike in YAML, a date without quotes is a text.
func jsonValue(n *yaml.Node) (value any, err error) {
	switch n = follow(n); n.Kind {
	case yaml.MappingNode:
		members := map[string]any{}
		for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
			members[n.Content[i].Value], err = jsonValue(n.Content[i+1])
		}
		return members, err
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i := 0; i < len(items) && err == nil; i++ {
			items[i], err = jsonValue(n.Content[i])
		}
		return items, err
	}
	if n.Tag == "!!timestamp" {
		return n.Value, nil
	}
	err = n.Decode(&value)
	return value, err
}

func (r *reader) readScalar(n *yaml.Node, v reflect.Value, path string, f field) {
	if choice := strings.Fields(f.Tag.Get("oneof")); len(choice) > 0 && !slices.Contains(choice, n.Value) {
		r.fail(n, path, "write one of %s%s", strings.Join(choice, ", "), closestWord(n.Value, choice))
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *dispatch.Secret:
		*to = dispatch.Secret(r.secret(n, path))
	case *time.Duration:
		d, err := time.ParseDuration(n.Value)
		if err != nil || d < shortest || d > longest {
			r.fail(n, path, "write a duration such as 500ms, 5m or 720h, from 1ms to 87600h")
		}
		*to = d
	case *slog.Level:
		if err := to.UnmarshalText([]byte(n.Value)); err != nil {
			r.fail(n, path, "write debug, info, warn or error")
		}
	case encoding.TextUnmarshaler:
		if err := to.UnmarshalText([]byte(n.Value)); err != nil {
			r.fail(n, path, "%v", err)
		}
	case *bool:
		b, err := strconv.ParseBool(n.Value)
		if err != nil {
			r.fail(n, path, "write true or false")
		}
		*to = b
	case *int:
		i, err := strconv.Atoi(n.Value)
		if err != nil || i < 1 || i > largest {
			r.fail(n, path, "write a whole number from 1 to %d", largest)
		}
		*to = i
	default:
		v.SetString(n.Value)
	}
}

// secret resolves env:NAME and file:PATH. Any other text is the secret itself.
func (r *reader) secret(n *yaml.Node, path string) string {
	if name, ok := strings.CutPrefix(n.Value, "env:"); ok {
		r.named[name] = true
		value, set := r.env.lookup(name)
		if !set {
			r.fail(n, path, "the variable %s is not set", name)
		}
		return value
	}
	if file, ok := strings.CutPrefix(n.Value, "file:"); ok {
		text, err := readSecret(file)
		switch {
		case err != nil:
			r.fail(n, path, "the secret cannot be read: %v", err)
		case len(text) > mostSecret:
			r.fail(n, path, "the file %s is larger than %d bytes: too large for a secret", file, mostSecret)
		case len(strings.TrimSpace(string(text))) == 0:
			r.fail(n, path, "the file %s is empty", file)
		}
		return strings.TrimSpace(string(text))
	}
	if r.origin[n] == "" {
		r.literals = append(r.literals, path)
	}
	return n.Value
}

// readSecret reads a file, but not much more than mostSecret bytes of it.
func readSecret(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostSecret+1))
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
