package main

import (
	"testing"

	"github.com/eodispatch/eodispatch/config"
)

// Without public_url, users link their accounts at the identity provider.
func TestPageFor_LinkedAccounts(t *testing.T) {
	for driver, want := range map[string][2]string{
		config.KeycloakBroker: {"https://idp.example/realms/apex/account", "https://broker.example/link/cdse"},
		config.TokenExchange:  {},
	} {
		for i, address := range []string{"", "https://broker.example"} {
			settings := &config.Config{PublicURL: address,
				Identity: config.Identity{Issuer: "https://idp.example/realms/apex"}}
			p := config.Platform{Name: "cdse", Exchange: &config.Exchange{Driver: driver}}
			if got := pageFor(settings, p, false); got != want[i] {
				t.Errorf("%s with public_url %q: %q, want %q", driver, address, got, want[i])
			}
		}
	}
}
