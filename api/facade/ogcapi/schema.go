package ogcapi

import "slices"

// schemaWords are the keywords of the standard's schema.yaml that are copied as they are, with the kind of their
// values. Others are left out: the standard allows no further ones, and clients with fixed models reject them.
var schemaWords = map[string]func(any) bool{
	"title": isText, "description": isText, "format": isText, "pattern": isText, "contentMediaType": isText,
	"contentEncoding": isText,
	"multipleOf":      isNumber, "maximum": isNumber, "minimum": isNumber,
	"maxLength": isNumber, "minLength": isNumber, "maxItems": isNumber, "minItems": isNumber, "maxProperties": isNumber,
	"minProperties": isNumber,
	"uniqueItems":   isFlag, "nullable": isFlag, "deprecated": isFlag, "readOnly": isFlag, "writeOnly": isFlag,
	"required": isTexts, "enum": isNotEmpty, "default": isAny, "example": isAny,
}

func isText(v any) bool   { _, ok := v.(string); return ok }
func isNumber(v any) bool { _, ok := v.(float64); return ok }
func isFlag(v any) bool   { _, ok := v.(bool); return ok }
func isAny(v any) bool    { return v != nil }

func isNotEmpty(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) > 0
}

func isTexts(v any) bool {
	return isNotEmpty(v) && !slices.ContainsFunc(v.([]any), func(e any) bool { return !isText(e) })
}

// deepestSchema bounds how deep schemas nest that are shown. What is deeper allows every value.
const deepestSchema = 20

// openAPISchema returns a schema of openEO or of JSON Schema in the form of OpenAPI 3.0: one type, nullable instead of
// the type null, exclusive bounds as flags. It never allows less than the given schema, which is the one that values
// are checked against. References are left out, because the document that they lead into is not shown.
func openAPISchema(given any, depth int) map[string]any {
	switch v := given.(type) {
	case []any: // openEO: alternatives
		return alternatives("anyOf", v, depth)
	case map[string]any:
		if v["$ref"] == nil && depth < deepestSchema {
			return convertedSchema(v, depth)
		}
	}
	return map[string]any{}
}

// combinations maps the keywords that combine schemas. What is left of two schemas may overlap, so that oneOf would
// refuse values.
var combinations = map[string]string{"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}

func convertedSchema(v map[string]any, depth int) map[string]any {
	out := map[string]any{}
	for word, value := range v {
		if fits := schemaWords[word]; fits != nil && fits(value) {
			out[word] = value
		}
	}
	if constant, ok := v["const"]; ok {
		out["enum"] = []any{constant}
	}
	exclusiveBound(out, v, "exclusiveMinimum", "minimum")
	exclusiveBound(out, v, "exclusiveMaximum", "maximum")
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if all, ok := v[word].([]any); ok && len(all) > 0 {
			join(out, alternatives(combinations[word], all, depth))
		}
	}
	if items, ok := v["items"].(map[string]any); ok {
		out["items"] = openAPISchema(items, depth+1)
	}
	if members, ok := v["properties"].(map[string]any); ok {
		converted := map[string]any{}
		for name, member := range members {
			converted[name] = openAPISchema(member, depth+1)
		}
		out["properties"] = converted
	}
	switch more := v["additionalProperties"].(type) {
	case bool:
		out["additionalProperties"] = more
	case map[string]any:
		out["additionalProperties"] = openAPISchema(more, depth+1)
	}
	addType(out, v["type"])
	return out
}

// alternatives converts the schemas of a combination. null among alternatives becomes nullable, and a single schema
// that is left stands for itself.
func alternatives(word string, all []any, depth int) map[string]any {
	var kept []any
	null := false
	for _, one := range all {
		if m, ok := one.(map[string]any); ok && m["type"] == "null" && word != "allOf" {
			null = true
			continue
		}
		kept = append(kept, openAPISchema(one, depth+1))
	}
	out := map[string]any{}
	switch len(kept) {
	case 0:
	case 1:
		out, _ = kept[0].(map[string]any)
	default:
		out[word] = kept
	}
	if null {
		out["nullable"] = true
	}
	return out
}

// join adds the members of a schema that the other does not have.
func join(out, more map[string]any) {
	for word, value := range more {
		if _, set := out[word]; !set {
			out[word] = value
		}
	}
}

// exclusiveBound writes an exclusive bound, a number in JSON Schema, as a bound with a flag.
func exclusiveBound(out, v map[string]any, word, bound string) {
	switch limit := v[word].(type) {
	case bool:
		out[word] = limit
	case float64:
		if plain, ok := v[bound].(float64); ok && (bound == "minimum" && plain > limit || bound == "maximum" &&
			plain < limit) {
			return // the other bound is the narrower one
		}
		out[bound], out[word] = limit, true
	}
}

var typeWords = []string{"array", "boolean", "integer", "number", "object", "string"}

// addType adds the type, or the choice of types.
func addType(out map[string]any, given any) {
	names, isList := given.([]any)
	if !isList {
		names = []any{given}
	}
	var types []any
	for _, name := range names {
		switch text, _ := name.(string); {
		case text == "null":
			out["nullable"] = true
		case slices.Contains(typeWords, text):
			types = append(types, map[string]any{"type": text})
		}
	}
	switch {
	case len(types) == 1:
		join(out, types[0].(map[string]any))
	case len(types) > 1 && out["anyOf"] == nil:
		out["anyOf"] = types
	}
	if out["type"] == "array" && out["items"] == nil {
		out["items"] = map[string]any{} // OpenAPI 3.0 requires it
	}
}
