package store_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

type tracedPart struct{}

// TestTrace_NamesTransactionsWithTheirStatements: of a transaction the names of its statements are told as parts of it, and what failed.
func TestTrace_NamesTransactionsWithTheirStatements(t *testing.T) {
	for dsn, more := range map[string][]string{"sqlite:" + filepath.Join(t.TempDir(), "d.db"): nil, postgres.Database(t): {"Accept/Now"}} {
		s := open(t, dsn, &clock{now: start})
		var mu sync.Mutex
		var told, failed []string
		s.Trace(func(ctx context.Context, name string) (context.Context, func(error)) {
			if whole, ok := ctx.Value(tracedPart{}).(string); ok {
				name = whole + "/" + name
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, name)
			return context.WithValue(ctx, tracedPart{}, name), func(err error) {
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, name)
				}
			}
		})
		if _, err := s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, nil, drafts(1)); err != nil {
			t.Fatal(err)
		}
		for _, want := range append(more, "ReserveIDs", "Accept", "Accept/UseKey", "Accept/INSERT", "Accept/Wake") {
			if !slices.Contains(told, want) {
				t.Errorf("%s is not among %v", want, told)
			}
		}
		if len(failed) > 0 {
			t.Errorf("%v failed", failed)
		}
		if _, err := s.FindKey(t.Context(), drafts(1)[0].Owner, dispatch.Key{Text: "k", Fingerprint: "other"}); !dispatch.Is(err, dispatch.Conflict) {
			t.Fatal(err)
		}
		if !slices.Equal(failed, []string{"FindKey"}) {
			t.Errorf("%v failed", failed)
		}
	}
}
