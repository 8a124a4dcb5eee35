package broker

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// PlatformInfo is a platform and its state for a user.
type PlatformInfo struct {
	*dispatch.Backend
	dispatch.AccountInfo
	State dispatch.State

	Settles time.Duration // how long until a start in doubt settles; 0: the platform has no separate start
}

// Platforms returns all platforms with their state for a user, the user's jobs at all of them together, and the quota
// for those. It sends no request to a platform.
func (b *Broker) Platforms(ctx context.Context, u dispatch.UserID) (all []PlatformInfo, overall dispatch.AccountInfo,
	within dispatch.Quota, err error) {
	accounts := []dispatch.Account{""}
	stalled := map[dispatch.Account]time.Duration{}
	for _, backend := range b.Backends {
		accounts = append(accounts, backend.Account(u))
		stalled[backend.Account(u)] = b.FreesAfter(backend)
	}
	infos, err := b.Visits.Store.AccountInfo(ctx, u, accounts, stalled)
	if err != nil {
		return nil, overall, within, err
	}
	for i, backend := range b.Backends {
		p := PlatformInfo{Backend: backend, AccountInfo: infos[i+1], State: infos[i+1].State()}
		if backend.Platform.TwoStep() {
			p.Settles = backend.SettlesAfter(b.Timing.Complete(), p.Starts)
		}
		if backend.CheckEntitled(ctx) != nil {
			p.State = dispatch.StateForbidden
		}
		all = append(all, p)
	}
	return all, infos[0], b.overallQuota(), nil
}
