package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// usageBroker counts what a user uses.
type usageBroker interface {
	// Usage counts the user's jobs at each account.
	Usage(context.Context, dispatch.UserID) ([]dispatch.Usage, error)
	// UsageByLabel is Usage with the charges told apart by the value of a label.
	UsageByLabel(ctx context.Context, u dispatch.UserID, label string) ([]dispatch.Usage, error)
}

// Grants lists and revokes users' permissions.
type Grants interface {
	Grants(context.Context, dispatch.UserID) ([]dispatch.Grant, error)
	// Revoke revokes a permission and pauses the jobs that rely on it. NotFound, also for another user's.
	Revoke(ctx context.Context, u dispatch.UserID, id string) error
}

// accessRoutes registers the operations on permissions and usage.
func (a *api) accessRoutes() {
	openapi.Register(a.Document, huma.Operation{OperationID: "list_grants", Method: http.MethodGet, Path: "/grants",
		Tags: []string{"access"}, Summary: "List your permissions", Responses: a.Errors(401, 503)}, a.listGrants)
	openapi.Register(a.Document, huma.Operation{OperationID: "create_grant", Method: http.MethodPost, Path: "/grants",
		Tags:          []string{"access"},
		Summary:       "Permit jobs to run after you sign out",
		Description:   "Returns the address of a page where you give the permission.",
		DefaultStatus: http.StatusCreated, Responses: a.Errors(401, 501, 503)}, a.createGrant)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "delete_grant", Method: http.MethodDelete, Path: "/grants/{grant_id}",
			Tags:    []string{"access"},
			Summary: "Withdraw a permission",
			Description: "The permission is revoked at the identity provider and erased here. Your unfinished jobs " +
				"pause until your next request.", DefaultStatus: http.StatusOK,
			Parameters: []*huma.Param{openapi.PathParam("grant_id")},
			Responses:  openapi.WithNull(a.Errors(401, 404, 503))}, a.deleteGrant)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "get_usage", Method: http.MethodGet, Path: "/usage", Tags: []string{"access"},
			Summary: "Get your usage of each platform",
			Description: "With `label`, the charges of each platform and month are split by the value of this " +
				"label, with one more for runs without it, so that the sum is the same. The value is the one that " +
				"the job, or else its task, had when the platform reported the costs. Costs by label are kept for " +
				"two years; the list has the 1,000 latest and highest.",
			Parameters: []*huma.Param{{Name: "label", In: "query", Description: "The key of a label.",
				Example: "project", Schema: &huma.Schema{Type: huma.TypeString}}},
			Responses: a.Errors(401, 422, 503)}, a.usage)
}

func (a *api) listGrants(ctx context.Context, _ *openapi.Request) (*openapi.Plain[[]wire.Grant], error) {
	list := openapi.Plain[[]wire.Grant]{Body: []wire.Grant{}}
	if a.Grants == nil {
		return &list, nil
	}
	grants, err := a.Grants.Grants(ctx, call.User(ctx))
	for _, g := range grants {
		list.Body = append(list.Body, wire.Grant{ID: g.ID, Kind: string(g.Kind), Platforms: a.AsUser,
			Created: g.Created.UTC(),
			Renewed: g.Renewed.UTC(),
			Expires: live.Known(g.Expires)})
	}
	return &list, err
}

func (a *api) createGrant(ctx context.Context, _ *openapi.Request) (*openapi.Plain[wire.GrantLink], error) {
	if a.SignIns == nil || !a.Away {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.createGrant",
			Text: "This service does not run jobs after their users sign out, because it has no vault for permissions."}
	}
	if p := a.PublicSignIn; p != nil && call.In(ctx).Caller.Issuer != p.Issuer {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.createGrant",
			Text: "This service runs jobs after their users sign out only for users of " + p.Issuer + "."}
	}
	link := a.PublicURL + "/away?for=" + url.QueryEscape(a.SignIns.Invite(call.User(ctx)))
	return &openapi.Plain[wire.GrantLink]{Body: wire.GrantLink{Link: link}}, nil
}

func (a *api) deleteGrant(ctx context.Context, in *openapi.Request) (*openapi.Nothing, error) {
	if a.Grants == nil {
		return nil, errNoGrant
	}
	err := a.Grants.Revoke(ctx, call.User(ctx), in.HTTP.Param("grant_id"))
	if dispatch.Is(err, dispatch.NotFound) {
		err = errNoGrant
	}
	return &openapi.Nothing{}, err
}

func (a *api) usage(ctx context.Context, in *openapi.Request) (*openapi.Plain[[]wire.Usage], error) {
	read := a.Broker.Usage
	address := in.HTTP.URL()
	if query := address.Query(); query.Has("label") {
		read = func(ctx context.Context, u dispatch.UserID) ([]dispatch.Usage, error) {
			return a.Broker.UsageByLabel(ctx, u, query.Get("label"))
		}
	}
	use, err := read(ctx, call.User(ctx))
	table := openapi.Plain[[]wire.Usage]{Body: []wire.Usage{}}
	for _, u := range use {
		table.Body = append(table.Body, wire.Usage{Platform: u.Account.Platform(), Live: u.Live,
			LiveOf: orNil(u.Quota.Live), LastDay: u.Lately,
			DayOf: orNil(u.Quota.Daily), CostsOf: orNil(u.Quota.Costs), Jobs: u.Jobs, Costs: u.Costs,
			Charges: each(u.Charges, func(c dispatch.Charge) wire.Charge { return wire.Charge(c) })})
	}
	return &table, err
}

// each returns all elements of a list as they are shown.
func each[T, U any](all []T, show func(T) U) []U {
	shown := make([]U, len(all))
	for i, v := range all {
		shown[i] = show(v)
	}
	return shown
}

// orNil returns nil for a zero, which stands for what is not there.
func orNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

var errNoGrant = call.Refusal{Status: 404, Code: "GRANT_NOT_FOUND", Message: "There is no such permission."}
