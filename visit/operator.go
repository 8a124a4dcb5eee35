package visit

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// operatorHold is for how long an account is held at a time while an operator holds it. Then a visit looks again.
const operatorHold = time.Hour

// heldByOperator reports whether an operator holds the account, and makes the account's hold, which its waiting jobs
// show, follow.
func (v *visit) heldByOperator(ctx context.Context) (bool, error) {
	shown := v.agenda.Why == dispatch.HeldByOperator && v.agenda.Now.Before(v.agenda.Hold)
	switch {
	case v.agenda.Operator == "" && shown:
		v.agenda.Hold = time.Time{}
		v.notifyAccount()
		// wakes the account, so the visit reads the agenda again
		return true, v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
	case v.agenda.Operator == "":
		return false, nil
	case !shown || v.agenda.Hold.Sub(v.agenda.Now) < operatorHold/2:
		v.agenda.Why, v.agenda.Hold = dispatch.HeldByOperator, v.agenda.Now.Add(operatorHold)
		v.notifyAccount()
		return true, v.visits.Store.Hold(ctx, v.account, operatorHold, dispatch.HeldByOperator, v.agenda.Operator)
	}
	return true, nil
}

// notifyAccount signals to the users with waiting jobs of the account that these may look different.
func (v *visit) notifyAccount() {
	if v.backend.Access == dispatch.AccessUser {
		v.visits.Hub.NotifyUser(dispatch.UserID(v.account.Identity()))
		return
	}
	owners := map[dispatch.UserID]bool{}
	for _, l := range v.agenda.Lines {
		owners[l.Owner] = true
	}
	for u := range owners {
		v.visits.Hub.NotifyUser(u)
	}
}
