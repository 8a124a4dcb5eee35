package broker

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/forecast"
)

// Estimate estimates a request for a number of jobs. added is what each job of a task adds to its parameters, or as
// much of it as is known. It asks the platform for nothing but the user's balance. A request with a process of its own
// is estimated from runs of the same process.
func (b *Broker) Estimate(ctx context.Context, u dispatch.UserID, r dispatch.Request, jobs int,
	added ...json.RawMessage) (dispatch.Estimate, error) {
	if r.Process != nil {
		r, _ = r.Inline() // fails only without a process
	}
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return dispatch.Estimate{}, err
	}
	account, service := backend.Account(u), r.Service.Hash()
	runs, err := b.Records.FinishedRuns(ctx, u, account, service, dispatch.EstimatedFrom)
	e := forecast.Estimate(runs, jobs)
	e.Balance = b.balance(ctx, u, backend)
	if err != nil || len(runs) < forecast.LeastForecast {
		return e, err
	}
	km2 := b.typicalArea(r.Parameters, added)
	if km2 <= 0 {
		return e, nil
	}
	runs, err = b.runsWithAreas(ctx, u, account, service)
	return forecast.Nearer(e, runs, km2), err
}

// balance returns what a user may still spend at a platform; nil if it does not say so in time, or if the user shares
// its account with others.
func (b *Broker) balance(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend) *dispatch.Amount {
	accountant, can := backend.Platform.(dispatch.Accountant)
	if !can || backend.Access != dispatch.AccessUser {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	left, err := call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ dispatch.Platform,
		t dispatch.Token) (*dispatch.Amount, error) {
		return accountant.Balance(ctx, t)
	})
	if err != nil {
		b.Log.DebugContext(ctx, "the balance of an account is not known", "platform", backend.Name, "error", err)
	}
	return left
}
