package main

import (
	"slices"
	"testing"
)

// TestArguments_OfTheChart: a program named alembic runs the command of that name.
func TestArguments_OfTheChart(t *testing.T) {
	if got := arguments([]string{"/alembic", "upgrade", "head"}); !slices.Equal(got, []string{"alembic", "upgrade",
		"head"}) {
		t.Errorf("%q", got)
	}
	if got := arguments([]string{"/eodispatch", "serve"}); !slices.Equal(got, []string{"serve"}) {
		t.Errorf("%q", got)
	}
}
