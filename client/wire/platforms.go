package wire

import (
	"time"
)

// Platform is a platform and its state for the user who asks.
type Platform struct {
	Name     string `json:"name"`
	Label    string `json:"label" enum:"openeo,ogc_api_process" doc:"Protocol of the platform"`
	Endpoint string `json:"endpoint"`
	Access   string `json:"access" enum:"user,shared,open" doc:"user: jobs run there under your own account. shared: under one account for all users. open: the platform requires no sign-in"`

	State      string        `json:"state" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"What you can expect of the platform, by its last responses; it is not asked for this. unknown: it was not asked yet. forbidden: your sign-in does not entitle you to use it"`
	LastAnswer *time.Time    `json:"last_answer" nullable:"true" doc:"When the platform last responded about a job of any user; accurate to some seconds"`
	Failure    string        `json:"failure,omitempty" doc:"What went wrong at the last request, if that failed"`
	Attention  *JobAttention `json:"attention,omitempty" doc:"Why none of your jobs is submitted at present"`

	QueueLength int     `json:"queue_length" doc:"Jobs of all users that wait in the broker for this platform"`
	Jobs        OwnJobs `json:"jobs" doc:"Your jobs at this platform"`
	Slots       Share   `json:"slots" doc:"Jobs of your account at the platform, which other users may share, and how many the broker sends there at once. of: null if the broker sends as many as the platform accepts"`
	Rate        float64 `json:"requests_per_second,omitempty" doc:"Maximum request rate of the broker"`
	Starts      *Starts `json:"starts,omitempty" doc:"How the broker finds out whether a start request arrived when its response was lost. Absent if the protocol has no such request"`
	Live        Share   `json:"live" doc:"Your jobs that have not ended, and how many you may have. of: null if only the limit for all platforms applies"`
	LastDay     Share   `json:"last_day" doc:"Your jobs submitted in the last 24 hours, and how many you may submit. of: as in live"`
}

// Starts is what the broker has learnt about how a platform starts jobs. Times are in seconds.
type Starts struct {
	SettlesAfter float64 `json:"settles_after" minimum:"0" doc:"Seconds for which the platform must report created before a start whose response was lost is repeated"`
	Prompt       int     `json:"prompt" minimum:"0" doc:"Number of confirmed starts in a row that the first status read already showed, counted up to 25. From 25 on, the platform counts as prompt"`
	Lag          float64 `json:"lag" minimum:"0" doc:"The longest time in seconds for which a status was still created after a start"`
}

// OwnJobs counts a user's jobs at a platform.
type OwnJobs struct {
	Waiting int `json:"waiting" doc:"Not submitted yet"`
	Active  int `json:"active" doc:"At the platform, or being submitted"`
}

// Share is how much of a limit is used.
type Share struct {
	Used int  `json:"used"`
	Of   *int `json:"of" nullable:"true" doc:"null: there is no limit"`
}

// PlatformList is all platforms, and a user's totals over all of them.
type PlatformList struct {
	Platforms []Platform `json:"platforms"`
	Live      Share      `json:"live" doc:"Your jobs that have not ended, at all platforms"`
	LastDay   Share      `json:"last_day" doc:"Your jobs submitted in 24 hours, at all platforms"`
	Bytes     Share      `json:"bytes" doc:"Bytes of the requests of your jobs that have not ended, at all platforms. The shared part of a task's jobs counts once"`
}
