package store_test

import (
	"os"
	"regexp"
	"testing"
)

func queries(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("query.sql")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// SQLite plans a statement again at each execution if its limit is a bare argument, which takes two thirds of the time of an
// agenda.
func TestQueries_CastTheirLimits(t *testing.T) {
	text := queries(t)
	if bare := regexp.MustCompile(`LIMIT (sqlc\.|\$)[^\s)]*`).FindAll(text, -1); bare != nil {
		t.Errorf("not cast: %q", bare)
	}
	if cast := regexp.MustCompile(`LIMIT CAST\(`).FindAll(text, -1); len(cast) < 5 {
		t.Errorf("only %d limits were found", len(cast))
	}
}

// An index whose condition compares a column with a constant lets SQLite compare that constant with a bare parameter for the column. The
// plan then holds only for the values that it was made for, and each other value prepares the statement anew, which takes longer than
// most queries.
func TestQueries_CastWhatIndexesCompare(t *testing.T) {
	if bare := regexp.MustCompile(`\b(step|phase|attention|task) (=|<>) (sqlc\.arg|\$)`).FindAll(queries(t), -1); bare != nil {
		t.Errorf("not cast: %q", bare)
	}
}
