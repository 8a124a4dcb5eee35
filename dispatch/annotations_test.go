package dispatch

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestAnnotations_Bounds(t *testing.T) {
	many := map[string]string{}
	for i := range MostLabels {
		many[fmt.Sprint("k", i)] = ""
	}
	long, longer := strings.Repeat("é", LongestLabel), strings.Repeat("é", LongestLabel+1)
	for _, good := range []Annotations{{}, {Labels: many, Note: strings.Repeat("é", LongestNote)},
		{Labels: map[string]string{"a": long, "eo4.eu/project-1_b": "=|,-"}},
		{Labels: map[string]string{strings.Repeat("k", 63): "", "joined": "می\u200cخواهم 👩\u200d🌾"},
			Note: "two\nlines"}} {
		if err := good.Check(); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	tooMany := map[string]string{"another": ""}
	for key := range many {
		tooMany[key] = ""
	}
	for place, bad := range map[string]Annotations{
		"labels": {Labels: tooMany}, "labels a": {Labels: map[string]string{"a": longer}},
		"labels b": {Labels: map[string]string{"b": "two\nlines"}},
		"labels c": {Labels: map[string]string{"c": "\xff"}}, "labels ": {Labels: map[string]string{"": ""}},
		"labels a=b": {Labels: map[string]string{"a=b": ""}},
		"labels -a":  {Labels: map[string]string{"-a": ""}}, "labels é": {Labels: map[string]string{"é": ""}},
		"labels d":                          {Labels: map[string]string{"d": strings.Repeat("x", 10<<10)}},
		"labels e":                          {Labels: map[string]string{"e": "a\u200bb"}},
		"labels f":                          {Labels: map[string]string{"f": "\u2066a"}},
		"labels " + strings.Repeat("k", 64): {Labels: map[string]string{strings.Repeat("k", 64): ""}},
		"note":                              {Note: strings.Repeat("x", LongestNote+1)}, "note ": {Note: "\x00"},
	} {
		e, ok := errors.AsType[*Error](bad.Check())
		if !ok || e.Kind != Invalid || strings.Trim(fmt.Sprint(e.Faults[0].Loc),
			"[]") != strings.TrimSpace("body "+place) && place != "labels " {
			t.Errorf("%s: %v", place, e)
		}
	}
}

// A change is a merge patch: what it does not name stays.
func TestAnnotations_Change(t *testing.T) {
	one, none, text := "1", "", "text"
	was := Annotations{Labels: map[string]string{"a": "0", "b": "0"}, Note: "note"}
	for _, c := range []struct {
		change AnnotationChange
		want   Annotations
	}{
		{AnnotationChange{}, was},
		{AnnotationChange{Labels: map[string]*string{"a": &one, "b": nil, "c": nil, "d": &none}},
			Annotations{Labels: map[string]string{"a": "1", "d": ""}, Note: "note"}},
		{AnnotationChange{Replace: true, Labels: map[string]*string{"c": &one}, Note: &text},
			Annotations{Labels: map[string]string{"c": "1"}, Note: "text"}},
		{AnnotationChange{Replace: true, Note: &none}, Annotations{}},
	} {
		if got, err := c.change.Apply(was); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, %v", c.change, got, err)
		}
	}
	if was.Labels["a"] != "0" || len(was.Labels) != 2 {
		t.Errorf("the former annotations have changed: %v", was)
	}
	if _, err := (AnnotationChange{Labels: map[string]*string{"=": &one}}).Apply(was); !Is(err, Invalid) {
		t.Error(err)
	}
}

func TestLabelMatch(t *testing.T) {
	if m, ok := ParseLabel("a=b=c"); !ok || !m.Selects(map[string]string{"a": "b=c", "x": ""}) ||
		m.Selects(map[string]string{"a": "b"}) || m.Selects(nil) {
		t.Error(m, ok)
	}
	if m, ok := ParseLabel("a="); !ok || !m.Selects(map[string]string{"a": ""}) || m.Selects(nil) {
		t.Error(m, ok)
	}
	for _, bad := range []string{"", "a", "=b", "é=b"} {
		if _, ok := ParseLabel(bad); ok {
			t.Errorf("%q is taken for a label", bad)
		}
	}
	if !(LabelMatch{}).Selects(nil) {
		t.Error("no label does not select all")
	}
}
