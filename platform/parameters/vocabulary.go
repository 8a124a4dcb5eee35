package parameters

import (
	"slices"
	"strconv"
)

type keyword struct {
	form                        // required of its value; without one the keyword does not restrict values
	inPlace bool                // its schemas check the same value as the schema that has the keyword
	each    int                 // what it costs for each element or member of a value, times failSteps
	deep    bool                // it compares values at all depths, unless it is false
	cost    func(value any) int // what its own value costs in each visit, in steps
	// stores its value for descriptions; a value of a wrong form counts as absent
	read func(*schema, *node)
}

// vocabulary lists the supported keywords. The check, its cost and the descriptions follow from it; only a keyword that
// the library writes differently is also translated in adapter.keyword.
var vocabulary = map[string]keyword{
	"$ref":             {read: func(s *schema, n *node) { s.Ref, _ = n.text() }},
	"default":          {read: func(s *schema, n *node) { s.Default = n.raw }},
	"nullable":         {read: func(s *schema, n *node) { s.Nullable = n.isTrue() }},
	"contentMediaType": {read: func(s *schema, n *node) { s.ContentMediaType, _ = n.text() }},

	"type":    {form: typeForm, read: func(s *schema, n *node) { s.Type = n.names() }},
	"subtype": {form: textForm, read: func(s *schema, n *node) { s.Subtype, _ = n.text() }},
	"format":  {form: textForm, read: func(s *schema, n *node) { s.Format, _ = n.text() }},
	"enum":    {form: valuesForm, read: func(s *schema, n *node) { s.Enum = n.raws() }},
	"const":   {form: anyForm, read: func(s *schema, n *node) { s.Const = n.raw }},

	"minimum": {form: numberForm, cost: arithmetic(4),
		read: func(s *schema, n *node) { s.Minimum = n.number() }},
	"maximum": {form: numberForm, cost: arithmetic(4),
		read: func(s *schema, n *node) { s.Maximum = n.number() }},
	"exclusiveMinimum": {form: limitForm, cost: arithmetic(4)},
	"exclusiveMaximum": {form: limitForm, cost: arithmetic(4)},
	"multipleOf":       {form: positiveForm, cost: arithmetic(16)},

	"pattern":   {form: patternForm},
	"minLength": {form: countForm},
	"maxLength": {form: countForm},

	"items":           {form: schemaForm, each: 1, read: func(s *schema, n *node) { s.Items = n.orNil() }},
	"additionalItems": {form: schemaForm, each: 1},
	"contains":        {form: schemaForm, each: 2}, // the library keeps the errors of all elements
	"minItems":        {form: countForm},
	"maxItems":        {form: countForm},
	"uniqueItems":     {form: flagForm, deep: true},

	"properties": {form: membersForm, each: 1,
		read: func(s *schema, n *node) { s.Properties = n.members }},
	"patternProperties":    {form: patternsForm, each: 1},
	"additionalProperties": {form: schemaForm, each: 1},
	"propertyNames":        {form: schemaForm, each: 1},
	"required":             {form: namesForm, cost: length, read: func(s *schema, n *node) { s.Required = n.texts() }},
	"minProperties":        {form: countForm},
	"maxProperties":        {form: countForm},

	"anyOf": {form: listForm, inPlace: true, read: func(s *schema, n *node) { s.AnyOf = n.list }},
	"oneOf": {form: listForm, inPlace: true, read: func(s *schema, n *node) { s.OneOf = n.list }},
	"allOf": {form: listForm, inPlace: true, read: func(s *schema, n *node) { s.AllOf = n.list }},
	"not":   {form: schemaForm, inPlace: true},
	"if":    {form: schemaForm, inPlace: true},
	"then":  {form: schemaForm, inPlace: true},
	"else":  {form: schemaForm, inPlace: true},

	valuesWord: {deep: true}, // only the adapter writes these two
	valueWord:  {deep: true},
}

// prepaid returns how many times failSteps keywords cost for each element or member of a value. Those of elements are
// charged for members too, and the other way round: few schemas have both.
func prepaid[V any](keywords map[string]V) (times int) {
	for name := range keywords {
		times += vocabulary[name].each
	}
	return times
}

// parts returns the schemas in the translated value of a keyword that is inPlace.
func parts(value any) []any {
	if list, ok := value.([]any); ok {
		return list
	}
	return []any{value}
}

func length(value any) int {
	list, _ := value.([]any)
	return len(list)
}

// arithmetic returns the cost of exact arithmetic: steps for the operation, and the digits of the keyword's value.
func arithmetic(steps int) func(any) int {
	return func(value any) int { return steps + effort(value) }
}

// form is the required form of a keyword's value.
type form struct {
	what  string
	valid func(*node) bool
	nesting
}

// nesting is where the schemas in the value of a keyword are.
type nesting int

const (
	noSchemas nesting = iota
	oneSchema         // the value is a schema
	inList            // the value is a list of schemas
	inMembers         // the members of the value are schemas
)

var (
	schemaForm   = form{"a schema", isSchema, oneSchema}
	listForm     = form{"a list of schemas", isSchemaList, inList}
	membersForm  = form{"an object of schemas", isSchemaMap, inMembers}
	patternsForm = form{"an object of schemas by valid regular expressions within the bound schema_pattern", isPatterns,
		inMembers}

	anyForm    = form{what: "a value", valid: func(*node) bool { return true }}
	valuesForm = form{what: "a list of values", valid: func(n *node) bool { return len(n.list) > 0 }}
	namesForm  = form{what: "a list of names", valid: isNames}
	numberForm = form{what: "a number", valid: isNumber}
	limitForm  = form{what: "a number, or true or false",
		valid: func(n *node) bool { return isNumber(n) || isFlag(n) }}
	positiveForm = form{what: "a number above 0", valid: isPositive}
	countForm    = form{what: "a non-negative integer", valid: isCount}
	flagForm     = form{what: "true or false", valid: isFlag}
	textForm     = form{what: "a string", valid: func(n *node) bool { return n.kind() == '"' }}
	patternForm  = form{what: "a valid regular expression within the bound schema_pattern", valid: isPattern}
	typeForm     = form{what: "a type, or a list of types", valid: isType}
)

// convert returns the value of a keyword as the library reads it, with schema called for each schema in it.
func (at nesting) convert(value *node, schema func(*node) any) any {
	switch at {
	case oneSchema:
		return schema(value)
	case inList:
		return convertList(value, schema)
	case inMembers:
		out := map[string]any{}
		for name, member := range value.members {
			out[name] = schema(member)
		}
		return out
	}
	return value.value()
}

func convertList(value *node, schema func(*node) any) []any {
	out := make([]any, len(value.list))
	for i, item := range value.list {
		out[i] = schema(item)
	}
	return out
}

func isSchema(n *node) bool { return isFlag(n) || n.kind() == '{' || n.kind() == '[' }

func isSchemaList(n *node) bool {
	return len(n.list) > 0 && !slices.ContainsFunc(n.list, func(item *node) bool { return !isSchema(item) })
}

func isSchemaMap(n *node) bool {
	for _, member := range n.members {
		if !isSchema(member) {
			return false
		}
	}
	return n.kind() == '{'
}

func isPatterns(n *node) bool {
	for text := range n.members {
		if _, err := patternSize(text); err != nil {
			return false
		}
	}
	return isSchemaMap(n)
}

func isPattern(n *node) bool {
	text, ok := n.text()
	_, err := patternSize(text)
	return ok && err == nil
}

func isFlag(n *node) bool { return n.kind() == 't' || n.kind() == 'f' }

func isNumber(n *node) bool { return n.number() != nil }

func isCount(n *node) bool {
	i, err := strconv.ParseInt(string(n.raw), 10, 64)
	return err == nil && i >= 0
}

func isPositive(n *node) bool {
	f, err := strconv.ParseFloat(string(n.raw), 64)
	return err == nil && f > 0
}

func isNames(n *node) bool { return n.kind() == '[' && len(n.texts()) == len(n.list) }

func isType(n *node) bool {
	seen := map[string]bool{}
	for _, name := range n.names() {
		if !types[name] || seen[name] {
			return false
		}
		seen[name] = true
	}
	return len(seen) > 0
}

var types = map[string]bool{"null": true, "boolean": true, "integer": true, "number": true, "string": true,
	"array": true, "object": true}
