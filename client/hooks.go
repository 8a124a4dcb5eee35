package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// HookRequest asks for a URL to be notified of the user's jobs.
type HookRequest struct {
	URL    string   `json:"url"`
	Events []string `json:"events,omitempty"` // nil: the ends of jobs
	Shares []int    `json:"shares,omitempty"` // with task_share: percentages of a task's jobs; nil: 25, 50 and 75
}

// Hook is a URL that is notified of jobs.
type Hook struct {
	ID      string     `json:"id"`
	JobID   int64      `json:"job_id,omitempty"`  // the only job that it is notified of; 0: not of one
	TaskID  int64      `json:"task_id,omitempty"` // likewise
	Kind    string     `json:"kind"`
	URL     string     `json:"url"`
	Events  []string   `json:"events"`
	Shares  []int      `json:"shares,omitempty"`
	State   string     `json:"state"`    // active, failing or gone
	NextTry *time.Time `json:"next_try"` // of a failing hook
	Created time.Time  `json:"created"`
}

// NewHook is a hook with the secret that verifies the signature of its messages. It cannot be read again.
type NewHook struct {
	Hook
	Secret string `json:"secret"`
}

// Delivery is a message to a hook.
type Delivery struct {
	ID     string `json:"id"`     // also of the event
	JobID  *int64 `json:"job_id"` // nil: it is not about a job
	TaskID int64  `json:"task_id,omitempty"`
	Event  string `json:"event"`
	Share  int    `json:"share,omitempty"` // percentage
	// of attention: the code of why the job or the task waits for the user
	Reason   string     `json:"attention,omitempty"`
	Happened time.Time  `json:"happened"`
	State    string     `json:"state"` // waiting, delivered or failed
	Tries    int        `json:"tries"`
	Tried    *time.Time `json:"tried"`  // when the last try began
	Answer   *int       `json:"answer"` // its HTTP status; nil: none arrived
	Notice   string     `json:"notice,omitempty"`
	NextTry  *time.Time `json:"next_try"`
}

func hookPath(id string) string { return "/hooks/" + url.PathEscape(id) }

// Hooks returns the hooks that are notified of all jobs of the user.
func (c *Client) Hooks(ctx context.Context) (all []Hook, err error) {
	return all, c.get(ctx, "/hooks", &all)
}

// JobHooks returns the hooks that are notified of one job alone.
func (c *Client) JobHooks(ctx context.Context, job int64) ([]Hook, error) {
	return c.hooksOf(ctx, "job_id", job)
}

// TaskHooks returns the hooks that are notified of one task alone.
func (c *Client) TaskHooks(ctx context.Context, task int64) ([]Hook, error) {
	return c.hooksOf(ctx, "task_id", task)
}

func (c *Client) hooksOf(ctx context.Context, what string, id int64) (all []Hook, err error) {
	_, err = c.do(ctx, call{method: http.MethodGet, path: "/hooks", query: url.Values{what: {strconv.FormatInt(id, 10)}}},
		&all)
	return all, err
}

// Hook reads a hook.
func (c *Client) Hook(ctx context.Context, id string) (h Hook, err error) {
	return h, c.get(ctx, hookPath(id), &h)
}

// AddHook creates a hook.
func (c *Client) AddHook(ctx context.Context, r HookRequest) (h NewHook, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/hooks", body: r}, &h)
	return h, err
}

// DeleteHook deletes a hook. Messages that wait for it are dropped.
func (c *Client) DeleteHook(ctx context.Context, id string) error { return c.remove(ctx, hookPath(id)) }

// TestHook has a test message sent.
func (c *Client) TestHook(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: hookPath(id) + "/test"}, nil)
	return err
}

// Deliveries returns the last messages to a hook, newest first.
func (c *Client) Deliveries(ctx context.Context, hook string) (all []Delivery, err error) {
	return all, c.get(ctx, hookPath(hook)+"/deliveries", &all)
}

// SendAgain has a message sent again.
func (c *Client) SendAgain(ctx context.Context, hook, delivery string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: hookPath(hook) + "/deliveries/" + url.PathEscape(delivery) +
		"/send"}, nil)
	return err
}
