package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// TestTrustedProviders_NotThoseAPlatformNames: no connection is made to a private address that a platform names as the
// issuer of the shared account, while what the operator configured may be private.
func TestTrustedProviders_NotThoseAPlatformNames(t *testing.T) {
	address, connections := counting(t)
	for _, row := range []struct {
		account string
		pinned  bool
		want    bool // a connection is made
	}{
		{"provider: EGI, issuer: " + address, false, false}, // as it is with BACKENDS
		{"provider: EGI, issuer: " + address, true, false},
		{"issuer: " + address, true, true},
		{"token_url: " + address + "/token", true, true},
	} {
		settings := settingsOf(t,
			"identity: {issuer: https://a.example.org, client_id: a}\nplatforms:\n- {name: p, protocol: openeo, "+
				"endpoint: https://b.example.org, access: shared, service_account: {"+row.account+
				", client_id: a, client_secret: env:S}}", "S=s")
		if !row.pinned {
			settings.Platforms[0].ServiceAccount.Issuer = ""
		}
		c := tokensOf(settings, platforms(settings, nil), nil, slog.New(slog.DiscardHandler))
		if account := &c.Platforms[0].Account; account.FindIssuer != nil {
			account.FindIssuer = func(context.Context) (string, error) { return address, nil }
		}
		tokens, err := identity.NewTokens(c)
		if err != nil {
			t.Fatal(err)
		}
		before := connections.Load()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := tokens.Token(ctx, dispatch.Account("p/shared")); err == nil {
			t.Errorf("%s: a token", row.account)
		}
		cancel()
		if got := connections.Load() > before; got != row.want {
			t.Errorf("%s: connected %t, want %t", row.account, got, row.want)
		}
	}
}

// counting counts the connections to a private address, and closes them.
func counting(t *testing.T) (address string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	connections = &atomic.Int64{}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			connection.Close()
		}
	}()
	return "https://" + listener.Addr().String(), connections
}

// settingsOf reads a configuration from a text.
func settingsOf(t *testing.T, yaml string, environ ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eodispatch.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(file, environ)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}
