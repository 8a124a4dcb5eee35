package api

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Platform is a platform as it stands for who asks.
type Platform struct {
	Name     string `json:"name"`
	Label    string `json:"label" enum:"openeo,ogc_api_process" doc:"What it speaks"`
	Endpoint string `json:"endpoint"`
	Access   string `json:"access" enum:"user,shared,open" doc:"user: jobs run there as yourself. shared: under one account for all users. open: it asks nobody to sign in"`

	State      string        `json:"state" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"What you can expect of it, by what its last answers were: nobody asks it for this. unknown: it was not asked yet. forbidden: your sign-in does not entitle you to use it"`
	LastAnswer *time.Time    `json:"last_answer" nullable:"true" doc:"When it last answered about a job, whoever's; within some seconds"`
	Failure    string        `json:"failure,omitempty" doc:"What was wrong when it did not answer, if that was the last that was heard of it"`
	Attention  *JobAttention `json:"attention,omitempty" doc:"Why none of your jobs is submitted at the moment"`

	QueueLength int     `json:"queue_length" doc:"Jobs of all users that wait here for it"`
	Jobs        OwnJobs `json:"jobs" doc:"Yours"`
	Slots       Share   `json:"slots" doc:"Of the account that your jobs run under, which others may share: jobs at the platform, and how many may be there at once. of: null where that is as many as the platform takes"`
	Rate        float64 `json:"requests_per_second,omitempty" doc:"That the broker sends it at most"`
	Starts      *Starts `json:"starts,omitempty" doc:"How the broker finds out whether a request that starts a job arrived when the answer was lost. Absent where there is no such request"`
	Live        Share   `json:"live" doc:"Your jobs that have not ended, and how many you may have; of: null where only the limit for all platforms counts"`
	LastDay     Share   `json:"last_day" doc:"Your jobs submitted in 24 hours, likewise"`
}

// Starts is what a platform has shown about starting jobs. Times are in seconds.
type Starts struct {
	SettlesAfter float64 `json:"settles_after" minimum:"0" doc:"Seconds for which the platform must go on saying created until a start of which the answer was lost is repeated"`
	Prompt       int     `json:"prompt" minimum:"0" doc:"Confirmed starts in a row of which the first status read told; counted up to 25, from which on the platform counts as prompt"`
	Lag          float64 `json:"lag" minimum:"0" doc:"The longest time in seconds that a status was seen to go on saying created after a start"`
}

// OwnJobs are a user's jobs at a platform.
type OwnJobs struct {
	Waiting int `json:"waiting" doc:"Not submitted yet"`
	Active  int `json:"active" doc:"At the platform, or on their way there"`
}

// Share is how much of a limit is used.
type Share struct {
	Used int  `json:"used"`
	Of   *int `json:"of" nullable:"true" doc:"null: there is no limit"`
}

// PlatformList is all platforms, and what a user has at all of them together.
type PlatformList struct {
	Platforms []Platform `json:"platforms" nullable:"false"`
	Live      Share      `json:"live" doc:"Your jobs that have not ended, at all platforms"`
	LastDay   Share      `json:"last_day" doc:"Your jobs submitted in 24 hours, at all platforms"`
	Bytes     Share      `json:"bytes" doc:"Bytes of the requests of your jobs that have not ended, at all platforms. What the jobs of a task share counts once"`
}

func (a *api) listPlatforms(ctx context.Context, _ *request) (*status[PlatformList], error) {
	all, overall, within, err := a.Broker.Platforms(ctx, user(ctx))
	if err != nil {
		return nil, err
	}
	list := PlatformList{[]Platform{}, Share{overall.Live, limitOf(within.Live)}, Share{overall.Lately, limitOf(within.Daily)},
		Share{int(overall.Bytes), limitOf(int(within.Bytes))}}
	for _, p := range all {
		list.Platforms = append(list.Platforms, a.platform(p))
	}
	return &status[PlatformList]{revalidate, list}, nil
}

func (a *api) platform(p dispatch.Prospect) Platform {
	shown := Platform{
		Name: p.Name, Label: string(p.Label), Endpoint: p.Endpoint, Access: string(p.Access),
		State: string(p.State), LastAnswer: known(p.Answered),
		Attention:   a.attention(dispatch.Job{Account: p.Standing.Account, Attention: p.Why, Notice: p.Notice}),
		QueueLength: p.Queue, Jobs: OwnJobs{p.Waiting, p.Active}, Slots: Share{p.Held, limitOf(p.Limits.Jobs)},
		Live: Share{p.Live, limitOf(p.Quota.Live)}, LastDay: Share{p.Lately, limitOf(p.Quota.Daily)},
	}
	if p.Settles > 0 {
		shown.Starts = &Starts{SettlesAfter: p.Settles.Seconds(), Prompt: min(p.Standing.Starts.Starts, dispatch.PromptStarts), Lag: p.Standing.Starts.Lag.Seconds()}
	}
	if p.Failed.After(p.Answered) {
		shown.Failure = p.Failure
	}
	if p.Limits.Pace > 0 {
		shown.Rate = 1 / p.Limits.Pace.Seconds()
	}
	return shown
}
