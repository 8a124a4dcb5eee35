package main

import (
	"encoding/json"
	"fmt"
	"slices"
)

// process is an openEO user-defined process: https://api.openeo.org/#tag/User-Defined-Processes.
type process struct {
	ID         string             `json:"id"`
	Parameters []processParameter `json:"parameters"`
	Graph      json.RawMessage    `json:"process_graph"`
}

type processParameter struct {
	Name     string          `json:"name"`
	Optional bool            `json:"optional"`
	Default  json.RawMessage `json:"default"`
	Schema   json.RawMessage `json:"schema"`
}

// readProcess decodes the document of a process.
func readProcess(text []byte) (process, error) {
	var p process
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("the application is not a JSON document of a process: %w", err)
	}
	if p.ID == "" || len(p.Graph) == 0 {
		return p, fmt.Errorf("the application is not a process: id or process_graph is missing")
	}
	return p, nil
}

// sample makes arguments for all required parameters from their schemas.
func (p process) sample() (json.RawMessage, error) {
	arguments := map[string]any{}
	for _, parameter := range p.Parameters {
		switch {
		case parameter.Optional:
		case len(parameter.Default) > 0:
			arguments[parameter.Name] = parameter.Default
		default:
			value, err := sampleOf(parameter.Schema)
			if err != nil {
				return nil, fmt.Errorf("parameter %s: %w; set it with --parameters", parameter.Name, err)
			}
			arguments[parameter.Name] = value
		}
	}
	return json.Marshal(arguments)
}

// schema holds the supported parts of a parameter's JSON Schema and of openEO's subtypes
// (https://openeo.org/documentation/1.0/developers/api/reference.html#section/Processes).
type schema struct {
	Type       oneOrMany                  `json:"type"`
	Subtype    string                     `json:"subtype"`
	Format     string                     `json:"format"`
	Const      json.RawMessage            `json:"const"`
	Default    json.RawMessage            `json:"default"`
	Enum       []json.RawMessage          `json:"enum"`
	Examples   []json.RawMessage          `json:"examples"`
	Minimum    *float64                   `json:"minimum"`
	Maximum    *float64                   `json:"maximum"`
	MinItems   int                        `json:"minItems"`
	Items      json.RawMessage            `json:"items"`
	Required   []string                   `json:"required"`
	Properties map[string]json.RawMessage `json:"properties"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AllOf      []json.RawMessage          `json:"allOf"`
}

// oneOrMany is a string or a list of strings.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*o = oneOrMany{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(o))
}

// sampleOf returns a value that a schema allows or, for a list of schemas, a value for the first usable one.
func sampleOf(raw json.RawMessage) (any, error) {
	var alternatives []json.RawMessage
	if json.Unmarshal(raw, &alternatives) == nil {
		return firstSample(alternatives)
	}
	var s schema
	if len(raw) == 0 {
		return "sample", nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("its schema cannot be read: %w", err)
	}
	return s.sample()
}

// firstSample returns the first sample that is not null.
func firstSample(alternatives []json.RawMessage) (any, error) {
	err := fmt.Errorf("it has no schema")
	var value any
	for _, raw := range alternatives {
		if value, err = sampleOf(raw); err == nil && value != nil {
			return value, nil
		}
	}
	return value, err
}

// subtypes holds sample values for openEO's subtypes: an area of some hectares, in June 2024.
var subtypes = map[string]any{
	"bounding-box": map[string]any{"west": 5.07, "south": 51.21, "east": 5.08, "north": 51.22},
	"geojson": map[string]any{"type": "FeatureCollection", "features": []any{map[string]any{
		"type": "Feature", "properties": map[string]any{}, "geometry": map[string]any{"type": "Polygon",
			"coordinates": [][][]float64{
				{{5.07, 51.21}, {5.08, 51.21}, {5.08, 51.22}, {5.07, 51.22}, {5.07, 51.21}}}}}}},
	"temporal-interval":  []any{"2024-06-01", "2024-07-01"},
	"temporal-intervals": []any{[]any{"2024-06-01", "2024-07-01"}},
	"date":               "2024-06-01",
	"date-time":          "2024-06-01T00:00:00Z",
	"time":               "12:00:00Z",
	"year":               "2024",
	"duration":           "P10D",
	"collection-id":      "SENTINEL2_L2A",
	"band-name":          "B04",
	"epsg-code":          4326,
	"output-format":      "GTiff",
	"uri":                "https://files.example.org/file",
}

func (s schema) sample() (any, error) {
	alternatives := slices.Concat(s.OneOf, s.AnyOf, s.AllOf)
	given := slices.Concat([]json.RawMessage{s.Const, s.Default}, s.Examples, s.Enum)
	for _, value := range given {
		if len(value) > 0 && string(value) != "null" {
			return value, nil
		}
	}
	switch {
	case subtypes[s.Subtype] != nil:
		return subtypes[s.Subtype], nil
	case subtypes[s.Format] != nil:
		return subtypes[s.Format], nil
	case s.Subtype == "datacube":
		return nil, fmt.Errorf("a data cube cannot be written as JSON")
	case len(s.Type) == 0 && len(alternatives) > 0:
		return firstSample(alternatives)
	}
	return s.ofType()
}

// ofType returns a value of the schema's first type that is not null.
func (s schema) ofType() (any, error) {
	kind := ""
	for _, t := range s.Type {
		if t != "null" && kind == "" {
			kind = t
		}
	}
	switch kind {
	case "number", "integer":
		return s.number(), nil
	case "boolean":
		return false, nil
	case "array":
		return s.array()
	case "object":
		return s.object()
	case "":
		return nil, nil
	}
	return "sample", nil
}

func (s schema) number() float64 {
	switch {
	case s.Minimum != nil:
		return *s.Minimum
	case s.Maximum != nil:
		return min(1, *s.Maximum)
	}
	return 1
}

func (s schema) array() (any, error) {
	items := []any{}
	for range max(1, s.MinItems) {
		item, err := sampleOf(s.Items)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (s schema) object() (any, error) {
	members := map[string]any{}
	for _, name := range s.Required {
		value, err := sampleOf(s.Properties[name])
		if err != nil {
			return nil, err
		}
		members[name] = value
	}
	return members, nil
}
