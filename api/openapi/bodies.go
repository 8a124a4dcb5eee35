package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// bodyTypes are the types of request bodies. Each is validated by its component of the OpenAPI document.
var bodyTypes = []reflect.Type{reflect.TypeFor[wire.BaseJobRequest](), reflect.TypeFor[wire.UpscalingTaskRequest](),
	reflect.TypeFor[wire.ParamRequest](), reflect.TypeFor[wire.TileRequest](), reflect.TypeFor[wire.JobChoice](),
	reflect.TypeFor[wire.Resumption](), reflect.TypeFor[wire.AnnotationsPatch](), reflect.TypeFor[wire.HookRequest]()}

// compileBodies returns the schemas of request bodies. The document must be complete. It panics if it cannot be
// compiled, which is a programming error.
func (a *Document) compileBodies() map[reflect.Type]*jsonschema.Schema {
	text, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": a.OpenAPI().Components.Schemas}})
	document, unread := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	c := jsonschema.NewCompiler()
	if err := errors.Join(err, unread, c.AddResource("openapi.json", document)); err != nil {
		panic(err)
	}
	all := map[reflect.Type]*jsonschema.Schema{}
	for _, t := range bodyTypes {
		all[t] = c.MustCompile("openapi.json" + SchemasPath + t.Name())
	}
	return all
}

// ReadInto decodes a body of type T and returns its faults. ok is false if the body cannot be read at all. Unknown
// members are ignored unless the schema forbids them; member names are case-sensitive.
func ReadInto[T any](a *Document, body []byte) (v T, f *Faults, ok bool) {
	f = &Faults{}
	if len(body) == 0 {
		f.Add("missing", "Field required")
		return v, f, false
	}
	if fault := Malformed(body); fault != nil {
		f.All = append(f.All, *fault)
		return v, f, false
	}
	if f.All, ok = Inspect(body, a.Limits.Depth, a.Limits.Members); !ok {
		return v, f, false
	}
	d := Decoding{Faults: f, options: reflect.TypeFor[wire.JobOptions]()}
	if _, isTask := any(v).(wire.UpscalingTaskRequest); isTask {
		d.options = reflect.TypeFor[wire.TaskOptions]()
	}
	instance := d.Value(slices.Clip(body), reflect.ValueOf(&v).Elem())
	if members, isObject := instance.(map[string]any); !isObject {
		f.Add(mismatch(reflect.TypeFor[T]()))
		return v, f, false
	} else if members["label"] == ProtocolOf[dispatch.OGCProcess] { // what GET /services calls protocol
		members["label"] = string(dispatch.OGCProcess)
	}
	f.explain(a.shapes()[reflect.TypeFor[T]()].Validate(instance))
	return v, f, true
}

// Decoding fills a value from JSON, and returns what the JSON has for its validation: without what is inside opaque
// values, so that a large body takes no memory for each of its values. What does not fit is a fault.
type Decoding struct {
	*Faults
	options reflect.Type // of the request
	at      []any
}

var (
	objectType  = reflect.TypeFor[wire.Object]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	opaqueTypes = []reflect.Type{rawType, reflect.TypeFor[wire.Area](), reflect.TypeFor[wire.Cells](),
		reflect.TypeFor[wire.Budget]()}
)

func (d *Decoding) Value(raw json.RawMessage, v reflect.Value) any {
	raw = trimmed(raw)
	switch t := v.Type(); {
	case t == objectType && raw[0] != 'n':
		v.SetBytes(raw)
		if raw[0] == '{' {
			return map[string]any{}
		}
	case slices.Contains(opaqueTypes, t):
		if v.Kind() == reflect.Struct {
			v = v.Field(0)
		}
		v.SetBytes(raw)
		return members(raw)
	case raw[0] == 'n':
		return nil
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return d.Value(raw, v.Elem())
	case t.Kind() == reflect.Struct && raw[0] == '{':
		return d.object(raw, v)
	case t.Kind() == reflect.Map && raw[0] == '{':
		return d.dictionary(raw, v)
	case t.Kind() == reflect.Slice && raw[0] == '[':
		return d.list(raw, v)
	case json.Unmarshal(raw, v.Addr().Interface()) != nil:
		d.add(mismatch(t))
	case t.Kind() == reflect.String && strings.ContainsRune(v.String(), 0):
		d.add("value_error", "String should not contain the NUL character")
	}
	return scalar(raw)
}

// below runs f at a place below the present one.
func (d *Decoding) below(step any, f func()) {
	d.at = append(d.at, step)
	f()
	d.at = d.at[:len(d.at)-1]
}

// add records a fault at the present place.
func (d *Decoding) add(kind, msg string) { d.Faults.Add(kind, msg, d.at...) }

func (d *Decoding) object(raw json.RawMessage, v reflect.Value) any {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw, &given) // it is an object
	all := make(map[string]any, len(given))
	for name := range given {
		all[name] = nil
	}
	d.fields(given, all, v)
	return all
}

// fields fills the fields of a struct, and then those that it embeds.
func (d *Decoding) fields(given map[string]json.RawMessage, all map[string]any, v reflect.Value) {
	var embedded []reflect.Value
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		raw, present := given[name]
		switch {
		case field.Anonymous:
			embedded = append(embedded, v.Field(i))
		case present && IsNull(raw) && field.Tag.Get("nullable") == "true":
			delete(all, name) // as if it was absent: no enumeration has null
		case present && name != "-":
			delete(given, name) // an embedded field of this name is hidden
			d.below(name, func() {
				all[name] = d.Value(raw, v.Field(i))
				if name == "options" && raw[0] == '{' { // they are passed on as they are, and some acted on
					all[name] = d.Value(raw, reflect.New(d.options).Elem())
				}
			})
		}
	}
	for _, e := range embedded {
		d.fields(given, all, e)
	}
}

func (d *Decoding) dictionary(raw json.RawMessage, v reflect.Value) any {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw, &given) // it is an object
	all := make(map[string]any, len(given))
	v.Set(reflect.MakeMap(v.Type()))
	for name, one := range given {
		element := reflect.New(v.Type().Elem()).Elem()
		d.below(name, func() { all[name] = d.Value(one, element) })
		v.SetMapIndex(reflect.ValueOf(name), element)
	}
	return all
}

func (d *Decoding) list(raw json.RawMessage, v reflect.Value) any {
	var given []json.RawMessage
	_ = json.Unmarshal(raw, &given) // it is an array
	all := make([]any, len(given))
	if v.Type().Elem() == rawType {
		v.Set(reflect.ValueOf(given))
		return all
	}
	v.Set(reflect.MakeSlice(v.Type(), len(given), len(given)))
	for i, one := range given {
		d.below(i, func() { all[i] = d.Value(one, v.Index(i)) })
	}
	return all
}

// members returns an opaque value with its members, but without what is inside those.
func members(raw json.RawMessage) any {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return scalar(raw)
	}
	all := make(map[string]any, len(members))
	for name, one := range members {
		all[name] = scalar(one)
	}
	return all
}

// scalar returns a value, but an object or array without its content.
func scalar(raw json.RawMessage) (v any) {
	switch raw = trimmed(raw); raw[0] {
	case '{':
		return map[string]any{}
	case '[':
		return []any{}
	case '"', 't', 'f', 'n':
		_ = json.Unmarshal(raw, &v) // it is JSON
		return v
	}
	return json.Number(raw)
}

func trimmed(raw json.RawMessage) json.RawMessage {
	return bytes.TrimLeft(raw, " \t\r\n")
}

// mismatch returns the fault of a value that a type does not take.
func mismatch(t reflect.Type) (kind, msg string) {
	names := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Float64: "number", reflect.Slice: "array"}
	return typeWords(names[t.Kind()], t.Kind() == reflect.Map)
}

var ProtocolOf = map[dispatch.Label]string{dispatch.OpenEO: "openeo", dispatch.OGCProcess: "ogcapi"}

// OptionalBody reads a body of type T; present is false if there is none, or null.
func OptionalBody[T any](a *Document, in *Request) (v T, present bool, err error) {
	r, _ := humago.Unwrap(in.HTTP)
	if r.ContentLength == 0 {
		return v, false, nil
	}
	body, err := a.ReadBody(in)
	if err != nil || len(body) == 0 || IsNull(bytes.TrimSpace(body)) {
		return v, false, err
	}
	v, f, _ := ReadInto[T](a, body)
	if len(f.All) > 0 {
		return v, false, call.Invalid(f.Sorted())
	}
	return v, true, nil
}
