package visit

import (
	"cmp"
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// HandleSignIn resumes a user's accounts that waited for a sign-in, if there is a token now. Call it when a request
// with the user's own token arrives. newToken is whether this process sees the token for the first time: then another
// process may have held an account shortly before.
func (vs *Visits) HandleSignIn(ctx context.Context, u dispatch.UserID, newToken bool) {
	check := vs.accounts.firstInMinute(u) || newToken
	for _, a := range vs.accountsOf(u) {
		if (vs.accounts.endIfSettled(a) || check && vs.awaitsSignIn(ctx, a)) && !vs.lacksSignIn(ctx, a) {
			vs.resumeAccount(ctx, a)
		}
	}
}

// lacksSignIn reports whether a sign-in is still missing. The account is then held as before, so that its user, who may
// be reading it, sees the reason.
func (vs *Visits) lacksSignIn(ctx context.Context, a dispatch.Account) bool {
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	_, err := vs.Token(ctx, a)
	if !dispatch.Is(err, dispatch.SignInRequired) {
		return false
	}
	vs.accounts.block(a, err, true, vs.Timing.Complete())
	return true
}

// HandleAccessChange resumes all accounts of a user after a sign-in, a link or a permission changed, however recently
// they were blocked.
func (vs *Visits) HandleAccessChange(ctx context.Context, u dispatch.UserID) {
	for _, a := range vs.accountsOf(u) {
		vs.accounts.forget(a)
		vs.resumeAccount(ctx, a)
	}
}

// PauseUntilSignIn stops a user's live jobs until the user signs in again, because the user withdrew the permission to
// act on their behalf.
func (vs *Visits) PauseUntilSignIn(ctx context.Context, u dispatch.UserID) error {
	var errs []error
	for _, a := range vs.accountsOf(u) {
		unfinished, err := vs.hasUnfinished(ctx, u, a)
		if err == nil && unfinished {
			vs.accounts.pause(a)
			err = vs.Store.Hold(ctx, a, vs.Timing.Complete().SignInHold, dispatch.NeedsSignIn,
				"You withdrew the permission to act on your behalf. Your jobs continue after your next sign-in.")
			vs.Hub.NotifyUser(u)
		}
		if !dispatch.Is(err, dispatch.NotFound) { // the user never had jobs there
			errs = append(errs, err)
		}
	}
	return cmp.Or(errs...)
}

// hasUnfinished reports whether a user's account has work left. The agenda omits paused jobs, and the count those that
// have ended and left something to be canceled.
func (vs *Visits) hasUnfinished(ctx context.Context, u dispatch.UserID, a dispatch.Account) (bool, error) {
	g, err := vs.AgendaOf(ctx, a, 1)
	if err != nil || !g.Done() {
		return !g.Done(), err
	}
	info, err := vs.Store.AccountInfo(ctx, u, []dispatch.Account{a}, nil)
	return err == nil && info[0].Live > 0, err
}

// accountsOf returns the user's own accounts: one at each platform with AccessUser.
func (vs *Visits) accountsOf(u dispatch.UserID) (accounts []dispatch.Account) {
	for _, backend := range vs.Backends {
		if backend.Access == dispatch.AccessUser {
			accounts = append(accounts, backend.Account(u))
		}
	}
	return accounts
}

func (vs *Visits) resumeAccount(ctx context.Context, a dispatch.Account) {
	if err := vs.Store.Hold(ctx, a, 0, dispatch.None, ""); err != nil {
		vs.Log.Log(ctx, dispatch.LogLevel(err), "ending the hold of an account failed", "account", string(a), "error",
			err)
		return
	}
	vs.Hub.Wake(a)
	vs.Hub.NotifyUser(dispatch.UserID(a.Identity()))
}

// awaitsSignIn reports whether an account is held until its user signs in. Another process may have stored that hold.
func (vs *Visits) awaitsSignIn(ctx context.Context, a dispatch.Account) bool {
	g, err := vs.AgendaOf(ctx, a, 1)
	return err == nil && g.Why == dispatch.NeedsSignIn && g.Now.Before(g.Hold)
}
