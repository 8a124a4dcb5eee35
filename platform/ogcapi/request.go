package ogcapi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	params "github.com/eodispatch/eodispatch/platform/parameters"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// executeBody builds the request to execute a process. The request's options become members of it, for what clients
// know about this server (outputs, subscriber). response "" leaves the choice to the server, which by version 1.0 is
// the bytes of a single output.
func executeBody(ctx context.Context, r dispatch.Request, d *description, response string) (map[string]json.RawMessage,
	error) {
	body := map[string]json.RawMessage{}
	if options := r.PlatformOptions(); len(options) > 0 && json.Unmarshal(options, &body) != nil || body == nil {
		return nil, dispatch.InvalidBody(opSubmit, "The options must be a JSON object.", "options")
	}
	arguments := r.Parameters
	if d.set != nil {
		var err error
		if arguments, err = d.set.Shape(ctx, r); err != nil {
			return nil, err
		}
	}
	var parameters map[string]json.RawMessage
	if json.Unmarshal(arguments, &parameters) != nil || parameters == nil {
		return nil, dispatch.InvalidBody(opSubmit, "The parameters must be a JSON object.", "parameters")
	}
	for name, value := range parameters {
		parameters[name] = inputValue(value, d.inputs[name])
	}
	body["inputs"] = marshal(parameters)
	if outputs := selectOutputs(r.Format, d); outputs != nil && body["outputs"] == nil {
		body["outputs"] = marshal(outputs)
	}
	if response != "" {
		body["response"] = marshal(response)
	}
	return body, nil
}

// inputValue converts a value into the standard's form: an object is wrapped as {"value": …} unless it is already, or
// is a bounding box or a link (/req/core/process-execute-input-inline-object). In an array of values each item is
// converted.
func inputValue(v json.RawMessage, p parameter) json.RawMessage {
	switch kindOf(v) {
	case '{':
		return qualified(v, p)
	case '[':
		var items []json.RawMessage
		if p.array || !p.repeated || json.Unmarshal(v, &items) != nil {
			return v
		}
		for i, item := range items {
			if kindOf(item) == '{' {
				items[i] = qualified(item, p)
			}
		}
		return marshal(items)
	}
	return v
}

func qualified(v json.RawMessage, p parameter) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(v, &m) != nil || isQualified(m) || isLink(m) || isBox(m) {
		return v
	}
	out := map[string]json.RawMessage{"value": v}
	if media := offered("geojson", p.media); media != "" && len(p.media) > 1 && isGeoJSON(stac.Text(m["type"])) {
		out["mediaType"] = marshal(media)
	}
	return marshal(out)
}

func isQualified(m map[string]json.RawMessage) bool {
	return m["value"] != nil && only(m, "value", "mediaType", "encoding", "schema", "format")
}

func isLink(m map[string]json.RawMessage) bool { return stac.Text(m["href"]) != "" }

func isBox(m map[string]json.RawMessage) bool {
	return kindOf(m["bbox"]) == '[' && only(m, "bbox", "crs")
}

// only reports whether m has no members other than names.
func only(m map[string]json.RawMessage, names ...string) bool {
	for name := range m {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

func isGeoJSON(kind string) bool { return slices.Contains(params.GeoJSONTypes, kind) }

// selectOutputs requests the format for the outputs that offer a choice, and a reference where bytes would otherwise be
// encoded in JSON. By version 1.0 outputs that are not named are not returned, so it names all; nil: there is no
// choice. format "" leaves the media type of each output to the process, whose default is the first; so does one that
// is not used.
func selectOutputs(format string, d *description) map[string]any {
	outputs, chosen := map[string]any{}, false
	if d.leavesUnused(format) {
		format = ""
	}
	for name, output := range d.outputs {
		wish := map[string]any{}
		media := offered(format, output.media)
		if media != "" && len(output.media) > 1 {
			wish["format"] = map[string]string{"mediaType": media}
		}
		if format == "" && len(output.media) > 0 {
			media = output.media[0]
		}
		if media != "" && isBinary(media) && slices.Contains(d.passing, "reference") {
			wish["transmissionMode"] = "reference"
		}
		chosen = chosen || len(wish) > 0
		outputs[name] = wish
	}
	if !chosen {
		return nil
	}
	return outputs
}

func isBinary(media string) bool {
	return !strings.HasPrefix(media, "text/") && !strings.Contains(media, "json")
}

// marshal encodes values that cannot fail: strings, and values decoded from JSON. Values stay as they were except for
// whitespace.
func marshal(v any) json.RawMessage {
	text, _ := dispatch.Encode(v)
	return text
}

// kindOf returns the first character of a JSON value, which determines its type; 0 for none.
func kindOf(raw json.RawMessage) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

type namedValue struct {
	id    string
	value json.RawMessage
}

// namedValues reads an object of values by identifier, in document order, or a list of objects with an id.
func namedValues(raw json.RawMessage) []namedValue {
	var all []namedValue
	if kindOf(raw) == '{' {
		return members(raw)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, item := range list {
		var m struct{ ID json.RawMessage }
		if json.Unmarshal(item, &m) != nil {
			m.ID = nil
		}
		all = append(all, namedValue{identifier(m.ID), item})
	}
	return all
}

// members returns the members of an object in document order; none if raw is not an object.
func members(raw json.RawMessage) (all []namedValue) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		all = append(all, namedValue{name.(string), value})
	}
	return all
}

// identifier reads a string or a number; "" for everything else.
func identifier(raw json.RawMessage) string {
	switch kindOf(raw) {
	case 0, '{', '[':
		return "" // without reading it: lists of jobs are long
	case '"':
		return stac.Text(raw)
	}
	var n json.Number
	_ = json.Unmarshal(raw, &n)
	return n.String()
}
