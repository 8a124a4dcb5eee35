package api

import (
	"context"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// platformBroker describes platforms.
type platformBroker interface {
	// Platforms returns all platforms with their state for the user, and the user's totals over all of them with their
	// limits.
	Platforms(context.Context, dispatch.UserID) ([]broker.PlatformInfo, dispatch.AccountInfo, dispatch.Quota, error)
}

func (a *api) listPlatforms(ctx context.Context, _ *openapi.Request) (*openapi.Status[wire.PlatformList], error) {
	all, overall, within, err := a.Broker.Platforms(ctx, call.User(ctx))
	if err != nil {
		return nil, err
	}
	list := wire.PlatformList{Platforms: []wire.Platform{}, Live: share(overall.Live, within.Live),
		LastDay: share(overall.Lately, within.Daily), Bytes: share(int(overall.Bytes), int(within.Bytes))}
	for _, p := range all {
		list.Platforms = append(list.Platforms, a.platform(p))
	}
	return openapi.StatusOf(list), nil
}

func (a *api) platform(p broker.PlatformInfo) wire.Platform {
	shown := wire.Platform{
		Name: p.Name, Label: string(p.Label), Endpoint: p.Endpoint, Access: string(p.Access),
		State: string(p.State), LastAnswer: live.Known(p.Answered),
		Attention: a.Attention(dispatch.Job{Target: dispatch.Target{Account: p.AccountInfo.Account},
			Condition: dispatch.Condition{Attention: p.Why, Notice: p.Notice}}),
		QueueLength: p.Queue, Jobs: wire.OwnJobs{Waiting: p.Waiting, Active: p.Active},
		Slots: share(p.Held, p.Limits.Jobs), Live: share(p.Live, p.Quota.Live), LastDay: share(p.Lately, p.Quota.Daily),
	}
	if p.Settles > 0 {
		shown.Starts = &wire.Starts{SettlesAfter: p.Settles.Seconds(), Prompt: min(p.AccountInfo.Starts.Starts,
			dispatch.PromptStarts), Lag: p.AccountInfo.Starts.Lag.Seconds()}
	}
	if p.Failed.After(p.Answered) {
		shown.Failure = p.Failure
	}
	if p.Limits.Pace > 0 {
		shown.Rate = 1 / p.Limits.Pace.Seconds()
	}
	return shown
}

func share(used, most int) wire.Share { return wire.Share{Used: used, Of: orNil(most)} }
