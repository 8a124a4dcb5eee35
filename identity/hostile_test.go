package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// The test plays every fault at every kind of request to an identity provider: the request ends in time with an error,
// and little is read.
func TestClient_BoundsHostileProviders(t *testing.T) {
	const host = "http://provider.example"
	documents := map[string]simulator.Reply{
		"/.well-known/openid-configuration": simulator.JSONReply(200, "", `{"issuer":"`+host+`","jwks_uri":"`+host+
			`/keys","token_endpoint":"`+host+`/token","revocation_endpoint":"`+host+`/revoke"}`),
	}
	for path, ask := range map[string]func(context.Context, exchangeClient) error{
		"/.well-known/openid-configuration": func(ctx context.Context, c exchangeClient) error {
			_, err := c.provider.endpoints(ctx)
			return err
		},
		"/keys": func(ctx context.Context, c exchangeClient) error {
			_, _, err := newKeySet(c.provider, time.Now).load(ctx)
			return err
		},
		"/token": func(ctx context.Context, c exchangeClient) error {
			_, err := c.ask(ctx, host+"/token", url.Values{"grant_type": {"refresh_token"}}, nil, "")
			return err
		},
		"/revoke": func(ctx context.Context, c exchangeClient) error { return c.revoke(ctx, "token") },
	} {
		for name, reply := range simulator.HostileReplies() {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
						if good := documents[r.URL.Path]; good != nil && r.URL.Path != path {
							return good
						}
						return reply
					}}
					http := newClient(upstream.New(upstream.Config{Development: true, Dial: h.Dial}), time.Now)
					c := exchangeClient{&provider{client: http, issuer: host, insecure: true}, clientAuth{ID: "broker",
						Secret: "secret"}}
					begin := time.Now()
					err := ask(t.Context(), c)
					if took := time.Since(begin); took > readTimeout+postTimeout {
						t.Errorf("it took %v", took)
					}
					if err == nil && path != "/revoke" || err != nil && (len(err.Error()) > 1_000 ||
						strings.Contains(err.Error(), "secret")) {
						t.Errorf("got %.2000v", err)
					}
					time.Sleep(2 * time.Hour) // until all connections have ended
					if n := h.Wrote(); n > 1<<20 {
						t.Errorf("%d KiB were read", n>>10)
					}
				})
			})
		}
	}
}

// With a key of 400 KB, verifying each token that names it would take minutes.
func TestKeys_HaveASize(t *testing.T) {
	for bits, good := range map[int]bool{1024: false, 2048: true, 4096: true, 32768: false, 3 << 20: false} {
		n := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", bits/8)))
		keys, err := parseKeys(fmt.Appendf(nil, `[{"kty":"RSA","kid":"a","e":"AQAB","n":"%s"}]`, n))
		if good != (err == nil && len(keys) == 1) {
			t.Errorf("%d bits: %d keys, %v", bits, len(keys), err)
		}
	}
}
