package ogcapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// inputsFor returns the inputs of an execution as parameters of a service. A process of an OGC server gets them as they
// are. Other services get plain values, because they know no qualified values and no links.
func inputsFor(inputs map[string]json.RawMessage, plain bool) (json.RawMessage, error) {
	parameters := map[string]json.RawMessage{}
	for name, value := range inputs {
		if strings.HasPrefix(name, ownInput) {
			continue
		}
		if plain {
			var err error
			if value, err = plainValue(name, value); err != nil {
				return nil, err
			}
		}
		parameters[name] = value
	}
	return dispatch.Encode(parameters)
}

// plainValue returns an input without the standard's wrappings (inlineOrRefData.yaml), which do not nest: the value of
// a qualified value, the URL of a link, and a bounding box without the reference system that longitudes and latitudes
// have anyway. The elements of a list may be wrapped, too.
func plainValue(name string, value json.RawMessage) (json.RawMessage, error) {
	value = bytes.TrimSpace(value)
	if !bytes.HasPrefix(value, []byte("[")) {
		return plainElement(name, value)
	}
	var list []json.RawMessage
	if !bytes.Contains(value, []byte("{")) || json.Unmarshal(value, &list) != nil {
		return value, nil
	}
	changed := false
	for i, element := range list {
		plain, err := plainElement(name, element)
		if err != nil {
			return nil, err
		}
		changed, list[i] = changed || len(plain) != len(element), plain
	}
	if !changed {
		return value, nil
	}
	return dispatch.Encode(list)
}

// plainElement unwraps a value that is no list of wrapped values.
func plainElement(name string, value json.RawMessage) (json.RawMessage, error) {
	var m map[string]json.RawMessage
	if !bytes.HasPrefix(value, []byte("{")) || json.Unmarshal(value, &m) != nil {
		return value, nil
	}
	switch {
	case hasOnly(m, "value", "mediaType", "encoding", "schema", "format"):
		var inside map[string]json.RawMessage
		if json.Unmarshal(m["value"], &inside) == nil && isBox(inside) {
			return plainBox(name, inside)
		}
		return m["value"], nil
	case hasOnly(m, "href", "rel", "type", "hreflang", "title"):
		return m["href"], nil
	case isBox(m):
		return plainBox(name, m)
	}
	return value, nil
}

func isBox(m map[string]json.RawMessage) bool { return m["bbox"] != nil && hasOnly(m, "bbox", "crs") }

// plainBox drops the reference system of a bounding box in longitude and latitude. The order of coordinates in others
// differs between standards.
func plainBox(name string, m map[string]json.RawMessage) (json.RawMessage, error) {
	var crs string
	if m["crs"] != nil && (json.Unmarshal(m["crs"], &crs) != nil || !strings.HasSuffix(crs, "/CRS84") &&
		!strings.HasSuffix(crs, "/CRS84h")) {
		return nil, badRequest("inputs.%s.crs must be %s.", dispatch.Shortened(name), crs84)
	}
	return dispatch.Encode(map[string]json.RawMessage{"bbox": m["bbox"]})
}

// hasOnly reports whether an object has the first of the members and no others than these.
func hasOnly(m map[string]json.RawMessage, members ...string) bool {
	if m[members[0]] == nil {
		return false
	}
	known := 0
	for _, name := range members {
		if m[name] != nil {
			known++
		}
	}
	return known == len(m)
}
