package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tree is a configuration as written in a file and in variables.
type tree struct {
	file   string
	root   *yaml.Node
	origin map[*yaml.Node]string // the variable that a node came from; absent: the file
}

// parse reads a YAML document whose root is a mapping. An empty document is an empty mapping.
func parse(text []byte) (*yaml.Node, error) {
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return root, nil
	case err != nil:
		return root, syntaxError(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if decoder.Decode(&yaml.Node{}) != io.EOF {
		return root, errors.New(`the file must hold a single YAML document; remove everything after "---"`)
	}
	switch top := follow(document.Content[0]); {
	case isNull(top):
		return root, nil
	case top.Kind != yaml.MappingNode:
		return root, errors.New("write a mapping of keys to values")
	default:
		return top, nil
	}
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// member returns the value of a key in a mapping; nil if it is absent.
func member(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return follow(mapping.Content[i+1])
		}
	}
	return nil
}

// put sets a key in a mapping.
func put(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, scalar(key), value)
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

func newMapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func sequence(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// mark records that a node and everything in it came from a variable.
func (t *tree) mark(n *yaml.Node, variable string) *yaml.Node {
	t.origin[n] = variable
	for _, child := range n.Content {
		t.mark(child, variable)
	}
	return n
}

// placeOf returns the place of a node: file:line, or a variable.
func (t *tree) placeOf(n *yaml.Node) string {
	switch {
	case t.origin[n] != "":
		return t.origin[n]
	case t.file == "":
		return "environment"
	}
	return fmt.Sprintf("%s:%d", t.file, max(n.Line, 1))
}

// overlay sets the keys that variables name. The variable of a key is the prefix and the key in capitals; levels are
// joined by underscores, and elements of a list are numbered from 0: PREFIX_PLATFORMS_0_NAME.
func (t *tree) overlay(node *yaml.Node, schema reflect.Type, prefix string, env variables) {
	for _, f := range fields(schema) {
		name := prefix + "_" + strings.ToUpper(f.key)
		if text, set := env.lookup(name); set {
			put(node, f.key, t.mark(written(text, f.Type), name))
		}
		if below, isStruct := structOf(f.Type); isStruct && env.below(name) {
			t.overlay(t.child(node, f.key, yaml.MappingNode), below, name, env)
		}
		if f.Type.Kind() == reflect.Slice {
			t.overlayItems(node, f, name, env)
		}
	}
}

func (t *tree) overlayItems(node *yaml.Node, f field, name string, env variables) {
	item, isStruct := structOf(f.Type.Elem())
	for i := 0; isStruct; i++ {
		numbered := name + "_" + strconv.Itoa(i)
		list := member(node, f.key)
		known := list != nil && list.Kind == yaml.SequenceNode && i < len(list.Content)
		switch {
		case !known && !env.below(numbered):
			return
		case !known:
			list = t.child(node, f.key, yaml.SequenceNode)
			list.Content = append(list.Content, t.mark(newMapping(), numbered))
		}
		if own := t.ownElement(list, i); own.Kind == yaml.MappingNode { // the reader reports elements of other kinds
			t.overlay(own, item, numbered, env)
		}
	}
}

// ownElement returns an element of a list as a node that no other place shares by an alias.
func (t *tree) ownElement(list *yaml.Node, i int) *yaml.Node {
	if list.Content[i].Kind == yaml.AliasNode {
		shared := *list.Content[i].Alias
		shared.Content = slices.Clone(shared.Content)
		list.Content[i] = &shared
	}
	return list.Content[i]
}

// child returns the value of a key as a node of the given kind. It creates the node if it is missing.
func (t *tree) child(node *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if have := member(node, key); have != nil && have.Kind == kind {
		return have
	}
	made := &yaml.Node{Kind: kind}
	put(node, key, made)
	return made
}

// written returns the text of a variable as a node. Lists of texts are separated by commas; other mappings and lists
// are YAML, which includes JSON.
func written(text string, schema reflect.Type) *yaml.Node {
	if schema.Kind() == reflect.Slice && schema.Elem().Kind() == reflect.String &&
		!strings.HasPrefix(strings.TrimSpace(text), "[") {
		list := sequence()
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list.Content = append(list.Content, scalar(part))
			}
		}
		return list
	}
	var document yaml.Node
	_, isStruct := structOf(schema)
	if isStruct || schema.Kind() == reflect.Slice {
		if yaml.Unmarshal([]byte(text), &document) == nil && len(document.Content) == 1 {
			return document.Content[0]
		}
	}
	return scalar(text)
}

// variables is the environment.
type variables map[string]string

func newVariables(environ []string) variables {
	env := variables{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// lookup returns a variable that is set and not empty.
func (v variables) lookup(name string) (string, bool) { return v[name], v[name] != "" }

// below reports whether any variable sets a key below the given one.
func (v variables) below(name string) bool {
	for have, value := range v {
		if value != "" && strings.HasPrefix(have, name+"_") {
			return true
		}
	}
	return false
}

// field is one key of a struct.
type field struct {
	reflect.StructField
	key string
}

func fields(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("yaml"); key != "-" {
			all = append(all, field{f, key})
		}
	}
	return all
}

// structOf returns the struct type of a key's value; nil if it has another type.
func structOf(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, t.Kind() == reflect.Struct
}
