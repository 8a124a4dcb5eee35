package api

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// A job in a list is written as the encoder of the standard library writes it.
func TestEncode_SummaryAsByReflection(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		j := new(wire.ProcessingJobSummary)
		fillIn(r, reflect.ValueOf(j).Elem())
		want, err := dispatch.Encode(j)
		if err != nil {
			r.Fatal(err)
		}
		if got, _, err := appendSummary([]byte("["), j); err != nil || string(got) != "["+string(want) {
			r.Fatalf("%s, %v, want %s", got, err, want)
		}
	})
}

// fillIn sets any of the members of a value, also those that are added to its type later.
func fillIn(r *rapid.T, v reflect.Value) {
	if v.Kind() != reflect.Struct && v.Kind() != reflect.Interface && rapid.IntRange(0, 2).Draw(r, "absent") == 0 {
		return
	}
	switch v.Interface().(type) {
	case wire.Object:
		v.Set(reflect.ValueOf(wire.Object(json.RawMessage(rapid.SampledFrom([]string{`{}`,
			`{"a":[1,"<é>"]}`}).Draw(r,
			"object")))))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMicro(rapid.Int64Range(0, math.MaxInt64/4096).Draw(r, "time")).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(r, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(r, v.Elem())
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"plain", `"\`, "<&>", "\u2028\x00\x7f", "\xff",
			"é\n"})).Draw(r, "text"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(r, "whole"))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{100, 33.3, 1e-6, 9e-7, 1e21, -0.5,
			math.Copysign(0, -1)})).Draw(r, "number"))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a<": "b", "c": "\u2029"}))
	default:
		r.Fatalf("%s is not filled in", v.Type())
	}
}
