package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

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

// Grant is a user's permission to run jobs for them after they have signed out.
type Grant struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind" enum:"session,offline" doc:"session: taken from a session at the identity provider; it ends with that session. offline: given explicitly; it lasts until it is withdrawn"`
	Platforms []string   `json:"platforms" nullable:"false" doc:"Platforms that it is used for"`
	Created   time.Time  `json:"created"`
	Renewed   time.Time  `json:"renewed" doc:"When it was last used"`
	Expires   *time.Time `json:"expires" nullable:"true" doc:"When it ends if it is not used until then; null: the end is not known"`
}

// GrantLink is the address of the page where a user gives permission.
type GrantLink struct {
	Link string `json:"link" doc:"Page to open in a browser within 15 minutes, signed in as the same user"`
}

// Usage is how much of a platform a user uses.
type Usage struct {
	Platform string   `json:"platform"`
	Live     int      `json:"live" doc:"Jobs that have not ended"`
	LiveOf   *int     `json:"live_limit" nullable:"true" doc:"Maximum of such jobs at this platform; null: only the limit for all platforms applies"`
	LastDay  int      `json:"last_day" doc:"Jobs submitted in the last 24 hours"`
	DayOf    *int     `json:"last_day_limit" nullable:"true" doc:"Maximum of such jobs at this platform; null: only the limit for all platforms applies"`
	CostsOf  *float64 `json:"month_costs_limit" nullable:"true" doc:"What your jobs at this platform may cost in a month, in its unit, see charges; null: any"`
	Jobs     int      `json:"jobs" doc:"All stored jobs. Deleted jobs are stored for a week after their end"`
	Costs    *float64 `json:"costs" nullable:"true" doc:"Costs of these jobs as far as the platform reported them, in its own unit"`
	Charges  []Charge `json:"charges" nullable:"false" doc:"What all your jobs there cost, month by month, beginning with the latest, also jobs that you deleted and attempts before a retry"`
}

// Charge is what a user's jobs cost at a platform in a month.
type Charge struct {
	Month string  `json:"month" example:"2026-11" doc:"The month, in UTC, in which the platform reported the costs"`
	Unit  string  `json:"unit" doc:"The unit in which the platform charges, in its own words. Empty: it names none. Costs in different units cannot be added"`
	Costs float64 `json:"costs"`
	Runs  int     `json:"runs" doc:"Number of runs of jobs with costs"`
	Label *string `json:"label,omitempty" doc:"With the parameter label: the value that this label of the jobs, or of their task, had when the platform reported the costs. Absent: of all other runs"`
}

type (
	grantList  struct{ Body []Grant }
	grantLink  struct{ Body GrantLink }
	usageTable struct{ Body []Usage }
)

var grantIDParam = &huma.Param{Name: "grant_id", In: "path", Required: true,
	Schema: &huma.Schema{Type: huma.TypeString}}

// accessRoutes registers the operations on permissions and usage.
func (a *api) accessRoutes() {
	register(a, huma.Operation{OperationID: "list_grants", Method: http.MethodGet, Path: "/grants",
		Tags:    []string{"access"},
		Summary: "List your permissions", Responses: a.errors(401, 503)}, a.listGrants)
	register(a, huma.Operation{OperationID: "create_grant", Method: http.MethodPost, Path: "/grants",
		Tags:          []string{"access"},
		Summary:       "Permit jobs to run after you sign out",
		Description:   "Returns the address of a page where you give the permission, once.",
		DefaultStatus: http.StatusCreated, Responses: a.errors(401, 501, 503)}, a.createGrant)
	register(a, huma.Operation{OperationID: "delete_grant", Method: http.MethodDelete, Path: "/grants/{grant_id}",
		Tags:    []string{"access"},
		Summary: "Withdraw a permission",
		Description: "The permission is revoked at the identity provider and erased here. Your live jobs pause until " +
			"your next request.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{grantIDParam}, Responses: withNull(a.errors(401, 404, 503))},
		a.deleteGrant)
	register(a, huma.Operation{OperationID: "get_usage", Method: http.MethodGet, Path: "/usage", Tags: []string{"access"},
		Summary: "Get your usage of each platform",
		Description: "With `label`, the charges of each platform and month are told apart by the value of this label, and " +
			"what runs without it cost is a charge of its own, so that " +
			"they add up to the same. The value is the one that the job, or else its task, had when the platform reported the " +
			"costs; later changes do not count. " +
			"Costs by label are kept for two years; the 1,000 latest and highest are told apart.",
		Parameters: []*huma.Param{{Name: "label", In: "query", Description: "The key of a label.", Example: "project",
			Schema: &huma.Schema{Type: huma.TypeString}}},
		Responses: a.errors(401, 422, 503)}, a.usage)
}

func (a *api) listGrants(ctx context.Context, _ *request) (*grantList, error) {
	list := grantList{[]Grant{}}
	if a.Grants == nil {
		return &list, nil
	}
	grants, err := a.Grants.Grants(ctx, user(ctx))
	for _, g := range grants {
		list.Body = append(list.Body, Grant{ID: g.ID, Kind: string(g.Kind), Platforms: a.AsUser, Created: g.Created.UTC(),
			Renewed: g.Renewed.UTC(),
			Expires: known(g.Expires)})
	}
	return &list, err
}

func (a *api) createGrant(ctx context.Context, _ *request) (*grantLink, error) {
	if a.SignIns == nil || !a.Away {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.createGrant",
			Text: "This service does not run jobs after their users sign out, because it has no vault for permissions."}
	}
	if p := a.PublicSignIn; p != nil && CallerIn(ctx).Issuer != p.Issuer {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.createGrant",
			Text: "This service runs jobs after their users sign out only for users of " + p.Issuer + "."}
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

func (a *api) usage(ctx context.Context, in *request) (*usageTable, error) {
	read := a.Broker.Usage
	address := in.http.URL()
	if query := address.Query(); query.Has("label") {
		read = func(ctx context.Context, u dispatch.UserID) ([]dispatch.Usage, error) {
			return a.Broker.UsageByLabel(ctx, u, query.Get("label"))
		}
	}
	use, err := read(ctx, user(ctx))
	table := usageTable{[]Usage{}}
	for _, u := range use {
		table.Body = append(table.Body, Usage{u.Account.Platform(), u.Live, limitOf(u.Quota.Live), u.Lately,
			limitOf(u.Quota.Daily), limitOf(u.Quota.Costs), u.Jobs, u.Costs, charges(u.Charges)})
	}
	return &table, err
}

func charges(all []dispatch.Charge) []Charge {
	shown := make([]Charge, len(all))
	for i, c := range all {
		shown[i] = Charge(c)
	}
	return shown
}

// limitOf returns nil for a limit of 0, which means none.
func limitOf[N int | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

var errNoGrant = refusal{status: 404, code: "GRANT_NOT_FOUND", message: "There is no such permission."}
