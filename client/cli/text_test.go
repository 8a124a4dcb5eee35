package cli

import (
	"errors"
	"testing"
)

func TestTexts_CannotSteerTheTerminal(t *testing.T) {
	hostile := "a\x1b[2J\u202eb\u2066\u2028c\u009bd\u200f\ufeff\ne"
	const want = "a [2Jb c d\ne"
	if got := printable(hostile); got != want {
		t.Errorf("printable: %q", got)
	}
	if got := Explain(errors.New(hostile)); got != want {
		t.Errorf("Explain: %q", got)
	}
	if got := oneLine(hostile, 100); got != "a [2Jb c d e" {
		t.Errorf("oneLine: %q", got)
	}
}
