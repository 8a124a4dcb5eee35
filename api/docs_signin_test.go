package api

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/pages"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	signInAt = "https://idp.example.org/authorize"
	tokensAt = "https://tokens.example.org:8443/realms/a;b/token?x=1"
)

// endpointSource is an identity provider for the sign-in on the documentation page.
type endpointSource struct {
	authorizationURL, tokenURL string
	err                        error
}

func (p *endpointSource) endpoints(context.Context) (authorizationURL, tokenURL string, err error) {
	return p.authorizationURL, p.tokenURL, p.err
}

// withDocsSignIn returns the configuration of an API with a client for the documentation page.
func withDocsSignIn(client string, p *endpointSource) Config {
	c := newWorld().config()
	c.DocsSignIn = &pages.DocsSignIn{ClientID: client, Endpoints: p.endpoints}
	return c
}

type securityOf struct {
	Security   []map[string][]string
	Components struct {
		SecuritySchemes map[string]struct {
			Type  string
			Flows map[string]struct {
				AuthorizationURL, TokenURL string
				Scopes                     map[string]string
			}
		}
	}
}

func security(t *testing.T, h API) securityOf {
	t.Helper()
	return decode[securityOf](t, ask(h, "GET", "/openapi.json", "", "Authorization", ""), 200)
}

func policyOf(t *testing.T, h API, path string) string {
	t.Helper()
	a := ask(h, "GET", path, "", "Authorization", "")
	if a.Code != 200 {
		t.Fatalf("%s: %d", path, a.Code)
	}
	return a.Header().Get("Content-Security-Policy")
}

// The document offers the sign-in of the provider, and the page may fetch tokens from the provider's token endpoint and
// from nowhere else.
func TestDocsSignIn_IsOffered(t *testing.T) {
	p := &endpointSource{authorizationURL: signInAt, tokenURL: tokensAt}
	h := New(withDocsSignIn("docs", p))
	for range 2 {
		d := security(t, h)
		flow := d.Components.SecuritySchemes["oauth2"].Flows["authorizationCode"]
		if len(d.Security) != 2 || len(d.Components.SecuritySchemes) != 2 || flow.AuthorizationURL != signInAt ||
			flow.TokenURL != tokensAt {
			t.Errorf("the document has %+v", d)
		}
	}
	for _, path := range []string{"/docs", "/docs/"} {
		if policy := policyOf(t, h, path); !strings.HasSuffix(policy,
			"; connect-src 'self' https://tokens.example.org:8443") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
	p.tokenURL = "https://moved.example.org/token"
	if d := security(t, h); d.Components.SecuritySchemes["oauth2"].Flows["authorizationCode"].TokenURL != p.tokenURL {
		t.Error("the document names the token endpoint that the provider had before")
	}
	if policy := policyOf(t, h, "/docs"); !strings.HasSuffix(policy, " https://moved.example.org") {
		t.Errorf("policy %q", policy)
	}
}

// Without a client, and while the provider does not respond, document and page are those without a sign-in.
func TestDocsSignIn_IsNotOffered(t *testing.T) {
	h := New(newWorld().config())
	_, plain := whole(t, h)
	policy := policyOf(t, h, "/docs")
	if d := security(t, h); len(d.Components.SecuritySchemes) != 1 || len(d.Security) != 1 ||
		strings.Contains(policy, "connect-src") {
		t.Errorf("without a client: %+v, policy %q", d, policy)
	}
	failed(t, ask(h, "GET", pages.DocsSignedInPath+".html", "", "Authorization", ""), 404, "NOT_FOUND")

	for name, p := range map[string]*endpointSource{
		"no response": {err: &dispatch.Error{Kind: dispatch.Unavailable, Op: "fake",
			Err: errors.New("away")}},
		"no token endpoint":           {authorizationURL: signInAt},
		"a directive in the host":     {authorizationURL: signInAt, tokenURL: "https://idp;script-src.example/token"},
		"another policy in the host":  {authorizationURL: signInAt, tokenURL: "https://idp,script-src.example/token"},
		"a user":                      {authorizationURL: signInAt, tokenURL: "https://a@idp.example.org/token"},
		"a host that is not in ASCII": {authorizationURL: signInAt, tokenURL: "https://bücher.example/token"},
		"a space":                     {authorizationURL: signInAt, tokenURL: "https://idp.example.org *"},
		"another scheme":              {authorizationURL: signInAt, tokenURL: "javascript:https://idp.example.org/token"},
		"a new line":                  {authorizationURL: signInAt, tokenURL: "https://idp.example.org\nX: y"},
	} {
		h := New(withDocsSignIn("docs", p))
		if _, text := whole(t, h); !bytes.Equal(text, plain) {
			t.Errorf("%s: the document is another than without a client", name)
		}
		if got := policyOf(t, h, "/docs"); strings.Contains(got, "connect-src") || strings.Contains(got, "idp") {
			t.Errorf("%s: policy %q", name, got)
		}
		*p = endpointSource{authorizationURL: signInAt, tokenURL: tokensAt}
		if _, ok := security(t, h).Components.SecuritySchemes["oauth2"]; !ok {
			t.Errorf("%s: not offered after the provider has recovered", name)
		}
	}
}

// The page contains the client's id as data: whatever it is, the scripts and their hashes do not change.
func TestDocsSignIn_ClientIsData(t *testing.T) {
	scripts := func(client string) (string, string) {
		page := ask(New(withDocsSignIn(client, &endpointSource{authorizationURL: signInAt, tokenURL: tokensAt})), "GET",
			"/docs", "", "Authorization", "").Body.String()
		return page, strings.Join(regexp.MustCompile(`(?s)<script[ >].*?</script>`).FindAllString(page, -1), "")
	}
	page, want := scripts("docs")
	if !strings.Contains(page, `<meta name="oauth2-client-id" content="docs">`) ||
		!strings.Contains(want, "usePkceWithAuthorizationCodeGrant: true") {
		t.Errorf("the page does not sign in: %s", page)
	}
	for _, client := range []string{`"><script>alert(1)</script>`, "</script><script>alert(1)</script>", "{{.Title}}",
		"{{", `'+alert(1)+'`, "`${alert(1)}`", "\u2028", "<!--<script>"} {
		page, got := scripts(client)
		if got != want || strings.Contains(page, "<script>alert") || strings.Count(page, "<meta ") != 2 {
			t.Errorf("%q changes the page: %s", client, page)
		}
	}
}

// The page that the provider redirects to runs its own script and nothing else, cannot be embedded, and repeats nothing
// of its address.
func TestDocsSignIn_SignedInPage(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.DocsSignIn = &pages.DocsSignIn{ClientID: "docs", Endpoints: (&endpointSource{authorizationURL: signInAt,
		tokenURL: tokensAt}).endpoints}
	a := ask(New(c), "GET",
		pages.DocsSignedInPath+"?code=secret-code&state=%3Cscript%3Ealert(1)%3C/script%3E&error=odd", "",
		"Authorization", "")
	policy, page := a.Header().Get("Content-Security-Policy"), a.Body.String()
	nonce := regexp.MustCompile(`<script nonce="([^"]+)">`).FindAllStringSubmatch(page, -1)
	if a.Code != 200 || len(nonce) != 1 || strings.Count(page, "<script") != 1 ||
		!strings.Contains(page, pages.DocsSignedInScript) {
		t.Fatalf("%d %s", a.Code, page)
	}
	for _, directive := range []string{"default-src 'none'", "script-src 'nonce-" + nonce[0][1] + "'",
		"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("policy %q lacks %s", policy, directive)
		}
	}
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": ""} {
		if got := a.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, of := range []string{page, policy, w.log.String()} {
		if strings.Contains(of, "secret-code") || strings.Contains(of, "alert") || strings.Contains(of, "odd") {
			t.Errorf("the query is in %s", of)
		}
	}
}

// Other pages have no script.
func TestPages_HaveNoScript(t *testing.T) {
	if policy := pages.PagePolicy(pages.Dialog{}, "n"); strings.Contains(policy, "script") {
		t.Errorf("policy %q", policy)
	}
}

// The documentation does not wait for a provider that does not respond, and strangers who read it do not fill the log.
func TestDocsSignIn_WhileTheProviderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.DocsSignIn = &pages.DocsSignIn{ClientID: "docs",
			Endpoints: func(ctx context.Context) (string, string, error) {
				<-ctx.Done()
				return "", "", errors.New("the provider does not respond")
			}}
		h := New(c)
		defer h.Close()
		began := time.Now()
		if s := security(t, h); len(s.Components.SecuritySchemes) != 1 ||
			time.Since(began) != pages.DocsEndpointsWithin {
			t.Errorf("%d security schemes after %v", len(s.Components.SecuritySchemes), time.Since(began))
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { ask(h, "GET", "/docs", "", "Authorization", "") })
		}
		all.Wait()
		if n := strings.Count(w.log.String(), "sign-in on the documentation page not offered"); n != 2 {
			t.Errorf("%d lines for 51 requests in two seconds", n)
		}
	})
}
