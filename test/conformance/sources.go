package conformance

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eodispatch/eodispatch/dispatch"
)

// sources is catalogue.Sources, a package whose tests need this one.
type sources interface {
	SourceStates(context.Context) (map[string]dispatch.SourceState, error)
	ClaimSource(ctx context.Context, name string, within time.Duration) (*dispatch.SourceClaim, error)
	SaveSource(ctx context.Context, c dispatch.SourceClaim, again time.Duration) error
	Source(ctx context.Context, name string) (dispatch.Source, error)
	PurgeSources(ctx context.Context, keep time.Duration) error
}

// TestSources runs the cases that every catalogue.Sources must pass. The stores of the databases must implement it.
func TestSources(t *testing.T, open func(*testing.T) Database) {
	for name, test := range map[string]func(sourcesTest){
		"what was read comes back":        sourcesTest.fields,
		"one of many claims":              sourcesTest.claims,
		"a claim that ran out":            sourcesTest.lapses,
		"sources that nobody reads":       sourcesTest.purge,
		"a source that was never claimed": sourcesTest.unknown,
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			test(sourcesTest{t, db, db.Open().(sources)})
		})
	}
}

type sourcesTest struct {
	*testing.T
	db Database
	s  sources
}

const listing = "https://catalogue.example.org/list?a=b"

// claim claims the source, which must be due.
func (t sourcesTest) claim(within time.Duration) dispatch.SourceClaim {
	t.Helper()
	c, err := t.s.ClaimSource(t.Context(), listing, within)
	if err != nil || c == nil {
		t.Fatalf("claim %v, %v", c, err)
	}
	return *c
}

func (t sourcesTest) refused() {
	t.Helper()
	if c, err := t.s.ClaimSource(t.Context(), listing, time.Minute); c != nil || err != nil {
		t.Errorf("claimed: %v, %v", c, err)
	}
}

func (t sourcesTest) save(c dispatch.SourceClaim, again time.Duration) {
	t.Helper()
	if err := t.s.SaveSource(t.Context(), c, again); err != nil {
		t.Fatal(err)
	}
}

func (t sourcesTest) state() dispatch.SourceState {
	t.Helper()
	states, err := t.s.SourceStates(t.Context())
	if err != nil || len(states) > 1 {
		t.Fatalf("%v, %v", states, err)
	}
	return states[listing]
}

func (t sourcesTest) fields() {
	c := t.claim(time.Minute)
	if d := cmp.Diff(dispatch.Source{Name: listing}, c.Source, cmpopts.EquateEmpty()); d != "" || c.Now.IsZero() {
		t.Errorf("at %v: %s", c.Now, d)
	}
	c.Read, c.Failure, c.Revision = c.Now, "it is \"down\" – é", 7
	c.Documents = []dispatch.SourceDocument{
		{Address: "https://a.example.org/1", ETag: `W/"1"`, Text: `{"a": "\u0000 <b> é"}`, Read: c.Now},
		{Address: "https://a.example.org/2", Failure: "no such file"},
	}
	t.save(c, time.Hour)
	saved, err := t.s.Source(t.Context(), listing)
	if d := cmp.Diff(c.Source, saved); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if s := t.state(); s.Due || s.Revision != 7 {
		t.Errorf("state %+v", s)
	}
	t.refused()
	t.db.Pass(time.Hour)
	if s := t.state(); !s.Due {
		t.Errorf("state %+v", s)
	}
	if again := t.claim(time.Minute); cmp.Diff(c.Source, again.Source) != "" || again.Number == c.Number {
		t.Errorf("claimed again: %+v", again)
	}
}

func (t sourcesTest) claims() {
	stores := []sources{t.s, t.db.Open().(sources)}
	var all sync.WaitGroup
	claims := make([]*dispatch.SourceClaim, 8)
	errs := make([]error, len(claims))
	for i := range claims {
		all.Go(func() { claims[i], errs[i] = stores[i%2].ClaimSource(t.Context(), listing, time.Minute) })
	}
	all.Wait()
	given := 0
	for i, c := range claims {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		if c != nil {
			given++
		}
	}
	if given != 1 {
		t.Errorf("%d of %d were given", given, len(claims))
	}
}

func (t sourcesTest) lapses() {
	first := t.claim(time.Minute)
	t.refused()
	t.db.Pass(time.Minute)
	second := t.claim(time.Minute)
	first.Revision, second.Revision = 1, 2
	t.save(second, time.Hour)
	if err := t.s.SaveSource(t.Context(), first, time.Hour); !dispatch.Is(err, dispatch.Conflict) {
		t.Errorf("the first was saved: %v", err)
	}
	if s := t.state(); s.Revision != 2 || s.Due {
		t.Errorf("state %+v", s)
	}
}

func (t sourcesTest) purge() {
	t.save(t.claim(time.Minute), time.Hour)
	t.db.Pass(25 * time.Hour) // it has been due for a day
	for _, row := range []struct {
		keep time.Duration
		left int
	}{{25 * time.Hour, 1}, {23 * time.Hour, 0}} {
		if err := t.s.PurgeSources(t.Context(), row.keep); err != nil {
			t.Fatal(err)
		}
		if states, err := t.s.SourceStates(t.Context()); len(states) != row.left || err != nil {
			t.Errorf("after %v: %v, %v", row.keep, states, err)
		}
	}
}

func (t sourcesTest) unknown() {
	if s, err := t.s.Source(t.Context(), listing); err != nil || cmp.Diff(dispatch.Source{}, s) != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s := t.state(); s != (dispatch.SourceState{}) {
		t.Errorf("state %+v", s)
	}
}
