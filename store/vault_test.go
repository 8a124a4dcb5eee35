package store_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(*testing.T, *store.Store)) {
	t.Run("SQLite", func(t *testing.T) {
		test(t, open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.NewStillClock(time.Now())))
	})
	t.Run("PostgreSQL", func(t *testing.T) { test(t, open(t, postgres.Database(t), nil)) })
}

func grant(id string, u dispatch.UserID) dispatch.Grant {
	return dispatch.Grant{ID: id, Owner: u, Issuer: "https://idp", Kind: dispatch.OfflineGrant, Created: start,
		Renewed: start,
		Sealed:  dispatch.Sealed{Key: "k1", Text: "sealed " + id}}
}

func TestGrants(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		if _, err := s.Grant(ctx, "ann", "https://idp"); !dispatch.Is(err, dispatch.NotFound) {
			t.Fatalf("no grant: %v", err)
		}
		// a2 in place of a1
		for _, g := range []dispatch.Grant{grant("a1", "ann"), grant("b1", "bob"), grant("a2", "ann")} {
			if err := s.KeepGrant(ctx, g); err != nil {
				t.Fatal(err)
			}
		}
		want := grant("a2", "ann")
		want.Version = 1
		got, err := s.Grants(ctx, "ann")
		if diff := cmp.Diff([]dispatch.Grant{want}, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
		renewed := want
		renewed.Sealed, renewed.Renewed, renewed.Expires = dispatch.Sealed{Key: "k2", Text: "other"},
			start.Add(time.Hour), start.Add(2*time.Hour)
		kept, err := s.RenewGrant(ctx, renewed)
		renewed.Version = 2
		if diff := cmp.Diff(renewed, kept); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
		if _, err := s.RenewGrant(ctx, want); !dispatch.Is(err, dispatch.Conflict) {
			t.Errorf("a renewal of what has changed: %v", err)
		}
		if err := s.EraseGrant(ctx, "bob", "a2"); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("another's grant: %v", err)
		}
		if err := s.EraseGrant(ctx, "ann", "a2"); err != nil {
			t.Error(err)
		}
		if _, err := s.Grant(ctx, "ann", "https://idp"); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("an erased grant: %v", err)
		}
		if _, err := s.RenewGrant(ctx, kept); !dispatch.Is(err, dispatch.Conflict) {
			t.Errorf("an erased grant comes back: %v", err)
		}
	})
}

func TestTokens_Expire(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx, end := t.Context(), time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
		for name, expires := range map[string]time.Time{"lasts": end, "ended": time.Now().Add(-time.Hour)} {
			if err := s.KeepToken(ctx, dispatch.SealedToken{Name: name, Sealed: dispatch.Sealed{Key: "k", Text: name},
				Expires: expires}); err != nil {
				t.Fatal(err)
			}
		}
		if got, expires, err := s.FindToken(ctx, "lasts"); err != nil || got.Text != "lasts" || !expires.Equal(end) {
			t.Errorf("found %v %v %v", got, expires, err)
		}
		for _, name := range []string{"ended", "never"} {
			if _, _, err := s.FindToken(ctx, name); !dispatch.Is(err, dispatch.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestTokens_BelongToTheirUsers: a token takes the place of another one unless a longer one must stay, and is erased by
// its user or its expiry.
func TestTokens_BelongToTheirUsers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx, end := t.Context(), time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
		keep := func(name, text string, owner dispatch.UserID, expires time.Time, longest bool) {
			t.Helper()
			token := dispatch.SealedToken{Name: name, Owner: owner, Sealed: dispatch.Sealed{Key: "k", Text: text},
				Expires: expires, Longest: longest}
			if err := s.KeepToken(ctx, token); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(name, want string) {
			t.Helper()
			if got, _, err := s.FindToken(ctx, name); got.Text != want || want == "" &&
				!dispatch.Is(err, dispatch.NotFound) {
				t.Errorf("%s is %q, %v; want %q", name, got.Text, err, want)
			}
		}
		keep("a", "first", "ann", end, true)
		keep("a", "shorter", "ann", end.Add(-time.Minute), true)
		expect("a", "first")
		keep("a", "as long", "ann", end, true)
		expect("a", "as long")
		keep("a", "newest", "ann", end.Add(-time.Minute), false)
		expect("a", "newest")
		if err := s.EraseToken(ctx, "a", end); err != nil {
			t.Fatal(err)
		}
		expect("a", "newest")
		if err := s.EraseToken(ctx, "a", end.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		expect("a", "")
		keep("a1", "x", "ann", end, false)
		keep("a2", "x", "ann", end, false)
		keep("b", "x", "bob", end, false)
		keep("n", "x", "", end, false)
		if err := s.EraseTokens(ctx, "ann"); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"a1": "", "a2": "", "b": "x", "n": "x"} {
			expect(name, want)
		}
	})
}

// TestKeepGrant_EndsHoldsForTheSignIn of its owner only, and no hold for another reason.
func TestKeepGrant_EndsHoldsForTheSignIn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		why := map[dispatch.Account]dispatch.Attention{"p/ann": dispatch.NeedsSignIn, "q/ann": dispatch.Unreachable,
			"p/bob": dispatch.NeedsSignIn}
		wakes := map[dispatch.Account]int64{}
		for a, why := range why {
			d := drafts(1)
			d[0].Owner, d[0].Account = dispatch.UserID(a.Identity()), a
			if _, err := s.Accept(ctx, dispatch.Key{}, nil, d); err != nil {
				t.Fatal(err)
			}
			if err := s.Hold(ctx, a, time.Hour, why, "because"); err != nil {
				t.Fatal(err)
			}
			g, err := s.Agenda(ctx, a, 1, 0)
			if err != nil || g.Why != why {
				t.Fatal(g.Why, err)
			}
			wakes[a] = g.Wakes
		}
		if err := s.KeepGrant(ctx, grant("a", "ann")); err != nil {
			t.Fatal(err)
		}
		for a, why := range why {
			g, err := s.Agenda(ctx, a, 1, 0)
			if ended := a == "p/ann"; err != nil || (g.Why == dispatch.None) != ended || !ended && g.Why != why ||
				(g.Wakes > wakes[a]) != ended || g.Hold.After(g.Now) == ended {
				t.Errorf("%s is held until %v, it is %v, because of %q, and has %d wakes after %d, %v", a, g.Hold,
					g.Now, g.Why, g.Wakes, wakes[a], err)
			}
		}
	})
}

func TestWorking_ListsAccounts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		jobs := drafts(2)
		if _, err := s.Accept(ctx, dispatch.Key{}, nil, jobs); err != nil {
			t.Fatal(err)
		}
		if got, err := s.AccountsWithJobs(ctx); err != nil || !cmp.Equal(got, []dispatch.Account{"p/shared"}) {
			t.Errorf("working: %v %v", got, err)
		}
		for _, j := range jobs {
			if _, err := s.Cancel(ctx, "ann", j.ID, false); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.AccountsWithJobs(ctx); err != nil || len(got) != 0 {
			t.Errorf("working: %v %v", got, err)
		}
	})
}

// TestWithdraw_LeavesTheGrantToRevoke until it is revoked or given again, for its owner only.
func TestWithdraw_LeavesTheGrantToRevoke(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		withdrawn := func(u dispatch.UserID, want bool, left ...string) {
			t.Helper()
			got, err := s.HasWithdrawn(ctx, u, "https://idp")
			ok(err)
			rows, err := s.Revocations(ctx, "https://idp", time.Time{}, 10)
			ok(err)
			if others, err := s.Revocations(ctx, "https://other", time.Time{}, 10); err != nil || len(others) != 0 {
				t.Errorf("of another issuer %+v, %v", others, err)
			}
			if old, err := s.Revocations(ctx, "https://other", time.Now().Add(time.Hour), 10); err != nil ||
				len(old) != len(rows) {
				t.Errorf("of a time %+v, %v", old, err)
			}
			var ids []string
			for _, r := range rows {
				if waits, err := s.HasRevocation(ctx, r.ID); err != nil || !waits {
					t.Errorf("revocation %s: waits %v, %v", r.ID, waits, err)
				}
				if ids = append(ids, r.ID); r.Text != "sealed "+r.ID || r.Key != "k1" || r.Created.IsZero() ||
					r.Issuer != "https://idp" {
					t.Errorf("revocation %+v", r)
				}
			}
			if got != want || !cmp.Equal(ids, left) {
				t.Errorf("%s has withdrawn: %v; to revoke: %v", u, got, ids)
			}
		}
		ok(s.KeepGrant(ctx, grant("a1", "ann")))
		ok(s.KeepGrant(ctx, grant("b1", "bob")))
		for _, id := range []string{"b1", "none"} {
			if err := s.Withdraw(ctx, "ann", id); !dispatch.Is(err, dispatch.NotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
		withdrawn("ann", false)
		ok(s.Withdraw(ctx, "ann", "a1"))
		if _, err := s.Grant(ctx, "ann", "https://idp"); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("a withdrawn grant: %v", err)
		}
		ok(s.Withdraw(ctx, "bob", "b1"))
		withdrawn("ann", true, "a1", "b1")
		ok(s.EraseRevocation(ctx, "b1"))
		if waits, err := s.HasRevocation(ctx, "b1"); err != nil || waits {
			t.Errorf("an erased revocation: waits %v, %v", waits, err)
		}
		withdrawn("bob", true, "a1")
		session := grant("a2", "ann")
		session.Kind = dispatch.SessionGrant
		ok(s.KeepGrant(ctx, session))
		withdrawn("ann", true, "a1") // only consent gives it again
		ok(s.KeepGrant(ctx, grant("a3", "ann")))
		withdrawn("ann", false)
		withdrawn("bob", true)
	})
}

// TestUseOnce: of many concurrent uses of a name one is the first, and Purge deletes the name after its time.
func TestUseOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		var first atomic.Int64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if ok, err := s.UseOnce(t.Context(), "ticket a", time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				} else if ok {
					first.Add(1)
				}
			})
		}
		all.Wait()
		if n := first.Load(); n != 1 {
			t.Errorf("%d were the first", n)
		}
		if ok, err := s.UseOnce(t.Context(), "ticket b", time.Now().Add(-time.Hour)); err != nil || !ok {
			t.Errorf("another name: %v %v", ok, err)
		}
		if err := s.Purge(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"ticket a": false, "ticket b": true} {
			if ok, err := s.UseOnce(t.Context(), name, time.Now().Add(time.Hour)); err != nil || ok != want {
				t.Errorf("%s after Purge: first %v, %v; want %v", name, ok, err, want)
			}
		}
	})
}
