package identity

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// twoReplicas returns two processes that share what the database holds, and a token of the user user0 that neither has
// seen.
func twoReplicas(t *testing.T) (n *network, first, second *Tokens, own dispatch.Secret) {
	t.Helper()
	shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{}}
	share := func(c *TokensConfig) { c.Locker, c.SharedTokens = shared, shared }
	n, first = world(t, "keycloak-broker", 0, share)
	n.idp.Link("user0", "user0-p")
	n.idp.TokenLife = 5 * time.Minute
	second = replica(t, n, "keycloak-broker", share)
	life := map[string]any{"exp": time.Now().Add(time.Hour).Unix()}
	return n, first, second, dispatch.Secret(n.idp.Mint("apex", "user0", "portal", simulator.TokenFaults{Claims: life}))
}

// TestReplicas_ActForUsersOfEachOther: any replica may visit the account of a user whose only request went to another.
func TestReplicas_ActForUsersOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, first, second, own := twoReplicas(t)
		if _, err := second.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.SignInRequired) {
			t.Fatalf("before the sign-in: %v", err)
		}
		if !first.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Minute)) {
			t.Error("the first token of a user is not new")
		}
		if first.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Minute)) {
			t.Error("the same token is new again")
		}
		if _, err := second.Token(t.Context(), "P/user0"); err != nil || n.count() != 1 {
			t.Fatalf("with the token that another replica got: %v after %d exchanges", err, n.count())
		}
	})
}

// TestReplicas_UseEachOthersPlatformTokens after the user's own token has expired.
func TestReplicas_UseEachOthersPlatformTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, first, second, own := twoReplicas(t)
		first.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Minute))
		got, err := first.Token(t.Context(), "P/user0")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if other, err := second.Token(t.Context(), "P/user0"); err != nil || other != got || n.count() != 1 {
			t.Errorf("%v after %d exchanges", err, n.count())
		}
		time.Sleep(10 * time.Minute)
		for _, r := range []*Tokens{first, second} {
			if _, err := r.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.SignInRequired) {
				t.Errorf("after the last token: %v", err)
			}
		}
	})
}

// TestReplicas_KeepTheTokenThatLastsLongest for each other, and drop one that the provider has ended.
func TestReplicas_KeepTheTokenThatLastsLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first, second, own := twoReplicas(t)
		first.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Hour))
		second.StoreUserToken(t.Context(), "user0", "short", time.Now().Add(time.Minute))
		time.Sleep(2 * time.Minute)
		if _, err := second.Token(t.Context(), "P/user0"); err != nil {
			t.Errorf("a shorter token took the place of the longer one: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, first, second, own := twoReplicas(t)
		first.StoreUserToken(t.Context(), "user0", "ended", time.Now().Add(time.Hour))
		if _, err := second.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.SignInRequired) {
			t.Fatalf("with a token that the provider has ended: %v", err)
		}
		second.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Minute))
		if _, err := second.Token(t.Context(), "P/user0"); err != nil {
			t.Errorf("signed in again: %v", err)
		}
	})
}

// TestReplicas_SignInIsSeenAtOnce: that no process has a token is not remembered.
func TestReplicas_SignInIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first, second, own := twoReplicas(t)
		if _, err := second.Token(context.Background(), "P/user0"); !dispatch.Is(err, dispatch.SignInRequired) {
			t.Fatal(err)
		}
		first.StoreUserToken(t.Context(), "user0", own, time.Now().Add(time.Minute))
		if _, err := second.Token(t.Context(), "P/user0"); err != nil {
			t.Error(err)
		}
	})
}
