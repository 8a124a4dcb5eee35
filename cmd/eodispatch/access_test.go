package main

import (
	"testing"

	"github.com/eodispatch/eodispatch/config"
)

// TestPageOf_AccountPage: the page links to the provider's page for accounts only if a platform uses linked accounts.
// Platforms with open or shared access have no exchange.
func TestPageOf_AccountPage(t *testing.T) {
	for want, platforms := range map[string][]config.Platform{
		"": {{Name: "open"}, {Name: "token", Exchange: &config.Exchange{Driver: config.TokenExchange}}},
		"https://id.test/x/account": {{Name: "open"},
			{Name: "linked", Exchange: &config.Exchange{Driver: config.KeycloakBroker}}},
	} {
		if got := pageOf(&config.Config{Identity: config.Identity{Issuer: "https://id.test/x/"},
			Platforms: platforms}).Account; got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
