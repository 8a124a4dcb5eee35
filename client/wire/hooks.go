package wire

import (
	"time"
)

// HookRequest asks for notifications about jobs.
type HookRequest struct {
	URL    string   `json:"url" doc:"Receives a POST for each event: https, at a public address. Or mailto: and the e-mail address of your account, which your identity provider has verified"`
	Events []string `json:"events,omitempty" minItems:"1" maxItems:"7" enum:"running,finished,failed,canceled,attention,task_ended,task_share" doc:"The events that you are notified of; absent: finished, failed and canceled, and for mailto: attention and task_ended as well"`
	Shares []int    `json:"shares,omitempty" nullable:"true" minItems:"1" minimum:"1" maximum:"99" maxItems:"10" doc:"With task_share: the percentages of a task's jobs at whose end you are notified; absent: 25, 50 and 75"`
}

// Hook is a URL that is notified when jobs of its owner end.
type Hook struct {
	ID      string     `json:"id"`
	Job     *int64     `json:"job_id,omitempty" doc:"The only job that it is notified of, by options.notify"`
	Task    *int64     `json:"task_id,omitempty" doc:"The only task that it is notified of, by options.notify"`
	Kind    string     `json:"kind" enum:"webhook,mail,ogc" doc:"mail: a mail about several events. ogc: it is sent what OGC API - Processes has sent to a subscriber"`
	URL     string     `json:"url"`
	Events  []string   `json:"events" enum:"running,finished,failed,canceled,attention,task_ended,task_share"`
	Shares  []int      `json:"shares,omitempty"`
	State   string     `json:"state" enum:"active,failing,gone" doc:"failing: none of the last deliveries arrived; they are repeated. gone: the receiver answered 410; it gets nothing until you send a test or send a delivery again"`
	NextTry *time.Time `json:"next_try" nullable:"true" doc:"If it is failing: nothing is sent before"`
	Created time.Time  `json:"created"`
}

// NewHook is a hook with its secret.
type NewHook struct {
	Hook
	Secret string `json:"secret" doc:"Verifies the signature of deliveries, see Standard Webhooks. It is shown only here. Empty for mailto:"`
}

// Delivery is an event that is sent to a hook.
type Delivery struct {
	ID       string     `json:"id" doc:"The id of the event, and webhook-id of each try"`
	Job      *int64     `json:"job_id" nullable:"true" doc:"null: it is not about a job"`
	Task     *int64     `json:"task_id,omitempty" doc:"The task that it is about"`
	Event    string     `json:"event" enum:"running,finished,failed,canceled,attention,task_ended,task_share,sign_in_required,test"`
	Share    int        `json:"share,omitempty" doc:"Of task_share: the percentage"`
	Reason   string     `json:"attention,omitempty" doc:"Of attention: why the job or the task waits for you, as in the code of its attention"`
	Happened time.Time  `json:"happened"`
	State    string     `json:"state" enum:"waiting,delivered,failed" doc:"failed: it did not arrive within a day, and is not repeated"`
	Tries    int        `json:"tries"`
	Tried    *time.Time `json:"tried" nullable:"true" doc:"When the last try began"`
	Answer   *int       `json:"answer" nullable:"true" doc:"HTTP status of the last try; null: none arrived"`
	Notice   string     `json:"notice,omitempty" doc:"Why the last try failed"`
	NextTry  *time.Time `json:"next_try" nullable:"true"`
}
