package visit

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AgendaOf returns what is due for an account.
func (vs *Visits) AgendaOf(ctx context.Context, a dispatch.Account, n int) (dispatch.Agenda, error) {
	var stalled time.Duration
	if backend := vs.BackendNamed(a.Platform()); backend != nil {
		stalled = vs.FreesAfter(backend)
	}
	return vs.Store.Agenda(ctx, a, n, stalled)
}

// now returns the store's time.
func (v *visit) now() time.Time { return v.agenda.Now.Add(time.Since(v.read)) }

// due returns when the next visit is needed, in the store's time; zero: none is needed until something changes.
func (v *visit) due() time.Time {
	due := dispatch.Earlier(v.after(v.agenda.Due(v.backend.Limits), v.noSendBefore[dispatch.Acting]),
		v.after(dispatch.Earlier(v.agenda.NextPoll, v.earlyPollAt), v.noSendBefore[dispatch.Reading]))
	return v.after(due, v.resume)
}

// after returns the later of due and t, a time of this process's clock, in the store's time. If due is zero it returns
// zero.
func (v *visit) after(due, t time.Time) time.Time {
	if due.IsZero() {
		return due
	}
	return dispatch.Later(due, v.now().Add(time.Until(t)))
}
