package identity

import (
	"net/http"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/upstream"
)

// exploding panics at every request.
type exploding struct{}

func (exploding) RoundTrip(*http.Request) (*http.Response, error) { panic("exploding") }

// What several callers wait for is fetched in a goroutine of its own. Its panic must not end the process or leave the
// callers without an answer.
func TestExchangeAndKeys_SurvivePanics(t *testing.T) {
	s := newFixture(t)
	client := upstream.New(upstream.Config{Transport: exploding{}, Development: true})
	tokens := s.tokens(func(c *TokensConfig) { c.Client = client })
	if _, err := tokens.Token(t.Context(), of(s.comes(tokens, "alice"))); err == nil {
		t.Error("a token from a client that panics")
	}
	v, err := NewVerifier(Config{Issuer: s.idp.Issuer(simulator.BrokerRealm), Audience: []string{"a"}, Client: client, Development: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), dispatch.Secret(s.idp.Mint(simulator.BrokerRealm, "alice", "portal", simulator.TokenFaults{}))); err == nil {
		t.Error("a token is verified without keys")
	}
}
