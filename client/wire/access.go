package wire

import (
	"time"
)

// Grant is a user's permission to run jobs for them after they have signed out.
type Grant struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind" enum:"session,offline" doc:"session: taken from a session at the identity provider; it ends with that session. offline: given explicitly; it lasts until it is withdrawn"`
	Platforms []string   `json:"platforms" doc:"Platforms that it is used for"`
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
	Charges  []Charge `json:"charges" doc:"What all your jobs there cost, month by month, beginning with the latest, also jobs that you deleted and attempts before a retry"`
}

// Charge is what a user's jobs cost at a platform in a month.
type Charge struct {
	Month string  `json:"month" example:"2026-11" doc:"The month, in UTC, in which the platform reported the costs"`
	Unit  string  `json:"unit" doc:"The unit in which the platform charges, in its own words. Empty: it names none. Costs in different units cannot be added"`
	Costs float64 `json:"costs"`
	Runs  int     `json:"runs" doc:"Number of runs of jobs with costs"`
	Label *string `json:"label,omitempty" doc:"With the parameter label: the value that this label of the jobs, or of their task, had when the platform reported the costs. Absent: of all other runs"`
}

// SignedIn is the user of a session.
type SignedIn struct {
	User    SignedInUser `json:"user"`
	Expires time.Time    `json:"expires" doc:"When the sign-in ends, unless the session is used. With a bearer token, when that expires"`
}

// SignedInUser describes a user to themselves.
type SignedInUser struct {
	ID    string `json:"id" doc:"The user's subject at the identity provider"`
	Name  string `json:"name"`
	Email string `json:"email" doc:"Empty if the identity provider does not return it"`
}

// SignedOut contains the URL at which a sign-out continues.
type SignedOut struct {
	Location string `json:"location" doc:"Where the browser must go next: a page that ends the session at the identity provider too, or the page of this service"`
}

// Ticket opens one stream for the user who requested it.
type Ticket struct {
	Ticket  string    `json:"ticket" doc:"Value of the query parameter ticket of a stream's address"`
	Expires time.Time `json:"expires" doc:"Until then it opens one stream"`
}
