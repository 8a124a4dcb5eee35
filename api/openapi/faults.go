package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Faults are those of a request body, in the words of the deployed service: at most one at each place, and none below
// it.
type Faults struct{ All []dispatch.Fault }

// Add records a fault at a place in the body, unless there is one at it or above it.
func (f *Faults) Add(kind, msg string, at ...any) {
	loc := append([]any{"body"}, at...)
	if !slices.ContainsFunc(f.All, func(known dispatch.Fault) bool {
		return len(known.Loc) <= len(loc) && slices.Equal(known.Loc, loc[:len(known.Loc)])
	}) {
		f.All = append(f.All, dispatch.Fault{Loc: loc, Type: kind, Msg: msg})
	}
}

// Within reports whether there is a fault at a place, below it or above it.
func (f *Faults) Within(at ...any) bool {
	loc := append([]any{"body"}, at...)
	return slices.ContainsFunc(f.All, func(known dispatch.Fault) bool {
		n := min(len(known.Loc), len(loc))
		return slices.Equal(known.Loc[:n], loc[:n])
	})
}

// Sorted returns the faults in the order of their places.
func (f *Faults) Sorted() []dispatch.Fault {
	slices.SortStableFunc(f.All, func(a, b dispatch.Fault) int {
		return cmp.Compare(fmt.Sprint(a.Loc), fmt.Sprint(b.Loc))
	})
	return f.All
}

// explain adds the faults that a schema finds.
func (f *Faults) explain(err error) {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		f.explainOne(invalid)
	}
}

func (f *Faults) explainOne(e *jsonschema.ValidationError) {
	if _, union := e.ErrorKind.(*kind.AnyOf); union {
		f.explainOne(slices.MinFunc(e.Causes, func(a, b *jsonschema.ValidationError) int {
			return cmp.Compare(distance(a, e), distance(b, e))
		}))
		return
	}
	for _, cause := range e.Causes {
		f.explainOne(cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := locOf(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			f.Add("missing", "Field required", append(slices.Clone(at), name)...)
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			f.Add("extra_forbidden", "Extra inputs are not permitted", append(slices.Clone(at), name)...)
		}
	default:
		what, msg := violation(e)
		f.Add(what, msg, at...)
	}
}

// distance orders the alternatives of a schema by how far the value at a place is from them.
func distance(e, parent *jsonschema.ValidationError) int {
	far := 0
	for _, cause := range e.Causes {
		far = max(far, distance(cause, parent))
	}
	if len(e.InstanceLocation) > len(parent.InstanceLocation) {
		return far
	}
	switch e.ErrorKind.(type) {
	case *kind.Type:
		return 3
	case *kind.Enum:
		return 2
	case *kind.Required:
		return 1
	}
	return far
}

// locOf returns the place that a JSON pointer has in a body: the numbers in it are indexes.
func locOf(pointer []string) []any {
	at := make([]any, len(pointer))
	for i, step := range pointer {
		if at[i] = step; i > 0 {
			if n, err := strconv.Atoi(step); err == nil {
				at[i] = n
			}
		}
	}
	return at
}

// violation returns the type and the text for a keyword that a value does not satisfy.
func violation(e *jsonschema.ValidationError) (what, msg string) {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return typeWords(k.Want[0], strings.Contains(e.SchemaURL[strings.LastIndex(e.SchemaURL, "/schemas/")+9:], "/"))
	case *kind.Enum:
		return "enum", "Input should be " + alternatives(k.Want)
	case *kind.MinLength:
		return "string_too_short", fmt.Sprintf("String should have at least %s", plural(k.Want, "character"))
	case *kind.MaxLength:
		return "string_too_long", fmt.Sprintf("String should have at most %s", plural(k.Want, "character"))
	case *kind.MinItems:
		return "too_short", fmt.Sprintf("List should have at least %s", plural(k.Want, "item"))
	case *kind.MaxItems:
		return "too_long", fmt.Sprintf("List should have at most %s, not %d", plural(k.Want, "item"), k.Got)
	case *kind.MinProperties:
		return "too_short", fmt.Sprintf("Dictionary should have at least %s", plural(k.Want, "item"))
	case *kind.MaxProperties:
		return "too_long", fmt.Sprintf("Dictionary should have at most %s, not %d", plural(k.Want, "item"), k.Got)
	case *kind.Minimum:
		n, _ := k.Want.Float64()
		return "greater_than_equal", fmt.Sprintf("Input should be greater than or equal to %.15g", n)
	case *kind.Maximum:
		n, _ := k.Want.Float64()
		return "less_than_equal", fmt.Sprintf("Input should be less than or equal to %.15g", n)
	case *kind.ExclusiveMinimum:
		n, _ := k.Want.Float64()
		return "greater_than", fmt.Sprintf("Input should be greater than %.15g", n)
	}
	return "value_error", "Input is not valid: " + strings.Join(e.ErrorKind.KeywordPath(), ".")
}

// typeWords returns the fault of a value of another type than the wanted one. inline: the schema has no name.
func typeWords(want string, inline bool) (what, msg string) {
	switch want {
	case "string":
		return "string_type", "Input should be a valid string"
	case "boolean":
		return "bool_type", "Input should be a valid boolean"
	case "integer":
		return "int_type", "Input should be a valid integer"
	case "number":
		return "float_type", "Input should be a valid number"
	case "array":
		return "list_type", "Input should be a valid list"
	}
	if inline {
		return "dict_type", "Input should be a valid dictionary"
	}
	return "model_attributes_type", "Input should be a valid dictionary or object to extract fields from"
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// alternatives lists the words of an enumeration: 'a', 'b' or 'c'.
func alternatives(all []any) string {
	var quoted []string
	for _, one := range all {
		if text, ok := one.(string); ok {
			quoted = append(quoted, "'"+text+"'")
		}
	}
	if n := len(quoted) - 1; n > 0 {
		return strings.Join(quoted[:n], ", ") + " or " + quoted[n]
	}
	return strings.Join(quoted, "")
}
