package parameters

import "encoding/json"

// adapt makes JSON Schema draft-07 of a schema as openEO or OpenAPI 3.0 has it: alternatives in an array, nullable,
// exclusive bounds that are true or false, and subtypes that ask for more than their keywords.
func adapt(doc any) any {
	switch doc := doc.(type) {
	case []any:
		return map[string]any{"anyOf": each(doc)}
	case map[string]any:
		return adaptObject(doc)
	}
	return doc
}

func each(docs []any) []any {
	out := make([]any, len(docs))
	for i, d := range docs {
		out[i] = adapt(d)
	}
	return out
}

func adaptObject(doc map[string]any) any {
	out := map[string]any{}
	for keyword, value := range doc {
		switch keyword {
		case "$schema", "$id", "id", "nullable": // of another document, or said below
		case "exclusiveMinimum", "exclusiveMaximum":
			bound := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword]
			if on, flag := value.(bool); !flag {
				out[keyword] = value
			} else if on && doc[bound] != nil {
				out[keyword] = doc[bound]
			}
		case "anyOf", "oneOf", "allOf":
			if list, ok := value.([]any); ok {
				out[keyword] = each(list)
			}
		case "items", "not", "additionalProperties", "contains", "if", "then", "else":
			out[keyword] = adapt(value)
		case "properties", "definitions", "$defs", "patternProperties":
			out[keyword] = adaptMembers(value)
		default:
			out[keyword] = value
		}
	}
	demand(out)
	if doc["nullable"] == true {
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
	}
	return out
}

func adaptMembers(value any) any {
	members, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for name, member := range members {
		out[name] = adapt(member)
	}
	return out
}

// demand adds what a subtype or format means where the schema leaves it out (openeo-processes, meta/subtype-schemas.json;
// OGC 18-062r2, 7.11.2.3).
func demand(out map[string]any) {
	number := map[string]any{"type": "number"}
	missing := func(keyword string, value any) {
		if _, said := out[keyword]; !said {
			out[keyword] = value
		}
	}
	switch out["subtype"] {
	case "bounding-box":
		missing("type", "object")
		missing("required", []any{"west", "south", "east", "north"})
		missing("properties", map[string]any{"west": number, "south": number, "east": number, "north": number})
	case "temporal-interval":
		missing("type", "array")
		missing("minItems", json.Number("2"))
		missing("maxItems", json.Number("2"))
	case "geojson":
		missing("type", "object")
		missing("required", []any{"type"})
		missing("properties", map[string]any{"type": map[string]any{"enum": asAny(geometries)}})
	case "date", "date-time":
		missing("format", out["subtype"])
	}
	if out["format"] == "ogc-bbox" {
		missing("required", []any{"bbox"})
	}
}

func asAny(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
