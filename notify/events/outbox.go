package events

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Outbox stores hooks and their deliveries; what their owners may do is in api.Hooks. The store itself adds a delivery
// for each hook of a job's owner in the transaction that ends the job, unless the owner had deleted the job before.
// Hooks of one job or task are stored by Store.Accept. The hooks of other users are NotFound.
type Outbox interface {
	// AddHook stores a new hook of all jobs of its owner. LimitReached if its owner has already most.
	AddHook(ctx context.Context, h dispatch.Hook, most int) error
	// Hook returns a hook to its owner.
	Hook(ctx context.Context, u dispatch.UserID, id string) (dispatch.Hook, error)
	// DueHooks returns hooks that are not held and have due deliveries, those that were settled longest ago first, n at
	// most, and each of an owner.
	DueHooks(ctx context.Context, n, each int) ([]dispatch.Hook, error)
	// ClaimDeliveries returns due deliveries of a hook, n at most, and keeps other calls from them for the duration of
	// the lease; then they are due again. A delivery is not due before earlier ones of the same job are over.
	ClaimDeliveries(ctx context.Context, hook string, lease time.Duration, n int) ([]dispatch.Delivery, error)
	// SettleDeliveries stores the results of tries, and the state of their hook. Due of a delivery is zero if it is
	// over. A delivery that was claimed again meanwhile stays as it is. If the hook is gone, all its deliveries are
	// over.
	SettleDeliveries(ctx context.Context, h dispatch.Hook, all []dispatch.Delivery) error
}
