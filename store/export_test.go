package store

import (
	"fmt"
	"testing"
)

// LimitPages makes the database full at so many pages.
func LimitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
}
