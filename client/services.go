package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/eodispatch/eodispatch/client/wire"
)

// Parameters returns the parameters of a service. The label is not needed for a service of the catalogue.
func (c *Client) Parameters(ctx context.Context, s wire.ServiceChoice, label string) (all []wire.Parameter, err error) {
	return all, c.post(ctx, "/params", wire.ParamRequest{Label: label, Service: s}, &all)
}

// Platforms returns the platforms, and how much the user uses of them.
func (c *Client) Platforms(ctx context.Context) (l wire.PlatformList, err error) {
	return l, c.get(ctx, "/platforms", &l)
}

// Grids returns the grids that areas can be split by.
func (c *Client) Grids(ctx context.Context) (all []wire.Grid, err error) {
	_, err = c.do(ctx, call{method: http.MethodGet, path: "/grids", open: true}, &all)
	return all, err
}

// Tiles splits an area into tiles.
func (c *Client) Tiles(ctx context.Context, r wire.TileRequest) (t wire.GeometryCollection, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/tiles", body: r, open: true}, &t)
	return t, err
}

// Usage returns what the user uses of each platform.
func (c *Client) Usage(ctx context.Context) (all []wire.Usage, err error) {
	return all, c.get(ctx, "/usage", &all)
}

// UsageByLabel is Usage with the charges told apart by the value of a label of the jobs or their tasks.
func (c *Client) UsageByLabel(ctx context.Context, label string) (all []wire.Usage, err error) {
	return all, c.get(ctx, "/usage?label="+url.QueryEscape(label), &all)
}

// Grants returns the permissions to act for the user.
func (c *Client) Grants(ctx context.Context) (all []wire.Grant, err error) {
	return all, c.get(ctx, "/grants", &all)
}

// NewGrant returns the address of the page where the user permits jobs to run after they sign out.
func (c *Client) NewGrant(ctx context.Context) (link string, err error) {
	var page wire.GrantLink
	err = c.post(ctx, "/grants", nil, &page)
	return page.Link, err
}

// Revoke withdraws a permission.
func (c *Client) Revoke(ctx context.Context, id string) error {
	return c.remove(ctx, "/grants/"+url.PathEscape(id))
}

// Services yields the services of the catalogue that match a text; "": all. It reads pages as they are needed.
func (c *Client) Services(ctx context.Context, text string) iter.Seq2[wire.ServiceSummary, error] {
	query := url.Values{"limit": {"100"}}
	if text != "" {
		query.Set("q", text)
	}
	return pages(ctx, c, "/services", query, func(l wire.ServiceList) []wire.ServiceSummary { return l.Services },
		func(_ http.Header, l wire.ServiceList) url.Values {
			if l.Next == "" {
				return nil
			}
			return url.Values{"cursor": {l.Next}}
		})
}

// Service returns a service of the catalogue.
func (c *Client) Service(ctx context.Context, id string) (s wire.CatalogueService, err error) {
	return s, c.get(ctx, "/services/"+url.PathEscape(id), &s)
}

// SignIn is how users of a broker get their tokens.
type SignIn struct {
	Issuer   string
	ClientID string // a public client at the issuer for programs like this one; "": the operator has set up none
	Scopes   []string
}

// SignIn returns how users of the broker get their tokens: its protected resource metadata (RFC 9728). Metadata of
// another address is an error (section 3.3): it would lead the user's token for one broker to another.
func (c *Client) SignIn(ctx context.Context) (SignIn, error) {
	var found struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		ClientID string   `json:"eodispatch_client_id"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/.well-known/oauth-protected-resource", open: true}, &found)
	if err == nil && len(found.Servers) == 0 {
		err = &Error{Code: NotABroker, Message: c.base + " does not name the identity provider of its users."}
	}
	if err == nil && !c.isAt(found.Resource) {
		err = &Error{Code: NotABroker,
			Message: fmt.Sprintf("the broker at %s says that its address is %q. Use that address if it is the right "+
				"one.", c.base, found.Resource)}
	}
	if err != nil {
		return SignIn{}, err
	}
	return SignIn{found.Servers[0], found.ClientID, found.Scopes}, nil
}

// isAt reports whether a broker's own address is the one that it is called by. A broker behind a proxy that ends TLS
// may know its address only with http.
func (c *Client) isAt(resource string) bool {
	own, err := ParseURL(resource)
	return err == nil && (own == c.base || "https"+strings.TrimPrefix(own, "http") == c.base)
}
