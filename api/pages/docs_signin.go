package pages

import (
	"context"
	"errors"
	"html"
	"html/template"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/swaggest/swgui"
)

// DocsSignIn signs users in on the documentation page: by OAuth's authorization code with PKCE, in the browser alone.
type DocsSignIn struct {
	ClientID string // a public client of the identity provider
	// Endpoints returns the provider's authorization and token endpoints.
	Endpoints func(context.Context) (authorizationURL, tokenURL string, err error)
}

// DocsSignedInPath is the path to which the identity provider redirects the browser after a sign-in on the
// documentation page.
const DocsSignedInPath = "/docs/oauth2-redirect"

// DocsSignedInScript hands the provider's response over to the documentation page.
var DocsSignedInScript = mustRead("oauth2-redirect.js")

// addTo has the documentation page sign in. The client's id is data in the page, which its scripts read: the settings
// are source code.
func (s *DocsSignIn) addTo(c *swgui.Config, signedInPath string) {
	// a public client has no secret
	c.AppendHead = template.HTML(`<meta name="oauth2-client-id" content="` + html.EscapeString(s.ClientID) + `">
    <style>.auth-container :has(> [for=client_secret_authorizationCode]) { display: none; }</style>`)
	c.SettingsUI["oauth2RedirectUrl"] = `location.origin + "` + signedInPath + `"`
	c.SettingsUI["onComplete"] = `function () {
                var client = document.querySelector("meta[name=oauth2-client-id]").content;
                ui.initOAuth({clientId: client, scopes: "openid", usePkceWithAuthorizationCodeGrant: true});
            }`
}

// docsEndpoints are the addresses that the documentation page needs for a sign-in; zero: there is none, or the provider
// does not respond.
type docsEndpoints struct{ authorizationURL, tokenURL, origin string }

// DocsEndpointsWithin bounds how long the documentation waits for the identity provider. The discovery goes on
// meanwhile.
const DocsEndpointsWithin = time.Second

// docsEndpoints returns where users can sign in now.
func (a *Site) docsEndpoints(ctx context.Context) docsEndpoints {
	if a.DocsSignIn == nil {
		return docsEndpoints{}
	}
	ctx, cancel := context.WithTimeout(ctx, DocsEndpointsWithin)
	defer cancel()
	authorizationURL, tokenURL, err := a.DocsSignIn.Endpoints(ctx)
	origin := originForPolicy.FindStringSubmatch(tokenURL)
	if err == nil && origin == nil {
		err = errors.New("the host of the token endpoint cannot be named in a Content-Security-Policy")
	}
	if err != nil {
		if n := a.noSignIn.Count(err.Error(), time.Now()); n > 0 {
			a.Log.WarnContext(ctx, "sign-in on the documentation page not offered", "error", err, "requests", n)
		}
		return docsEndpoints{}
	}
	return docsEndpoints{authorizationURL, tokenURL, origin[1]}
}

// originForPolicy finds the origin of an address. It matches only hosts that a Content-Security-Policy can name: other
// characters would end the directive.
var originForPolicy = regexp.MustCompile(`^(https?://[A-Za-z0-9._-]+(?::[0-9]+)?)(?:[/?]|$)`)

// connectTo returns the directive that lets the documentation page fetch tokens, to be added to its policy.
func connectTo(at docsEndpoints) string {
	if at.origin == "" {
		return ""
	}
	return "; connect-src 'self' " + at.origin
}

// signInDocument keeps the OpenAPI document that offers the sign-in at some endpoints. They hardly ever change. The
// zero value is ready to use.
type signInDocument struct {
	mu   sync.Mutex
	at   docsEndpoints
	text []byte
}

// encode returns a document in JSON, with the sign-in added.
func (d *signInDocument) encode(document *huma.OpenAPI, at docsEndpoints) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != at {
		d.at, d.text = at, encodeDocument(withSignIn(document, at))
	}
	return d.text
}

// withSignIn returns a copy of a document in which users can get their tokens by OAuth.
func withSignIn(document *huma.OpenAPI, at docsEndpoints) *huma.OpenAPI {
	own, components := *document, *document.Components
	components.SecuritySchemes = maps.Clone(components.SecuritySchemes)
	components.SecuritySchemes["oauth2"] = &huma.SecurityScheme{Type: "oauth2",
		Description: "Sign in at the identity provider that this service trusts.",
		Flows: &huma.OAuthFlows{AuthorizationCode: &huma.OAuthFlow{AuthorizationURL: at.authorizationURL,
			TokenURL: at.tokenURL,
			Scopes:   map[string]string{"openid": "Sign in"}}}}
	own.Components = &components
	own.Security = append(slices.Clip(own.Security), map[string][]string{"oauth2": {}})
	return &own
}

// docsSignedInPage hands the code that the browser brings from the identity provider over to the documentation page
// that opened it. The server does not use the code.
func (a *Site) docsSignedInPage(w http.ResponseWriter, r *http.Request) {
	a.show(w, r, http.StatusOK,
		Dialog{Title: "Sign-in on the documentation page", Script: template.JS(DocsSignedInScript),
			Text: []string{"This window closes by itself. If it does not, the sign-in was not completed: close it, " +
				"and choose Authorize on the documentation page again."}})
}
