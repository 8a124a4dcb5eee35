package identity

import (
	"context"
	"encoding/base64"
	"fmt"
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
	for _, text := range []dispatch.Secret{"", " ,\n", "canary", dispatch.Secret("a:" + short), "a:canary=", key("a") + "," + key("a"),
		":" + key("a"), dispatch.Secret("a b:" + short)} {
		if _, err := ParseKeyring(text); err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), short) {
			t.Errorf("%q: %v", text.Reveal(), err)
		}
	}
	if _, err := ParseKeyring(NewKey(time.Now())); err != nil {
		t.Error(err)
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

// faster renews a grant between two calls, once.
type faster struct {
	*store.Store
	done bool
}

func (f *faster) RenewGrant(ctx context.Context, g dispatch.Grant) (dispatch.Grant, error) {
	if !f.done {
		f.done = true
		if _, err := f.Store.RenewGrant(ctx, g); err != nil {
			return g, err
		}
	}
	return f.Store.RenewGrant(ctx, g)
}

func TestRotate(t *testing.T) {
	v, old := vault(t), ring(t, key("old"))
	for i := range 250 {
		g := dispatch.Grant{ID: fmt.Sprint("g", i), Owner: dispatch.UserID(fmt.Sprint("u", i)), Issuer: "https://idp", Kind: dispatch.OfflineGrant}
		g.Sealed = old.seal(dispatch.Secret(fmt.Sprint("secret ", i)), placeOf(g)...)
		if err := v.KeepGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Rotate(t.Context(), v, ring(t, key("new"))); !dispatch.Is(err, dispatch.Misconfigured) {
		t.Errorf("without the old key: %v", err)
	}
	both := ring(t, key("new"), key("old"))
	if n, err := Rotate(t.Context(), &faster{Store: v}, both); n != 249 || err != nil {
		t.Fatalf("rotated %d, %v", n, err)
	}
	for i := range 250 {
		g, err := v.Grant(t.Context(), dispatch.UserID(fmt.Sprint("u", i)), "https://idp")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ring(t, key("new")).open(g.Sealed, placeOf(g)...); err != nil || got != dispatch.Secret(fmt.Sprint("secret ", i)) {
			t.Fatalf("%d: %v %v", i, got, err)
		}
	}
}

func TestTokenStore_EncryptsTokens(t *testing.T) {
	v, r := vault(t), ring(t, key("k"))
	s, end := NewTokenStore(v, r), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if got, _, err := s.Find(t.Context(), "a"); got != "" || err != nil {
		t.Errorf("nothing: %v %v", got, err)
	}
	if err := s.Put(t.Context(), "a", "canary", end); err != nil {
		t.Fatal(err)
	}
	if got, expires, err := s.Find(t.Context(), "a"); got != "canary" || !expires.Equal(end) || err != nil {
		t.Errorf("found %v %v %v", got, expires, err)
	}
	kept, _, err := v.FindToken(t.Context(), "a")
	if err != nil || strings.Contains(kept.Text, "canary") {
		t.Errorf("kept %v %v", kept, err)
	}
	if err := v.KeepToken(t.Context(), "b", kept, end); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Find(t.Context(), "b"); got != "" || err != nil {
		t.Errorf("under another name: %v %v", got, err)
	}
	if got, _, err := NewTokenStore(v, ring(t, key("x"))).Find(t.Context(), "a"); got != "" || err != nil {
		t.Errorf("with another key: %v %v", got, err)
	}
}
