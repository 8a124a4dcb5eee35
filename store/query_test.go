package store_test

import (
	"os"
	"regexp"
	"testing"
)

// SQLite plans a statement again at each execution if its limit is a bare argument, which takes two thirds of the time of an
// agenda.
func TestQueries_CastTheirLimits(t *testing.T) {
	text, err := os.ReadFile("query.sql")
	if err != nil {
		t.Fatal(err)
	}
	if bare := regexp.MustCompile(`LIMIT (sqlc\.|\$)[^\s)]*`).FindAll(text, -1); bare != nil {
		t.Errorf("not cast: %q", bare)
	}
	if cast := regexp.MustCompile(`LIMIT CAST\(`).FindAll(text, -1); len(cast) < 5 {
		t.Errorf("only %d limits were found", len(cast))
	}
}
