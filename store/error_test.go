package store_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// TestStore_TextsOfNothing: no text that a client looks something up by is an internal error, also where the database
// has no such texts.
func TestStore_TextsOfNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		for _, text := range []string{"\x00", "a\x00b", "\xff"} {
			_, noHook := s.Hook(t.Context(), "ann", text)
			_, noTask := s.Tasks(t.Context(), "ann", dispatch.Page{Limit: 1, Accounts: []dispatch.Account{
				dispatch.Account(text)}})
			_, noJob := s.Records(t.Context(), "ann", dispatch.Page{Limit: 1, Label: dispatch.LabelMatch{Key: "a",
				Value: text}})
			for _, err := range []error{noHook, noTask, noJob} {
				if dispatch.Is(err, dispatch.Internal) {
					t.Errorf("%q: %v", text, err)
				}
			}
		}
	})
}
