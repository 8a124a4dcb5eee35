package dispatch

import (
	"strings"
	"testing"
	"time"
)

func TestRequest_Options(t *testing.T) {
	for options, want := range map[string]Options{``: {}, `null`: {}, `{"retries":null,"PIN":"yes","trials":"x"}`: {},
		`{"retries":3,"memory":"4g"}`: {Retries: 3}, `{"max_duration":60,"trial":2}`: {MaxDuration: time.Minute, Trial: 2},
		`{"budget":{"amount":5,"unit":"EUR"}}`: {Budget: Budget{5, "EUR"}}} {
		r := Request{Options: []byte(options)}
		if got, err := r.ParseOptions(); err != nil || got != want {
			t.Errorf("%s: %+v %v", options, got, err)
		}
		if strings.Contains(string(r.PlatformOptions()), "retries") {
			t.Errorf("the platform gets %s", r.PlatformOptions())
		}
	}
	for name, option := range map[string]string{"retries": `"3"`, "max_duration": `1.5`, "trial": `-1`, "pin": `"true"`,
		"validate": `0`, "budget": `0`} {
		r := Request{Options: []byte(`{"` + name + `":` + option + `,"max_duration":60}`)}
		if name == "max_duration" {
			r.Options = []byte(`{"max_duration":` + option + `}`)
		}
		_, err := r.ParseOptions()
		if e, _ := err.(*Error); !Is(err, Invalid) || e.Faults[0].Loc[2] != name {
			t.Errorf("%s: %v", r.Options, err)
		}
	}
	if _, err := (Request{Options: []byte(`[]`)}).ParseOptions(); !Is(err, Invalid) {
		t.Error(err)
	}
}
