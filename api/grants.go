package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Grants are users' permissions to act for them while they are away.
type Grants interface {
	Grants(context.Context, dispatch.UserID) ([]dispatch.Grant, error)
	// Revoke takes one back, and pauses what it carried. NotFound, also for another's.
	Revoke(ctx context.Context, u dispatch.UserID, id string) error
}

// Grant is a permission to act for a user while they are away.
type Grant struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind" enum:"session,offline" doc:"session: from a session at the identity provider, with which it ends. offline: agreed to, until it is taken back"`
	Platforms []string   `json:"platforms" nullable:"false" doc:"What it is used for"`
	Created   time.Time  `json:"created"`
	Renewed   time.Time  `json:"renewed" doc:"When it was last used"`
	Expires   *time.Time `json:"expires" nullable:"true" doc:"When it ends unless it is used before; null: no end is known"`
}

// GrantLink is where a user gives permission.
type GrantLink struct {
	Link string `json:"link" doc:"A page to open in a browser, within a quarter of an hour, as the same user"`
}

// Usage is how much a user uses a platform.
type Usage struct {
	Platform string   `json:"platform"`
	Live     int      `json:"live" doc:"Jobs that have not ended"`
	LiveOf   *int     `json:"live_limit" nullable:"true" doc:"How many such jobs you may have at this platform; null: only the limit for all platforms holds"`
	LastDay  int      `json:"last_day" doc:"Jobs submitted in the last 24 hours"`
	DayOf    *int     `json:"last_day_limit" nullable:"true" doc:"How many such jobs you may have at this platform; null: likewise"`
	Jobs     int      `json:"jobs" doc:"All jobs that are kept; deleted ones are for a week after their end"`
	Costs    *float64 `json:"costs" nullable:"true" doc:"Of these jobs, as far as the platform told, in its own unit"`
}

type (
	grantList  struct{ Body []Grant }
	grantLink  struct{ Body GrantLink }
	usageTable struct{ Body []Usage }
)

var grantIDParam = &huma.Param{Name: "grant_id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}

// accessRoutes declare what users see and do about acting for them.
func (a *api) accessRoutes() {
	register(a, huma.Operation{OperationID: "list_grants", Method: http.MethodGet, Path: "/grants", Tags: []string{"access"},
		Summary: "Permissions to act for you while you are away", Responses: a.errors(401, 503)}, a.listGrants)
	register(a, huma.Operation{OperationID: "create_grant", Method: http.MethodPost, Path: "/grants", Tags: []string{"access"},
		Summary:       "Let jobs run while you are away",
		Description:   "Gives the address of a page on which you agree to it, once.",
		DefaultStatus: http.StatusCreated, Responses: a.errors(401, 501, 503)}, a.createGrant)
	register(a, huma.Operation{OperationID: "delete_grant", Method: http.MethodDelete, Path: "/grants/{grant_id}", Tags: []string{"access"},
		Summary:       "Take a permission back",
		Description:   "It is revoked at the identity provider and erased here. Your live jobs pause until your next request.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{grantIDParam}, Responses: withNull(a.errors(401, 404, 503))}, a.deleteGrant)
	register(a, huma.Operation{OperationID: "get_usage", Method: http.MethodGet, Path: "/usage", Tags: []string{"access"},
		Summary: "How much you use each platform", Responses: a.errors(401, 503)}, a.usage)
}

func (a *api) listGrants(ctx context.Context, _ *request) (*grantList, error) {
	list := grantList{[]Grant{}}
	if a.Grants == nil {
		return &list, nil
	}
	grants, err := a.Grants.Grants(ctx, user(ctx))
	for _, g := range grants {
		list.Body = append(list.Body, Grant{ID: g.ID, Kind: string(g.Kind), Platforms: a.AsUser, Created: g.Created.UTC(), Renewed: g.Renewed.UTC(),
			Expires: known(g.Expires)})
	}
	return &list, err
}

func (a *api) createGrant(ctx context.Context, _ *request) (*grantLink, error) {
	if a.SignIns == nil || !a.Away {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.createGrant", Text: "This service keeps nothing for users who are away."}
	}
	return &grantLink{GrantLink{a.PublicURL + "/away?for=" + url.QueryEscape(a.SignIns.Invite(user(ctx)))}}, nil
}

func (a *api) deleteGrant(ctx context.Context, in *request) (*nothing, error) {
	if a.Grants == nil {
		return nil, errNoGrant
	}
	err := a.Grants.Revoke(ctx, user(ctx), in.http.Param("grant_id"))
	if dispatch.Is(err, dispatch.NotFound) {
		err = errNoGrant
	}
	return &nothing{}, err
}

func (a *api) usage(ctx context.Context, _ *request) (*usageTable, error) {
	use, err := a.Broker.Usage(ctx, user(ctx))
	table := usageTable{[]Usage{}}
	for _, u := range use {
		table.Body = append(table.Body, Usage{u.Account.Platform(), u.Live, limitOf(u.Quota.Live), u.Lately, limitOf(u.Quota.Daily), u.Jobs, u.Costs})
	}
	return &table, err
}

// limitOf is nil where there is none.
func limitOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

var errNoGrant = refusal{status: 404, code: "GRANT_NOT_FOUND", message: "There is no such grant."}
