package openeo

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// However many URLs users name, few are kept, and what is wrong goes before what is good.
func TestShelfIsBounded(t *testing.T) {
	now := time.Now()
	s := newShelf[string](func() time.Time { return now }, time.Minute)
	asked := 0
	good := func(context.Context, string) (string, error) { asked++; return "good", nil }
	bad := func(context.Context, string) (string, error) {
		return "", &dispatch.Error{Kind: dispatch.Invalid, Op: "test"}
	}
	if _, err := s.get(t.Context(), "good", good); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := s.get(t.Context(), fmt.Sprint("bad", i), bad); !dispatch.Is(err, dispatch.Invalid) {
			t.Fatal(err)
		}
	}
	if len(s.items) > shelfSize {
		t.Errorf("%d are kept", len(s.items))
	}
	if v, err := s.get(t.Context(), "good", good); v != "good" || err != nil || asked != 1 {
		t.Errorf("got %q, %v after %d questions", v, err, asked)
	}
}

// TestShelfBoundsTheWeight keeps few heavy things, and always the one that was asked for.
func TestShelfBoundsTheWeight(t *testing.T) {
	now := time.Now()
	s := newShelf[string](func() time.Time { return now }, time.Minute)
	s.weigh = func(string) int { return shelfWeight / 4 }
	for i := range 100 {
		now = now.Add(time.Millisecond)
		if v, err := s.get(t.Context(), fmt.Sprint(i), func(context.Context, string) (string, error) { return "v", nil }); v != "v" || err != nil {
			t.Fatal(v, err)
		}
	}
	if len(s.items) != 4 || s.item("99").value != "v" {
		t.Errorf("%d are kept", len(s.items))
	}
}
