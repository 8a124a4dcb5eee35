package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A database is marked as restored only if no broker uses it: one that gave its last sign of life before is waited out,
// one that gives another is notified of.
func TestRestored_WaitsUntilNoBrokerServes(t *testing.T) {
	for name, c := range map[string]struct {
		// how long ago the last broker gave its last sign of life; 0: it goes on; negative: the clock was set back
		ended time.Duration
		never bool
		waits time.Duration // at most
		want  error
	}{
		"none ever did":                {never: true},
		"none for long":                {ended: time.Hour},
		"one just ended":               {ended: 5 * time.Second, waits: time.Minute},
		"one ended in what is to come": {ended: -time.Hour, waits: unservedFor},
		"one serves":                   {waits: time.Minute, want: errServed},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			last := func(context.Context) (time.Time, time.Duration, error) {
				at := begun.Add(-c.ended)
				if c.never {
					at = time.Time{}
				} else if c.ended == 0 {
					at = begun.Add(time.Since(begun).Truncate(time.Minute))
				}
				return at, time.Since(at), nil
			}
			err := checkUnattended(t.Context(), t.Output(), last)
			if took := time.Since(begun); !errors.Is(err, c.want) || took > c.waits {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
