package pages

import (
	"net/http"

	"github.com/eodispatch/eodispatch/dispatch"
)

// PublicSignIn is how programs such as the command line sign their users in.
type PublicSignIn struct {
	Issuer   string   // the identity provider where they do so
	Others   []string // further identity providers whose tokens the broker accepts
	ClientID string   // a public client there; "": there is none
}

// ResourceMetadata is the metadata of a protected resource (RFC 9728, section 2).
type ResourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported"`
	ClientID string   `json:"eodispatch_client_id,omitempty"` // the standard has no member for it
}

// serveMetadata serves the metadata by which programs find out where their users sign in. Nothing in it is a secret: a
// public client has none.
func (a *Site) serveMetadata() {
	if a.PublicSignIn == nil {
		return
	}
	a.mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(w http.ResponseWriter, r *http.Request) {
		text, err := dispatch.Encode(ResourceMetadata{a.BaseURL(r.Host, r.TLS != nil),
			append([]string{a.PublicSignIn.Issuer},
				a.PublicSignIn.Others...), []string{"header"}, []string{"openid"}, a.PublicSignIn.ClientID})
		if err != nil {
			a.Refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store") // without a public URL it depends on the request's Host
		_, _ = w.Write(text)                        // fails if the client is gone
	})
}

// BaseURL returns the configured base URL that clients use or, if there is none, that of a request.
func (a *Site) BaseURL(host string, tls bool) string {
	switch {
	case a.PublicURL != "":
		return a.PublicURL
	case tls:
		return "https://" + host
	}
	return "http://" + host
}
