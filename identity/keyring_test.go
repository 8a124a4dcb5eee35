package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

func ring(t *testing.T, keys ...dispatch.Secret) *Keyring {
	t.Helper()
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Reveal())
	}
	r, err := ParseKeyring(dispatch.Secret(strings.Join(texts, ",\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(name string) dispatch.Secret {
	return dispatch.Secret(name + ":" + base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%-32s", name))))
}

func TestParseKeyring_RefusesBadKeys(t *testing.T) {
	short := base64.StdEncoding.EncodeToString([]byte("canary of sixteen"))
	for _, text := range []dispatch.Secret{"", " ,\n", "canary", dispatch.Secret("a:" + short), "a:canary=", key("a") +
		"," + key("a"), ":" + key("a"), dispatch.Secret("a b:" + short)} {
		if _, err := ParseKeyring(text); err == nil || strings.Contains(err.Error(), "canary") ||
			strings.Contains(err.Error(), short) {
			t.Errorf("%q: %v", text.Reveal(), err)
		}
	}
	if _, err := ParseKeyring(NewKey(time.Now())); err != nil {
		t.Error(err)
	}
}

// Who reads the database does not know the secret of links, which stays the same while a newer key is added.
func TestKeyring_LinkSecret(t *testing.T) {
	old := ring(t, key("k1")).LinkSecret("stored")
	if old == "stored" || old != ring(t, key("k2"), key("k1")).LinkSecret("stored") ||
		old == ring(t, key("k2")).LinkSecret("stored") || old == ring(t, key("k1")).LinkSecret("another") {
		t.Error("the secret does not depend on the oldest key and the database")
	}
	if (*Keyring)(nil).LinkSecret("stored") != "stored" {
		t.Error("without keys there is another secret")
	}
}

// A text does not open with another row, user, issuer, key or byte.
func TestKeyring_OpensInPlaceOnly(t *testing.T) {
	r := ring(t, key("k1"), key("k2"))
	place := []string{"grants", "id", "ann", "https://idp"}
	sealed := r.seal("canary", place...)
	if again := r.seal("canary", place...); again.Text == sealed.Text {
		t.Error("two seals are the same")
	}
	if got, err := r.open(sealed, place...); err != nil || got != "canary" {
		t.Fatalf("%v %v", got, err)
	}
	for i := range place {
		other := append([]string{}, place...)
		other[i] += "x"
		if _, err := r.open(sealed, other...); !dispatch.Is(err, dispatch.Misconfigured) {
			t.Errorf("opens at %q: %v", other, err)
		}
	}
	for _, shifted := range [][]string{{"grants", "id ann", "https://idp"}, {"grants", `id" "ann`, "", "https://idp"}} {
		if _, err := r.open(sealed, shifted...); err == nil {
			t.Errorf("opens at %q", shifted)
		}
	}
	renamed := sealed
	renamed.Key = "k2"
	torn := sealed
	torn.Text = "A" + torn.Text[1:]
	if torn == sealed {
		torn.Text = "B" + torn.Text[1:]
	}
	lost := sealed
	lost.Key = "k3"
	for _, s := range []dispatch.Sealed{renamed, torn, lost, {Key: "k1"}, {Key: "k1", Text: "?"}} {
		if got, err := r.open(s, place...); err == nil || got != "" {
			t.Errorf("%v opens: %v", s, err)
		}
	}
	if wrong := ring(t, dispatch.Secret("k1:"+strings.TrimPrefix(key("k9").Reveal(), "k9:"))); wrong != nil {
		if _, err := wrong.open(sealed, place...); err == nil {
			t.Error("another key of the same name opens it")
		}
	}
}

func vault(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite::memory:", wall{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// faster renews each row between the read and the reseal, once.
type faster struct {
	*store.Store
	done bool
}

func (f *faster) Reseal(ctx context.Context, r dispatch.SealedRow, to dispatch.Sealed) (bool, error) {
	if !f.done {
		f.done = true
		if _, err := f.Store.Reseal(ctx, r, to); err != nil {
			return false, err
		}
	}
	return f.Store.Reseal(ctx, r, to)
}

// keepSealed stores, encrypted with r, n grants and one row of each other kind.
func keepSealed(t *testing.T, v *store.Store, r *Keyring, n int) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n + 1 {
		g := dispatch.Grant{ID: fmt.Sprint("g", i), Owner: dispatch.UserID(fmt.Sprint("u", i)), Issuer: "https://idp",
			Kind: dispatch.OfflineGrant}
		g.Sealed = r.seal(dispatch.Secret(fmt.Sprint("secret ", i)), placeOf(g)...)
		ok(v.KeepGrant(t.Context(), g))
	}
	ok(v.Withdraw(t.Context(), dispatch.UserID(fmt.Sprint("u", n)), fmt.Sprint("g", n)))
	keepHook(t, v, r)
	ok(NewTokenStore(v, r).Put(t.Context(), SharedToken{Name: "t", Owner: "u1", Token: "secret",
		Expires: time.Now().Add(time.Hour)}))
	row := dispatch.Session{ID: "s", Owner: "u1", Issuer: "https://idp", Created: time.Now(),
		Ends: time.Now().Add(time.Hour)}
	row.Sealed = r.derived(sessionKeys).seal("secret", placeOfSession(row)...)
	ok(v.AddSession(t.Context(), row, 10))
}

func keepHook(t *testing.T, v *store.Store, r *Keyring) {
	t.Helper()
	h := dispatch.Hook{ID: "h", Owner: "u1"}
	h.Sealed = NewHookSecrets(r).Seal(h, "secret")
	if err := v.AddHook(t.Context(), h, 10); err != nil {
		t.Fatal(err)
	}
}

func TestRotate(t *testing.T) {
	v, old, fresh := vault(t), ring(t, key("old")), ring(t, key("new"))
	keepSealed(t, v, old, 250)
	none := []Rotated{{"grants", 0}, {"revocations", 0}, {"secrets of hooks", 0}, {"shared tokens", 0}, {"sessions", 0}}
	n, err := Rotate(t.Context(), v, fresh)
	if !slices.Equal(n, none) || !dispatch.Is(err, dispatch.Misconfigured) {
		t.Errorf("without the old key: %v, %v", n, err)
	}
	n, err = Rotate(t.Context(), &faster{Store: v}, ring(t, key("new"), key("old")))
	if want := []Rotated{{"grants", 249}, {"revocations", 1}, {"secrets of hooks", 1}, {"shared tokens", 1},
		{"sessions", 1}}; !slices.Equal(n, want) || err != nil {
		t.Fatalf("rotated %v, %v; want %v", n, err, want)
	}
	if n, err = Rotate(t.Context(), v, ring(t, key("new"), key("old"))); !slices.Equal(n, none) || err != nil {
		t.Errorf("again: %v, %v", n, err)
	}
	for i := range 250 {
		g, err := v.Grant(t.Context(), dispatch.UserID(fmt.Sprint("u", i)), "https://idp")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fresh.open(g.Sealed, placeOf(g)...); err != nil ||
			got != dispatch.Secret(fmt.Sprint("secret ", i)) {
			t.Fatalf("%d: %v %v", i, got, err)
		}
	}
	for _, k := range sealedKinds {
		rows, err := v.SealedRows(t.Context(), k.table, "", "", 1)
		if err != nil || len(rows) != 1 {
			t.Fatal(k.what, rows, err)
		}
		if _, err := k.ring(fresh).open(rows[0].Sealed, k.place(rows[0])...); err != nil {
			t.Errorf("%s: %v", k.what, err)
		}
	}
}

// TestReadable_FindsWhatIsLost without a key, of whatever kind, and nothing that is made anew.
func TestReadable_FindsWhatIsLost(t *testing.T) {
	v, old := vault(t), ring(t, key("old"))
	if err := Readable(t.Context(), v, nil); err != nil {
		t.Errorf("an empty vault without keys: %v", err)
	}
	keepHook(t, v, old)
	other := ring(t, dispatch.Secret("old:"+strings.SplitN(NewKey(time.Now()).Reveal(), ":", 2)[1]))
	for name, test := range map[string]struct {
		ring *Keyring
		want string
	}{
		"the key":              {old, ""},
		"the key among others": {ring(t, key("new"), key("old")), ""},
		"no key": {nil,
			`the vault's key "old", which 1 secrets of hooks need, is missing: put it back into vault.keys`},
		"a key of another name": {ring(t, key("new")),
			`the vault's key "old", which 1 secrets of hooks need, is missing: put it back into vault.keys`},
		"another key of the same name": {other, `secrets of hooks: `},
	} {
		err := Readable(t.Context(), v, test.ring)
		if test.want == "" && err != nil || test.want != "" && (!dispatch.Is(err, dispatch.Misconfigured) ||
			!strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := vault(t)
	keepSealed(t, all, old, 150)
	err := Readable(t.Context(), all, ring(t, key("new")))
	for _, text := range []string{"150 grants", "1 revocations", "1 secrets of hooks"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s are not found: %v", text, err)
		}
	}
	if err == nil || strings.Contains(err.Error(), "tokens") || strings.Contains(err.Error(), "sessions") {
		t.Errorf("what is made anew is missed: %v", err)
	}
}

func TestTokenStore_EncryptsTokens(t *testing.T) {
	v, r := vault(t), ring(t, key("k"))
	s, end := NewTokenStore(v, r), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if got, _, err := s.Find(t.Context(), "a"); got != "" || err != nil {
		t.Errorf("nothing: %v %v", got, err)
	}
	if err := s.Put(t.Context(), SharedToken{Name: "a", Token: "canary", Expires: end}); err != nil {
		t.Fatal(err)
	}
	if got, expires, err := s.Find(t.Context(), "a"); got != "canary" || !expires.Equal(end) || err != nil {
		t.Errorf("found %v %v %v", got, expires, err)
	}
	kept, _, err := v.FindToken(t.Context(), "a")
	if err != nil || strings.Contains(kept.Text, "canary") {
		t.Errorf("kept %v %v", kept, err)
	}
	if err := v.KeepToken(t.Context(), dispatch.SealedToken{Name: "b", Sealed: kept, Expires: end}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Find(t.Context(), "b"); got != "" || err != nil {
		t.Errorf("under another name: %v %v", got, err)
	}
	if got, _, err := NewTokenStore(v, ring(t, key("x"))).Find(t.Context(), "a"); got != "" || err != nil {
		t.Errorf("with another key: %v %v", got, err)
	}
}
