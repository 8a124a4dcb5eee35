package client

import (
	"context"
	"fmt"
	"net/url"

	"github.com/eodispatch/eodispatch/client/wire"
)

func hookPath(id string) string { return "/hooks/" + url.PathEscape(id) }

// Hooks returns the hooks that are notified of all jobs of the user.
func (c *Client) Hooks(ctx context.Context) (all []wire.Hook, err error) {
	return all, c.get(ctx, "/hooks", &all)
}

// JobHooks returns the hooks that are notified of one job alone.
func (c *Client) JobHooks(ctx context.Context, job int64) ([]wire.Hook, error) {
	return c.hooksOf(ctx, "job_id", job)
}

// TaskHooks returns the hooks that are notified of one task alone.
func (c *Client) TaskHooks(ctx context.Context, task int64) ([]wire.Hook, error) {
	return c.hooksOf(ctx, "task_id", task)
}

func (c *Client) hooksOf(ctx context.Context, what string, id int64) (all []wire.Hook, err error) {
	return all, c.get(ctx, fmt.Sprintf("/hooks?%s=%d", what, id), &all)
}

// Hook reads a hook.
func (c *Client) Hook(ctx context.Context, id string) (h wire.Hook, err error) {
	return h, c.get(ctx, hookPath(id), &h)
}

// AddHook creates a hook.
func (c *Client) AddHook(ctx context.Context, r wire.HookRequest) (h wire.NewHook, err error) {
	return h, c.post(ctx, "/hooks", r, &h)
}

// DeleteHook deletes a hook. Messages that wait for it are dropped.
func (c *Client) DeleteHook(ctx context.Context, id string) error { return c.remove(ctx, hookPath(id)) }

// TestHook has a test message sent.
func (c *Client) TestHook(ctx context.Context, id string) error {
	return c.post(ctx, hookPath(id)+"/test", nil, nil)
}

// Deliveries returns the last messages to a hook, newest first.
func (c *Client) Deliveries(ctx context.Context, hook string) (all []wire.Delivery, err error) {
	return all, c.get(ctx, hookPath(hook)+"/deliveries", &all)
}

// SendAgain has a message sent again.
func (c *Client) SendAgain(ctx context.Context, hook, delivery string) error {
	return c.post(ctx, hookPath(hook)+"/deliveries/"+url.PathEscape(delivery)+"/send", nil, nil)
}
