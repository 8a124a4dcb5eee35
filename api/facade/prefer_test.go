package facade_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
)

func TestPreferencesIn(t *testing.T) {
	for given, want := range map[string]facade.Preferences{
		"": {}, "respond-async": {Async: true}, "Respond-Async, wait=10": {Async: true, Wait: 10 * time.Second},
		"wait=7;x=y":                          {Wait: 7 * time.Second},
		"respond-async, Wait = 10;x=y":        {Async: true, Wait: 10 * time.Second},
		"respond-async;return=representation": {Async: true},
		"wait=99999999":                       {Wait: facade.LongestWait}, "wait=99999999999999999999999": {},
		"wait=0": {}, "wait=-1": {},
		"wait=soon, respond-sync": {}, "waiting=9": {},
		`wait="5"`: {Wait: 5 * time.Second}, "wait=5, wait=50": {Wait: 5 * time.Second},
	} {
		if got := facade.PreferencesIn(http.Header{"Prefer": {given}}); got != want {
			t.Errorf("%q: %+v", given, got)
		}
	}
	if got := facade.PreferencesIn(http.Header{"Prefer": {"wait=3",
		"respond-async"}}); got != (facade.Preferences{Async: true, Wait: 3 * time.Second}) {
		t.Errorf("of two headers %+v", got)
	}
}
