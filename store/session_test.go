package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

func session(id string, u dispatch.UserID) dispatch.Session {
	return dispatch.Session{ID: id, Owner: u, Issuer: "https://idp", SID: "sid of " + id, Created: start,
		Ends:   time.Now().Add(time.Hour).Truncate(time.Microsecond),
		Sealed: dispatch.Sealed{Key: "k1", Text: "sealed " + id}}
}

// keeps reports which of the sessions exist.
func keeps(t *testing.T, s *store.Store, ids ...string) (kept []string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.Session(t.Context(), id)
		switch {
		case err == nil:
			kept = append(kept, id)
		case !dispatch.Is(err, dispatch.NotFound):
			t.Fatal(err)
		}
	}
	return kept
}

func TestSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		want := session("a1", "ann")
		if err := s.AddSession(ctx, want, 2); err != nil {
			t.Fatal(err)
		}
		want.Version = 1
		got, err := s.Session(ctx, "a1")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
		want.Sealed = dispatch.Sealed{Key: "k2", Text: "other"}
		got, err = s.RenewSession(ctx, want)
		if want.Version = 2; err != nil || cmp.Diff(want, got) != "" {
			t.Fatal(err, cmp.Diff(want, got))
		}
		stale := want
		stale.Version = 1
		if _, err := s.RenewSession(ctx, stale); !dispatch.Is(err, dispatch.Conflict) {
			t.Errorf("a session that has changed: %v", err)
		}
		later := want.Ends.Add(time.Minute)
		for _, ends := range []time.Time{later, want.Ends} { // the second is earlier, and changes nothing
			if err := s.ExtendSession(ctx, "a1", ends); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Session(ctx, "a1"); err != nil || !got.Ends.Equal(later) || got.Version != 2 {
			t.Errorf("%+v %v", got, err)
		}
		for range 2 {
			if err := s.EndSession(ctx, "a1"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.RenewSession(ctx, want); !dispatch.Is(err, dispatch.Conflict) {
			t.Errorf("a session that was ended: %v", err)
		}
		if err := s.ExtendSession(ctx, "a1", later); err != nil || len(keeps(t, s, "a1")) != 0 {
			t.Error("an ended session was extended", err)
		}
	})
}

// The newest sessions of a user are kept, whatever others have.
func TestSessions_AreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		for i := range 4 {
			for _, u := range []dispatch.UserID{"ann", "bob"} {
				n := session(fmt.Sprintf("%s%d", u, i), u)
				n.Created = start.Add(time.Duration(i) * time.Second)
				if err := s.AddSession(t.Context(), n, map[dispatch.UserID]int{"ann": 2, "bob": 9}[u]); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := keeps(t, s, "ann0", "ann1", "ann2", "ann3", "bob0", "bob1", "bob2", "bob3")
		if diff := cmp.Diff([]string{"ann2", "ann3", "bob0", "bob1", "bob2", "bob3"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSessions_EndForTheProvider(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ended := session("ended", "cid")
		ended.Ends = time.Now().Add(-time.Minute)
		for _, n := range []dispatch.Session{session("a1", "ann"), session("a2", "ann"), session("b1", "bob"),
			session("b2", "bob"), session("c1", "cid"), ended} {
			if err := s.AddSession(ctx, n, 9); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range []struct {
			issuer, sid string
			user        dispatch.UserID
			want        int
		}{
			{"https://other", "sid of a1", "", 0}, {"https://idp", "sid of a1", "bob", 0},
			{"https://idp", "sid of a1", "", 1},
			{"https://idp", "sid of b1", "bob", 1}, {"https://idp", "", "ann", 1},
		} {
			if n, err := s.EndSessions(ctx, row.issuer, row.sid, row.user); err != nil || n != row.want {
				t.Errorf("%+v: %d %v", row, n, err)
			}
		}
		if err := s.Purge(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"b2", "c1"}, keeps(t, s, "a1", "a2", "b1", "b2", "c1", "ended")); diff != "" {
			t.Error(diff)
		}
		if _, err := s.MarkRestored(ctx, dispatch.Restored(1)); err != nil || len(keeps(t, s, "b2", "c1")) != 0 {
			t.Error("sessions outlive a restore", err)
		}
	})
}
